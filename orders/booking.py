"""A purchase becomes a booked deal, which is compared with what its seller states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from orders import questions
from orders.acceptance import accept_differences
from orders.changes.apply import settle_ended_changes
from orders.changes.open_changes import open_changes
from orders.changes.requested import deal_after
from orders.confirmation import (
    confirmed_gross,
    mirror,
    record_confirmed,
    save_confirmed,
    stated_at,
    unconfirm,
    values_unread,
)
from orders.mirror_times import mirror_begin
from orders.models import Deal, DealLine, DealStatus
from orders.services import purchases_of
from orders.terms.compare import PACKAGE, UNAPPROVED, Difference, differences, sorted_differences
from orders.terms.stated import stated_terms
from orders.terms.terms import COLUMNS, THE_BUY, Terms, approved_terms, confirmed_terms, merge_terms
from tasks_app import ids
from tasks_app.approvals.models import Approval
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import Who, create, note, transition
from tasks_app.operations.models import Channel, Operation
from tasks_app.operations.pauses import request_let_go
from tasks_app.people.actors import SYSTEM
from tasks_app.people.roles import DECIDE

_ID = "media_buy_id"
_ANSWERED_TERMS = ("packages", "start_time", "end_time")  # of create_media_buy, the terms that are bought


def deal_confirm(
    *,
    deal: Deal,
    operation: Operation | None,
    result: dict[str, Any] | None = None,
    kept_by: Who | None = None,
) -> None:
    """Move a deal from booking to booked, and ask people about what the seller booked differently.

    Called in the transaction that holds the deal.

    Args:
        deal: The deal.
        operation: Its purchase, if there is one.
        result: The media buy as the seller states it, other than in the operation's result.
        kept_by: Who decided to keep the media buy as the seller states it.
    """
    if result is None:
        result = (operation.result if operation is not None else None) or {}
    told = without_foreign_id(deal, mirror(result))
    transition(
        deal,
        DealStatus.BOOKED,
        actor=confirmed_by(operation) if operation is not None else SYSTEM,
        reason=f"Seller confirmed {told.get('media_buy_id', 'without naming the media buy')}",
        metadata={"operation": operation.reference, "settled_by": operation.settled_by}
        if operation
        else None,
        changes=told,
    )
    if kept_by is not None:
        _approve_stated(deal, result, actor=kept_by, reason="Kept as the seller states it")
    elif operation is not None:
        _approve_answer(deal, operation)
    mirror_begin(deal, stated_at=stated_at(result), as_stated=values_unread({}, result))
    compare(deal, result)


def _approve_answer(deal: Deal, operation: Operation) -> None:
    """Approve the terms that people last released in an answer to the seller's question: they were bought."""
    request = request_let_go(operation, left=True)
    if request == operation.request:
        return
    bought = {"status": "active", **{name: request[name] for name in _ANSWERED_TERMS if name in request}}
    reason = f"Bought as {operation.seller} was answered: {operation.reference}"
    _approve_stated(deal, bought, actor=SYSTEM, reason=reason)


def _approve_stated(deal: Deal, record: Mapping[str, Any], *, actor: Who, reason: str) -> None:
    """Make the approved terms what a record states, unless something in it cannot be read."""
    lines = list(deal.lines.all())
    stated = stated_terms(deal, lines, record, whole=True)
    found = differences(approved_terms(deal, lines), stated)
    if not found:
        return
    record_confirmed(lines, stated)
    save_confirmed(lines)
    known, deal.differences = deal.differences, found
    if not accept_differences(deal, actor=actor, reason=reason):
        deal.differences = known  # people are asked about what the seller states
    lines = list(deal.lines.all())
    for line in lines:  # the seller has confirmed nothing yet
        unconfirm(line)
    save_confirmed(lines)


