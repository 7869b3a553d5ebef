"""A new quote for the order of a deal that has ended, with new dates."""

from __future__ import annotations

import uuid
from datetime import date

from django.db import transaction

from orders.acts import ActRefusedError
from orders.amounts import deal_amounts
from orders.flights import Flight, line_flight, offered_flight
from orders.models import Deal
from orders.questions import ask_deal
from orders.rooms import NOTHING, room_problem
from orders.services import DealDraft, LineDraft, deal_locked, deal_quote
from orders.successors import LOST, duplicate_reason
from tasks_app import clock, days
from tasks_app.people.actors import actor_ensure
from tasks_app.people.models import User
from tasks_app.people.roles import SUBMIT_CAMPAIGN
from tasks_app.people.scope import visible

_KEPT = (
    "channel",
    "product_id",
    "product_name",
    "pricing_option_id",
    "pricing_model",
    "is_fixed",
    "guaranteed",
    "rate",
    "ceiling",
    "budget",
    "minimum",
    "units",
    "targeting",
    "forecast",
    "terms",
)


def may_copy(user: User) -> bool:
    """Return whether the person puts orders forward."""
    return user.is_active and user.has_perm(SUBMIT_CAMPAIGN)


def can_be_copied(deal: Deal) -> bool:
    """Return whether the deal has ended without a media buy, and no other deal is in its place."""
    return deal.status in LOST and not deal.media_buy_id and not duplicate_reason(deal)


def offered_days(deal: Deal) -> tuple[date, date]:
    """Return the first and the last day that a copy is offered, in the deal's zone."""
    flight = offered_flight(deal)
    return days.day_of(flight.start, deal.zone), days.last_day(flight.end, deal.zone)


@transaction.atomic
def copy_deal(*, deal_id: uuid.UUID, user: User, first: date | None, last: date | None) -> Deal:
    """Put the order of an ended deal forward once more, and ask people whether to book it.

    Args:
        deal_id: The deal that has ended. The copy follows it.
        user: Who puts it forward, and does not decide on it.
        first: The first day of the new flight, in the deal's zone.
        last: The last day.

    Raises:
        ActRefusedError: It is not possible. Nothing has changed.
    """
    if not may_copy(user):
        raise ActRefusedError("You have no right to put orders forward.")
    if not visible(Deal.objects.filter(pk=deal_id), user).exists():
        raise ActRefusedError("There is no such deal in your teams.")
    ended = deal_locked(deal_id)
    if not can_be_copied(ended):
        why = (
            duplicate_reason(ended)
            or f"{ended.reference} is {ended.status}: only a deal that has ended is copied."
        )
        raise ActRefusedError(why)
    draft = _draft(ended, _flight(ended, first, last))
    reason = f"Copy of {ended.reference} with new dates"
    copy = deal_quote(draft=draft, actor=actor_ensure(user=user), requested_by=user, reason=reason)
    no_room = room_problem(copy, deal_amounts(copy).approved, before=NOTHING)
    if no_room:
        raise ActRefusedError(no_room)
    ask_deal(deal_locked(copy.pk), opened_by=user)
    return copy


def _flight(ended: Deal, first: date | None, last: date | None) -> Flight:
    if first is None or last is None:
        raise ActRefusedError("Give the first and the last day.")
    if last < first:
        raise ActRefusedError("The last day is before the first.")
    start = days.utc(days.start_of(first, ended.zone))
    if start <= clock.now():
        raise ActRefusedError("The first day has begun: take a later one.")
    return Flight(start=start, end=days.utc(days.end_of(last, ended.zone)))


def _draft(ended: Deal, flight: Flight) -> DealDraft:
    before, lines = Flight(start=ended.start_at, end=ended.end_at), []
    for line in ended.lines.all():
        own = line_flight(Flight(start=line.start_at, end=line.end_at), before, flight, ended.zone)
        kept = {name: getattr(line, name) for name in _KEPT}
        lines.append(LineDraft(**kept, start_at=own.start, end_at=own.end))
    return DealDraft(
        team=ended.team,
        advertiser=ended.advertiser,
        seller=ended.seller,
        account=ended.account,
        currency=ended.currency,
        start_at=flight.start,
        end_at=flight.end,
        zone=ended.zone,
        lines=lines,
        terms={},  # a hold was for the dates before
        reasons={**ended.reasons, "replaces": ended.reference},
        campaign_id=ended.campaign_id,
        follows=ended,
    )
