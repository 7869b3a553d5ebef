"""A purchase becomes a booked deal: confirmed, compared with what was approved, kept up to date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from django.db import transaction

from orders import questions
from orders.accepted import standing, taken
from orders.amending import line_as_let_go
from orders.awaited import awaited, awaited_keep, mirror_kept, with_total
from orders.changes.apply import settle_ended_changes
from orders.changes.open_changes import cancellation_differences, is_rejected_buy_being_cancelled
from orders.confirmation import (
    confirmed_values,
    differences,
    lines_save,
    mirror,
    packages_take,
    stated_at,
    unconfirm,
    values_unread,
)
from orders.departures import departures
from orders.flights import flight_after
from orders.last_words import Words, words_bought, words_named
from orders.matching import Matched, packages_match, packages_of
from orders.mirror_times import mirror_begin
from orders.models import Deal, DealLine, DealMirror, DealStatus
from orders.services import deal_amended
from tasks_app import ids
from tasks_app.approvals.models import Approval
from tasks_app.approvals.subjects import questions_withdraw
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import create, note, transition
from tasks_app.operations.models import Channel, Operation
from tasks_app.operations.pauses import request_let_go
from tasks_app.people.actors import SYSTEM
from tasks_app.people.roles import DECIDE

_BOUGHT = ("packages", "start_time", "end_time")  # of create_media_buy, what it says that is bought


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
    request = request_let_go(operation, left=True)
    _take_answer(deal, operation, request)
    mirror_begin(
        deal,
        stated_at=stated_at(result),
        as_stated=values_unread({}, result),
        last_words=words_bought(request, list(deal.lines.all())),
    )
    compare(deal, result)


def _take_answer(deal: Deal, operation: Operation, request: Mapping[str, Any]) -> None:
    """What was bought is what people last let go in an answer to the seller's question (`request`): it is
    what was approved of each package and of the flight. What of it no package of ours can hold they have
    accepted."""
    if request == operation.request:
        return
    bought = {name: request[name] for name in _BOUGHT if name in request}
    lines, flight = list(deal.lines.all()), flight_after(deal, bought)
    if not _departures(deal, lines, bought)[0] and flight == flight_after(deal):
        return  # answered in words
    for line in lines:
        line_as_let_go(line)
    ahead = flight.start < flight.end
    dates = {"start_at": flight.start, "end_at": flight.end} if ahead else {}
    for name, moment in dates.items():
        setattr(deal, name, moment)
    found, gross = _departures(deal, lines, bought)
    deal_amended(
        deal,
        actor=SYSTEM,
        reason=f"Bought as {operation.seller} was answered: {operation.reference}",
        lines=lines,
        changes={**dates, **({"accepted": found, "accepted_gross": gross} if found else {})},
    )


def own(deal: Deal, told: dict[str, Any]) -> dict[str, Any]:
    """What is told, without a media_buy_id that another deal has or that contradicts this one's."""
    named = told.get("media_buy_id")
    others = Deal.objects.filter(seller=deal.seller, media_buy_id=named).exclude(pk=deal.pk)
    if named is None or (deal.media_buy_id in ("", named) and not others.exists()):
        return told
    return {column: value for column, value in told.items() if column != "media_buy_id"}


def compare(deal: Deal, buy: Mapping[str, Any], *, whole: bool = True) -> None:
    """Write what the seller says of a media buy beside what was approved; a new departure is asked about.
    What the record shows of a change whose operation has ended counts first. Nobody is asked about what an
    open change asks for (`awaited.py`).
    `whole`: the record is the media buy's own, not an answer that names what changed. Called in a transaction
    that holds the deal's lock."""
    not_shown = settle_ended_changes(deal, buy, whole=whole)
    _compare(deal, buy, whole=whole)
    if not_shown:
        questions.ask_about_differences(deal)


