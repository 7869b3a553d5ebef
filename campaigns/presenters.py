"""A campaign in words: its six stages, what happens next, how it ended."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from campaigns.brief import brief_kept
from campaigns.explain_words import campaign_answers, deal_movers
from campaigns.models import Campaign, CampaignStatus
from campaigns.outcome import LEFT_OUT, LEFT_OUT_MORE, fates
from campaigns.selectors import CampaignRows, campaign_names
from campaigns.stages import as_dict, as_words, products_offered
from orders.models import UNDECIDED, DealStatus
from orders.presenters import DealGroup, deal_group
from orders.waits import Waiting, waits_of
from tasks_app.desk import text
from tasks_app.desk.explain import movers_words
from tasks_app.desk.items import Item, plural
from tasks_app.lifecycle.names import EntityName, link_to, namer_register
from tasks_app.operations.estimates import estimates_of
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.presenters import operation_age, operation_took, settled_words
from tasks_app.people.models import User

S = CampaignStatus
BOOKING_WORDS = {
    "each": "each deal when it is approved",
    "together": "all together, once every deal is decided",
}
_LEFT_OUT_OPEN, _LEFT_OUT_SHOWN = 10, 200  # of what was left out: at once, and when it is opened
_WITH_SELLER = (O.CALLING_ADCP, O.SUBMITTED, O.WORKING)


@dataclass(frozen=True, kw_only=True)
class OperationLine:
    """An operation in the campaign's table; several alike reads stand in one line."""

    task: str
    reference: str
    seller: str
    status: str
    age: text.Age | None
    took: str
    settled: str
    link: str


def job_notes(rows: CampaignRows) -> dict[str, str]:
    """What steps of the recipe came to, for their boxes."""
    unapproved = (DealStatus.QUOTED, DealStatus.CANCELLED, DealStatus.EXPIRED)
    approved = rows.deal_count - rows.deals_in(*unapproved)
    return {
        "allocate": plural(len(rows.allocations), "channel"),
        "recommend": f"{plural(rows.deal_count, 'deal')}, {plural(products_offered(rows), 'product')}",
        **dict.fromkeys(("approve", "ask"), f"{approved} of {rows.deal_count} approved"),
    }


def totals(rows: CampaignRows) -> dict[str, Any]:
    """Sums over all deals: what was approved (or only put forward: `label`), what is confirmed, and by how
    much the confirmed departs."""
    over = (DealStatus.CANCELLED, DealStatus.EXPIRED, DealStatus.FAILED)
    undecided = rows.deals_in(*UNDECIDED) == rows.deal_count - rows.deals_in(*over)
    left_out = over if undecided else (*over, *UNDECIDED)
    confirmed = [one for one in rows.sums if one.confirmed is not None]
    changed = sum((one.confirmed or Decimal(0)) - one.confirmed_of for one in confirmed)
    amount = text.amount(changed, rows.campaign.currency)
    return {
        "label": "Put forward" if undecided else "Approved",
        "approved": sum((one.approved for one in rows.sums if one.status not in left_out), Decimal(0)),
        "confirmed": sum(one.confirmed or Decimal(0) for one in confirmed) if confirmed else None,
        "changed": f"{'+' if changed > 0 else ''}{amount}" if changed else "",
    }


def next_waits(rows: CampaignRows, who: User) -> list[Waiting]:
    """What is waited for: people first, then sellers; where nobody is, what runs by itself."""
    out = {o.seller_id for o in rows.operations if o.settled_at is None and o.status in _WITH_SELLER}
    found = waits_of(
        approvals=rows.approvals,
        operations=rows.operations,
        who=who,
        estimates=estimates_of(sellers=out, task_type="create_media_buy"),
        decisions=rows.decisions,
        answers=rows.answers,
    )
    if found or rows.campaign.is_terminal or rows.campaign.status in (S.FAILED, S.VALIDATION_FAILED):
        return found
    return [_by_itself(rows.campaign) if rows.goes_on else _kept(rows)]


def _by_itself(campaign: Campaign) -> Waiting:
    return Waiting(
        glyph="running",
        text="The next step runs by itself",
        link="",
        whom="a worker",
        since=f"since {text.moment_short(campaign.status_since)}",
        until="",
        otherwise="Nobody has to act; it is taken within seconds",
    )


def _kept(rows: CampaignRows) -> Waiting:
    """Its deals are kept from being bought by what nobody is asked about."""
    told = campaign_answers(rows.progress)
    return Waiting(
        glyph="person",
        text=told.waiting.rstrip("."),
        link="",
        whom="",
        since=f"since {text.moment_short(rows.campaign.status_since)}",
        until="",
        otherwise=told.otherwise.rstrip("."),
        beside=movers_words(list(deal_movers(rows.progress))),
    )


