"""What stands in the calendar: dates of deals under way, and until when people have to decide."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import QuerySet

from campaigns.models import Campaign
from orders.cost_dates import cost_dates
from orders.models import CONFIRMED, UNDECIDED, UNSETTLED, Deal, DealLine, DealStatus
from tasks_app import clock
from tasks_app.approvals.around import Place, places_about
from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import answers_of, names_joined
from tasks_app.approvals.selectors import approvals_of_teams, approvals_waiting_for
from tasks_app.desk.items import lowered
from tasks_app.lifecycle.names import link_to
from tasks_app.people.actors import actor_key, actor_names
from tasks_app.people.models import User
from tasks_app.people.scope import visible

KINDS = {
    "approval": "Approval due",
    "hold": "Hold expires",
    "creative": "Creatives due",
    "cancel": "Last day without fee",
    "start": "Flight starts",
    "end": "Flight ends",
}
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


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which entries: of the time [since, until), of one kind, seller or advertiser (empty: of any), those
    that the viewer must see to (`mine`); at most `limit` deals and approvals (`questions`: or none)."""

    since: datetime
    until: datetime
    kind: str = ""
    seller: uuid.UUID | None = None
    advertiser: uuid.UUID | None = None
    mine: bool = False
    limit: int = 150
    questions: bool = True


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One date. `uid` is the same whenever it is looked at; `part` the campaign or advertiser; `note`: what
    happens if nobody acts; `amount` what is at stake, None where nobody knows."""

    uid: str
    kind: str
    at: datetime
    what: str
    part: str
    seller: str
    owner: str
    amount: Decimal | None
    currency: str
    note: str
    link: str
    deal: uuid.UUID | None = None

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


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """Deals with their dates, the earliest flight first, and every entry of the time, the earliest first.
    `more`: there are deals or approvals beyond the limit."""

    lanes: tuple[Lane, ...]
    entries: tuple[Entry, ...]
    more: bool


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
    questions = _questions(asked[: wanted.limit], viewer, wanted)
    by_deal = {lane.deal.pk: lane for lane in lanes}
    for entry in questions:
        if entry.deal in by_deal:
            by_deal[entry.deal].entries.append(entry)
    dates = [entry for lane in lanes for entry in lane.entries if entry.kind != "approval"]
    entries = sorted([*dates, *questions], key=lambda entry: (entry.at, entry.uid))
    return Calendar(
        lanes=tuple(lanes),
        entries=tuple(entries),
        more=len(deals) > wanted.limit or len(asked) > wanted.limit,
    )


def _deals(viewer: User, wanted: Wanted) -> list[Deal]:
    """Not over before `since`. Where there are too many: what sellers still hold for us or owe an answer, the
    first flight first, then what is booked, the flight that ends first."""
    if wanted.kind == "approval":
        return []
    rows = visible(Deal.objects.filter(end_at__gt=wanted.since), viewer)
    rows = rows.select_related("seller", "advertiser").defer(*_HEAVY)
    if wanted.seller:
        rows = rows.filter(seller=wanted.seller)
    if wanted.advertiser:
        rows = rows.filter(advertiser=wanted.advertiser)
    if wanted.mine:
        rows = rows.filter(requested_by=actor_key(viewer))
    unsettled = rows.filter(status__in=UNSETTLED).order_by("start_at", "pk")
    booked = rows.filter(status__in=CONFIRMED).order_by("end_at", "pk")
    most = wanted.limit + 1
    first = list(unsettled[:most])
    return first + list(booked[: most - len(first)]) if len(first) < most else first


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
    amount = sum((_gross(line) for line in lines), Decimal(0))
    owner = names.get(deal.requested_by, deal.requested_by)
    lane = Lane(
        deal=deal, name=name, link=link_to(Deal, deal.pk), owner=owner, look=_look(deal), amount=amount
    )
    for kind, at, what, note in _dates(deal, lines):
        if wanted.kind in ("", kind) and wanted.since <= at < wanted.until:
            lane.entries.append(_entry(lane, kind, at, what, note))
    return lane


def _gross(line: DealLine) -> Decimal:
    return line.budget if line.confirmed_budget is None else line.confirmed_budget


def _look(deal: Deal) -> str:
    if deal.status in UNDECIDED:
        return "ask"
    return "soft" if deal.status in _UNANSWERED else "firm"


def _dates(deal: Deal, lines: Sequence[DealLine]) -> list[tuple[str, datetime, str, str]]:
    found = [(one.kind, one.at, one.what, one.note) for one in cost_dates(deal, lines, ())]
    starts = "" if _look(deal) == "firm" else "it is not booked yet"
    found.append(("start", deal.start_at, "Flight starts", starts))
    # The end is exclusive: its last day is the one before.
    found.append(("end", deal.end_at - timedelta(minutes=1), "Flight ends", ""))
    return found


def _entry(lane: Lane, kind: str, at: datetime, what: str, note: str) -> Entry:
    return Entry(
        uid=f"{kind}-{lane.deal.pk}",
        kind=kind,
        at=at,
        what=what,
        part=lane.name,
        seller=lane.deal.seller.name,
        owner=lane.owner,
        amount=lane.amount,
        currency=lane.deal.currency,
        note=note,
        link=lane.link,
        deal=lane.deal.pk,
    )


def _questions(asked: Sequence[Approval], viewer: User, wanted: Wanted) -> list[Entry]:
    places = places_about([(one.subject_type, one.subject_id) for one in asked], viewer)
    people = deciders(asked)
    found = [_question(one, places.get(one.subject_id), people[one.pk]) for one in asked]
    if wanted.seller is None and wanted.advertiser is None:
        return found
    kept = set(_of_deals([one.deal for one in found if one.deal], wanted))
    return [one for one in found if one.deal in kept]


def _of_deals(deals: Sequence[uuid.UUID], wanted: Wanted) -> QuerySet[Deal, uuid.UUID]:
    rows = Deal.objects.filter(pk__in=deals)
    if wanted.seller:
        rows = rows.filter(seller=wanted.seller)
    if wanted.advertiser:
        rows = rows.filter(advertiser=wanted.advertiser)
    return rows.values_list("pk", flat=True)


def _question(asked: Approval, place: Place | None, people: Sequence[User]) -> Entry:
    nothing = dict(answers_of(asked)).get("Nothing", "")
    return Entry(
        uid=f"approval-{asked.pk}",
        kind="approval",
        at=asked.due_at,
        what=asked.title,
        part=place.campaign if place else "",
        seller=str(asked.evidence.get("seller", "")),
        owner=names_joined([str(user) for user in people]) or "nobody may decide",
        amount=place.amount if asked.amount is None and place else asked.amount,
        currency=asked.currency or (place.currency if place else ""),
        note=lowered(nothing),
        link=link_to(Approval, asked.pk),
        deal=asked.subject_id if asked.subject_type == "deal" else None,
    )
