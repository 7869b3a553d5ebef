"""What approving a question spends, and what it frees: the one definition, which every sum of questions asks.

A question spends where its kind says so (`Kind.spends`): what its subject comes to once it is approved. What
only waits, stands in doubt or is asked anew spends nothing by being decided, whatever its subject is worth.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.db.models.fields.json import KT

from tasks_app import days
from tasks_app.approvals.kinds import kinds_that_spend
from tasks_app.approvals.models import Approval
from tasks_app.approvals.rates import in_usd, rates_on
from tasks_app.money import decimal_of

_KEYS = {"told_after": "evidence__gross_after", "told_passed": "evidence__passed"}
_FREES = {"told_frees": "evidence__cancellation__frees"}
Sum = tuple[str, Decimal | None]


@dataclass(frozen=True, kw_only=True)
class Stake:
    """What a row shows of a question's money, in its currency: what approving it frees, else what it spends,
    else what it only is about."""

    amount: Decimal | None
    currency: str
    spends: Decimal | None = None
    frees: Decimal | None = None

    @property
    def shown(self) -> Decimal | None:
        """The one amount of it that a row shows."""
        return next((one for one in (self.frees, self.spends, self.amount) if one is not None), None)


def stake_of(approval: Approval) -> Stake:
    """The stake of a question whose evidence was read, or that was read `with_stakes`."""
    spent, freed = spends(approval), frees(approval)
    return Stake(amount=approval.amount, currency=approval.currency, spends=spent, frees=freed)


def spent_after(approval: Approval) -> Decimal | None:
    """What its subject costs once it is approved: the gross that a change leaves, else what is asked for."""
    return _after(approval.amount, approval.evidence.get("gross_after"))


def spends(approval: Approval) -> Decimal | None:
    """What approving it spends, in its currency; None where that is nothing, or nobody knows."""
    told = _told(approval)
    return _spends(approval.kind, approval.amount, told["told_after"], told["told_passed"])


def frees(approval: Approval) -> Decimal | None:
    """What approving it frees, in its currency; None where that is nothing."""
    told = _told(approval)
    freed = decimal_of(told["told_frees"])
    return freed if freed and _is_spending(approval.kind, told["told_passed"]) else None


def is_large(amount: Decimal | None, currency: str) -> bool:
    """Return whether a page asks once more before an approval spends `amount`.

    The limit is APPROVAL_CONFIRM_ABOVE, in USD at today's rate. An amount without a rate is large.
    """
    if not amount:
        return False
    in_dollars = in_usd(amount, currency, rates_on(days.today(), {currency}))
    return in_dollars is None or in_dollars > settings.APPROVAL_CONFIRM_ABOVE


def _told(approval: Approval) -> Mapping[str, Any]:
    """What of its evidence says so, as it was read."""
    if "told_frees" in vars(approval):
        return vars(approval)
    evidence = approval.evidence
    cancelled = evidence.get("cancellation")
    return {
        "told_after": evidence.get("gross_after"),
        "told_passed": evidence.get("passed"),
        "told_frees": cancelled.get("frees") if isinstance(cancelled, Mapping) else None,
    }


def with_spending(found: QuerySet[Approval]) -> QuerySet[Approval]:
    """Questions with what it takes to say what they spend, without their evidence, which is large."""
    return found.annotate(**{name: KT(key) for name, key in _KEYS.items()})


def with_stakes(found: QuerySet[Approval]) -> QuerySet[Approval]:
    """Questions with what it takes to say what they spend and free, their evidence left unread."""
    keys = {name: KT(key) for name, key in {**_KEYS, **_FREES}.items()}
    return found.annotate(**keys).defer("evidence")


def spent_by(brief: Collection[Approval]) -> list[Sum]:
    """(currency, what approving it spends) of questions that were read `with_spending`."""
    read: list[tuple[Approval, dict[str, Any]]] = [(one, vars(one)) for one in brief]
    return [
        (one.currency, _spends(one.kind, one.amount, told["told_after"], told["told_passed"]))
        for one, told in read
    ]


def _spends(kind: str, amount: Decimal | None, after: object, passed: object) -> Decimal | None:
    return _after(amount, after) or None if _is_spending(kind, passed) else None


def _is_spending(kind: str, passed: object) -> bool:
    """What has passed is asked anew with other dates; nothing is bought by that."""
    return kind in kinds_that_spend() and not passed


def _after(amount: Decimal | None, after: object) -> Decimal | None:
    told = decimal_of(after)
    return amount if told is None else told
