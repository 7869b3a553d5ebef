"""Deadlines by type: an operation past its own is `timed_out`, our verdict; the seller may still answer.

All that are due move in one statement. Who asks people about them (`on_overdue`) is told afterwards, each
operation in a commit of its own that marks it told (`overdue_told_at`): a crash in between is healed by the
next sweep, and nobody is told twice. Source: document 000 ("Timeout Handling").
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Greatest

from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.commands.kill_switch import on_turned, stops
from tasks_app.commands.models import Command, KillSwitch
from tasks_app.lifecycle.transitions import transition_many
from tasks_app.operations import policy
from tasks_app.operations.account_stops import needs_active_account, waits_for_account
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.leases import is_out
from tasks_app.operations.models import PENDING, READS, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.resend import cannot_have_acted, no_effect, unsent
from tasks_app.people.models import Team
from tasks_app.sellers.accounts import on_account_changed
from tasks_app.sellers.models import Account, Seller
from tasks_app.troubles.rows import due_again, each_row, held_back, together, unhandled
from tasks_app.troubles.works import work_on

_DEADLINE = work_on("deadlines", "operation")
_TELLING = work_on("overdue_told", "operation")
_GIVING = work_on("deadlines_given", "operation")
_AT_ONCE = 1000
_listeners: list[Callable[[Operation], None]] = []
NEVER_SENT = "NEVER_SENT"
_NEVER_SENT_WORDS = "It could not be sent before its deadline: nothing reached the seller"


def register() -> None:
    """Called when the application starts."""
    on_turned(_let_go)
    on_account_changed(_made_active)


def on_overdue(listener: Callable[[Operation], None]) -> None:
    """Call `listener(operation)` once an operation is overdue, in the commit that marks it told."""
    if listener not in _listeners:
        _listeners.append(listener)


def overdue_tell(operation: Operation, *, but: Callable[[Operation], None] | None = None) -> None:
    """An operation is overdue: tell the listeners, without the one (`but`) that was told already."""
    for listener in _listeners:
        if listener is not but:
            listener(operation)


def time_out_due(*, limit: int) -> int:
    """Do what the deadlines ask for, at most `limit` of each: fail what was never sent, have calls without an
    answer looked up, declare overdue what is, and tell. Answers how many were told of."""
    _give_again()
    fail_unsent(limit=limit)
    mark_for_lookup(limit=limit)
    mark_overdue(limit=limit)
    return tell_overdue(limit=limit)


def mark_overdue(*, limit: int) -> int:
    """Move what is past its deadline to `timed_out`, in one statement; answers how many moved.

    A mutation whose call has no answer is overdue only once the seller was asked for it (`looked_up_at`);
    a call that is out at this moment may still answer. What we hold is not late: an answer of ours that the
    kill switch stops, for which the seller waits; what its seller turned away and is to be sent once more.
    """
    now = clock.now()
    asked = Q(task_type__in=READS) | Q(looked_up_at__isnull=False)
    pending = Q(status__in=PENDING) & ~not_late()
    due = _due(pending | (Q(status=S.CALLING_ADCP) & _idle() & asked), limit)
    return _move(
        due,
        S.TIMED_OUT,
        overdue_at=now,
        overdue_told_at=None,
        next_poll_at=None,
        send_at=None,
    )


def mark_for_lookup(*, limit: int) -> int:
    """Make a look-up due of every mutation past its deadline whose call has no answer; answers how many. One
    that reached nobody and that we hold is not late, as what was never sent is not."""
    unknown = Q(status=S.CALLING_ADCP, looked_up_at__isnull=True, next_poll_at__isnull=True) & _idle()
    due = _due(unknown & ~Q(task_type__in=READS) & ~held_by_us(), limit)
    changes = {"next_poll_at": clock.now(), "send_at": None}

    def mark(ids: Sequence[uuid.UUID]) -> list[int]:
        return [Operation.objects.filter(pk__in=ids).update(**changes)]

    return sum(together(_DEADLINE, due.values_list("pk", flat=True), mark))


def fail_unsent(*, limit: int) -> int:
    """Fail what was to be sent and never was by its deadline: nothing reached the seller. What is held for
    people, or stopped by the kill switch, is not due, nor what waits for its account: it is given its time
    anew when that is looked at. Answers how many failed."""
    never_sent = Q(status=S.REQUESTED, send_at__isnull=False)
    return _move(
        _due(never_sent & ~_stopped() & ~waits_for_account(), limit),
        S.FAILED,
        error={"code": NEVER_SENT, "message": _NEVER_SENT_WORDS},
        message=_NEVER_SENT_WORDS,
        send_at=None,
        settled_at=clock.now(),
    )


def deadlines_anew(team: Team | None = None) -> int:
    """Give what waits to be sent (of `team`, or of all) its type's time from now on: it was held, by people
    or by us; answers to sellers too. Answers how many."""
    waiting = Operation.objects.filter(_waits_for_us())
    return _give(waiting if team is None else waiting.filter(team=team), _whole_time)


def deadlines_later(by: timedelta) -> int:
    """Give what its seller has in hand so much more time: we did not look at it for so long. Answers how
    many."""
    in_hand = Operation.objects.filter(_in_hand())
    return _give(in_hand, lambda rows: rows.update(deadline_at=F("deadline_at") + by))


def _give_again() -> None:
    """What could not be given its time when all others were: its type's whole time, from now on."""
    open_still = Operation.objects.filter(_waits_for_us() | _in_hand())
    each_row(_GIVING, due_again(_GIVING)[:_AT_ONCE], lambda pk: _whole_time(open_still.filter(pk=pk)))


