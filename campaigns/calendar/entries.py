"""What stands in the calendar: dates of deals under way, and until when people have to decide."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal

from django.db.models import Case, QuerySet, When

from campaigns.models import Campaign
from orders.amounts import gross_of, with_answered
from orders.cost_dates import cost_dates
from orders.models import CONFIRMED, UNDECIDED, UNSETTLED, Deal, DealLine, DealStatus
from orders.next_dates import with_dates
from tasks_app import clock, days
from tasks_app.approvals.around import Place, places_about
from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.lapsing import nothing_words
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import names_joined
from tasks_app.approvals.selectors import approvals_of_teams, approvals_waiting_for
from tasks_app.approvals.spending import Stake, stake_of
from tasks_app.desk import text
from tasks_app.desk.items import lowered
from tasks_app.lifecycle.names import link_to
from tasks_app.people.actors import actor_key, actor_names
from tasks_app.people.models import User
from tasks_app.people.scope import about_seller, visible

KINDS = {
    "approval": "Approval due",
    "hold": "Hold expires",
    "creative": "Creatives due",
    "cancel": "Last day without fee",
    "start": "Flight starts",
    "end": "Flight ends",
}
_DAYS_OF_FLIGHTS = ("start", "end", "cancel")
_HEAVY = (
    "reasons",
    "differences",
    "valid_actions",
    "seller__token",
    "seller__webhook_secret",
    "seller__capabilities",
    "seller__tools",
)
_UNANSWERED = (DealStatus.ACCEPTED, DealStatus.BOOKING)
# So far apart the same day begins in two zones, at most: a flight's days are its own zone's, the time asked
# for is the viewer's.
_ZONES = timedelta(hours=26)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which entries: of the time [since, until), of one kind, seller or advertiser (empty: of any), those
    that the viewer must see to (`mine`); at most `limit` deals and approvals (`questions`: or none).
    `flights`: of more deals than that those that fly in the time first; else those with the next dates."""

    since: datetime
    until: datetime
    kind: str = ""
    seller: uuid.UUID | None = None
    advertiser: uuid.UUID | None = None
    mine: bool = False
    limit: int = 150
    questions: bool = True
    flights: bool = True

    @property
    def earliest(self) -> datetime:
        """From when a flight's own day may be in the time."""
        return self.since - _ZONES

    @property
    def latest(self) -> datetime:
        """Until when a flight's own day may be in the time (exclusive)."""
        return self.until + _ZONES

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of dates of deals that are wanted."""
        return tuple(kind for kind in KINDS if kind != "approval" and self.kind in ("", kind))

    def has(self, at: datetime, zone: str = "") -> bool:
        """Whether a moment is in the time; of a flight's own days, in its `zone`, whether the day is."""
        if not zone:
            return self.since <= at < self.until
        return days.day_of(self.since) <= days.day_of(at, zone) <= days.last_day(self.until)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One date. `uid` is the same whenever it is looked at; `part` the campaign or advertiser; `note`: what
    happens if nobody acts; `stake`: the money it is about."""

    uid: str
    kind: str
    at: datetime
    what: str
    part: str
    seller: str
    owner: str
    stake: Stake
    note: str
    link: str
    deal: uuid.UUID | None = None
    zone: str = ""  # of a flight's own days; a moment is on the viewer's

    @property
    def day(self) -> date:
        return days.day_of(self.at, self.zone)

    @property
    def hour(self) -> str:
        """By the clocks of its day's zone, named where that is not the viewer's."""
        return text.hour(self.at, self.zone)

    @property
    def when(self) -> str:
        """12:00 today; a flight's own day as Wed 18 Nov, 23:59 New York."""
        return text.moment_there(self.at, self.zone) if self.zone else text.moment_short(self.at)

    @property
    def label(self) -> str:
        return KINDS[self.kind]

    @property
    def passed(self) -> bool:
        return self.at <= clock.now()


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One deal: `look` is firm (booked), soft (out with the seller) or ask (not approved yet)."""

    deal: Deal
    name: str
    link: str
    owner: str
    look: str
    amount: Decimal
    entries: list[Entry] = field(default_factory=list)

    @property
    def stake(self) -> Stake:
        return Stake(amount=self.amount, currency=self.deal.currency, spends=self.amount)


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """Deals whose flight or a date of theirs is in the time, the earliest flight first, and every entry of
    the time, the earliest first. `more`: there are deals or approvals beyond the limit."""

    lanes: tuple[Lane, ...]
    entries: tuple[Entry, ...]
    more: bool

    def with_next(self, other: Calendar) -> Calendar:
        """With all that another holds, which is of the next dates: what that leaves out is missing."""
        lanes = {lane.deal.pk: lane for lane in (*other.lanes, *self.lanes)}
        entries = {entry.uid: entry for entry in (*other.entries, *self.entries)}
        return Calendar(
            lanes=tuple(sorted(lanes.values(), key=lambda lane: (lane.deal.start_at, lane.deal.pk))),
            entries=tuple(sorted(entries.values(), key=_day_and_moment)),
            more=other.more,
        )


def _day_and_moment(entry: Entry) -> tuple[date, datetime, str]:
    return entry.day, entry.at, entry.uid


def calendar_to_keep(viewer: User, wanted: Wanted) -> Calendar:
    """What somebody reads elsewhere, where nobody turns a page: of more deals than fit those that fly in the
    time, and those with the next dates from now on."""
    found = calendar_of(viewer, wanted)
    if not found.more:
        return found
    kept = found.with_next(calendar_of(viewer, replace(wanted, since=clock.now(), flights=False)))
    return replace(kept, more=kept.more or _leaves_out(kept, viewer, wanted))


def _leaves_out(calendar: Calendar, viewer: User, wanted: Wanted) -> bool:
    """Whether a deal that flies in the time, by any zone's days, is not in it."""
    if not wanted.kinds:
        return False
    rows = _rows(viewer, wanted).filter(status__in=(*UNSETTLED, *CONFIRMED))
    flying = rows.filter(start_at__lt=wanted.until - _ZONES, end_at__gt=wanted.since + _ZONES)
    return flying.exclude(pk__in=[lane.deal.pk for lane in calendar.lanes]).exists()


