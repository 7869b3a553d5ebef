"""Nothing is bought or changed under an account that is not active, though it was when people let it go.

While the seller, or who switched it off, may still make it active, what is about to leave waits and is looked
at again; where it has ended, it ends too. Cancellations go on: they cost nothing more.
"""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q, Value
from django.db.models.functions import Greatest

from tasks_app import clock
from tasks_app.desk.items import raised
from tasks_app.operations.leaving import Leaving, last_look_register
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.pauses import answer_hold_back
from tasks_app.operations.resend import had_no_effect
from tasks_app.operations.services import not_sent_again, operation_withdraw, send_with_time
from tasks_app.people.actors import SYSTEM
from tasks_app.sellers.accounts import AWAITED, ENDED, account_standing
from tasks_app.sellers.models import Account

_ORDERS = ("create_media_buy", "update_media_buy")
_AGAIN, _WORDS = timedelta(minutes=1), 500


def register() -> None:
    """Called when the application starts."""
    last_look_register(_is_not_over)
    last_look_register(_is_not_awaited, waits=True)


def _is_not_over(leaving: Leaving) -> bool:
    """Whether it may be waited for, or leave; else it ends. What may be bought already its seller is asked
    for."""
    operation, account = leaving.operation, _inactive(leaving)
    may_be_done = not leaving.is_answer and not had_no_effect(operation)
    if account is None or not (may_be_done or account.status in ENDED):
        return True
    why = raised(account_standing(account))[:_WORDS]
    if leaving.is_answer:
        answer_hold_back(operation, why)
    elif operation.status == OperationStatus.REQUESTED:
        operation_withdraw(operation=operation, actor=SYSTEM, reason=why, tell=True)
    else:
        not_sent_again(operation, why)
    return False


def _is_not_awaited(leaving: Leaving) -> bool:
    """Whether it may leave; else it waits for its account, which may be made active still."""
    account = _inactive(leaving)
    if account is None:
        return True
    _wait(leaving, raised(account_standing(account))[:_WORDS])
    return False


def _inactive(leaving: Leaving) -> Account | None:
    """The account that is not active, of what leaves under an active one alone."""
    operation, account = leaving.operation, leaving.operation.account
    if operation.task_type not in _ORDERS or leaving.request.get("canceled") is True:
        return None
    return account if account is not None and account.status != Account.Status.ACTIVE else None


def needs_active_account(operation: str = "") -> Q:
    """In a query of operations, or of rows that name theirs by `operation` ("operation__"): those that leave
    under an active account alone. No answer makes a cancellation of what is none."""
    cancels = Q(**{f"{operation}request__canceled": True})
    no_word = Q(**{f"{operation}request__canceled__isnull": True})
    return Q(**{f"{operation}task_type__in": _ORDERS}) & (no_word | ~cancels)


def waits_for_account(operation: str = "") -> Q:
    """The same of those that have one that may be made active still."""
    return Q(**{f"{operation}account__status__in": AWAITED}) & needs_active_account(operation)


def _wait(leaving: Leaving, why: str) -> None:
    """Looked at again soon, after what else is due by then; the time is not the seller's, nor ours. It is for
    an answer, for which its seller waits: people are asked about that when it is overdue, and meanwhile are
    told why it waits."""
    now = clock.now()
    turn = {"turn_at": Greatest("turn_at", Value(now)), "send_at": now + _AGAIN}
    Operation.objects.filter(pk=leaving.operation.pk).update(**turn)
    if not leaving.is_answer:
        send_with_time(leaving.operation, at=now + _AGAIN, message=why)
