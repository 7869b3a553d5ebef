"""What is in the way of a call that is to leave for its seller, beside gates and people: its account, its
seller, or that the seller is left alone. A claim finds the same (`dispatch`, `account_stops`, `breaker`);
here it is said before, for pages and explanations.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from django.db.models import Exists, OuterRef, Q, QuerySet

from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.commands.gates import SELLER
from tasks_app.commands.models import Command
from tasks_app.desk import text
from tasks_app.desk.explain import Mover
from tasks_app.operations.account_stops import needs_active_account
from tasks_app.operations.leases import operations_out
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.resend import no_effect, unsafe_to_resend, unsent
from tasks_app.people.roles import CHANGE_SELLER
from tasks_app.sellers.accounts import ENDED, accounts_standing
from tasks_app.sellers.explain import activates_movers, on_movers
from tasks_app.sellers.models import SELLER_ASIDE, Account, Seller, SellerBreaker


class ShutBy(StrEnum):
    """What has to be opened before something can leave."""

    ACCOUNT = "account"  # it is not active
    SELLER = "seller"  # it is switched off
    RISK = "risk"  # it replays no key, and nobody has accepted that
    TOOL = "tool"  # it lists none for this
    KEY = "key"  # it may not recognise the key of an earlier attempt any more
    ALONE = "alone"  # it failed too often in a row, and is left alone until a probe succeeds


_WORKER = "a worker"
# Who of ours opens it, or may beside its seller.
OPENS = {
    ShutBy.SELLER: "who may change sellers",
    ShutBy.RISK: "who may change sellers",
    ShutBy.ACCOUNT: "its seller, or who may change accounts",
    ShutBy.KEY: _WORKER,
}


class Then(StrEnum):
    """What comes of what is due."""

    WAITS = "waits"  # it goes by itself once nothing is in its way
    ENDS = "ends"  # it comes to nothing as soon as it comes up to be sent
    ASKS = "asks"  # people are asked before it is sent again
    LOOKS = "looks"  # its seller is asked whether it has it, and it is not sent again


@dataclass(frozen=True, kw_only=True)
class Blocker:
    """`why`: as the end of a sentence; `held`: people, a gate or the kill switch have taken the call off the
    way, and it is come upon once they let it go."""

    by: ShutBy
    why: str
    then: Then
    held: bool = False

    def acts(self, seller: str) -> str:
        """Who has to act next; `seller`: the name of its seller."""
        ended = self.by is ShutBy.ACCOUNT and self.then is not Then.WAITS
        return _WORKER if ended else OPENS.get(self.by, seller)

    @property
    def is_late(self) -> bool:
        """Whether its deadline ends it all the same: what waits for its account is given its time anew."""
        return not (self.by is ShutBy.ACCOUNT and self.then is Then.WAITS)

    @property
    def comes_first(self) -> bool:
        """Whether it is come upon before the kill switch and the gates are asked."""
        return self.by is ShutBy.ACCOUNT and not self.held

    @property
    def ends_first(self) -> bool:
        """Whether, once it comes up, nothing else is looked at: its account has ended."""
        return self.by is ShutBy.ACCOUNT and self.then is not Then.WAITS

    @property
    def is_over(self) -> bool:
        """Whether nothing waits for the kill switch, or the gates, any more: it comes to this before."""
        return self.ends_first and not self.held

    @property
    def once_let_go(self) -> str:
        """What comes of it once people, a gate or the kill switch let it go, as the end of a sentence."""
        return f"{_ONCE_LET_GO[self.then]}: {self.why}"


_ONCE_LET_GO = {
    Then.WAITS: "it waits still",
    Then.ENDS: "it ends without being sent",
    Then.ASKS: "people are asked once more",
    Then.LOOKS: "its seller is asked whether it has it",
}


def blockers_of(operations: Iterable[uuid.UUID]) -> dict[uuid.UUID, Blocker]:
    """What is in the way of those of them that are to be sent (again), now or once people let them, by
    operation. What is out, waits for a task of the seller's, or to be answered, is another thing. However
    many they are, it takes at most ten queries."""
    wanted = set(operations)
    rows = list(_to_be_sent(wanted - operations_out(wanted))) if wanted else []
    known = _known(rows)
    found = {one.pk: _in_the_way(one, known) for one in rows}
    return {pk: one for pk, one in found.items() if one is not None}


def seller_blocker(seller: Seller, task_type: str, *, again: bool = False) -> Blocker | None:
    """What is in the way of an order of that type with a seller, read with its breaker. `again`: it left
    before and had no effect."""
    return _by_seller(seller, task_type, mutates=True, passed=False, again=again) or _alone(seller)


def blocker_movers(blocker: Blocker, seller: Seller, account: Account | None) -> tuple[Mover, ...]:
    """Who clears it away."""
    if blocker.by is ShutBy.ACCOUNT:
        return activates_movers(account) if account is not None and account.status not in ENDED else ()
    if blocker.by is ShutBy.SELLER:
        return on_movers(seller)
    if blocker.by is ShutBy.RISK:
        accepts = "accept the risk of a seller that replays no key, on its page"
        return (Mover(right=CHANGE_SELLER, does=accepts),)
    if blocker.by is ShutBy.KEY:
        return ()
    return (Mover(who=seller.name, does=_DOES[blocker.by]),)


_DOES = {ShutBy.TOOL: "lists the tool", ShutBy.ALONE: "answers when it is tried again"}


def may_be_to_send(operation: Operation) -> bool:
    """Whether one may be among those below, by what was read of it."""
    named = operation.task_id or operation.a2a_task_id
    off_the_way = operation.send_at is None and operation.next_poll_at is not None
    return not named and not off_the_way and operation.status in (S.REQUESTED, S.CALLING_ADCP, *PENDING)


def _to_be_sent(operations: Collection[uuid.UUID]) -> QuerySet[Operation]:
    """What is due, or off the way while people are asked: with sellers, their breakers, and accounts."""
    rows = Operation.objects.filter(pk__in=operations, task_id="", a2a_task_id="", settled_at__isnull=True)
    due = Q(send_at__isnull=False, status__in=(S.REQUESTED, S.CALLING_ADCP, *PENDING))
    waits = Command.objects.filter(key=OuterRef("purpose"), waiting_since__isnull=False)
    waited_on = Q(Exists(waits), status=S.SUBMITTED)
    held = Q(send_at__isnull=True, next_poll_at__isnull=True) & (unsent() | waited_on)
    rows = rows.filter(due | held).select_related("seller__breaker", "account__seller")
    return rows.defer(*_HEAVY)


_HEAVY = (
    *("request_text", "webhook_token", "request", "result", "error"),
    *(f"{seller}__{name}" for seller in ("seller", "account__seller") for name in SELLER_ASIDE),
)


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What is known of them all: those that people let pass although their seller is off, or are asked about
    it; by operation how its account stands, of those that it keeps; those that had no effect so far; those
    whose key may not be recognised any more."""

    passed: Collection[uuid.UUID] = ()
    accounts: Mapping[uuid.UUID, str] = field(default_factory=dict)
    no_effect: Collection[uuid.UUID] = ()
    unsafe: Collection[uuid.UUID] = ()