def operation_lines(rows: CampaignRows) -> list[OperationLine]:
    """Purchases one by one, the newest first; settled reads of one task in one line."""
    single: list[OperationLine] = []
    reads: dict[tuple[str, str], list[Operation]] = {}
    for operation in rows.operations:
        if operation.is_mutation or operation.settled_at is None:
            single.append(_operation_line(operation))
        else:
            reads.setdefault((operation.task_type, operation.status), []).append(operation)
    return [*single[::-1], *(_reads_line(task, status, found) for (task, status), found in reads.items())]


def outcome_words(campaign: Campaign) -> list[Item]:
    """How its deals ended, once the campaign has."""
    glyphs = {"booked": "done", "failed": "failed", "open": "seller"}
    return [
        Item(glyph=glyphs.get(fate, "stopped"), text=f"{len(deals)} {fate}", note=", ".join(deals))
        for fate, deals in fates(campaign).items()
        if deals
    ]


def left_out_words(campaign: Campaign) -> list[tuple[str, str]]:
    """(seller and product, why) of everything that was not put forward, the same said once; of a seller that
    offered nothing, its words."""
    left = campaign.outcome.get(LEFT_OUT, [])
    told = ((", ".join(filter(None, (one["seller"], one["product"]))), one["why"]) for one in left)
    return list(dict.fromkeys(told))


def left_out_data(campaign: Campaign) -> dict[str, Any]:
    """The beginning of what was left out, and how much more there is."""
    told = left_out_words(campaign)
    more = max(0, len(told) - _LEFT_OUT_SHOWN) + campaign.outcome.get(LEFT_OUT_MORE, 0)
    return {
        "left_out": told[:_LEFT_OUT_OPEN],
        "left_out_rest": told[_LEFT_OUT_OPEN:_LEFT_OUT_SHOWN],
        "more_left_out": more,
    }


def _regions(campaign: Campaign, brief: dict[str, Any]) -> Any:
    """As they are bought; of a brief that is wrong, as they were written."""
    kept, _ = brief_kept(brief, now=campaign.created_at)
    return list(kept.geography.regions) if kept else as_dict(brief.get("geography")).get("regions")


def brief_facts(campaign: Campaign) -> list[tuple[str, str]]:
    """The brief as submitted, in words; whatever cannot be read is left out."""
    brief = campaign.brief if isinstance(campaign.brief, dict) else {}
    objective, geography, constraints = (
        as_dict(brief.get(k)) for k in ("objective", "geography", "constraints")
    )
    ceilings = [f"{basis.upper()} {value}" for basis, value in as_dict(constraints.get("ceilings")).items()]
    facts = [
        ("Booking", BOOKING_WORDS[campaign.booking]),
        ("Objective", as_words(objective.get("goal"))),
        (
            "KPI",
            f"{as_words(objective.get('kpi'))} {text.number(objective.get('target'))}" if objective else "",
        ),
        ("Audience", as_words(brief.get("audience"))),
        ("Geography", as_words(geography.get("countries"))),
        ("Regions", as_words(_regions(campaign, brief))),
        ("Formats", as_words(brief.get("formats"))),
        ("Measurement", as_words(brief.get("measurement"))),
        ("Ceilings", ", ".join(ceilings)),
        ("Not to be asked", as_words(constraints.get("excluded_sellers"))),
    ]
    return [(label, words) for label, words in facts if words]


def deal_groups(rows: CampaignRows) -> list[DealGroup]:
    """The deals that were read, with their packages."""
    return [deal_group(deal, rows.deals, rows.decisions) for deal in rows.deals.deals]


def _operation_line(operation: Operation) -> OperationLine:
    return OperationLine(
        task=operation.task_type,
        reference=operation.reference,
        seller=operation.seller.name,
        status=operation.status,
        age=None if operation.settled_at else operation_age(operation),
        took=operation_took(operation),
        settled=settled_words(operation),
        link=link_to(Operation, operation.pk),
    )


def _reads_line(task: str, status: str, found: list[Operation]) -> OperationLine:
    if len(found) == 1:
        return _operation_line(found[0])
    spans = sorted(o.settled_at - (o.sent_at or o.created_at) for o in found if o.settled_at)
    retried = sum(o.attempts > 1 for o in found)
    took = f"{text.duration(spans[0])} to {text.duration(spans[-1])}" + (
        f", {retried} retried" if retried else ""
    )
    settled = sorted({settled_words(operation) for operation in found})
    return OperationLine(
        task=task,
        reference=f"{len(found)} calls, {text.moment_short(found[0].sent_at or found[0].created_at)}",
        seller=f"{plural(len({o.seller_id for o in found}), 'seller')}",
        status=status,
        age=None,
        took=took,
        settled=", ".join(settled),
        link="",
    )


def _names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    return {
        c.pk: EntityName(reference=c.reference, name=c.name, link=link_to(Campaign, c.pk))
        for c in campaign_names(ids)
    }


def named_problems(campaign: Campaign) -> Iterable[tuple[str, str]]:
    """(field, problem) of what is wrong with the brief."""
    for problem in campaign.problems:
        if isinstance(problem, dict):
            yield str(problem.get("field", "brief")), str(problem.get("problem", ""))


namer_register("campaign", _names)
