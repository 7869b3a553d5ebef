"""Approvals in the admin: the queue, and the page of one question with its decision."""

from __future__ import annotations

import uuid
from contextlib import suppress
from decimal import Decimal
from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect

from tasks_app.approvals import around, evidence, presenters, selectors
from tasks_app.approvals.export import approvals_export
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.approvals.together import Refusal, approvals_decide
from tasks_app.desk.export import Export
from tasks_app.desk.items import plural, segments
from tasks_app.desk.page import viewer
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.pages import StatefulPage, lifecycle_data
from tasks_app.lifecycle.presenters import refusal_words
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User

_VIEWS = {"mine": "Mine", "team": "My team", "decided": "Decided"}
_SHOWN = 200
_TOGETHER = "together"
_WORD = {"approve": "approval", "reject": "rejection"}
_CODES = {"not_found": 404, "no_right": 403, "own_request": 403, "comment": 400}


@admin.register(Approval)
class ApprovalAdmin(StatefulPage):
    """Read by everybody of the team, decided by those who may; nothing else is written here."""

    list_template_name = "desk/approvals.html"
    object_template = "desk/approval.html"
    search_fields = ["reference", "title"]

    def export_of(self, request: HttpRequest) -> Export:
        return approvals_export(viewer(request), request.GET.get("view", "mine"))

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        who = viewer(request)
        view = request.GET.get("view", "mine")
        view = view if view in _VIEWS else "mine"
        found = {
            "mine": selectors.approvals_waiting_for,
            "team": selectors.approvals_of_teams,
            "decided": selectors.approvals_closed,
        }[view](who)
        approvals = list(found[: _SHOWN + 1])
        rows = presenters.rows(approvals[:_SHOWN], around.places_of(approvals, who))
        return {
            "title": "Approvals",
            "view": view,
            "nav": segments(request, _VIEWS),
            "rows": rows,
            "groups": presenters.by_due_day(rows) if view != "decided" else [],
            "more": len(approvals) > _SHOWN,
            "stake": presenters.currencies_of(rows),
            "decides": selectors.may_decide(who),
        }

    def object_data(self, request: HttpRequest, obj: Approval) -> dict[str, Any]:
        who = viewer(request)
        decisions = list(obj.decisions.all())
        why_not = selectors.obstacle(obj, who, decisions)
        detail = around.detail_of(obj, who)
        together = [] if why_not else selectors.approvals_together(who, obj, detail.group)
        names = actor_names({obj.requested_by})
        places = around.places_of([obj], who)
        return {
            **lifecycle_data(obj),
            "title": obj.title,
            "place": places.get(obj.subject_id),
            "detail": detail,
            "left": _left(obj, detail),
            "asked_by": names[obj.requested_by],
            "decisions": decisions,
            "why_not": why_not,
            "together": presenters.rows(together, {}),
            "together_count": len(together) + 1,
            "together_stake": presenters.currencies_of(presenters.rows([obj, *together], {})),
            "row": presenters.rows([obj], places)[0],
            "queue": _position(obj, who),
            "successor": selectors.approval_successor(obj) if obj.status == "voided" else None,
            "packages": evidence.packages(obj),
            "differences": evidence.differences(obj),
            "requirements": evidence.requirements(obj),
            "score": evidence.score(obj),
            "passed_over": evidence.passed_over(obj),
            "terms": evidence.stated_terms(obj, detail.creative_deadline),
            "facts": evidence.other_facts(obj),
            "effects": presenters.effects_of(obj),
            "hold": (hold := evidence.hold_of(obj.evidence)),
            "hold_left": presenters.hold_left(hold),
            "closed": presenters.closed_word(obj),
            "digest_short": presenters.digest_short(obj.evidence_digest),
        }

    def object_post(self, request: HttpRequest, obj: Approval) -> HttpResponse:
        verdict, comment = request.POST.get("decision", ""), request.POST.get("comment", "")
        digest = request.POST.get("digest", "")
        if verdict not in Decision.Verdict.values or not digest:
            return HttpResponseBadRequest("a decision is approve or reject, on a digest that was shown")
        if request.POST.get("scope") == _TOGETHER:
            return self._decide_together(request, obj, verdict, comment)
        try:
            approval_decide(
                approval_id=obj.pk,
                user=viewer(request),
                verdict=verdict,
                comment=comment,
                expected_digest=digest,
            )
        except DecisionRefusedError as error:
            return self._refused(request, obj, str(error), comment, _CODES.get(error.code, 409))
        except TransitionError as error:
            return self._refused(request, obj, refusal_words(error), comment, 409)
        messages.success(request, f"{obj.reference}: your {_WORD[verdict]} is recorded.")
        return redirect(request.path)

    def _decide_together(
        self, request: HttpRequest, obj: Approval, verdict: str, comment: str
    ) -> HttpResponse:
        """This one and the others shown with it, each by a decision of its own on the digest shown."""
        shown = {obj.pk: request.POST["digest"], **_shown(request.POST.getlist("also"))}
        named = dict(self.get_queryset(request).filter(pk__in=shown).values_list("pk", "reference"))
        wanted = {pk: digest for pk, digest in shown.items() if pk in named}
        done = approvals_decide(shown=wanted, user=viewer(request), verdict=verdict, comment=comment)
        for one in done:
            if one.refusal is not None:
                messages.error(request, f"{named[one.approval_id]}: {_words(one.refusal)}")
        decided = [one for one in done if one.refusal is None]
        if decided:
            messages.success(request, f"{plural(len(decided), _WORD[verdict])} recorded.")
        return redirect(request.path)

    def _refused(
        self, request: HttpRequest, obj: Approval, refusal: str, comment: str, status: int
    ) -> HttpResponse:
        """The page again, as it is now, with the reason and what the person had written."""
        now = self.get_queryset(request).get(pk=obj.pk)
        data = self.object_data(request, now)
        return self.page(
            request,
            "desk/approval.html",
            now,
            status=status,
            refusal=refusal,
            comment=comment,
            **data,
        )


def _words(refusal: Refusal) -> str:
    return refusal_words(refusal) if isinstance(refusal, TransitionError) else str(refusal)


def _left(approval: Approval, detail: around.Detail) -> Decimal | None:
    if detail.budget is None or approval.amount is None or detail.budget.currency != approval.currency:
        return None
    return detail.budget.left_after(approval.amount)


def _shown(pairs: list[str]) -> dict[uuid.UUID, str]:
    """Approval id to the digest shown, out of `id:digest`; what is not of that form is left out."""
    found: dict[uuid.UUID, str] = {}
    for pair in pairs[:_SHOWN]:
        key, _, digest = pair.partition(":")
        with suppress(ValueError):
            found[uuid.UUID(key)] = digest or "none"
    return found


def _position(approval: Approval, who: User) -> dict[str, Any]:
    """Where this stands in the viewer's queue, with its neighbours."""
    ids = list(selectors.approvals_waiting_for(who).values_list("pk", flat=True)[:_SHOWN])
    if approval.pk not in ids:
        return {"of": len(ids)}
    at = ids.index(approval.pk)
    return {
        "at": at + 1,
        "of": len(ids),
        "previous": ids[at - 1] if at else None,
        "next": ids[at + 1] if at + 1 < len(ids) else None,
    }