def calendar_of(viewer: User, wanted: Wanted) -> Calendar:
    """What the viewer may see of it, in about ten queries whatever the number of deals."""
    deals = _deals(viewer, wanted)
    lines = _lines(deals)
    asked = _approvals(viewer, wanted)
    names = actor_names({deal.requested_by for deal in deals}) if deals else {}
    campaigns = _campaigns(viewer, deals)
    lanes = [
        _lane(deal, lines.get(deal.pk, []), campaigns, names, wanted)
        for deal in sorted(deals[: wanted.limit], key=lambda deal: (deal.start_at, deal.pk))
    ]
    questions = _questions(asked[: wanted.limit], viewer)
    by_deal = {lane.deal.pk: lane for lane in lanes}
    for entry in questions:
        if entry.deal in by_deal:
            by_deal[entry.deal].entries.append(entry)
    lanes = [lane for lane in lanes if lane.entries or _flies(lane.deal, wanted)]
    dates = [entry for lane in lanes for entry in lane.entries if entry.kind != "approval"]
    entries = sorted([*dates, *questions], key=_day_and_moment)
    return Calendar(
        lanes=tuple(lanes),
        entries=tuple(entries),
        more=len(deals) > wanted.limit or len(asked) > wanted.limit,
    )


def _flies(deal: Deal, wanted: Wanted) -> bool:
    first, last = days.day_of(deal.start_at, deal.zone), days.last_day(deal.end_at, deal.zone)
    return first <= days.last_day(wanted.until) and last >= days.day_of(wanted.since)


def _deals(viewer: User, wanted: Wanted) -> list[Deal]:
    """Not over before the time: of one kind those that have such a date, the next one first; else those that
    fly in it."""
    if not wanted.kinds:
        return []
    rows = _rows(viewer, wanted)
    most = wanted.limit + 1
    if wanted.kind or not wanted.flights:
        rows = rows.filter(status__in=(*UNSETTLED, *CONFIRMED))
        return list(_dated(rows, wanted)[:most])
    return _flying(rows, wanted, most)


def _rows(viewer: User, wanted: Wanted) -> QuerySet[Deal]:
    rows = visible(with_answered(Deal.objects.filter(end_at__gt=wanted.earliest)), viewer)
    rows = _narrowed(rows.select_related("seller", "advertiser").defer(*_HEAVY), wanted)
    return rows.filter(requested_by=actor_key(viewer)) if wanted.mine else rows


def _dated(rows: QuerySet[Deal], wanted: Wanted) -> QuerySet[Deal]:
    wide = wanted.kind in _DAYS_OF_FLIGHTS
    since, until = (wanted.earliest, wanted.latest) if wide else (wanted.since, wanted.until)
    return with_dates(rows, wanted.kinds, since=since, until=until)


def _flying(rows: QuerySet[Deal], wanted: Wanted, most: int) -> list[Deal]:
    """Where there are too many: of those that fly in the time what sellers still hold for us or owe an
    answer, the first flight first, then what is booked, the flight that ends first; then those that fly
    later, of which a hold or a deadline may be in the time."""
    later = Case(When(start_at__gte=wanted.latest, then=1), default=0)
    unsettled = list(rows.filter(status__in=UNSETTLED).order_by("start_at", "pk")[:most])
    flying = [deal for deal in unsettled if deal.start_at < wanted.latest]
    left = most - len(flying)
    booked = list(rows.filter(status__in=CONFIRMED).order_by(later, "end_at", "pk")[:left]) if left else []
    flying += [deal for deal in booked if deal.start_at < wanted.latest]
    return [*flying, *(deal for deal in (*unsettled, *booked) if deal.start_at >= wanted.latest)][:most]


