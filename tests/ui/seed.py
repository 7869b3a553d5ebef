"""A few days of an agency's life as rows, made through the services: every state the pages must show.

No seller is asked over the network: what they answer is observed as if it had come by reply or poll.
The clock is moved through the days, so that ages, deadlines and the trail are those of real work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from campaigns import surroundings
from campaigns.models import Allocation, Campaign, CampaignStatus
from campaigns.services import campaign_submit
from orders.models import Deal
from orders.questions import ask_deal
from orders.services import DealDraft, LineDraft, deal_book, deal_quote
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tasks_app.people.actors import SYSTEM
from tasks_app.people.models import Advertiser, Team, User
from tasks_app.sellers.models import Account, Seller
from tests.operations.making import observed
from tests.ui.seed_jobs import seconds, walk
from tests.ui.seed_parts import ZONE, bought, brief, later, line, sellers
from tests.ui.seed_people import hired, limits_set


@dataclass(kw_only=True)
class Agency:
    """What was made: people by role, sellers by slug, campaigns and deals by short names."""

    people: dict[str, User]
    sellers: dict[str, Seller]
    campaigns: dict[str, Campaign]
    deals: dict[str, Deal]

    def question(self, deal: str, kind: str = "deal") -> Approval:
        """The latest approval of that kind about a deal."""
        return Approval.objects.filter(subject_id=self.deals[deal].pk, kind=kind).latest("created_at")


class _Days:
    """The clock of the story: starts in the past, ends now."""

    def __init__(self) -> None:
        self._end = datetime.now(UTC)
        self.at = self._end - timedelta(days=3)

    @contextmanager
    def running(self) -> Iterator[None]:
        with clock.injected(lambda: self.at):
            yield

    def back(self, **span: float) -> None:
        """Go to so long before the end; never backwards."""
        self.at = max(self.at, self._end - timedelta(**span))


def seed() -> Agency:
    """Everything, in one call; about a second."""
    surroundings.register()
    days = _Days()
    with days.running():
        people = hired()
        limits_set(people["Administrator"])
        agency = Agency(people=people, sellers=sellers(), campaigns={}, deals={})
        days.back(days=2, hours=20)
        aldous = _aldous(agency, days)
        days.back(days=1, hours=1, minutes=30)
        _halvorsen(agency)
        days.back(hours=23)
        _instream(agency, aldous)
        days.back(hours=20)
        _lindqvist(agency, days)
        days.back(hours=16, minutes=31)
        _tamarack(agency)
        walk(seconds(days))
        days.back(hours=1, minutes=17)
        time_out_due(limit=10)
        days.back(minutes=40)
        _late_answer(agency)
        walk(seconds(days))
        _ostrom(agency)
    return agency


def _aldous(agency: Agency, days: _Days) -> Campaign:
    """Euros; one deal booked as approved, one still asked about."""
    campaign = _campaign(
        agency, "Aldous Allergy Relief", "Aldous Pharma", "380000", "EUR", {"olv": 60, "display": 40}
    )
    news = line(
        channel="display",
        product_name="News In-Feed, Nordic Dailies",
        rate="6.90",
        budget="152000",
        guaranteed=False,
    )
    deal = _deal(agency, campaign, "norrland", [news], "EUR", "aldous-display")
    _decide(agency, deal)
    _answers(deal_book(deal=deal), "completed", bought(deal, "nrl-58102"), days=days, hours=0.65)
    return campaign


def _instream(agency: Agency, campaign: Campaign) -> None:
    instream = line(
        channel="olv", product_name="In-Stream Video, Norrland Play", rate="19.40", budget="94500"
    )
    _ask(_deal(agency, campaign, "norrland", [instream], "EUR", "aldous-olv"))


def _halvorsen(agency: Agency) -> None:
    """Nobody answers; a day later it is overdue."""
    campaign = _campaign(
        agency, "Halvorsen Autumn Service", "Halvorsen Motors", "62500", "USD", {"linear_tv": 100}
    )
    prime = line(
        channel="linear_tv",
        product_name="Cobalt Bay Prime, Mon-Fri 8-11pm",
        model="cpp",
        rate="410.00",
        ceiling="450",
        budget="62500",
    )
    deal = _deal(agency, campaign, "cobalt", [prime], "USD", "halvorsen")
    _decide(agency, deal)
    _answers(deal_book(deal=deal), "submitted", None, "With the sales desk.", task_id="cob-task-7f02")


def _lindqvist(agency: Agency, days: _Days) -> None:
    """Three purchases out: one comes back booked differently, one is submitted, one asks a question."""
    channels = {"ctv": 40, "olv": 25, "streaming_audio": 20, "display": 15}
    campaign = _campaign(agency, "Lindqvist Cold Brew", "Lindqvist Coffee", "410000", "USD", channels)
    display = line(
        channel="display",
        product_name="Food and lifestyle, in-feed",
        rate="4.60",
        budget="61500",
        guaranteed=False,
    )
    olv = line(
        channel="olv",
        product_name="Sponsored pre-roll, news",
        rate="14.20",
        budget="102500",
        guaranteed=False,
    )
    ctv = line(channel="ctv", product_name="CTV premium households", rate="27.50", budget="164000")
    audio = line(
        channel="streaming_audio", product_name="Morning drive, streaming", rate="16.00", budget="82000"
    )
    deals = [
        _deal(agency, campaign, "norrland", [olv, display], "USD", "lindqvist-norrland"),
        _deal(agency, campaign, "cobalt", [ctv], "USD", "lindqvist-cobalt"),
        _deal(agency, campaign, "quill", [audio], "USD", "lindqvist-quill"),
    ]
    walk(seconds(days))
    days.at += timedelta(minutes=48)
    for deal in deals:
        _decide(agency, deal, "Rates are under our ceilings; go.")
    walk(seconds(days))
    norrland, cobalt, quill = (deal_book(deal=deal) for deal in deals)
    transition(campaign, CampaignStatus.EXECUTING_BOOKINGS, actor=SYSTEM)
    _answers(cobalt, "submitted", None, "With the sales desk of Cobalt Bay TV.", task_id="cob-task-81aa")
    question = "Do you waive competitive separation for the morning drive?"
    _answers(quill, "input-required", None, question, task_id="qui-task-3c19")
    second = {"budget": 58000.0, "start_time": later(deals[0])}
    _answers(norrland, "completed", bought(deals[0], "nrl-58213", second=second), days=days, hours=2.8)
    _dated(agency.question("lindqvist-norrland", "booked_differently"))
    walk(seconds(days))


def _tamarack(agency: Agency) -> None:
    """Three recommendations wait for people."""
    channels = {"ctv": 30, "linear_tv": 15, "olv": 45, "streaming_audio": 10}
    campaign = _campaign(agency, "Tamarack Winter Boots", "Tamarack Outdoor", "640000", "USD", channels)
    ctv = line(
        channel="ctv",
        product_name="CTV premium households",
        rate="28.50",
        ceiling="30",
        budget="192000",
        minimum="50000",
    )
    news = line(
        channel="linear_tv",
        product_name="Evening news, national",
        model="cpp",
        rate="480",
        ceiling="495",
        budget="96000",
        minimum="75000",
    )
    olv = line(channel="olv", product_name="In-Stream Video, Norrland Play", rate="21.00", budget="288000")
    audio = line(
        channel="streaming_audio", product_name="Quill Music, Streaming Audio", rate="18.50", budget="64000"
    )
    for seller, lines in (("cobalt", [ctv, news]), ("norrland", [olv]), ("quill", [audio])):
        _ask(_deal(agency, campaign, seller, lines, "USD", f"tamarack-{seller}"))


def _late_answer(agency: Agency) -> None:
    """What was overdue comes after all: a person decides whether it is kept."""
    deal = agency.deals["halvorsen"]
    operation = Operation.objects.get(subject_id=deal.pk)
    deal.refresh_from_db()
    payload = bought(deal, "cob-44871")
    seen = Seen(kind="answer", status="completed", payload=payload, task_id=operation.task_id)
    observed(operation_id=operation.pk, seen=seen, channel="poll")
    publish(operation_id=operation.pk)
    _dated(agency.question("halvorsen", "unclaimed"))


def _ostrom(agency: Agency) -> None:
    """A brief that is wrong in several places."""
    raw = brief("Ostrom Credit Cards", "Ostrom Finance", "-120000", "USD", {"television": 100})
    _advertiser("Ostrom Finance")
    agency.campaigns["ostrom"] = campaign_submit(user=agency.people["Buyer"], raw=raw)


def _campaign(
    agency: Agency, name: str, advertiser: str, total: str, currency: str, channels: dict[str, int]
) -> Campaign:
    _advertiser(advertiser)
    campaign = campaign_submit(
        user=agency.people["Buyer"], raw=brief(name, advertiser, total, currency, channels)
    )
    Allocation.objects.bulk_create(
        Allocation(campaign=campaign, channel=channel, amount=Decimal(total) * weight / 100)
        for channel, weight in channels.items()
    )
    for status in (
        CampaignStatus.BUDGET_ALLOCATED,
        CampaignStatus.RESEARCHING,
        CampaignStatus.AWAITING_APPROVAL,
    ):
        transition(campaign, status, actor=SYSTEM)
    agency.campaigns[name.split()[0].lower()] = campaign
    return campaign


def _advertiser(name: str) -> Advertiser:
    domain = f"{name.lower().replace(' ', '-')}.com"
    team = Team.objects.get(name="Halden & Marsh")
    return Advertiser.objects.get_or_create(team=team, name=name, defaults={"brand_domain": domain})[0]


def _deal(
    agency: Agency, campaign: Campaign, seller: str, lines: list[LineDraft], currency: str, name: str
) -> Deal:
    advertiser, start, end = campaign.advertiser, campaign.start_at, campaign.end_at
    assert advertiser is not None
    assert start is not None
    assert end is not None
    account, _ = Account.objects.get_or_create(
        advertiser=advertiser,
        seller=agency.sellers[seller],
        defaults={
            "reference": {"account_id": f"acc-{seller}-{advertiser.name.split()[0].lower()}"},
            "status": Account.Status.ACTIVE,
            "billing_party": "Halden & Marsh",
            "payment_terms": "net_45",
        },
    )
    matches = [{"name": "channel", "met": True, "detail": f"{one.channel}, as stated"} for one in lines] + [
        {"name": "geography", "met": True, "detail": "offered for US, as asked"},
        {
            "name": "dates",
            "met": True,
            "detail": f"offered for {start.day} {start:%b %Y} to {end.day} {end:%b %Y}, as asked",
        },
        {"name": "measurement", "met": False, "detail": "completed_views is not stated"},
    ]
    hold = (clock.now() + timedelta(hours=43)).isoformat()
    passed = {
        "seller": "Norrland Digital",
        "product": "Front Page Takeover",
        "option": "homepage-cpm-usd",
        "channel": lines[0].channel,
        "why": "others match as well or better and take the share",
    }
    draft = DealDraft(
        team=campaign.team,
        advertiser=advertiser,
        seller=agency.sellers[seller],
        account=account,
        currency=currency,
        start_at=start,
        end_at=end,
        zone=ZONE,
        lines=lines,
        terms={"hold_expires_at": hold},
        reasons={"lines": [{"product": lines[0].product_name, "matches": matches}], "passed_over": [passed]},
        campaign_id=campaign.pk,
    )
    agency.deals[name] = deal_quote(
        draft=draft, actor=SYSTEM, requested_by=campaign.requested_by, reason="4 of 5 requirements match"
    )
    return agency.deals[name]


def _ask(deal: Deal) -> Approval:
    return _dated(ask_deal(deal))


def _dated(approval: Approval) -> Approval:
    """With the story's time as the time of asking: columns' defaults know the system's clock only."""
    Approval.objects.filter(pk=approval.pk).update(created_at=clock.now(), status_since=clock.now())
    return approval


def _decide(agency: Agency, deal: Deal, comment: str = "Go.") -> None:
    asked = _ask(deal)
    approval_decide(approval_id=asked.pk, user=agency.people["Approver"], verdict="approve", comment=comment)
    deal.refresh_from_db()


def _answers(
    operation: Operation,
    status: str,
    payload: dict[str, Any] | None,
    message: str = "",
    task_id: str = "",
    *,
    days: _Days | None = None,
    hours: float = 0,
) -> None:
    """The seller's reply to the call that is out, so many hours later."""
    claim_one(operation_id=operation.pk)
    if days:
        days.at += timedelta(hours=hours)
    seen = Seen(
        kind="answer",
        status=status,
        payload=payload,
        message=message or None,
        task_id=task_id or None,  # type: ignore[arg-type]
    )
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    publish(operation_id=operation.pk)
