"""The approval of an unclaimed media buy: what people see, and why it cannot be kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from orders.confirmation import OVER_THERE, mirror, stated_amount
from orders.evidence import deal_evidence
from orders.models import Deal, DealStatus, UnclaimedBuy, lines_read_once
from orders.po_numbers import number_warning
from orders.questions import NOT_KNOWN, deal_question, not_counted
from orders.rooms import BEYOND, LEFT_AFTER, budget_after
from orders.services import purchases_of
from orders.successors import LOST, duplicate_sentence, live_relative, name_for
from orders.terms.compare import differences
from orders.terms.stated import stated_terms
from orders.terms.terms import approved_terms
from tasks_app import money
from tasks_app.approvals.question import Question
from tasks_app.lifecycle.transitions import exact
from tasks_app.sellers.accounts import names_another

UNCLAIMED = "unclaimed"  # the kind of the approval
CANNOT_KEEP, CANNOT_CANCEL = "cannot_be_kept", "cannot_be_cancelled"  # of its evidence


def open_buys(deal: Deal) -> list[UnclaimedBuy]:
    """Return the open unclaimed media buys of a deal, the first one found first."""
    return list(deal.unclaimed_buys.filter(closed_at__isnull=True).order_by("opened_at", "pk"))


def undecided_buy(deal: Deal) -> UnclaimedBuy | None:
    """Return the unclaimed media buy that people are asked about: the first that is not being cancelled."""
    return next((buy for buy in open_buys(deal) if buy.cancellation_id is None), None)


@lines_read_once
def unclaimed_question(deal: Deal, buy: UnclaimedBuy) -> Question:
    """Return what would be asked now. It has no amount if the seller states one that is unreadable."""
    stated, unknown = stated_amount(deal, buy.record)
    lines = list(deal.lines.all())
    purchase = purchases_of(deal).first()
    found = differences(approved_terms(deal, lines), stated_terms(deal, lines, buy.record, whole=True))
    refused, lasting = keep_refusal(deal, buy), cancel_refusal(buy)
    elsewhere = names_another(buy.record, deal.account) if deal.account is not None else ""
    evidence: dict[str, Any] = {
        **deal_evidence(deal),
        "media_buy_id": buy.media_buy_id or None,
        "source": buy.get_source_display(),
        "confirmed_gross": NOT_KNOWN if unknown else buy.amount if stated is None else stated,
        **not_counted(unknown),
        **({"differences": found} if found else {}),
        **number_warning(deal, purchase),
        **budget_after(deal, _committed(deal)),
        "also_unclaimed": list(_others(deal, buy)),
        **({"names_another": elsewhere} if elsewhere else {}),
        **({"not_cancelled": buy.not_cancelled} if buy.not_cancelled else {}),
        **({CANNOT_KEEP: refused} if refused else {}),
        **({CANNOT_CANCEL: lasting} if lasting else {}),
        **({"operation": purchase.reference} if purchase is not None else {}),
    }
    question = deal_question(
        deal,
        kind=UNCLAIMED,
        title=f"Keep or cancel {buy.media_buy_id or 'a media buy'} of {deal.seller} for {deal.reference}",
        evidence=exact(evidence),
        policy="A media buy that no deal holds",
        amount=None if unknown else buy.amount,
    )
    return replace(question, moving=question.moving | {LEFT_AFTER})


def keep_refusal(deal: Deal, buy: UnclaimedBuy) -> str:
    """Return why an unclaimed media buy cannot be kept; empty if it can."""
    if deal.status not in (DealStatus.BOOKING, *LOST):
        return duplicate_sentence(deal)
    holders = Deal.objects.filter(seller=deal.seller_id, media_buy_id=buy.media_buy_id)
    holder = holders.exclude(media_buy_id="").first()
    if holder is not None:
        return f"It is the media buy of {name_for(deal, holder)}, which has ended."
    purchase = purchases_of(deal).first()
    if deal.status == DealStatus.BOOKING and (purchase is None or purchase.settled_at is None):
        return f"The purchase of {deal.reference} is still with the seller: wait for its answer."
    if (relative := live_relative(deal)) is not None:
        return duplicate_sentence(relative)
    beyond = budget_after(deal, _committed(deal)).get(BEYOND)
    return f"It is {beyond}." if beyond else ""


def cancel_refusal(buy: UnclaimedBuy) -> str:
    """Return why the seller cannot be asked to cancel an unclaimed media buy; empty if it can."""
    if not buy.media_buy_id:
        return "The seller has named no media buy that could be cancelled."
    is_delivered = mirror(buy.record).get("media_buy_status") == OVER_THERE
    return "It has delivered: settle it with the seller." if is_delivered else ""


def _committed(deal: Deal) -> Decimal:
    """Return what all open unclaimed media buys of a deal come to."""
    return sum((buy.amount for buy in open_buys(deal)), Decimal(0))


def _others(deal: Deal, buy: UnclaimedBuy) -> Iterator[str]:
    for other in open_buys(deal):
        if other.pk != buy.pk:
            amount = money.floor_to_unit(other.amount, deal.currency)
            yield f"{other.media_buy_id or 'unnamed media buy'}, {deal.currency} {amount}"
