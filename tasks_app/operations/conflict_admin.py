"""Conflicts in the admin: the inbox, and one contradiction with both payloads side by side."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from tasks_app.adcp.values import parse_time
from tasks_app.approvals import around
from tasks_app.approvals.presenters import effects_now
from tasks_app.approvals.selectors import obstacle
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.desk import text
from tasks_app.desk.export import Export, plain
from tasks_app.desk.items import segments
from tasks_app.desk.page import Page, explain_link, viewer
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.names import EntityName, link_to, namer_register, names_of
from tasks_app.lifecycle.presenters import refusal_words
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import choice_words, conflict_question, take_refusal
from tasks_app.operations.differences import Field, fields_beside
from tasks_app.operations.letters import about_conflict
from tasks_app.operations.models import Operation
from tasks_app.operations.presenters import pretty
from tasks_app.operations.selectors import conflicts_of
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.operations.steering import conflict_write
from tasks_app.paging import older_page
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION

_VIEWS = {"open": "Open", "resolved": "Resolved"}
_PAGE = 50
_VERDICTS = {"keep": "approve", "take": "reject"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the inbox."""

    conflict: Conflict
    title: str
    seller: str
    about: str
    when: str
    glyph: str
    link: str


@admin.register(Conflict)
class ConflictAdmin(Page):
    """Seen by whoever sees operations, decided by whoever decides; nothing else is written here."""

    list_template_name = "desk/conflicts.html"
    object_template = "desk/conflicts.html"
    search_fields = ["reference"]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return viewer(request).has_perm("tasks_app.view_operation")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return viewer(request).has_perm("tasks_app.view_operation")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return conflicts_of(viewer(request))

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        rows = self._rows(request)
        shown = rows["rows"][0].conflict if rows["rows"] else None
        return {**rows, **(self._shown(request, shown) if shown else {})}

    def export_of(self, request: HttpRequest) -> Export:
        return Export(
            columns=("Reference", "What", "Seller", "About", "Since", "State"),
            rows=self._of_view(request),
            cells=lambda conflicts: map(_cells, _listed(conflicts)),
        )

    def object_data(self, request: HttpRequest, obj: Conflict) -> dict[str, Any]:
        return {**self._rows(request), **self._shown(request, obj)}

    def object_post(self, request: HttpRequest, obj: Conflict) -> HttpResponse:
        """Keep, take or ask; where it is refused, the page again with the reason and what was written."""
        refused = self._decide(request, obj)
        if refused:
            data = {**self.object_data(request, obj), "refusal": refused, "given": request.POST}
            return self.page(request, self.object_template or "", obj, status=409, **data)
        messages.success(request, f"{obj.reference}: recorded.")
        return HttpResponseRedirect(request.path)

    def _decide(self, request: HttpRequest, conflict: Conflict) -> str:
        """Why it was refused; empty when it was done. Raises PermissionDenied."""
        user, choice = viewer(request), request.POST.get("choice", "")
        reason = request.POST.get("reason", "")
        try:
            if choice == "ask":
                conflict_write(conflict_id=conflict.pk, user=user, reason=reason)
                return ""
            question = conflict_question(conflict)
            if choice not in _VERDICTS or question is None:
                return "Choose what holds." if question else "It is decided already."
            if not reason.strip():
                return "Say why."
            approval_decide(
                approval_id=question.pk,
                user=user,
                verdict=_VERDICTS[choice],
                comment=reason,
                expected_digest=request.POST.get("digest", "") or "none",
            )
        except (SteeringRefusedError, DecisionRefusedError) as error:
            if error.code == "no_right":
                raise PermissionDenied from error
            return str(error)
        except TransitionError as error:
            return refusal_words(error)
        return ""

    def _rows(self, request: HttpRequest) -> dict[str, Any]:
        view, page = _view(request), older_page(self._of_view(request), request.GET, size=_PAGE)
        return {
            "title": "Conflicts",
            "nav": segments(request, _VIEWS),
            "view": view,
            "count": f"{page.total} {view}",
            "rows": _listed(page.rows),
            "page": page,
        }

    def _of_view(self, request: HttpRequest) -> QuerySet[Any]:
        return self.get_queryset(request).filter(resolved_at__isnull=_view(request) == "open")

    def _shown(self, request: HttpRequest, conflict: Conflict) -> dict[str, Any]:
        user = viewer(request)
        fields = _fields(conflict)
        only = request.GET.get("only") == "differences"
        names = actor_names({conflict.resolved_by, conflict.asked_by} - {""})
        return {
            "conflict": conflict,
            "explain_link": explain_link(conflict),
            "title_words": f"{conflict.operation.seller}: {_title(conflict).lower()}",
            "operation_link": link_to(Operation, conflict.operation_id),
            "fields": [field for field in fields if field.differs] if only else fields,
            "only": only,
            "kept": _kept(request),
            "differing": sum(field.differs for field in fields),
            "first_at": parse_time(conflict.first.get("at")),
            "second_at": parse_time(conflict.second.get("at")),
            "first_body": pretty(conflict.first.get("body")),
            "second_body": pretty(conflict.second.get("body")),
            "letter": about_conflict(conflict, fields),
            "resolved_by": names.get(conflict.resolved_by, ""),
            "asked_by": names.get(conflict.asked_by, ""),
            **_decision(conflict, user),
        }