def _known(rows: Collection[Operation]) -> _Known:
    off = [one for one in rows if one.is_mutation and not one.seller.active]
    inactive = [one for one in rows if one.account and one.account.status != Account.Status.ACTIVE]
    again = [one for one in rows if one.attempts > 0 and one.is_mutation]
    return _Known(
        passed=_passed(off) if off else (),
        accounts=_accounts(inactive) if inactive else {},
        no_effect=_without_effect(inactive) if inactive else (),
        unsafe=unsafe_to_resend(again) if again else (),
    )


def _passed(off: Collection[Operation]) -> set[uuid.UUID]:
    """Of orders with sellers that are off those that people let pass, or will have where they say so."""
    rows = Command.objects.filter(key__in=[one.purpose for one in off])
    asked = Approval.objects.filter(
        subject_type="command",
        subject_id=OuterRef("pk"),
        status=ApprovalStatus.OPEN,
        evidence__gates__contains=[SELLER],
    )
    let = rows.filter(Q(overrides__contains=[SELLER]) | Q(Exists(asked), waiting_since__isnull=False))
    keys = set(let.values_list("key", flat=True))
    return {one.pk for one in off if one.purpose in keys}


def _accounts(inactive: Collection[Operation]) -> dict[uuid.UUID, str]:
    """How the account stands of those that need an active one."""
    needing = Operation.objects.filter(needs_active_account(), pk__in=[one.pk for one in inactive])
    needed = set(needing.values_list("pk", flat=True))
    by_account = {one.account.pk: one.account for one in inactive if one.account and one.pk in needed}
    words = accounts_standing(by_account.values())
    return {one.pk: words[one.account.pk] for one in inactive if one.account and one.pk in needed}


def _without_effect(inactive: Collection[Operation]) -> set[uuid.UUID]:
    rows = Operation.objects.filter(no_effect(), pk__in=[one.pk for one in inactive])
    return set(rows.values_list("pk", flat=True))


def _in_the_way(operation: Operation, known: _Known) -> Blocker | None:
    """The first that a claim would come upon."""
    found = _by_account(operation, known) or _by_seller(
        operation.seller,
        operation.task_type,
        mutates=operation.is_mutation,
        passed=operation.pk in known.passed,
        again=operation.attempts > 0,
    )
    found = found or _alone(operation.seller) or _by_key(operation, known)
    return replace(found, held=operation.send_at is None) if found is not None else None


def left_alone(seller: Seller, breaker: SellerBreaker | None) -> str:
    """Why nobody calls it now, for the end of a sentence; empty where it is called, if only to try."""
    if breaker is None or breaker.state == SellerBreaker.State.CLOSED or breaker.probe_at is None:
        return ""
    if breaker.probe_at <= clock.now():
        return ""  # the next call is the probe
    until = text.moment_short(breaker.probe_at)
    return f"{seller.name} failed too often in a row and is left alone until {until}"


def _by_account(operation: Operation, known: _Known) -> Blocker | None:
    why = known.accounts.get(operation.pk, "")
    if not why or operation.account is None:
        return None
    then = Then.ENDS if operation.account.status in ENDED else Then.WAITS
    if operation.pk not in known.no_effect:
        then = Then.LOOKS
    return Blocker(by=ShutBy.ACCOUNT, why=why, then=then)


def _by_key(operation: Operation, known: _Known) -> Blocker | None:
    if operation.pk not in known.unsafe:
        return None
    why = f"{operation.seller.name} may have it, and the same may not be sent again"
    return Blocker(by=ShutBy.KEY, why=why, then=Then.LOOKS)


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
