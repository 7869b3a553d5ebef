"""Approvals in the admin: the queue, a preview beside it, and the page of one question with its decision."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import prefetch_related_objects
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from tasks_app.approvals import around, evidence, presenters, queue, selectors, spending
from tasks_app.approvals.counting import counted
from tasks_app.approvals.delegation import delegations_in_force
from tasks_app.approvals.export import approvals_export
from tasks_app.approvals.models import Approval
from tasks_app.approvals.parts import deciding_data
from tasks_app.approvals.policy_presenters import policies_data
from tasks_app.approvals.posting import DecidingPage
from tasks_app.approvals.sent import sent_leaves
from tasks_app.desk.export import Export
from tasks_app.desk.items import joined
from tasks_app.desk.page import viewer
from tasks_app.lifecycle.pages import lifecycle_data
from tasks_app.lifecycle.selectors import entries_of
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User

_NEIGHBOURS = 200


@admin.register(Approval)
class ApprovalAdmin(DecidingPage):
    """Read by everybody of the team, decided by those who may; nothing else is written here."""

    list_template_name = "desk/approvals.html"
    object_template = "desk/approval.html"
    filter_keys = frozenset({"view", "kind", "late"})
    search_fields = ["reference", "title"]

    def get_urls(self) -> list[URLPattern]:
        preview = self.admin_site.admin_view(self.preview_view)
        return [path("<uuid:pk>/preview/", preview, name="tasks_app_approval_preview"), *super().get_urls()]

    def export_of(self, request: HttpRequest) -> Export:
        return approvals_export(viewer(request), request.GET)

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        return queue.queue_page(request, viewer(request))

    def preview_view(self, request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
        """The card beside the queue: what a decision needs in short, as a fragment."""
        obj = self.get_queryset(request).filter(pk=pk).first()
        if not self.has_view_permission(request, obj):
            raise PermissionDenied
        if obj is None:
            raise Http404
        return TemplateResponse(
            request, "desk/approval_preview.html", queue.preview(obj, viewer(request), _left)
        )

    def object_data(self, request: HttpRequest, obj: Approval) -> dict[str, Any]:
        who = viewer(request)
        prefetch_related_objects([obj], "decisions")
        decisions = list(obj.decisions.all())
        held = list(delegations_in_force(delegate=who))
        why_not = selectors.obstacle(obj, who, decisions, held)
        detail = around.detail_of(obj, who)
        together = [] if why_not else selectors.approvals_together(who, obj, detail.group)
        entries = entries_of(obj.entity, obj.pk)
        acted = {entry.actor for entry in entries}
        names = actor_names({*obj.actors, *obj.asked_by, obj.claimed_by, *acted} - {""})
        places = {obj.subject_id: detail.place} if detail.place else around.places_of([obj], who)
        row, *beside = presenters.rows([obj, *together], places)
        counting = counted([obj])[obj.pk]
        return {
            **lifecycle_data(obj, entries, names),
            **deciding_data(obj, who, decisions, held=held, names=names, may=not why_not),
            "title": obj.title,
            "place": places.get(obj.subject_id),
            "detail": detail,
            "left": (left := _left(obj, detail)),
            "left_percent": left / detail.budget.total * 100 if left and detail.budget else None,
            "asked_by": presenters.opened_words(obj, names),
            "set_off_by": joined(sorted(names[key] for key in obj.asked_by - {obj.requested_by})),
            "decisions": decisions,
            "why_not": why_not,
            "deciders": presenters.deciders_words(obj) if why_not else "",
            "together": beside,
            "together_count": len(together) + 1,
            "together_stake": presenters.spent_by([row, *beside]),
            "row": row,
            "queue": _position(obj, who),
            "next": selectors.approval_after(who, obj),
            "started": around.operations_started(obj, who),
            "successor": selectors.approval_successor(obj) if obj.status == "voided" else None,
            "packages": evidence.packages(obj),
            "differences": evidence.differences(obj),
            "requirements": evidence.requirements(obj),
            "score": evidence.score(obj),
            "passed_over": evidence.passed_over(obj),
            "passed_over_more": evidence.passed_over_more(obj),
            "terms": evidence.stated_terms(
                obj, detail.creative_deadline, deadline_unread=detail.creative_deadline_unread
            ),
            "sent": sent_leaves(obj),
            "facts": evidence.other_facts(obj),
            "effects": {name.lower(): said for name, said in row.answers},
            "still_needed": presenters.still_needed(obj),
            "counting": {one.pk for one in counting},
            "given": len(counting),
            "needed": max(1, obj.quorum - len(counting)),
            **policies_data(obj),
            "hold": (hold := evidence.hold_of(obj.evidence)),
            "hold_left": presenters.hold_left(hold),
            "cancel_by": evidence.cancel_words(obj.evidence),
            "closed": presenters.closed_word(obj, entries[-1].reason if entries else ""),
            "digest_short": presenters.digest_short(obj.evidence_digest),
        }


def _left(approval: Approval, detail: around.Detail) -> Decimal | None:
    if detail.budget is None or approval.amount is None or detail.budget.currency != approval.currency:
        return None
    return detail.budget.left_after(spending.spent_after(approval) or Decimal(0))


def _position(approval: Approval, who: User) -> dict[str, Any]:
    """Return where this stands among the first of the viewer's queue, and the one before it."""
    ids = list(selectors.approvals_waiting_for(who).values_list("pk", flat=True)[:_NEIGHBOURS])
    if approval.pk not in ids:
        return {"of": len(ids)}
    at = ids.index(approval.pk)
    return {
        "at": at + 1,
        "of": f"{len(ids)}+" if len(ids) == _NEIGHBOURS else len(ids),
        "previous": ids[at - 1] if at else None,
    }
