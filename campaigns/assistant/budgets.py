"""Tools about campaigns' budgets: a list of campaigns, and the money of one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal

from django.db.models import Count
from pydantic import Field

from campaigns.assistant.scoped_campaigns import (
    VIEW_CAMPAIGN,
    CampaignArguments,
    campaign_links,
    find_campaign,
    visible_campaigns,
)
from campaigns.commitments import Money, money_of
from campaigns.models import Campaign, CampaignStatus
from orders.amounts import COMMITTED, line_amounts
from orders.assistant.channels import channel_fact
from orders.assistant.scoped_deals import deal_amount, visible_deals
from orders.models import UNDECIDED, Deal
from tasks_app.assistant.tools.answer_text import (
    counted_statuses,
    money,
    quoted_name,
    sentences,
    status_word,
)
from tasks_app.assistant.tools.facts import (
    MOST_ROWS,
    Fact,
    Row,
    amount_fact,
    flight_fact,
    foreign_fact,
    rows_data,
    rows_not_shown,
    status_fact,
    table_of,
)
from tasks_app.assistant.tools.objects import links_to
from tasks_app.assistant.tools.registry import Arguments, Tool, ToolAnswer
from tasks_app.assistant.tools.sellers import seller_fact
from tasks_app.desk.items import plural
from tasks_app.people.models import User

_NOTHING = Decimal(0)


class CampaignFilter(Arguments):
    """Arguments of `list_campaigns`."""

    status: CampaignStatus | None = Field(default=None, description="Only campaigns with this status.")


def list_campaigns(user: User, wanted: CampaignFilter) -> ToolAnswer:
    """Return the user's campaigns with their budgets, newest first."""
    rows = visible_campaigns(user).defer("brief", "outcome")
    rows = rows.filter(status=wanted.status) if wanted.status else rows
    about = f" in status {status_word(wanted.status)}" if wanted.status else ""
    each = rows.order_by().values("status").annotate(count=Count("pk"))
    counts = Counter({row["status"]: row["count"] for row in each})
    total, shown = counts.total(), list(rows[:MOST_ROWS])
    sums = money_of([campaign.pk for campaign in shown])
    table = [_campaign_row(campaign, sums.get(campaign.pk, Money())) for campaign in shown]
    by_status = "" if wanted.status else f": {counted_statuses(counts)}"
    found = f"You see {plural(total, 'campaign')}{about}{by_status}."
    return ToolAnswer(
        summary=sentences(found if total else f"You see no campaigns{about}.", rows_not_shown(total)),
        table=table_of(table),
        links=links_to("campaign", shown, user),
        data={"total": total, "by_status": dict(counts), "campaigns": rows_data(table)},
    )


def campaign_money(user: User, wanted: CampaignArguments) -> ToolAnswer:
    """Return a campaign's budget and what its deals take. Raise ToolRefusedError for an unknown campaign."""
    campaign = find_campaign(user, wanted.campaign)
    sums = money_of([campaign.pk]).get(campaign.pk, Money())
    deals = list(
        visible_deals(user)
        .filter(campaign_id=campaign.pk, currency=campaign.currency, status__in=(*COMMITTED, *UNDECIDED))
        .order_by("pk")
    )
    rows = [*_channel_rows(campaign, sums, deals), *(_deal_row(deal, sums) for deal in deals)]
    return ToolAnswer(
        summary=sentences(*_money_sentences(campaign, sums), rows_not_shown(len(rows))),
        table=table_of(rows),
        links=campaign_links(campaign, deals, user),
        quoted={"campaign_name": campaign.name},
        data={**rows_data([_campaign_row(campaign, sums)])[0], "parts": rows_data(rows)},
    )


