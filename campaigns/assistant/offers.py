"""Tool that compares what sellers offered for a campaign."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal

from campaigns.assistant.scoped_campaigns import (
    VIEW_CAMPAIGN,
    CampaignArguments,
    campaign_links,
    find_campaign,
)
from campaigns.brief import RATE_BASES
from campaigns.models import Campaign
from campaigns.outcome import LEFT_OUT, LEFT_OUT_MORE
from orders.assistant.channels import channel_fact
from orders.assistant.scoped_deals import deal_amount, visible_deals
from orders.models import Deal, DealLine
from tasks_app.assistant.tools.answer_text import money, quoted_name, sentences, some_of
from tasks_app.assistant.tools.facts import (
    Fact,
    Row,
    amount_fact,
    foreign_fact,
    rows_data,
    rows_not_shown,
    status_fact,
    table_of,
)
from tasks_app.assistant.tools.registry import Tool, ToolAnswer
from tasks_app.assistant.tools.sellers import seller_fact
from tasks_app.desk import terms
from tasks_app.desk.items import plural
from tasks_app.people.models import User

_Line = tuple[Deal, DealLine]
_LeftOut = tuple[str, str, str, str]  # seller, product, channel, reason


def compare_offers(user: User, wanted: CampaignArguments) -> ToolAnswer:
    """Return what was put forward for a campaign, and what was left out with its reason.

    Raises:
        ToolRefusedError: The user may see no such campaign.
    """
    campaign = find_campaign(user, wanted.campaign)
    deals = list(visible_deals(user).filter(campaign_id=campaign.pk).order_by("pk"))
    lines = [(deal, line) for deal in deals for line in deal.lines.all()]
    left_out = _left_out(campaign)
    total_left_out = len(left_out) + campaign.outcome.get(LEFT_OUT_MORE, 0)
    rows = [*map(_offer_row, lines), *map(_left_out_row, left_out)]
    return ToolAnswer(
        summary=sentences(
            _offers_sentence(campaign, deals),
            _lowest_rate_sentence(lines),
            f"Flightdeck left out {plural(total_left_out, 'offer')}." if total_left_out else "",
            rows_not_shown(len(lines) + total_left_out),
        ),
        table=table_of(rows),
        links=campaign_links(campaign, deals, user),
        quoted={"campaign_name": campaign.name},
        data={
            "campaign": campaign.reference,
            "left_out": total_left_out,
            "left_out_by_seller": dict(Counter(seller for seller, *_ in left_out)),
            "offers": rows_data(rows),
        },
    )


def _left_out(campaign: Campaign) -> list[_LeftOut]:
    """Return what was not put forward; several prices of one product with the same reason are one."""
    kept = campaign.outcome.get(LEFT_OUT, ())
    found = ((one["seller"], one["product"], one.get("channel", ""), one["why"]) for one in kept)
    return list(dict.fromkeys(found))


def _offers_sentence(campaign: Campaign, deals: Sequence[Deal]) -> str:
    named = f"{campaign.reference} {quoted_name(campaign.name)}"
    if not deals:
        return f"Nothing is put forward for {named}."
    each = [f"{deal.seller.name} with {money(deal_amount(deal), deal.currency)}" for deal in deals]
    return f"For {named} Flightdeck put forward {plural(len(deals), 'deal')}: {some_of(each, len(each))}."


def _lowest_rate_sentence(lines: Iterable[_Line]) -> str:
    """Return who asks least under the pricing model that most sellers use; empty without two sellers."""
    rates: defaultdict[tuple[str, str], dict[str, Decimal]] = defaultdict(dict)
    for deal, line in lines:
        if line.rate is not None and line.pricing_model in RATE_BASES:
            known = rates[line.pricing_model, deal.currency]
            known[deal.seller.name] = min(line.rate, known.get(deal.seller.name, line.rate))
    if not rates:
        return ""
    (model, currency), asked = max(rates.items(), key=lambda pair: len(pair[1]))
    if len(asked) < 2:
        return ""
    lowest = min(asked.values())
    sellers = [seller for seller, rate in asked.items() if rate == lowest]
    basis = terms.rate_basis(model, True).removesuffix(", fixed")
    return f"The lowest {basis} is {money(lowest, currency)}, from {some_of(sellers, len(sellers))}."


def _offer_row(offer: _Line) -> Row:
    deal, line = offer
    budget, basis = line.budget, terms.rate_basis(line.pricing_model, line.is_fixed)
    is_known = line.pricing_model in RATE_BASES
    return {
        "Deal": deal.reference,
        "Seller": seller_fact(deal.seller),
        "Product": foreign_fact(line.product_name),
        "Channel": channel_fact(line.channel),
        "Rate": amount_fact(line.rate, deal.currency),
        "Pricing": Fact(basis, line.pricing_model) if is_known else foreign_fact(basis),
        "Budget": amount_fact(budget, deal.currency),
        "Forecast": foreign_fact(terms.forecast(line.forecast, budget, deal.currency)),
        "Status": status_fact(deal.status),
        "Why it is left out": None,
    }


def _left_out_row(one: _LeftOut) -> Row:
    seller, product, channel, why = one
    return {
        "Deal": None,
        "Seller": seller,
        "Product": foreign_fact(product),
        "Channel": channel_fact(channel),
        **dict.fromkeys(("Rate", "Pricing", "Budget", "Forecast")),
        "Status": "left out",
        "Why it is left out": foreign_fact(why),
    }


COMPARE_OFFERS = Tool(
    name="compare_offers",
    description="Compare what sellers offered for one campaign: product, rate, pricing model, budget and "
    "forecast of each package that was put forward, and what was left out with the reason.",
    arguments=CampaignArguments,
    right=VIEW_CAMPAIGN,
    run=compare_offers,
)
