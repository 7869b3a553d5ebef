"""Operations in the admin: the monitor of what is out with sellers, and the page of one operation."""

from __future__ import annotations

import re
import uuid
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from tasks_app import clock
from tasks_app.commands.kill_switch import stops_shown
from tasks_app.desk import text
from tasks_app.desk.export import Export
from tasks_app.desk.items import plural, segments
from tasks_app.desk.page import viewer
from tasks_app.lifecycle.names import names_of
from tasks_app.lifecycle.pages import StatefulPage, lifecycle_data
from tasks_app.lifecycle.selectors import entries_of
from tasks_app.operations import selectors
from tasks_app.operations.answer_stages import answers_of
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.presenters import (
    CHANNELS,
    EXPORT_COLUMNS,
    OperationRow,
    counts_words,
    export_cells,
    identities,
    operation_age,
    operation_next,
    operation_row,
    operation_took,
    overdue_choices,
    pretty,
    settled_words,
)
from tasks_app.operations.steer_forms import steer, steering_data
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.models import Seller

S = OperationStatus
_PAGE, _MOST_PAGES = 50, 100  # what lies beyond is found by a filter: nothing is skipped row by row
_NAME = re.compile(r"[A-Za-z0-9_/-]{1,60}")
_VIEWS = {"open": "Open", "person": "Waiting for a person", "overdue": "Overdue", "settled": "Settled"}


@admin.register(Operation)
class OperationAdmin(StatefulPage):
    """The monitor, and one operation."""

    list_template_name = "desk/operations.html"
    object_template = "desk/operation.html"
    filter_keys = frozenset({"view", "seller", "task"})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request).select_related("seller", "account__advertiser", "team")
        return rows.defer("request_text", "webhook_token", "seller__token", "seller__webhook_secret")

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        user = viewer(request)
        number = _page_number(request)
        rows = list(self._chosen(request, user)[(number - 1) * _PAGE : number * _PAGE + 1])
        shown = _monitor_rows(rows[:_PAGE], user)
        counts = selectors.open_counts(user)
        settled = selectors.settled_counts(user)
        held = selectors.held_of(selectors.operations_open(user)).count()
        overdue = next((row for row in shown if row.operation.status == S.TIMED_OUT), None)
        return {
            "title": "Operations monitor",
            "rows": shown,
            "nav": segments(request, _VIEWS),
            "view": request.GET.get("view", "open"),
            "sellers": Seller.objects.only("slug", "name"),
            "seller": request.GET.get("seller", ""),
            "task": request.GET.get("task", ""),
            "summary": _summary(counts, shown),
            **_waiting_data(counts, selectors.paused_for_people(user), held),
            "overdue_count": counts.get(S.TIMED_OUT, 0),
            "settled_count": sum(settled.values()),
            "settled_words": ", ".join(f"{c} {settled[c]}" for c in CHANNELS if settled.get(c)) or "none",
            "overdue": overdue,
            "choices": overdue_choices(overdue.operation, overdue.question) if overdue else [],
            "times": selectors.seller_answer_times(user),
            "more": _link(request, number + 1) if len(rows) > _PAGE and number < _MOST_PAGES else "",
            "less": _link(request, number - 1) if number > 1 else "",
        }

    def export_of(self, request: HttpRequest) -> Export:
        user = viewer(request)
        return Export(
            columns=EXPORT_COLUMNS,
            rows=self._chosen(request, user),
            cells=lambda rows: map(export_cells, _monitor_rows(rows, user)),
        )

    def object_data(self, request: HttpRequest, obj: Operation) -> dict[str, Any]:
        entries = entries_of("operation", obj.pk)
        question = selectors.open_questions([obj]).get(obj.pk)
        observations = list(obj.observations.order_by("-id")[:_PAGE])
        names = actor_names({obj.requested_by, *(entry.actor for entry in entries)})
        subject = names_of(obj.subject_type, [obj.subject_id]) if obj.subject_id else {}
        return {
            **lifecycle_data(obj, entries, names),
            "operation": obj,
            "subject": subject.get(obj.subject_id) if obj.subject_id else None,
            "asked_by": names[obj.requested_by],
            "age": None if obj.settled_at else operation_age(obj),
            "took": operation_took(obj),
            "next": operation_next(obj, question),
            "question": question,
            "choices": overdue_choices(obj, question) if obj.status == S.TIMED_OUT else [],
            "conflict": selectors.conflicts_open([obj]).get(obj.pk),
            **steering_data(obj, viewer(request)),
            "settled": settled_words(obj),
            "identities": identities(obj),
            "request_json": pretty(obj.request),
            "result_json": pretty(obj.result),
            "error_json": pretty(obj.error),
            "observations": [(seen, pretty(seen.body)) for seen in observations],
            "title": obj.reference,
        }

    def object_post(self, request: HttpRequest, obj: Operation) -> HttpResponse:
        """One act of steering; where it is refused, the page again with the reason and what was written."""
        try:
            done = steer(request.POST, obj, viewer(request))
        except SteeringRefusedError as error:
            if error.code == "no_right":
                raise PermissionDenied from error
            if request.POST.get("back") == "monitor":
                messages.warning(request, str(error))
                return HttpResponseRedirect(reverse("admin:tasks_app_operation_changelist"))
            data = {**self.object_data(request, obj), "refusal": str(error), "given": request.POST}
            return self.page(request, self.object_template or "", obj, status=409, **data)
        messages.success(request, done)
        back = "changelist" if request.POST.get("back") == "monitor" else "change"
        args = [] if back == "changelist" else [obj.pk]
        return HttpResponseRedirect(reverse(f"admin:tasks_app_operation_{back}", args=args))

    def _chosen(self, request: HttpRequest, user: User) -> QuerySet[Operation]:
        view = request.GET.get("view", "open")
        if view == "settled":
            rows = selectors.operations_of(user).filter(settled_at__isnull=False).order_by("-pk")
        else:
            rows = selectors.operations_open(user)
        if view == "person":
            rows = rows.filter(selectors.paused_on_people()) | selectors.held_of(rows)
        elif view == "overdue":
            rows = rows.filter(status=S.TIMED_OUT)
        for parameter, lookup in (("seller", "seller__slug"), ("task", "task_type")):
            wanted = request.GET.get(parameter, "")
            if wanted:
                rows = rows.filter(**{lookup: wanted}) if _NAME.fullmatch(wanted) else rows.none()
        return rows


