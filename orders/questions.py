"""The questions deals put to people: book it? accept what was booked? keep what came late?"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from orders.accepted import decided_by, key_of
from orders.amounts import deal_amounts
from orders.changes.open_changes import is_rejected_buy_being_cancelled
from orders.departures import departures_told, uncounted
from orders.evidence import MOVING, deal_evidence
from orders.flights import Flight, deal_passed, new_flight, new_start
from orders.following import DIFFERENT, LATE, OVER, TWICE, bought_by, twice, twice_bought, twice_kept
from orders.models import UNDECIDED, Deal, lines_read_once
from orders.po_numbers import number_warning
from orders.policy_facts import deal_facts
from orders.rooms import LEFT_AFTER, budget_after
from orders.sent import purchase_sent
from orders.services import deal_locked, purchases_of
from tasks_app import money
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.question import Question, is_as_shown
from tasks_app.approvals.services import approval_open
from tasks_app.approvals.subjects import questions_withdraw
from tasks_app.lifecycle.transitions import Who, exact
from tasks_app.money import decimal_of
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.pauses import request_let_go
from tasks_app.people.actors import SYSTEM
from tasks_app.people.setting_off import About, reach_register, set_off_register

DEAL = "deal"
FLIGHT = "flight_begun"
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
    """Ask people whether to book a deal; if its flight has begun, ask for new dates first.

    Args:
        deal: The deal.
        instead_of: What they approved before the deal changed.
        opened_by: Who acted.
    """
    return _put(deal, replace(undecided_question(deal), instead_of=instead_of), opened_by)


def withdraw_booking_question(deal: Deal, reason: str) -> None:
    """Nobody needs to say any more whether a deal is booked."""
    questions_withdraw("deal", deal.pk, kinds=(DEAL, FLIGHT), reason=reason)


def ask_flight(deal: Deal) -> Approval:
    """Ask people for new dates, or to call it off: the deal's flight has begun, or is over."""
    return _put(deal, flight_question(deal))


@transaction.atomic
def ask_undecided(deal_id: uuid.UUID) -> Approval | None:
    """The open question whether to book a deal, asked where it is not; None once it is decided. The deal is
    held still: what is decided at this moment is not asked again."""
    deal = deal_locked(deal_id)
    return ask_deal(deal) if deal.status in UNDECIDED else None


@lines_read_once
def undecided_question(deal: Deal) -> Question:
    """What is asked about a deal now: whether to book it; once its flight has begun, for new dates."""
    return flight_question(deal) if deal_passed(deal) else booking_question(deal)


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
            **_twice(twice_bought(deal)),
        },
        policy="Every recommendation, one approver",
        amount=deal_amounts(deal).approved,
    )
    return replace(question, due_at=deal.start_at)


@lines_read_once
def flight_question(deal: Deal, shown: object = None) -> Question:
    """What to do with a deal whose flight has begun, as it would be asked now. `shown`: the new start that
    people were offered."""
    start = new_start(deal, shown)
    offered = {"passed": deal_passed(deal), "new_start": start, "new_end": new_flight(deal, start).end}
    return deal_question(
        deal,
        kind=FLIGHT,
        title=f"New dates for {deal.reference} with {deal.seller}, or call it off?",
        evidence=exact({**deal_evidence(deal), **offered}),
        policy="A flight that has begun, or is over, is not bought as it was",
        amount=deal_amounts(deal).approved,
    )


def ask_booked_differently(deal: Deal) -> Approval:
    """Ask people whether what the seller booked will do; who asked for the deal does not decide."""
    return _put(deal, difference_question(deal))


def ask_about_differences(deal: Deal) -> None:
    """Ask people about a deal's differences, unless the seller is being asked to cancel them."""
    if deal.differences and not is_rejected_buy_being_cancelled(deal):
        ask_booked_differently(deal)


def still_asked(deal: Deal) -> bool:
    """Whether the open question about what a seller booked does for what it says now: it shows the same
    things beside the same approved amount, for as much or more. Asking anew would tell people nothing,
    however often the seller says one thing and then the other; who decides where it says something else than
    shown is refused, and asked what holds then. What cannot be counted is asked anew."""
    asked, now = _different(deal).filter(status=ApprovalStatus.OPEN).first(), difference_question(deal)
    if asked is None or asked.amount is None or now.amount is None or now.amount > asked.amount:
        return False
    shown, evidence = asked.evidence, exact(now.evidence)
    things = {key_of(one) for one in shown["differences"]} == {key_of(one) for one in deal.differences}
    return things and decimal_of(shown["gross"]) == decimal_of(evidence["gross"])