def without_foreign_id(deal: Deal, told: dict[str, Any]) -> dict[str, Any]:
    """Return what is told, without a media_buy_id that another deal has or that contradicts this one's."""
    named = told.get("media_buy_id")
    others = Deal.objects.filter(seller=deal.seller, media_buy_id=named).exclude(pk=deal.pk)
    if named is None or (deal.media_buy_id in ("", named) and not others.exists()):
        return told
    return {column: value for column, value in told.items() if column != "media_buy_id"}


def compare(deal: Deal, buy: Mapping[str, Any], *, whole: bool = True) -> None:
    """Record what the seller states of a media buy, and ask people about new differences.

    What the record shows of a change whose operation has ended is approved first. `whole`: the record is the
    media buy's own, not an answer that names what changed. Called in a transaction that holds the deal.
    """
    not_shown = settle_ended_changes(deal, buy, whole=whole)
    lines = list(deal.lines.all())
    stated = stated_terms(deal, lines, buy, whole=whole)
    record_confirmed(lines, stated)
    save_confirmed(lines)
    found = _differences(deal, lines, stated, whole=whole)
    gross = confirmed_gross(lines, found)
    if gross != deal.confirmed_gross:
        Deal.objects.filter(pk=deal.pk).update(confirmed_gross=gross)
        deal.confirmed_gross = gross
    if found != deal.differences:
        named = ", ".join(dict.fromkeys(one["field"] for one in found))
        reason = f"The seller states another {named}" if named else "The seller states the approved terms"
        note(deal, actor=SYSTEM, reason=reason, changes={"differences": found, "differs": bool(found)})
    if not_shown:
        questions.ask_about_unshown_change(deal)
    else:
        questions.review_difference(deal)


def _differences(deal: Deal, lines: list[DealLine], stated: Terms, *, whole: bool) -> list[Difference]:
    """Compare the approved terms with what the seller stated last of each, in this record or before.

    Of the whole media buy, what an answer (not `whole`) does not state stays as it was known.
    """
    sent = open_changes(deal).filter(operation__sent_at__isnull=False)
    requests = [request_let_go(change.operation, left=True) for change in sent]
    asked = [approved_terms(*deal_after(deal, lines, request)) for request in requests]
    known = merge_terms(confirmed_terms(lines), stated)
    found = differences(approved_terms(deal, lines), known, asked=asked)
    if not whole:
        stated_now = {
            (one.line, term) for one in stated.packages for term in COLUMNS if getattr(one, term) is not None
        }
        stated_now |= {(one["line"], one["field"]) for one in found if one["field"] != PACKAGE}
        names = {one["product"] for one in found if one["field"] == PACKAGE}
        found += [
            one
            for one in deal.differences
            if (one["line"] == 0 or "unreadable" in one)
            and (one["line"], one["field"]) not in {*stated_now, (0, _ID)}
            and not (one["field"] == PACKAGE and one["product"] in names)
        ]
    elif deal.unapproved:
        found += [one for one in deal.differences if one["field"] == UNAPPROVED]
    if not deal.media_buy_id:
        unnamed = {"field": _ID, "approved": "one of its own", "confirmed": "none of its own"}
        found.append({"line": 0, "product": THE_BUY, **unnamed})
    return sorted_differences(found)


@transaction.atomic
def deal_adopt(*, lost: Deal, record: dict[str, Any], actor: str, approval: Approval) -> Deal:
    """Keep a media buy that was made for a lost deal, as a new deal that follows it.

    A terminal deal is never reopened (document 002). `record`: the media buy as the seller states it;
    `approval`: the decision to keep it. Raises InvalidTransitionError.
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
            deal,
            status,
            actor=actor,
            reason=f"Kept by {approval.reference}",
            context=context,
            rights=(DECIDE,),
        )
    purchase = purchases_of(lost).first()
    deal_confirm(deal=deal, operation=purchase, result=record, kept_by=actor)
    return deal


def confirmed_by(operation: Operation) -> str:
    """Who settled the operation: the seller's agent, or the system."""
    if operation.settled_by in (Channel.REPLY, Channel.POLL, Channel.WEBHOOK):
        return f"agent:{operation.seller.slug}"
    return SYSTEM
