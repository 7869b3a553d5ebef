"""A purchase becomes a booked deal: confirmed, compared with what was approved, kept up to date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from orders import questions
from orders.confirmation import differences, mirror, packages_apply, total_differences, unconfirm
from orders.mirror_times import mirror_begin
from orders.models import Deal, DealLine, DealStatus
from tasks_app import ids
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import approval_void
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import create, transition
from tasks_app.operations.models import Channel, Operation
from tasks_app.people.actors import SYSTEM

UNAPPROVED = "approval"  # the field of the difference that an adopted media buy begins with


def deal_confirm(*, deal: Deal, operation: Operation, result: dict[str, Any] | None = None) -> None:
    """booking → booked with what the seller confirmed; a departure from what was approved is flagged
    and asked about. `result`: other than the operation's own. Called in a transaction that holds the deal's
    lock."""
    result = operation.result or {} if result is None else result
    told = own(deal, mirror(result))
    transition(
        deal,
        DealStatus.BOOKED,
        actor=confirmed_by(operation),
        reason=f"Seller confirmed {told.get('media_buy_id', 'without naming the media buy')}",
        metadata={"operation": operation.reference, "settled_by": operation.settled_by},
        changes=told,
    )
    mirror_begin(deal)
    compare(deal, result)


def own(deal: Deal, told: dict[str, Any]) -> dict[str, Any]:
    """What is told, without a media_buy_id that another deal has or that contradicts this one's."""
    named = told.get("media_buy_id")
    others = Deal.objects.filter(seller=deal.seller, media_buy_id=named).exclude(pk=deal.pk)
    if named is None or (deal.media_buy_id in ("", named) and not others.exists()):
        return told
    return {column: value for column, value in told.items() if column != "media_buy_id"}


def compare(deal: Deal, buy: Mapping[str, Any]) -> None:
    """Write what the seller says of a media buy's packages beside what was approved; a new departure is asked
    about. Called in a transaction that holds the deal's lock."""
    lines = packages_apply(deal, buy.get("packages"))
    found = [*differences(deal, lines), *total_differences(deal, lines, buy)]
    if not deal.media_buy_id:
        unnamed = {"field": "media_buy_id", "approved": "one of its own", "confirmed": "none of its own"}
        found.append({"line": 0, "product": "The media buy", **unnamed})
    # That nobody approved an adopted one is no word of the seller's: it stays until it is decided.
    found += [one for one in deal.differences if one["field"] == UNAPPROVED]
    if found == deal.differences:
        return
    Deal.objects.filter(pk=deal.pk).update(differences=found, differs=bool(found))
    deal.differences, deal.differs = found, bool(found)
    _withdraw_question(deal)
    if found:
        questions.ask_booked_differently(deal)


def _withdraw_question(deal: Deal) -> None:
    """What was asked showed other differences. Who is deciding on it just now is told so by its kind."""
    asked = Approval.objects.filter(
        kind=questions.DIFFERENT, subject_type="deal", subject_id=deal.pk, status=ApprovalStatus.OPEN
    )
    for approval in asked.select_for_update(no_key=True, skip_locked=True):
        approval_void(approval=approval, reason="The seller says something else now")


@transaction.atomic
def deal_adopt(
    *,
    lost: Deal,
    operation: Operation,
    actor: str,
    approval: Approval,
    result: dict[str, Any] | None = None,
) -> Deal:
    """Keep a media buy that `lost` cannot hold: as a new deal that follows it.

    A terminal deal is never reopened (document 002). `approval` is the decision that it is kept, `result`
    what the seller said of it where that is not the operation's own. Raises InvalidTransitionError.
    """
    lines = list(lost.lines.all())
    deal = Deal(
        id=ids.new_id(),
        reference=next_reference("DEAL"),
        team=lost.team,
        advertiser=lost.advertiser,
        seller=lost.seller,
        account=lost.account,
        campaign_id=lost.campaign_id,
        requested_by=lost.requested_by,
        currency=lost.currency,
        start_at=lost.start_at,
        end_at=lost.end_at,
        zone=lost.zone,
        terms=lost.terms,
        reasons={**lost.reasons, "replaces": lost.reference},
        follows=lost,
    )
    create(deal, actor=actor, reason=f"Kept in place of {lost.reference}")
    for line in lines:
        line.pk, line.deal, line._state.adding = ids.new_id(), deal, True
        unconfirm(line)
    DealLine.objects.bulk_create(lines)
    context = {"approval_id": approval.pk}
    for status in (DealStatus.ACCEPTED, DealStatus.BOOKING):
        transition(
            deal, status, actor=SYSTEM, reason=f"Bought late, kept by {approval.reference}", context=context
        )
    deal_confirm(deal=deal, operation=operation, result=result)
    return deal


def confirmed_by(operation: Operation) -> str:
    """Who settled the operation: the seller's agent, or the system."""
    if operation.settled_by in (Channel.REPLY, Channel.POLL, Channel.WEBHOOK):
        return f"agent:{operation.seller.slug}"
    return SYSTEM
