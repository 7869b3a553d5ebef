"""The queue's page: everything that waits on a person, approvals and the rest, by deadline and filtered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet, prefetch_related_objects
from django.http import HttpRequest

from tasks_app.approvals import around, bulk, evidence, presenters, selectors
from tasks_app.approvals.kinds import kind_names
from tasks_app.approvals.models import Approval
from tasks_app.approvals.waiting import Waiting, waiting_for, waiting_labels, waiting_order
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User

VIEWS = {
    "mine": "Mine",
    "claimed": "Assigned to me",
    "team": "My team",
    "asked": "Asked by me",
    "decided": "Decided",
}
_DECIDING = ("mine", "claimed")
_SHOWN = 100
_DEPARTURES = 4  # beside the queue
_LeftAfter = Callable[[Approval, around.Detail], Decimal | None]


def queue_page(request: HttpRequest, who: User) -> dict[str, Any]:
    """What templates/desk/approvals.html is given, for the view and the filter that the address names."""
    view, kind, late = _asked(request.GET)
    approvals = selectors.approvals_shown(approvals_asked(request.GET, who), _SHOWN + 1)
    others = others_asked(request.GET, who, limit=_SHOWN + 1)
    rows = presenters.queue_of(approvals[:_SHOWN], others[:_SHOWN], who, by_deadline=view != "decided")
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
        "more": len(approvals) > _SHOWN or len(others) > _SHOWN,
        "pending": bulk.pending_data(who),
        "stake": presenters.spent_by(rows),
        "freed": presenters.freed_by(rows),
        "decides": selectors.may_decide(who),
        "selects": view in _DECIDING and selectors.may_decide(who) and bool(approvals),
    }


def approvals_asked(asked: Mapping[str, str], who: User) -> QuerySet[Approval]:
    """The approvals of the view and the filter that an address's parameters name."""
    view, kind, late = _asked(asked)
    return selectors.approvals_narrowed(_approvals(view, who, kind), kind=kind, late=late)


def others_asked(asked: Mapping[str, str], who: User, *, limit: int) -> list[Waiting]:
    """What is no approval, of the same view and filter: where it is the viewer's to act on, under Mine; all
    of it under My team; the most urgent first, at most `limit` of each kind of thing."""
    view, kind, late = _asked(asked)
    if view not in ("mine", "team"):
        return []
    found = waiting_for(who, kind=kind, mine=view == "mine", late=late, limit=limit)
    return sorted(found, key=waiting_order)


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
    departing = evidence.differences(approval)
    places = {approval.subject_id: detail.place} if detail.place else around.places_of([approval], who)
    row = presenters.rows([approval], places, actor_names({*approval.actors, approval.claimed_by} - {""}))[0]
    return {
        "i": row,
        "detail": detail,
        "left": left_after(approval, detail),
        "decisions": decisions,
        "why_not": selectors.obstacle(approval, who, decisions),
        "history": detail.history[:6],
        "cancel_by": evidence.cancel_words(approval.evidence),
        "differences": evidence.costliest_first(departing)[:_DEPARTURES],
        "departing": len(departing),
    }


def _approvals(view: str, who: User, kind: str) -> QuerySet[Approval]:
    if view == "decided":
        return selectors.approvals_closed(who)
    sources = {
        "mine": selectors.approvals_waiting_for,
        "claimed": selectors.approvals_claimed_by,
        "team": selectors.approvals_of_teams,
        "asked": selectors.approvals_asked_by,
    }
    return sources[view](who, kind=kind)


def _segments(view: str, kept: Mapping[str, str]) -> list[dict[str, Any]]:
    """unfold's segmented navigation; the filter goes along from view to view."""
    narrowed = {name: value for name, value in kept.items() if value}
    return [
        {
            "title": title,
            "link": "?" + urlencode({"view": value} | narrowed),  # not bare, which one's own filter is for
            "active": value == view,
        }
        for value, title in VIEWS.items()
    ]
