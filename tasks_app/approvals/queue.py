"""The queue's page: everything that waits on a person, approvals and the rest, by deadline and filtered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet, prefetch_related_objects
from django.http import HttpRequest

from tasks_app import clock
from tasks_app.approvals import around, evidence, presenters, selectors
from tasks_app.approvals.kinds import kind_names
from tasks_app.approvals.models import Approval
from tasks_app.approvals.waiting import Waiting, waiting_for, waiting_labels
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User

VIEWS = {
    "mine": "Mine",
    "claimed": "In my hands",
    "team": "My team",
    "asked": "Asked by me",
    "decided": "Decided",
}
_DECIDING = ("mine", "claimed")
_SHOWN = 100
_LeftAfter = Callable[[Approval, around.Detail], Decimal | None]


def queue_page(request: HttpRequest, who: User) -> dict[str, Any]:
    """What templates/desk/approvals.html is given, for the view and the filter that the address names."""
    view, kind, late = _asked(request.GET)
    approvals = selectors.approvals_shown(approvals_asked(request.GET, who), _SHOWN + 1)
    others = [one for one in _others(view, who, kind) if not late or _is_late(one)]
    rows = presenters.queue_of(approvals[:_SHOWN], others, who)
    return {
        "title": "Approvals",
        "view": view,
        "nav": _segments(view, {"kind": kind, "late": "1" if late else ""}),
        "kinds": sorted(_kinds().items(), key=lambda pair: pair[1].lower()),
        "kind": kind,
        "late": late,
        "filtered": bool(kind or late),
        "rows": rows,
        "groups": presenters.by_due_day(rows) if view != "decided" else [],
        "more": len(approvals) > _SHOWN,
        "stake": presenters.currencies_of(rows),
        "decides": selectors.may_decide(who),
        "selects": view in _DECIDING and selectors.may_decide(who) and bool(approvals),
    }


def approvals_asked(asked: Mapping[str, str], who: User) -> QuerySet[Approval]:
    """The approvals of the view and the filter that an address's parameters name."""
    view, kind, late = _asked(asked)
    return selectors.approvals_narrowed(_approvals(view, who), kind=kind, late=late)


def _asked(asked: Mapping[str, str]) -> tuple[str, str, bool]:
    """View, kind and whether only what is late; what is unknown counts as not asked for."""
    view, kind = asked.get("view", "mine"), asked.get("kind", "")
    return (view if view in VIEWS else "mine"), (kind if kind in _kinds() else ""), asked.get("late") == "1"


def _kinds() -> dict[str, str]:
    return {**kind_names(), **waiting_labels()}


def preview(approval: Approval, who: User, left_after: _LeftAfter) -> dict[str, Any]:
    """What templates/desk/approval_preview.html is given about one question."""
    detail = around.detail_of(approval, who)
    prefetch_related_objects([approval], "decisions")
    decisions = list(approval.decisions.all())
    places = {approval.subject_id: detail.place} if detail.place else around.places_of([approval], who)
    row = presenters.rows(
        [approval], places, actor_names({approval.requested_by, approval.claimed_by} - {""})
    )[0]
    return {
        "i": row,
        "detail": detail,
        "left": left_after(approval, detail),
        "decisions": decisions,
        "why_not": selectors.obstacle(approval, who, decisions),
        "history": detail.history[:6],
        "cancel_by": evidence.cancel_words(approval.evidence),
        "differences": evidence.differences(approval)[:4],
    }


def _approvals(view: str, who: User) -> QuerySet[Approval]:
    sources = {
        "mine": selectors.approvals_waiting_for,
        "claimed": selectors.approvals_claimed_by,
        "team": selectors.approvals_of_teams,
        "asked": selectors.approvals_asked_by,
        "decided": selectors.approvals_closed,
    }
    return sources[view](who)


def _others(view: str, who: User, kind: str) -> list[Waiting]:
    """What is no approval: where it is the viewer's to act on, under Mine; all of it under My team."""
    if view not in ("mine", "team"):
        return []
    return [one for one in waiting_for(who, kind=kind) if view == "team" or one.mine]


def _is_late(one: Waiting) -> bool:
    return one.due_at is not None and one.due_at <= clock.now()


def _segments(view: str, kept: Mapping[str, str]) -> list[dict[str, Any]]:
    """unfold's segmented navigation; the filter goes along from view to view."""
    narrowed = {name: value for name, value in kept.items() if value}
    return [
        {
            "title": title,
            "link": "?" + urlencode(({} if value == "mine" else {"view": value}) | narrowed),
            "active": value == view,
        }
        for value, title in VIEWS.items()
    ]