def _compare(deal: Deal, buy: Mapping[str, Any], *, whole: bool) -> None:
    lines, (known, words) = list(deal.lines.all()), mirror_kept(deal)
    as_known = [confirmed_values(line) for line in lines]
    buy = with_total(buy, known)
    matched = _match(deal, lines, buy, whole=whole)
    words = _words_kept(deal, lines, words)
    stated = departures(deal, lines, buy, matched, whole=whole, words=words, awaited=known)
    found, gross = [*differences(deal, lines), *stated.found], stated.gross
    lines_save(lines, as_known)
    _confirm_gross(deal, gross)
    if not deal.media_buy_id:
        unnamed = {"field": "media_buy_id", "approved": "one of its own", "confirmed": "none of its own"}
        found.append({"line": 0, "product": "The media buy", **unnamed})
    found += cancellation_differences(deal)
    now = standing(deal, lines, found)
    shown = awaited(deal, lines, now.differences, buy, words=words, whole=whole)
    awaited_keep(deal, shown, known=known)
    now = replace(now, differences=[one for one in now.differences if one not in shown])
    if (now.differences, now.accepted) == (deal.differences, deal.accepted):
        if not now.differences:  # said twice
            _withdraw_difference(deal)
        return
    said = ", ".join(dict.fromkeys(one["field"] for one in now.differences))
    reason = f"The seller departs from what was approved: {said}" if said else "The seller departs in nothing"
    note(deal, actor=SYSTEM, reason=reason, changes=now.changes)
    if questions.still_asked(deal) if now.differences else questions.comes_and_goes(deal):
        return
    _withdraw_difference(deal)
    # While people's refusal is with the seller they are asked nothing: they are once that fails.
    if not now.differences or is_rejected_buy_being_cancelled(deal):
        return
    before = questions.accepted_before(deal)
    if before is None:
        questions.ask_booked_differently(deal)
        return
    again = f"The seller says again what was accepted by {before.reference}"
    note(deal, actor=SYSTEM, reason=again, changes=taken(deal, shown).changes)


def _withdraw_difference(deal: Deal) -> None:
    """What was asked showed other differences."""
    why = "The seller says something else now"
    questions_withdraw("deal", deal.pk, kinds=(questions.DIFFERENT,), reason=why)


def _departures(
    deal: Deal, lines: list[DealLine], bought: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], Decimal | None]:
    """What of what was bought departs from what was ordered, and what it comes to; `lines` take what it says
    of them."""
    matched = _match(deal, lines, bought, whole=True)
    stated = departures(deal, lines, bought, matched, whole=True)
    return [*differences(deal, lines), *stated.found], stated.gross


def _match(deal: Deal, lines: list[DealLine], buy: Mapping[str, Any], *, whole: bool) -> Matched:
    """Which package is which line; `lines` take what it says of them."""
    matched = packages_match(lines, packages_of(buy))
    packages_take(deal, buy, matched, whole=whole)
    return matched


def _words_kept(deal: Deal, lines: Sequence[DealLine], words: Words) -> Words:
    """People's last words by the names that packages have now."""
    named = words_named(words, lines)
    if named != words:
        DealMirror.objects.filter(deal=deal).update(last_words=named)
    return named


def _confirm_gross(deal: Deal, gross: Decimal | None) -> None:
    if gross != deal.confirmed_gross:
        Deal.objects.filter(pk=deal.pk).update(confirmed_gross=gross)
        deal.confirmed_gross = gross


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
            deal,
            status,
            actor=actor,
            reason=f"Bought late, kept by {approval.reference}",
            context=context,
            rights=(DECIDE,),
        )
    deal_confirm(deal=deal, operation=operation, result=result)
    return deal


def confirmed_by(operation: Operation) -> str:
    """Who settled the operation: the seller's agent, or the system."""
    if operation.settled_by in (Channel.REPLY, Channel.POLL, Channel.WEBHOOK):
        return f"agent:{operation.seller.slug}"
    return SYSTEM