def _money_sentences(campaign: Campaign, sums: Money) -> Iterable[str]:
    named, code = f"{campaign.reference} {quoted_name(campaign.name)}", campaign.currency
    remaining = _remaining(campaign, sums)
    if campaign.budget is None or remaining is None:
        yield f"{named} has no budget that can be read, so nothing is committed."
        return
    yield f"{named} has a budget of {money(campaign.budget, code)}."
    waiting = f" and {money(sums.waiting, code)} is put forward" if sums.waiting else ""
    yield f"{money(_committed(sums), code)} is committed{waiting}."
    if remaining < 0:
        yield f"It is {money(-remaining, code)} over its budget."
    else:
        yield f"{money(remaining, code)} of the budget remains uncommitted."


def _committed(sums: Money) -> Decimal:
    return sums.confirmed + sums.approved


def _remaining(campaign: Campaign, sums: Money) -> Decimal | None:
    return None if campaign.budget is None else campaign.budget - _committed(sums)


def _campaign_row(campaign: Campaign, sums: Money) -> Row:
    code = campaign.currency
    is_counted = campaign.budget is not None
    return {
        "Campaign": campaign.reference,
        "Name": foreign_fact(campaign.name),
        "Advertiser": campaign.advertiser.name if campaign.advertiser else None,
        "Status": status_fact(campaign.status),
        "Flight": flight_fact(campaign.start_at, campaign.end_at, campaign.zone),
        "Budget": amount_fact(campaign.budget, code),
        "Committed": amount_fact(_committed(sums) if is_counted else None, code),
        "Put forward": amount_fact(sums.waiting if is_counted else None, code),
        "Remaining": amount_fact(_remaining(campaign, sums), code),
    }


def _channel_rows(campaign: Campaign, sums: Money, deals: Sequence[Deal]) -> Iterable[Row]:
    """Return what each channel may spend and takes, and what deals commit beside their packages."""
    allocated = {one.channel: one.amount for one in campaign.allocations.all()}
    committed: defaultdict[str, Decimal] = defaultdict(Decimal)
    put_forward: defaultdict[str, Decimal] = defaultdict(Decimal)
    for deal in deals:
        for line in deal.lines.all():
            amounts = line_amounts(deal, line)
            if deal.status in UNDECIDED:
                put_forward[line.channel] += amounts.approved
            else:
                committed[line.channel] += amounts.committed
    code = campaign.currency
    for channel in dict.fromkeys((*allocated, *committed, *put_forward)):
        amounts_of = (allocated.get(channel), committed[channel], put_forward[channel])
        yield _part_row("channel", code, *amounts_of, channel=channel_fact(channel))
    beside = _committed(sums) - sum(committed.values(), _NOTHING)
    if beside:
        yield _part_row("beside the packages", code, None, beside, None)


def _deal_row(deal: Deal, sums: Money) -> Row:
    put_forward = deal_amount(deal) if deal.status in UNDECIDED else None
    amounts = (None, sums.by_deal.get(deal.pk), put_forward)
    status = status_fact(deal.status)
    return _part_row(deal.reference, deal.currency, *amounts, seller=seller_fact(deal.seller), status=status)


def _part_row(
    part: str,
    currency: str,
    allocated: Decimal | None,
    committed: Decimal | None,
    put_forward: Decimal | None,
    *,
    channel: Fact | None = None,
    seller: Fact | None = None,
    status: Fact | None = None,
) -> Row:
    return {
        "Part": part,
        "Channel": channel,
        "Seller": seller,
        "Status": status,
        "Allocated": amount_fact(allocated, currency),
        "Committed": amount_fact(committed, currency),
        "Put forward": amount_fact(put_forward, currency),
    }


LIST_CAMPAIGNS = Tool(
    name="list_campaigns",
    description="List campaigns, newest first, with status, flight, budget, committed amount and what "
    "remains of the budget.",
    arguments=CampaignFilter,
    right=VIEW_CAMPAIGN,
    run=list_campaigns,
)
CAMPAIGN_MONEY = Tool(
    name="campaign_money",
    description="State the money of one campaign: budget, committed, put forward and remaining; by channel "
    "and by deal in the table.",
    arguments=CampaignArguments,
    right=VIEW_CAMPAIGN,
    run=campaign_money,
)
