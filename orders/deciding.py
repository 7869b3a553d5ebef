"""What approving a deal, or a change of one, will do, in words: whether it is sent at once depends on the
other deals of its campaign, and on its account and its seller as they stand when people read it."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence

from orders.accounts import UnderAccount, account_stands, deal_account
from orders.models import Deal
from orders.po_numbers import NUMBER_USED
from tasks_app.approvals.kinds import Effect
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.operations.blockers import Blocker, ShutBy, Then, seller_blocker
from tasks_app.operations.models import Operation
from tasks_app.people.actors import actor_named

_BUYS, _CHANGES = "create_media_buy", "update_media_buy"
_ORDERS = "Places the order"
_ACTIVE = "its account is active"
_CALLED = "its seller is called again"
_ACCEPTED = "the risk of that is accepted"
_ASKED_FIRST = "people, who are asked about it first, let it pass"
_TOGETHER = "every deal of its campaign is decided"


def booking_effects(asked: Sequence[Approval]) -> dict[uuid.UUID, dict[str, Effect]]:
    """What approving each of these questions whether to book a deal does now, where that is particular to it;
    one query for all of them."""
    deals = _deals(asked)
    return {one.pk: {"approve": _booking(one, deals.get(one.subject_id))} for one in asked}


def change_effects(asked: Sequence[Approval]) -> dict[uuid.UUID, dict[str, Effect]]:
    """The same of questions whether to send a change: a cancellation goes on whatever the account."""
    deals = _deals(asked)
    tried = _tried([one.evidence["operation_id"] for one in asked if one.subject_id in deals])
    found = {one.pk: _changing(one, deals[one.subject_id], tried) for one in asked if one.subject_id in deals}
    return {pk: {"approve": effect} for pk, effect in found.items() if effect is not None}


def _deals(asked: Sequence[Approval]) -> dict[uuid.UUID | None, Deal]:
    """The deals of the questions that are open, with their accounts, the name of who here switched theirs
    off, and their sellers with their breakers, by id."""
    ids = [one.subject_id for one in asked if one.status == ApprovalStatus.OPEN]
    if not ids:
        return {}
    deals = Deal.objects.filter(pk__in=ids)
    deals = deals.select_related("account__seller", "seller__breaker", "advertiser")
    columns = ("currency", "advertiser__name", *_ACCOUNT, "account__seller__name", *_SELLER)
    named = deals.only(*columns).annotate(off_by=actor_named("account__switched_off_by"))
    return {deal.pk: deal for deal in named}


_ACCOUNT = tuple(f"account__{name}" for name in ("status", "said", "reference", "switched_off_by"))
_SELLER = (
    *(f"seller__{name}" for name in ("name", "active", "tools", "status_tool")),
    *("seller__idempotency_ttl_s", "seller__idempotency_risk_accepted_by"),
    *("seller__breaker__state", "seller__breaker__probe_at"),
)


def _tried(operations: Collection[str]) -> set[str]:
    """Those of the operations that left before: what is in the way of a first order is not in theirs."""
    if not operations:
        return set()
    left = Operation.objects.filter(pk__in=operations, attempts__gt=0)
    return {str(pk) for pk in left.values_list("pk", flat=True)}


def _off_by(deal: Deal) -> str:
    return vars(deal)["off_by"] or ""


def _changing(approval: Approval, deal: Deal, tried: Collection[str]) -> Effect | None:
    """None of a cancellation that nothing is in the way of: its question says what it does."""
    again = approval.evidence["operation_id"] in tried
    kept = seller_blocker(deal.seller, _CHANGES, again=again)
    cancels = "cancellation" in approval.evidence
    account = UnderAccount()
    if deal.account is not None and not cancels:
        account = account_stands(deal.account, _off_by(deal))
    refused = account.refused or _ended_by(kept)
    if refused:
        done = "cancelled" if cancels else "changed"
        return Effect(words=f"Nothing is {done}, for {_said(refused)}.", sends=False)
    if cancels and kept is None:
        return None
    once = [_ACTIVE] if account.awaited else []
    sends = f"Sends the {'cancellation' if cancels else 'change'} to the seller"
    return Effect(words=_sends(sends, once, account, kept), sends=True)


def _booking(approval: Approval, deal: Deal | None) -> Effect:
    account = deal_account(deal, _off_by(deal)) if deal is not None else UnderAccount()
    kept = seller_blocker(deal.seller, _BUYS) if deal is not None else None
    refused = account.refused or _ended_by(kept)
    if refused:
        return Effect(words=f"Nothing is bought, for {_said(refused)}: the deal ends.", sends=False)
    words = _sends(_ORDERS, list(_once(approval, account)), account, kept)
    warning = approval.evidence.get(NUMBER_USED)
    return Effect(words=f"{words} {warning}." if warning else words, sends=True)


def _ended_by(kept: Blocker | None) -> str:
    """Why what is approved would end as soon as it comes up to be sent."""
    return kept.why if kept is not None and kept.then is Then.ENDS else ""


def _sends(what: str, once: list[str], account: UnderAccount, kept: Blocker | None) -> str:
    """The sentence of what is sent, `once` this and that has come before, and why that has not yet."""
    if kept is not None:
        once = [*once, _once_opened(kept)]
    why = "; ".join(filter(None, (_said(account.awaited), kept.why if kept else "")))
    said = f"{what}, once {' and '.join(once)}" if once else f"{what} at once"
    return f"{said}: {why}." if why else f"{said}."


def _once_opened(kept: Blocker) -> str:
    """What comes first of what is not sent now, and does not end."""
    if kept.then is Then.ASKS:
        return _ASKED_FIRST
    return _ACCEPTED if kept.by is ShutBy.RISK else _CALLED


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
