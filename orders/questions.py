"""The approvals of deals: book this deal, accept what the seller holds instead."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from django.db import transaction

from orders.amounts import deal_amounts
from orders.changes.open_changes import is_rejected_buy_being_cancelled
from orders.evidence import MOVING, deal_evidence
from orders.flights import Flight
from orders.models import UNDECIDED, Deal, lines_read_once
from orders.po_numbers import number_warning
from orders.policy_facts import deal_facts
from orders.sent import purchase_sent
from orders.services import deal_locked, purchases_of
from orders.terms.compare import unreadable_values
from tasks_app import clock, money
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.question import Question, is_as_shown
from tasks_app.approvals.services import approval_open
from tasks_app.approvals.subjects import questions_withdraw
from tasks_app.lifecycle.transitions import Who
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About as Told
from tasks_app.notifications.services import notify
from tasks_app.people.actors import SYSTEM
from tasks_app.people.setting_off import About, reach_register, set_off_register

DEAL = "deal"
DIFFERENT = "booked_differently"
_HOUR = timedelta(hours=1)
NOT_KNOWN = "not known"  # what a media buy comes to, of which its seller states what cannot be counted


def register() -> None:
    """Called when the application starts."""
    set_off_register(_set_off)
    reach_register(_led_to)


def _set_off(kind: str, pk: uuid.UUID) -> Iterator[str | About]:
    """A deal is set off by who asked for it, with its campaign, and with the deal in whose place it is."""
    deals = Deal.objects.filter(pk=pk) if kind == "deal" else Deal.objects.none()
    for asker, campaign_id, follows_id in deals.values_list("requested_by", "campaign_id", "follows_id"):
        yield from (asker, ("campaign", campaign_id), ("deal", follows_id))


def _led_to(kind: str, ids: Collection[uuid.UUID]) -> Iterator[tuple[str, Collection[uuid.UUID]]]:
    """The same the other way round: deals of campaigns, and the deal that is in the place of one."""
    if kind == "campaign":
        yield "deal", Deal.objects.filter(campaign_id__in=ids).values_list("pk", flat=True)
    elif kind == "deal":
        yield "deal", Deal.objects.filter(follows_id__in=ids).values_list("pk", flat=True)


def deal_question(
    deal: Deal,
    *,
    kind: str,
    title: str,
    evidence: Mapping[str, Any],
    policy: str,
    amount: Decimal | None,
    approved: Decimal | None = None,
    flight: Flight | None = None,
) -> Question:
    """A question about a deal as it is now; `amount` in the deal's currency, None where it is not known;
    `approved`, what people approved before, where the question is whether to change that; `flight`, the
    one it leaves, where that is another."""
    return Question(
        kind=kind,
        team=deal.team,
        title=title,
        subject_type="deal",
        subject_id=deal.pk,
        subject_version=deal.version,
        evidence=evidence,
        policy=policy,
        amount=amount,
        currency=deal.currency,
        advertiser_id=deal.advertiser_id,
        facts=partial(deal_facts, deal, approved=approved, flight=flight),
        moving=MOVING,
    )


def ask_deal(deal: Deal, *, instead_of: Approval | None = None, opened_by: Who = SYSTEM) -> Approval:
    """Ask people whether to book a deal.

    Args:
        deal: The deal.
        instead_of: What they approved before the deal changed.
        opened_by: Who acted.
    """
    return _put(deal, replace(booking_question(deal), instead_of=instead_of), opened_by)


def withdraw_booking_question(deal: Deal, reason: str) -> None:
    """Nobody needs to say any more whether a deal is booked."""
    questions_withdraw("deal", deal.pk, kinds=(DEAL,), reason=reason)


@transaction.atomic
def ask_undecided(deal_id: uuid.UUID) -> Approval | None:
    """The open question whether to book a deal, asked where it is not; None once it is decided. The deal is
    held still: what is decided at this moment is not asked again."""
    deal = deal_locked(deal_id)
    return ask_deal(deal) if deal.status in UNDECIDED else None


@lines_read_once
def booking_question(deal: Deal) -> Question:
    """Whether to book a deal, as it would be asked now: before its flight begins, or not at all."""
    question = deal_question(
        deal,
        kind=DEAL,
        title=f"Book {deal.seller} for {deal.advertiser}",
        evidence={
            **deal_evidence(deal),
            "sent": purchase_sent(deal),
            **number_warning(deal, purchases_of(deal).first()),
        },
        policy="Every recommendation, one approver",
        amount=deal_amounts(deal).approved,
    )
    return replace(question, due_at=deal.start_at)


def ask_booked_differently(deal: Deal) -> Approval:
    """Ask people whether what the seller booked will do; who asked for the deal does not decide."""
    return _put(deal, difference_question(deal))


def ask_about_differences(deal: Deal) -> None:
    """Ask people about a deal's differences, unless the seller is being asked to cancel them."""
    if deal.differences and not is_rejected_buy_being_cancelled(deal):
        ask_booked_differently(deal)