def _give(waiting: QuerySet[Operation], give: Callable[[QuerySet[Operation]], int]) -> int:
    ids = list(waiting.order_by("seller", "task_type").values_list("pk", flat=True))
    parts = (ids[i : i + _AT_ONCE] for i in range(0, len(ids), _AT_ONCE))
    # Chosen again as they are written: one may have moved on.
    return sum(sum(together(_GIVING, part, lambda pks: [give(waiting.filter(pk__in=pks))])) for part in parts)


def _whole_time(rows: QuerySet[Operation]) -> int:
    kinds = list(rows.order_by().values_list("seller", "task_type").distinct())
    sellers = Seller.objects.in_bulk({seller for seller, _ in kinds})
    return sum(
        rows.filter(seller=seller, task_type=task_type).update(
            deadline_at=Greatest(
                "deadline_at", Value(clock.now() + policy.deadline(task_type, sellers[seller]))
            )
        )
        for seller, task_type in kinds
    )


def _waits_for_us() -> Q:
    calls = Q(status__in=(S.REQUESTED, S.CALLING_ADCP), send_at__isnull=False)
    again = Q(status__in=PENDING, task_id="", send_at__isnull=False)
    return calls | again | (Q(status__in=PENDING) & Q(Continuation.held()))


def _in_hand() -> Q:
    return Q(status__in=(S.CALLING_ADCP, *PENDING), deadline_at__isnull=False) & ~_waits_for_us()


def _let_go(turn: KillSwitch) -> None:
    if not turn.on:
        deadlines_anew(turn.team)


def _made_active(account: Account, _before: str) -> None:
    """What waits for it to be active may not have been looked at for long: its time is the account's until
    now. Not that of what leaves under any account, nor of what its seller may have done already."""
    if account.status == Account.Status.ACTIVE:
        waited = _waits_for_us() & needs_active_account() & no_effect()
        _give(Operation.objects.filter(waited, account=account), _whole_time)


def _stopped() -> Q:
    """What the kill switch stops now."""
    now = stops()
    if now.everywhere is not None:
        return ~Q(task_type__in=READS)
    return Q(team__in=now.teams) & ~Q(task_type__in=READS)


def held_by_us() -> Q:
    """What was tried and certainly had no effect, the seller has no task of, and the kill switch, a gate, a
    question to people or its account keeps from being sent again: it goes, with its whole time, when they let
    it. What may have been done there does not go unnoticed."""
    tried = Q(status__in=(S.CALLING_ADCP, *PENDING), task_id="")
    stopped = Q(send_at__isnull=False) & (_stopped() | (unsent() & waits_for_account()))
    return tried & (stopped | _taken_off_the_way()) & cannot_have_acted()


def not_late() -> Q:
    """What is pending and does not become overdue, though its deadline passes: we hold it, or our answer."""
    return (_stopped() & Q(Continuation.held())) | held_by_us()


def kept_among(operation_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those of them that are held by us, as above."""
    kept = Operation.objects.filter(held_by_us(), pk__in=operation_ids)
    return set(kept.values_list("pk", flat=True)) if operation_ids else set()


def _taken_off_the_way() -> Q:
    """What its gates, or what was looked at last, took off the way while people are asked."""
    waiting = Command.objects.filter(waiting_since__isnull=False, refused_at__isnull=True)
    about = {"subject_type": OuterRef("subject_type"), "subject_id": OuterRef("subject_id")}
    asked = Approval.objects.filter(status=ApprovalStatus.OPEN, **about)
    off = Q(send_at__isnull=True, next_poll_at__isnull=True)
    return off & (Q(Exists(waiting.filter(key=OuterRef("purpose")))) | Q(Exists(asked)))


def tell_overdue(*, limit: int) -> int:
    """Tell the listeners of what is overdue and nobody was told of; answers how many."""
    untold = Operation.objects.filter(status=S.TIMED_OUT, overdue_told_at__isnull=True)
    untold = untold.exclude(pk__in=held_back(_TELLING)).order_by("overdue_at")
    return each_row(_TELLING, untold.values_list("pk", flat=True)[:limit], _tell)


def _due(which: Q, limit: int) -> QuerySet[Operation]:
    due = Operation.objects.filter(which, deadline_at__lte=clock.now())
    # What is still owed time is not late.
    due = due.exclude(pk__in=held_back(_DEADLINE)).exclude(pk__in=unhandled(_GIVING))
    return due.order_by("deadline_at")[:limit]


def _idle() -> Q:
    return ~Q(is_out())


def _move(due: QuerySet[Operation], to: str, **changes: Any) -> int:
    """The moved rows are chosen first, without waiting for those that somebody holds."""
    with transaction.atomic():
        locked = due.select_for_update(of=("self",), skip_locked=True, no_key=True)
        rows = Operation.objects.all()
        moved = together(
            _DEADLINE,
            locked.values_list("pk", flat=True),
            lambda ids: [transition_many(rows.filter(pk__in=ids), to, actor="system", changes=changes)],
        )
    return sum(moved)


@transaction.atomic
def _tell(operation_id: uuid.UUID) -> bool:
    operation = (
        Operation.objects.filter(pk=operation_id, status=S.TIMED_OUT, overdue_told_at__isnull=True)
        .select_related("seller", "team")
        .select_for_update(of=("self",), skip_locked=True, no_key=True)
        .first()
    )
    if operation is None:
        return False
    overdue_tell(operation)
    now = clock.now()
    changes: dict[str, Any] = {"overdue_told_at": now}
    if operation.task_id and operation.is_mutation:
        changes["next_poll_at"] = policy.next_poll(operation, status=S.TIMED_OUT, now=now, retry_after_s=None)
    Operation.objects.filter(pk=operation.pk).update(**changes)
    return True
