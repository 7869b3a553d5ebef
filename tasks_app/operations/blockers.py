"""What is in the way of a call that is due to leave for its seller, beside gates and people: its account, its
seller, or that the seller is left alone. A claim finds the same (`dispatch`, `account_stops`, `breaker`);
here it is said before, for pages and explanations.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.commands.gates import SELLER
from tasks_app.commands.models import Command
from tasks_app.desk import text
from tasks_app.desk.explain import Mover
from tasks_app.operations.account_stops import needs_active_account
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.resend import had_no_effect
from tasks_app.people.roles import CHANGE_SELLER
from tasks_app.sellers.accounts import ENDED, account_standing
from tasks_app.sellers.explain import activates_movers, on_movers
from tasks_app.sellers.models import Account, Seller, SellerBreaker


class ShutBy(StrEnum):
    """What has to be opened before something can leave."""

    ACCOUNT = "account"  # it is not active
    SELLER = "seller"  # it is switched off
    RISK = "risk"  # it replays no key, and nobody has accepted that
    TOOL = "tool"  # it lists none for this
    ALONE = "alone"  # it failed too often in a row, and is left alone until a probe succeeds


# Who of ours opens it, or may beside its seller.
OPENS = {
    ShutBy.SELLER: "who may change sellers",
    ShutBy.RISK: "who may change sellers",
    ShutBy.ACCOUNT: "its seller, or who may change accounts",
}


class Then(StrEnum):
    """What comes of what is due."""

    WAITS = "waits"  # it goes by itself once nothing is in its way
    ENDS = "ends"  # it comes to nothing as soon as it comes up to be sent
    ASKS = "asks"  # people are asked before it is sent again
    LOOKS = "looks"  # its seller is asked whether it has it, and it is not sent again


@dataclass(frozen=True, kw_only=True)
class Blocker:
    """`why`: as the end of a sentence."""

    by: ShutBy
    why: str
    then: Then

    def acts(self, seller: str) -> str:
        """Who has to act next; `seller`: the name of its seller."""
        return OPENS.get(self.by, seller)

    @property
    def is_late(self) -> bool:
        """Whether its deadline ends it all the same: what waits for its account is given its time anew."""
        return not (self.by is ShutBy.ACCOUNT and self.then is Then.WAITS)


def blockers_of(operations: Iterable[uuid.UUID]) -> dict[uuid.UUID, Blocker]:
    """What is in the way of those of them that are due to be sent (again), by operation. What waits for a
    task of the seller's, or to be answered, is another thing."""
    wanted = list(operations)
    rows = list(_due(wanted)) if wanted else []
    off = [one.purpose for one in rows if one.is_mutation and not one.seller.active]
    passed = set(_passed(off)) if off else set()
    refused = _refused_by_account(rows)
    found = {one.pk: _in_the_way(one, one.purpose in passed, one.pk in refused) for one in rows}
    return {pk: one for pk, one in found.items() if one is not None}


def seller_blocker(seller: Seller, task_type: str) -> Blocker | None:
    """What is in the way of a first order of that type with a seller, read with its breaker."""
    return _by_seller(seller, task_type, mutates=True, passed=False, again=False) or _alone(seller)


def blocker_movers(blocker: Blocker, seller: Seller, account: Account | None) -> tuple[Mover, ...]:
    """Who clears it away."""
    if blocker.by is ShutBy.ACCOUNT:
        return activates_movers(account) if account is not None and account.status not in ENDED else ()
    if blocker.by is ShutBy.SELLER:
        return on_movers(seller)
    if blocker.by is ShutBy.RISK:
        accepts = "accept the risk of a seller that replays no key, on its page"
        return (Mover(right=CHANGE_SELLER, does=accepts),)
    return (Mover(who=seller.name, does=_DOES[blocker.by]),)


_DOES = {ShutBy.TOOL: "lists the tool", ShutBy.ALONE: "answers when it is tried again"}


def _due(operations: Collection[uuid.UUID]) -> QuerySet[Operation]:
    """With sellers, their breakers, and accounts."""
    rows = Operation.objects.filter(pk__in=operations, send_at__isnull=False, task_id="", a2a_task_id="")
    rows = rows.filter(status__in=(S.REQUESTED, S.CALLING_ADCP, *PENDING))
    heavy = ("request_text", "webhook_token", "request", "result", "error", "seller__capabilities")
    return rows.select_related("seller__breaker", "account__seller").defer(*heavy)


def _passed(purposes: Iterable[str]) -> QuerySet[Command, str]:
    """Of orders with sellers that are off those that people let pass."""
    let = Command.objects.filter(key__in=purposes, overrides__contains=[SELLER])
    return let.values_list("key", flat=True)


def _refused_by_account(rows: Iterable[Operation]) -> set[uuid.UUID]:
    """Those that need an active account and have none."""
    inactive = [one.pk for one in rows if one.account and one.account.status != Account.Status.ACTIVE]
    needing = Operation.objects.filter(needs_active_account(), pk__in=inactive)
    return set(needing.values_list("pk", flat=True)) if inactive else set()


def _in_the_way(operation: Operation, passed: bool, no_account: bool) -> Blocker | None:
    """The first that a claim would come upon."""
    if no_account and operation.account is not None:
        return _by_account(operation, operation.account)
    by_seller = _by_seller(
        operation.seller,
        operation.task_type,
        mutates=operation.is_mutation,
        passed=passed,
        again=operation.attempts > 0,
    )
    return by_seller or _alone(operation.seller)


def left_alone(seller: Seller, breaker: SellerBreaker | None) -> str:
    """Why nobody calls it now, for the end of a sentence; empty where it is called, if only to try."""
    if breaker is None or breaker.state == SellerBreaker.State.CLOSED or breaker.probe_at is None:
        return ""
    if breaker.probe_at <= clock.now():
        return ""  # the next call is the probe
    until = text.moment_short(breaker.probe_at)
    return f"{seller.name} failed too often in a row and is left alone until {until}"


def _by_account(operation: Operation, account: Account) -> Blocker:
    then = Then.ENDS if account.status in ENDED else Then.WAITS
    if not had_no_effect(operation):
        then = Then.LOOKS
    return Blocker(by=ShutBy.ACCOUNT, why=account_standing(account), then=then)


def _by_seller(seller: Seller, task_type: str, *, mutates: bool, passed: bool, again: bool) -> Blocker | None:
    why: Mapping[ShutBy, str] = {
        ShutBy.SELLER: seller.shut(mutates=False, though_off=passed),
        ShutBy.RISK: seller.shut(mutates=mutates, though_off=True),
        ShutBy.TOOL: "" if again else seller.lacks(task_type),
    }
    by = next((by for by, words in why.items() if words), None)
    if by is None:
        return None
    asks = by is ShutBy.SELLER and mutates
    then = (Then.ASKS if asks else Then.WAITS) if again else Then.ENDS
    return Blocker(by=by, why=why[by], then=then)


def _alone(seller: Seller) -> Blocker | None:
    why = left_alone(seller, getattr(seller, "breaker", None))
    return Blocker(by=ShutBy.ALONE, why=why, then=Then.WAITS) if why else None
