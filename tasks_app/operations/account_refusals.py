"""What a seller refused because of the account: asked for anew once the account is active, or is named
otherwise, though nothing else of it is corrected (AdCP enums/error-code)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.accounts import account_standing
from tasks_app.sellers.models import Account

A = Account.Status
NOT_FOUND = "ACCOUNT_NOT_FOUND"
# What a refusal tells of the account's state.
STATES = {
    "ACCOUNT_SUSPENDED": A.SUSPENDED,
    "ACCOUNT_PAYMENT_REQUIRED": A.PAYMENT_REQUIRED,
    "ACCOUNT_SETUP_REQUIRED": A.PENDING,
}


def refused_for_account(operation: Operation) -> bool:
    """Whether its seller refused it because of the account: it may be asked for anew."""
    ended = operation.status in (S.FAILED, S.REJECTED)
    return ended and operation.account_id is not None and _code(operation) in (NOT_FOUND, *STATES)


def account_told(operation: Operation) -> Mapping[str, Any] | None:
    """What the refusal says of the account, as a seller's answer about one; None where it says no state."""
    status = STATES.get(_code(operation))
    error = operation.error or {}
    details = error.get("details")
    setup = details.get("setup") if isinstance(details, Mapping) else None
    return {"status": status, "errors": [error], "setup": setup} if status else None


def account_obstacle(operation: Operation) -> str:
    """Why what was refused because of its account cannot be asked for anew yet; empty: it can."""
    account = _account(operation)
    if account.status == A.ACTIVE:
        return ""
    return f"It can be asked for anew once the account is active: {account_standing(account).rstrip('.')}."


def anew_because(operation: Operation) -> str:
    """Why the same is asked for anew, as a reason for who decides; empty where the account is as it was."""
    account, named = _account(operation), operation.request.get("account")
    if _code(operation) != NOT_FOUND:
        return f"The account with {account.seller} is active again"
    return "Named by brand and operator: the seller refused its own id" if account.reference != named else ""


def account_advice(operation: Operation) -> str:
    """What people can do, in a sentence."""
    if _code(operation) != NOT_FOUND:
        return f"On the page of {operation.reference} it can be asked for anew once the account is active."
    if "account_id" in (operation.request.get("account") or {}):
        return account_obstacle(operation) or (
            "The seller does not know the id that it gave the account: on the page of "
            f"{operation.reference} it can be asked for anew, by brand and operator."
        )
    return "The seller knows no such account: its page says how it is asked for."


def account_now(operation: Operation) -> dict[str, Any]:
    """How the account is named now, to stand in what is asked for anew; empty where that is no matter."""
    return {"account": _account(operation).reference} if refused_for_account(operation) else {}


def _account(operation: Operation) -> Account:
    """As it stands now: the refusal itself may have changed it."""
    return Account.objects.select_related("seller", "advertiser").get(operations=operation)


def _code(operation: Operation) -> str:
    return str((operation.error or {}).get("code") or "")
