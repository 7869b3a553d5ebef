"""Two data sets, and the facts of each, computed by queries of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Sum

from campaigns.models import Campaign
from campaigns.services import campaign_submit
from orders.models import Deal, DealLine
from tasks_app import days
from tasks_app.approvals.models import Approval
from tasks_app.desk.states import face
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User
from tests.assistant.deals import foreign_deal, two_deals
from tests.assistant.reading import usd
from tests.campaigns.booking import deal_of, put_forward
from tests.campaigns.briefs import brief, future
from tests.factories import make_user
from tests.ui.seed import seed

#: A conflict that waits for a person.
_STATED = {"channel": "poll", "status": "completed", "task_id": "t", "value": {}, "body": {}}


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """The people who ask, by role, and the facts that questions and answers name."""

    people: Mapping[str, User]
    deals: Mapping[str, Deal]  # by the fact that holds the deal's reference
    facts: Mapping[str, str]


def agency() -> DataSet:
    """Return the agency of the UI tests after three days of work, with one more campaign."""
    made = seed()
    tv, audio = two_deals("Harbour Season", tv="Harbour Television", audio="Harbour Radio")
    return _with_facts(made.people, tv, audio, made.deals["tamarack-quill"], made.campaigns["ostrom"])


def house() -> DataSet:
    """Return a house with four people, one campaign that is booked and one that is put forward."""
    people = {role: make_user(role, name=name) for role, name in (("Buyer", "berta"), ("Approver", "anton"))}
    tv, audio = two_deals("Spring Launch", tv="Cobalt Bay TV", audio="Quill Audio")
    campaign = put_forward(**_future(name="Cold Brew Summer"))
    failed = campaign_submit(user=people["Buyer"], raw=brief(name="Winter Tyres", budget__total=-1))
    return _with_facts(people, tv, audio, deal_of(campaign, "ctv"), failed)


DATA_SETS: Mapping[str, Callable[[], DataSet]] = {"agency": agency, "house": house}


def _future(**fields: Any) -> dict[str, Any]:
    flight = future()["flight"]
    return {"flight__start": flight["start"], "flight__end": flight["end"], **fields}


def _with_facts(
    people: Mapping[str, User], tv: Deal, audio: Deal, undecided: Deal, failed: Campaign
) -> DataSet:
    foreign = foreign_deal()
    Conflict.objects.create(
        reference="CFL-2026-009901",
        operation=Operation.objects.filter(subject_id=tv.pk).latest("pk"),
        team=tv.team,
        kind="terminal",
        digest="d",
        first=_STATED,
        second={**_STATED, "status": "failed"},
    )
    campaign = Campaign.objects.get(pk=tv.campaign_id)
    put_forward_in = Campaign.objects.get(pk=undecided.campaign_id)
    committed = _sum(tv) + _sum(audio)
    today = days.today(people["Buyer"].time_zone)
    decided = Approval.objects.get(subject_id=tv.pk, kind="deal", status="approved")
    facts = {
        "campaign": campaign.reference,
        "campaign_name": campaign.name,
        "campaign_state": face(campaign.status).word,
        "committed": usd(committed),
        "remaining": usd((campaign.budget or Decimal(0)) - committed),
        **_deal_facts("tv", tv),
        **_deal_facts("audio", audio),
        **_deal_facts("undecided", undecided),
        "undecided_campaign": put_forward_in.reference,
        "undecided_name": put_forward_in.name,
        "undecided_budget": usd(put_forward_in.budget),
        "undecided_approval": Approval.objects.get(subject_id=undecided.pk, status="open").reference,
        "failed": failed.reference,
        "failed_name": failed.name,
        "failed_state": face(failed.status).word,
        "foreign": foreign.reference,
        "foreign_seller": foreign.seller.name,
        "foreign_budget": usd(_sum(foreign)),
        "different": "CFL-2026-009901",
        "approver": str(people["Approver"]),
        "tv_approver": decided.decisions.latest("pk").actor_name,
        "tv_last_actor": _last_actor(tv),
        "deals": str(Deal.objects.filter(team=tv.team).count()),
        "advertiser": tv.advertiser.name if tv.advertiser else "",
        "today": today.isoformat(),
        "yesterday": (today - timedelta(days=1)).isoformat(),
        "start": (today + timedelta(days=40)).isoformat(),
        "end": (today + timedelta(days=70)).isoformat(),
    }
    return DataSet(people=people, deals={"undecided": undecided}, facts=facts)


def _deal_facts(name: str, deal: Deal) -> dict[str, str]:
    return {
        name: deal.reference,
        f"{name}_state": face(deal.status).word,
        f"{name}_seller": deal.seller.name,
        f"{name}_slug": deal.seller.slug,
        f"{name}_budget": usd(_sum(deal)),
    }


def _sum(deal: Deal) -> Decimal:
    return Decimal(DealLine.objects.filter(deal=deal).aggregate(sum=Sum("budget"))["sum"])


def _last_actor(deal: Deal) -> str:
    entry = AuditEntry.objects.filter(entity_type="deal", entity_id=deal.pk).latest("pk")
    return actor_names({entry.actor})[entry.actor]