def _lines(deals: Sequence[Deal]) -> dict[uuid.UUID, list[DealLine]]:
    found: dict[uuid.UUID, list[DealLine]] = {}
    rows = DealLine.objects.filter(deal__in=[deal.pk for deal in deals]).order_by("deal", "position")
    for line in rows if deals else ():
        found.setdefault(line.deal_id, []).append(line)
    return found


def _approvals(viewer: User, wanted: Wanted) -> Sequence[Approval]:
    if wanted.kind not in ("", "approval") or not wanted.questions:
        return ()
    rows = approvals_waiting_for(viewer) if wanted.mine else approvals_of_teams(viewer)
    if wanted.seller:
        rows = rows.filter(about_seller(wanted.seller))
    if wanted.advertiser:
        rows = rows.filter(advertiser=wanted.advertiser)
    return list(rows.filter(due_at__gte=wanted.since, due_at__lt=wanted.until)[: wanted.limit + 1])


def _campaigns(viewer: User, deals: Sequence[Deal]) -> dict[uuid.UUID, str]:
    wanted = {deal.campaign_id for deal in deals if deal.campaign_id}
    rows = visible(Campaign.objects.filter(pk__in=wanted), viewer) if wanted else Campaign.objects.none()
    return dict(rows.values_list("pk", "name"))


def _lane(
    deal: Deal,
    lines: Sequence[DealLine],
    campaigns: Mapping[uuid.UUID, str],
    names: Mapping[str, str],
    wanted: Wanted,
) -> Lane:
    name = (campaigns.get(deal.campaign_id) if deal.campaign_id else None) or deal.advertiser.name
    amount = gross_of(deal, lines)
    owner = names.get(deal.requested_by, deal.requested_by)
    lane = Lane(
        deal=deal, name=name, link=link_to(Deal, deal.pk), owner=owner, look=_look(deal), amount=amount
    )
    for kind, at, what, note in _dates(deal, lines):
        if kind in wanted.kinds and wanted.has(at, deal.zone if kind in _DAYS_OF_FLIGHTS else ""):
            lane.entries.append(_entry(lane, kind, at, what, note))
    return lane


def _look(deal: Deal) -> str:
    if deal.status in UNDECIDED:
        return "ask"
    return "soft" if deal.status in _UNANSWERED else "firm"


def _dates(deal: Deal, lines: Sequence[DealLine]) -> list[tuple[str, datetime, str, str]]:
    found = [(one.kind, one.at, one.what, one.note) for one in cost_dates(deal, lines, ())]
    starts = "" if _look(deal) == "firm" else "it is not booked yet"
    found.append(("start", deal.start_at, "Flight starts", starts))
    found.append(("end", deal.end_at, "Flight ends", ""))
    return [(kind, _within(kind, at), what, note) for kind, at, what, note in found]


def _within(kind: str, at: datetime) -> datetime:
    """On its last day, where the moment is the end of it."""
    return at - timedelta(minutes=1) if kind in ("end", "cancel") else at


def _entry(lane: Lane, kind: str, at: datetime, what: str, note: str) -> Entry:
    return Entry(
        uid=f"{kind}-{lane.deal.pk}",
        kind=kind,
        at=at,
        what=what,
        part=lane.name,
        seller=lane.deal.seller.name,
        owner=lane.owner,
        stake=lane.stake,
        note=note,
        link=lane.link,
        deal=lane.deal.pk,
        zone=lane.deal.zone if kind in _DAYS_OF_FLIGHTS else "",
    )


def _narrowed(deals: QuerySet[Deal], wanted: Wanted) -> QuerySet[Deal]:
    """Those of the seller and the advertiser that are wanted."""
    if wanted.seller:
        deals = deals.filter(seller=wanted.seller)
    return deals.filter(advertiser=wanted.advertiser) if wanted.advertiser else deals


def _questions(asked: Sequence[Approval], viewer: User) -> list[Entry]:
    places = places_about([(one.subject_type, one.subject_id) for one in asked], viewer)
    people = deciders(asked)
    return [_question(one, places.get(one.subject_id), people[one.pk]) for one in asked]


def _stake(asked: Approval, place: Place | None) -> Stake:
    """That of the question; of one about no amount its place's."""
    own = stake_of(asked)
    if place is None:
        return own
    amount = place.amount if own.amount is None else own.amount
    return replace(own, amount=amount, currency=own.currency or place.currency)


def _question(asked: Approval, place: Place | None, people: Sequence[User]) -> Entry:
    return Entry(
        uid=f"approval-{asked.pk}",
        kind="approval",
        at=asked.due_at,
        what=asked.title,
        part=place.campaign if place else "",
        seller=str(asked.evidence.get("seller", "")),
        owner=names_joined([str(user) for user in people]) or "nobody may decide",
        stake=_stake(asked, place),
        note=lowered(nothing_words(asked)),
        link=link_to(Approval, asked.pk),
        deal=asked.subject_id if asked.subject_type == "deal" else None,
    )