def _monitor_rows(operations: list[Operation], user: User) -> list[OperationRow]:
    last = selectors.last_observations(operations)
    questions = selectors.open_questions(operations)
    names: dict[uuid.UUID, Any] = {}
    for kind in {operation.subject_type for operation in operations if operation.subject_id}:
        names |= names_of(kind, {o.subject_id for o in operations if o.subject_type == kind and o.subject_id})
    may_steer = user.has_perm(STEER_OPERATION)
    conflicts, answers = selectors.conflicts_open(operations), answers_of(operations)
    stopped = stops_shown()
    return [
        operation_row(
            o,
            names=names,
            last=last.get(o.pk),
            question=questions.get(o.pk),
            may_steer=may_steer,
            answers=answers,
            conflict=conflicts.get(o.pk),
            stopped=stopped,
        )
        for o in operations
    ]


def _waiting_data(counts: dict[str, int], paused: dict[str, int], held: int) -> dict[str, Any]:
    """What waits for sellers, our answers on their way to them among it; and what waits for people, what is
    held before it is sent among it. `counts`: of all that is open, `paused`: of what people are to act on."""
    answered = sum(counts.get(status, 0) - paused.get(status, 0) for status in selectors.FOR_PEOPLE)
    return {
        "at_sellers": sum(counts.get(status, 0) for status in selectors.AT_SELLERS) + answered,
        "at_sellers_words": _counted(counts, selectors.AT_SELLERS, answered, "with our answer on its way"),
        "for_people": sum(paused.values()) + held,
        "for_people_words": _counted(paused, selectors.FOR_PEOPLE, held, "held before sending"),
    }


def _counted(counts: dict[str, int], statuses: tuple[str, ...], besides: int, what: str) -> str:
    """submitted 2, working 1, 3 held before sending."""
    if not besides:
        return counts_words(counts, statuses)
    by_status = [counts_words(counts, statuses)] if any(counts.get(status) for status in statuses) else []
    return ", ".join([*by_status, f"{besides} {what}"])


def _summary(counts: dict[str, int], rows: list[OperationRow]) -> str:
    sellers = {row.operation.seller_id for row in rows}
    told = f"{sum(counts.values())} open" + (f" with {plural(len(sellers), 'seller')}" if sellers else "")
    due = [row.operation.next_poll_at for row in rows if row.operation.next_poll_at]
    if not due:
        return told
    left = min(due) - clock.now()
    return f"{told}, next poll {f'in {text.duration(left)}' if left.total_seconds() > 0 else 'now'}"


def _page_number(request: HttpRequest) -> int:
    given = request.GET.get("page", "1")
    return min(max(1, int(given)), _MOST_PAGES) if given.isdecimal() and len(given) < 7 else 1


def _link(request: HttpRequest, number: int) -> str:
    query = request.GET.copy()
    query["page"] = str(number)
    return f"?{query.urlencode()}"
