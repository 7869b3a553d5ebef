"""What approving a deal, or a change of one, will do, in words: whether it is sent at once depends on the
other deals of its campaign, and on its account as it stands when people read it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from orders.accounts import UnderAccount, account_stands, deal_account
from orders.following import TWICE
from orders.models import Deal
from tasks_app.approvals.kinds import Effect
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.people.actors import actor_named

_SENDS = "Sends create_media_buy to the seller"
_ACTIVE = "its account is active"
_TOGETHER = "every deal of its campaign is decided"


def booking_effects(asked: Sequence[Approval]) -> dict[uuid.UUID, dict[str, Effect]]:
    """What approving each of these questions whether to book a deal does now, where that is particular to it;
    one query for all of them."""
    possible = [one for one in asked if not one.evidence.get(TWICE)]
    accounts = {pk: deal_account(deal, off_by) for pk, (deal, off_by) in _deals(possible).items()}
    return {
        one.pk: {"approve": _booking(one, accounts.get(one.subject_id, UnderAccount()))} for one in possible
    }


def change_effects(asked: Sequence[Approval]) -> dict[uuid.UUID, dict[str, Effect]]:
    """The same of questions whether to send a change: a cancellation goes on whatever the account, and of one
    whose dates have passed nothing is sent."""
    sends = [one for one in asked if not {"passed", "cancellation"} & one.evidence.keys()]
    found = {}
    for pk, (deal, off_by) in _deals(sends).items():
        account = account_stands(deal.account, off_by) if deal.account else UnderAccount()
        found[pk] = {"approve": _changing(account)}
    return {one.pk: found[one.subject_id] for one in sends if one.subject_id in found}


def _deals(asked: Sequence[Approval]) -> dict[uuid.UUID, tuple[Deal, str]]:
    """The deals of the questions that are open, with their accounts and the name of who here switched theirs
    off, by id."""
    ids = [one.subject_id for one in asked if one.status == ApprovalStatus.OPEN]
    if not ids:
        return {}
    deals = Deal.objects.filter(pk__in=ids).select_related("account__seller", "seller", "advertiser")
    columns = ("currency", "seller__name", "advertiser__name")
    deals = deals.only(*columns, *_ACCOUNT, "account__seller__name")
    named = deals.annotate(off_by=actor_named("account__switched_off_by"))
    return {deal.pk: (deal, deal.off_by or "") for deal in named}


_ACCOUNT = tuple(f"account__{name}" for name in ("status", "said", "reference", "switched_off_by"))


def _changing(account: UnderAccount) -> Effect:
    if account.refused:
        return Effect(words=f"Nothing is changed, for {_said(account.refused)}.", sends=False)
    later = f", once {_ACTIVE}: {_said(account.awaited)}" if account.awaited else ""
    return Effect(words=f"Sends update_media_buy to the seller{later}.", sends=True)


def _booking(approval: Approval, account: UnderAccount) -> Effect:
    if account.refused:
        return Effect(words=f"Nothing is bought, for {_said(account.refused)}: the deal ends.", sends=False)
    once = list(_once(approval, account))
    said = f"{_SENDS}, once {' and '.join(once)}" if once else _SENDS
    return Effect(words=f"{said}: {_said(account.awaited)}." if account.awaited else f"{said}.", sends=True)


def _once(approval: Approval, account: UnderAccount) -> Iterator[str]:
    """What comes before it is sent."""
    reasons = approval.evidence.get("reasons")
    if isinstance(reasons, dict) and reasons.get("booking") == "together":
        yield _TOGETHER
    if account.awaited:
        yield _ACTIVE


def _said(standing: str) -> str:
    """How an account stands, with its seller's words, for the middle of a sentence."""
    return standing.rstrip(".")