def comes_and_goes(deal: Deal) -> bool:
    """Whether the open question about what a seller booked was asked before, word for word: a seller that
    takes that back, and says it again, takes it back for good once two records in a row say so."""
    about = _different(deal)
    asked = about.filter(status=ApprovalStatus.OPEN).values_list("evidence_digest", flat=True).first()
    closed = about.exclude(status=ApprovalStatus.OPEN)
    return asked is not None and closed.filter(evidence_digest=asked).exists()


def accepted_before(deal: Deal) -> Approval | None:
    """The decision that accepted all that a seller does otherwise now: the last there is, on the same deal
    and for the same amount. None where that is more than counts as approved: what its seller took back may
    have been spent since; and where people have changed since what departs."""
    undecided = (ApprovalStatus.OPEN, ApprovalStatus.VOIDED)
    last, now = (
        _different(deal).exclude(status__in=undecided).order_by("-id").first(),
        difference_question(deal),
    )
    if last is None or last.status != ApprovalStatus.APPROVED or now.amount is None:
        return None
    if _is_changed_since(deal, last):
        return None
    return last if now.amount <= deal_amounts(deal).approved and is_as_shown(last, now) else None


def _is_changed_since(deal: Deal, accepted: Approval) -> bool:
    """Whether a change that decides some of what departs now was sent after people had accepted that."""
    changes = Operation.objects.filter(
        subject_type="deal",
        subject_id=deal.pk,
        task_type="update_media_buy",
        status=OperationStatus.COMPLETED,
        sent_at__gt=accepted.status_since,
    )
    lines, departing = list(deal.lines.all()), {(one["line"], one["field"]) for one in deal.differences}
    return any(decided_by(deal, lines, request_let_go(one, left=True)) & departing for one in changes)


def _different(deal: Deal) -> QuerySet[Approval]:
    """All that was ever asked about what a deal's seller booked."""
    return Approval.objects.filter(kind=DIFFERENT, subject_type="deal", subject_id=deal.pk)


@lines_read_once
def difference_question(deal: Deal) -> Question:
    """Whether what the seller booked will do, as it would be asked now; for no amount where it states what
    cannot be counted."""
    amounts, unknown = deal_amounts(deal), uncounted([*deal.differences, *deal.accepted])
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
            **_twice(twice_kept(deal)),
        },
        policy="Confirmed differs from approved",
        amount=None if unknown else stated,
        approved=amounts.approved,
    )


def gross_shown(deal: Deal, amount: Decimal | None) -> str:
    """What a deal comes to after a change, as evidence."""
    return NOT_KNOWN if amount is None else str(money.floor_to_unit(amount, deal.currency))


def ask_late_completion(deal: Deal, operation: Operation) -> Approval:
    """Ask people what to do with a purchase that was completed after its deadline; `lifetimes.late_ask` says
    where somebody has to."""
    return _put(deal, late_question(deal, operation))


def late_asked(deal: Deal) -> Approval | None:
    """The open question whether a deal's late purchase is kept."""
    open_ones = Approval.objects.filter(kind=LATE, status=ApprovalStatus.OPEN)
    return open_ones.filter(subject_type="deal", subject_id=deal.pk).first()


def late_question(deal: Deal, operation: Operation) -> Question:
    """Return what would be asked now about a late purchase."""
    told, approved = departures_told(deal, operation.result or {}), deal_amounts(deal).approved
    unknown = uncounted([*told.found, *deal.accepted])
    gross = approved if told.gross is None else told.gross
    again = twice(deal, bought_by(operation))
    is_late = operation.overdue_at is not None or deal.status in OVER
    late = {
        **_twice(again),
        **number_warning(deal, operation),
        "confirmed_gross": NOT_KNOWN if unknown else told.gross,
        **not_counted(unknown),
        **({} if unknown else budget_after(deal, gross)),
        "operation": operation.reference,
        "media_buy_id": bought_by(operation) or None,
        "settled_at": operation.settled_at,
    }
    question = deal_question(
        deal,
        kind=LATE,
        title=f"{deal.seller} booked {deal.reference} after its deadline"
        if is_late
        else f"{deal.seller} booked a second media buy for {deal.reference}",
        evidence=exact({**deal_evidence(deal), **late}),
        policy="Completed after its deadline" if is_late else "Two media buys for one deal",
        amount=None if unknown else gross,
        approved=approved,
    )
    # What is left moves with every other deal; that it is beyond the budget is another question.
    return replace(question, moving=question.moving | {LEFT_AFTER})


def _twice(why: str) -> dict[str, str]:
    """That it would be bought besides another one, as evidence."""
    return {TWICE: why} if why else {}


def not_counted(stated: Sequence[str]) -> dict[str, str]:
    """What a seller states and nobody can count, as evidence."""
    return {"not_counted": "; ".join(stated)} if stated else {}


def _put(deal: Deal, question: Question, opened_by: Who = SYSTEM) -> Approval:
    """Ask on behalf of whoever asked for the deal."""
    return approval_open(question=question, requested_by=deal.requested_by, opened_by=opened_by)
