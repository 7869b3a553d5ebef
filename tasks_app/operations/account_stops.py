"""Nothing is bought or changed under an account that is not active, though it was when people let it go.

While the seller, or who switched it off, may still make it active, what is about to leave waits and is looked
at again; where it has ended, it ends too. Cancellations go on: they cost nothing more.
"""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q

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
    last_look_register(_has_active_account)


def _has_active_account(leaving: Leaving) -> bool:
    operation, account = leaving.operation, leaving.operation.account
    if operation.task_type not in _ORDERS or account is None or account.status == Account.Status.ACTIVE:
        return True
    if leaving.request.get("canceled") is True:
        return True
    why = raised(account_standing(account))[:_WORDS]
    if not leaving.is_answer and not had_no_effect(operation):
        not_sent_again(operation, why)  # it may be bought already: the seller is asked
    elif account.status not in ENDED:
        _wait(leaving, why)
    elif leaving.is_answer:
        answer_hold_back(operation, why)
    elif operation.status == OperationStatus.REQUESTED:
        operation_withdraw(operation=operation, actor=SYSTEM, reason=why, tell=True)
    else:
        not_sent_again(operation, why)
    return False


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
    """Looked at again soon; the time is not the seller's, nor ours. It is for an answer, for which its seller
    waits: people are asked about that when it is overdue, and meanwhile are told why it waits."""
    again = clock.now() + _AGAIN
    if leaving.is_answer:
        Operation.objects.filter(pk=leaving.operation.pk).update(send_at=again)
    else:
        send_with_time(leaving.operation, at=again, message=why)