def _decision(conflict: Conflict, user: User) -> dict[str, Any]:
    question = conflict_question(conflict) if conflict.resolved_at is None else None
    keep, take = choice_words(conflict)
    if question is not None:
        effects = effects_now(question)
        keep, take = effects["approve"], effects["reject"]
    why_not = "Nobody has been asked yet." if question is None else ""
    if question is not None:
        why_not = obstacle(question, user, list(question.decisions.all()))
    places = around.places_of([question], user) if question else {}
    return {
        "question": question,
        "why_not": why_not,
        "keep_words": keep,
        "take_words": take,
        "take_refusal": take_refusal(conflict),
        "may_ask": user.has_perm(STEER_OPERATION),
        "place": places.get(conflict.pk),
        "decision_title": "Decided" if conflict.resolved_at else "Decide",
    }


def _fields(conflict: Conflict) -> list[Field]:
    return fields_beside(_compared(conflict.first), _compared(conflict.second))


def _compared(said: dict[str, Any]) -> dict[str, Any]:
    """Status, task and the task's own result: what may contradict."""
    value = said.get("value")
    named = {"task_id": said["task_id"]} if said.get("task_id") else {}
    return {"status": said.get("status"), **named, **(value if isinstance(value, dict) else {})}


def _title(conflict: Conflict) -> str:
    """Completed, then rejected; Completed twice, differently; Another task_id."""
    first, second = str(conflict.first.get("status")), str(conflict.second.get("status"))
    if conflict.kind in (Conflict.Kind.TASK, Conflict.Kind.UNSENT):
        return conflict.get_kind_display()
    if first == second:
        return f"{first.capitalize()} twice, differently"
    return f"{first.capitalize()}, then {second}"


def _kept(request: HttpRequest) -> str:
    """What an address says besides, to be added to another."""
    said = request.GET.copy()
    said.pop("only", None)
    return f"&{said.urlencode()}" if said else ""


def _view(request: HttpRequest) -> str:
    view = request.GET.get("view", "open")
    return view if view in _VIEWS else "open"


def _listed(conflicts: Collection[Conflict]) -> list[Row]:
    """The rows of conflicts, with what their operations are for: one query."""
    deals = {c.pk: c.operation.subject_id for c in conflicts if c.operation.subject_type == "deal"}
    names = names_of("deal", {pk for pk in deals.values() if pk})
    return [_row(conflict, names.get(deals.get(conflict.pk) or conflict.pk)) for conflict in conflicts]


def _cells(row: Row) -> list[str]:
    state = row.conflict.get_resolution_display() if row.conflict.resolved_at else "Open"
    return [plain(one) for one in (row.conflict.reference, row.title, row.seller, row.about, row.when, state)]


def _row(conflict: Conflict, subject: Any) -> Row:
    return Row(
        conflict=conflict,
        title=_title(conflict),
        seller=conflict.operation.seller.name,
        about=(subject.part_of or subject.reference) if subject else "",
        when=text.moment_short(conflict.at),
        glyph="done" if conflict.resolved_at else "conflict",
        link=link_to(Conflict, conflict.pk),
    )


def _names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    found = Conflict.objects.filter(pk__in=ids).values_list("pk", "reference")
    return {pk: EntityName(reference=reference, link=link_to(Conflict, pk)) for pk, reference in found}


namer_register("conflict", _names)