def review_difference(deal: Deal, *, at_once: bool = False) -> None:
    """Ask people about a deal's differences; withdraw a question that shows other ones.

    A question is replaced at most once an hour, except `at_once`. Whoever decides on one that shows other
    differences is refused and asked anew. While the seller is asked to cancel what people rejected, nobody is
    asked.
    """
    about = Approval.objects.filter(kind=DIFFERENT, subject_type="deal", subject_id=deal.pk)
    latest = about.order_by("-pk").first()
    is_open = latest is not None and latest.status == ApprovalStatus.OPEN
    if not deal.differences or is_rejected_buy_being_cancelled(deal):
        if is_open:
            _withdraw_difference(deal)
        return
    if latest is not None:
        is_undecided = latest.status in (ApprovalStatus.OPEN, ApprovalStatus.VOIDED)
        stands = latest.status in (ApprovalStatus.OPEN, ApprovalStatus.REJECTED)
        if stands and is_as_shown(latest, difference_question(deal)):
            return
        if is_undecided and not at_once and clock.now() < latest.created_at + _HOUR:
            return
    if is_open:
        _withdraw_difference(deal)
    ask_booked_differently(deal)


def ask_about_unshown_change(deal: Deal) -> None:
    """Ask people about what the seller holds instead of a change; tell them if it states nothing of that."""
    if deal.differences:
        review_difference(deal, at_once=True)
        return
    notify(
        kind="change_not_shown",
        title=f"{deal.seller} does not show the change of {deal.reference}",
        body="The change was sent, and the seller does not state whether it was made: ask the seller.",
        level=Notification.Level.WARNING,
        about=Told(type="deal", id=deal.pk),
        team=deal.team,
        key=f"change_not_shown:{deal.pk}:{deal.version}",
    )


def _withdraw_difference(deal: Deal) -> None:
    questions_withdraw("deal", deal.pk, kinds=(DIFFERENT,), reason="The seller says something else now")


@lines_read_once
def difference_question(deal: Deal) -> Question:
    """Return what is asked about the differences now. It has no amount if one cannot be read."""
    amounts, unknown = deal_amounts(deal), unreadable_values(deal.differences)
    stated = amounts.committed if amounts.confirmed is None else amounts.confirmed
    return deal_question(
        deal,
        kind=DIFFERENT,
        title=f"{deal.seller} booked {deal.reference} differently",
        evidence={
            **deal_evidence(deal),
            "differences": deal.differences,
            "confirmed_gross": NOT_KNOWN if unknown else str(stated),
            **not_counted(unknown),
            "media_buy_id": deal.media_buy_id,
        },
        policy="Confirmed differs from approved",
        amount=None if unknown else stated,
        approved=amounts.approved,
    )


def known_amount(deal: Deal, amount: Decimal) -> Decimal | None:
    """Return an amount that follows from what a deal's seller states, None if that cannot be read."""
    return None if unreadable_values(deal.differences) else amount


def gross_shown(deal: Deal, amount: Decimal | None) -> str:
    """What a deal comes to after a change, as evidence."""
    return NOT_KNOWN if amount is None else str(money.floor_to_unit(amount, deal.currency))


def not_counted(stated: Sequence[str]) -> dict[str, str]:
    """What a seller states and nobody can count, as evidence."""
    return {"not_counted": "; ".join(stated)} if stated else {}


def _put(deal: Deal, question: Question, opened_by: Who = SYSTEM) -> Approval:
    """Ask on behalf of whoever asked for the deal."""
    return approval_open(question=question, requested_by=deal.requested_by, opened_by=opened_by)
