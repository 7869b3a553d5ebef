"""Reading operations for the monitor: what is open, what settled how, and how sellers answer."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from datetime import timedelta

from django.db.models import Count, F, Q, QuerySet

from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.commands.models import Command
from tasks_app.ids import first_id_at
from tasks_app.operations.answer_stages import Answers, on_its_way, with_people
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import OPEN, PENDING, Observation, Operation, OperationStatus
from tasks_app.operations.resend import is_unsent
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.people.scope import visible
from tasks_app.sellers.models import SELLER_HEAVY
from tasks_app.sellers.selectors import AnswerTimes, answer_times

S = OperationStatus
FOR_PEOPLE = (S.INPUT_REQUIRED, S.AUTH_REQUIRED)
AT_SELLERS = (S.CALLING_ADCP, S.SUBMITTED, S.WORKING)
# What the monitor's cells never need: the texts, and above all what is encrypted.
_HEAVY = ("request_text", "webhook_token", "request", "result", "error")


def operations_of(viewer: User) -> QuerySet[Operation]:
    """The viewer's operations, light: without requests, results and secrets."""
    return (
        visible(Operation.objects.all(), viewer)
        .select_related("seller")
        .defer(*_HEAVY, "seller__token", "seller__webhook_secret", "seller__capabilities")
    )


def operations_open(viewer: User) -> QuerySet[Operation]:
    """Not settled; overdue ones first, then by deadline."""
    rows = operations_of(viewer).filter(status__in=OPEN, settled_at__isnull=True)
    return rows.order_by(F("deadline_at").asc(nulls_last=True), "pk")


def held_of(rows: QuerySet[Operation]) -> QuerySet[Operation]:
    """Those that wait before they are sent: for a decision, or at a gate."""
    return rows.filter(status=S.REQUESTED, send_at__isnull=True)


def commands_at_gate(operations: Iterable[Operation]) -> dict[str, uuid.UUID]:
    """Purpose to the id of the command that waits at a gate, of these operations."""
    keys = [operation.purpose for operation in operations]
    return dict(Command.objects.filter(key__in=keys, waiting_since__isnull=False).values_list("key", "pk"))


def is_held(operation: Operation) -> bool:
    """Whether it leaves, at first or once more, only when people or a gate let it: neither due to be sent nor
    to be asked for at its seller. One that paused on A2A waits to be answered; one that people wait on for is
    held where its gate is closed."""
    if operation.status == S.REQUESTED:
        return operation.send_at is None
    due = operation.send_at is not None or operation.next_poll_at is not None
    if due or not operation.is_mutation or operation.task_id or operation.a2a_task_id:
        return False
    waited_on = operation.status == S.SUBMITTED and bool(commands_at_gate([operation]))
    return waited_on or is_unsent(operation)


def would_be_sent(operation: Operation, answers: Answers) -> bool:
    """Whether it, or our answer to its seller's question, changes something and has yet to leave, or to leave
    again, but for what is in its way. What its seller asks of us waits for that, not for this."""
    answer = answers.of(operation)
    if not operation.is_mutation or operation.status == S.INPUT_REQUIRED or answer is not None:
        return operation.is_mutation and answer is not None and answer.is_stopped
    if operation.status == S.REQUESTED or is_held(operation):
        return True
    again = operation.send_at is not None and operation.status in (S.CALLING_ADCP, *PENDING)
    return again and not answers.is_out(operation)


def answer_looked_after() -> Q:
    """What was answered, where nobody has to look after that answer beside those who are asked about it."""
    given = Q(on_its_way()) | Q(with_people())
    return Q(status__in=PENDING) & given


def paused_on_people() -> Q:
    """What is paused and goes on when people have acted: answered, decided, or given new credentials."""
    return Q(status__in=FOR_PEOPLE) & ~Q(on_its_way())


def open_counts(viewer: User) -> dict[str, int]:
    """Status to number, of what is open."""
    rows = visible(Operation.objects.all(), viewer).filter(status__in=OPEN, settled_at__isnull=True)
    return dict(rows.order_by().values_list("status").annotate(Count("pk")))


def paused_for_people(viewer: User) -> dict[str, int]:
    """Status to number, of what is paused until people act."""
    rows = visible(Operation.objects.all(), viewer).filter(paused_on_people(), settled_at__isnull=True)
    return dict(rows.order_by().values_list("status").annotate(Count("pk")))


def settled_counts(viewer: User, *, hours: int = 24) -> dict[str, int]:
    """Channel (reply, poll, webhook; empty for given up) to number, of what settled in the last hours."""
    since = clock.now() - timedelta(hours=hours)
    rows = visible(Operation.objects.all(), viewer).filter(
        pk__gte=first_id_at(since - timedelta(days=3)), settled_at__gte=since
    )
    return dict(rows.order_by().values_list("settled_by").annotate(Count("pk")))


def seller_answer_times(viewer: User, *, days: int = 30, task: str = "create_media_buy") -> list[AnswerTimes]:
    """How the sellers answered the viewer's operations of one task lately."""
    rows = visible(Operation.objects.all(), viewer).filter(task_type=task)
    return answer_times(rows, since=clock.now() - timedelta(days=days))


def last_observations(operations: Iterable[Operation]) -> dict[uuid.UUID, Observation]:
    """The latest observation of each operation, without its body."""
    found = (
        Observation.objects.filter(operation__in=[operation.pk for operation in operations])
        .defer("body")
        .order_by("operation_id", "-id")
        .distinct("operation_id")
    )
    return {observation.operation_id: observation for observation in found}


def open_questions(operations: Iterable[Operation]) -> dict[uuid.UUID, Approval]:
    """The open approval about each operation, or about what it is for."""
    rows = list(operations)
    about = {o.pk: o.pk for o in rows} | {o.subject_id: o.pk for o in rows if o.subject_id}
    asked = Approval.objects.filter(subject_id__in=list(about), status=ApprovalStatus.OPEN).filter(
        Q(subject_type="operation") | Q(subject_type="deal")
    )
    return {about[approval.subject_id]: approval for approval in asked.order_by("-due_at")}


def conflicts_of(viewer: User) -> QuerySet[Conflict]:
    """Contradictions that the viewer sees, newest first; those of no team are for who steers."""
    rows = Conflict.objects.select_related("operation__seller").defer(
        *(f"operation__{name}" for name in (*_HEAVY, *SELLER_HEAVY))
    )
    if viewer.has_perm(STEER_OPERATION):
        return visible(rows, viewer) | rows.filter(team__isnull=True)
    return visible(rows, viewer)


def conflicts_open(operations: Iterable[Operation]) -> dict[uuid.UUID, Conflict]:
    """The open contradiction about each operation, the latest where there are several."""
    found = Conflict.objects.filter(
        operation__in=[operation.pk for operation in operations], resolved_at__isnull=True
    ).defer("first", "second")
    return {conflict.operation_id: conflict for conflict in found.order_by("pk")}


def operations_of_steps(step_ids: Collection[uuid.UUID]) -> QuerySet[Operation]:
    """Operations that steps asked for: their purpose begins with the step (`Run.purpose`)."""
    wanted = Q(pk__in=[])
    for step_id in step_ids:
        wanted |= Q(purpose__startswith=f"step:{step_id}:")
    return Operation.objects.filter(wanted)
