"""Tools about the money of one deal, and about deals booked differently from what was approved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pydantic import Field

from orders.amounts import (
    COMMITTED,
    Amounts,
    approved_shown,
    confirmed_of,
    deal_amounts,
    line_amounts,
    ran_uncounted,
)
from orders.assistant.channels import channel_fact
from orders.assistant.scoped_deals import (
    VIEW_DEAL,
    campaign_names_of,
    deal_links,
    find_deal,
    visible_deals,
)
from orders.changes.open_changes import reserved_by_deal
from orders.models import UNDECIDED, Deal
from orders.rooms import LEFT_AFTER, budget_after
from orders.terms.compare import PACKAGE
from orders.terms.stated import TOTAL
from tasks_app.assistant.tools.answer_text import money, sentences, some_of, status_word
from tasks_app.assistant.tools.facts import (
    MOST_ROWS,
    Fact,
    Row,
    amount_fact,
    foreign_fact,
    rows_data,
    rows_not_shown,
    table_of,
)
from tasks_app.assistant.tools.objects import links_to, visible_rows
from tasks_app.assistant.tools.registry import Arguments, NoArguments, Tool, ToolAnswer
from tasks_app.assistant.tools.sellers import seller_fact
from tasks_app.desk.items import plural
from tasks_app.money import decimal_of
from tasks_app.operations.conflict import Conflict
from tasks_app.people.models import User

_IN_MONEY = ("budget", PACKAGE, TOTAL)


class DealArguments(Arguments):
    """Arguments of `deal_money`."""

    deal: str = Field(min_length=1, description="Reference of the deal, such as DEAL-2026-17.")


def deal_money(user: User, wanted: DealArguments) -> ToolAnswer:
    """Return what a deal comes to, whole and by package. Raise ToolRefusedError for an unknown deal."""
    deal = find_deal(user, wanted.deal)
    amounts = deal_amounts(deal)
    reserved = reserved_by_deal(Deal.objects.filter(pk=deal.pk)).get(deal.pk, Decimal(0))
    names = campaign_names_of([deal], user)
    campaign = next((name.reference for name in names.values()), "")
    remaining = budget_after(deal, amounts.committed + reserved).get(LEFT_AFTER) if campaign else None
    lines = _line_rows(deal)
    return ToolAnswer(
        summary=sentences(
            _money_sentence(deal, amounts),
            _pending_change_sentence(deal, reserved),
            "" if remaining is None else _remaining_sentence(campaign, remaining, deal.currency),
            rows_not_shown(len(lines)),
        ),
        table=table_of(lines),
        links=deal_links([deal], names, user),
        data={
            "deal": deal.reference,
            "seller": deal.seller.slug,
            "status": deal.status,
            "campaign": campaign or None,
            _asked_word(deal): amount_fact(approved_shown(deal), deal.currency).value,
            "confirmed": amount_fact(amounts.confirmed, deal.currency).value,
            "committed": amount_fact(amounts.committed, deal.currency).value,
            "reserved_by_open_changes": amount_fact(reserved, deal.currency).value,
            "remaining_of_campaign": amount_fact(remaining, deal.currency).value,
            "packages": rows_data(lines),
        },
    )


def open_differences(user: User, _wanted: NoArguments) -> ToolAnswer:
    """Return the deals booked differently from what was approved, and the open conflicts, newest first."""
    deals = visible_deals(user).filter(differs=True)
    conflicts = visible_rows("conflict", user).filter(resolved_at__isnull=True)
    differing, disputes = deals.count(), conflicts.count()
    shown, disputed = list(deals[:MOST_ROWS]), list(conflicts[:MOST_ROWS])
    rows = [*_difference_rows(shown), *map(_conflict_row, disputed)]
    sellers = [*(deal.seller for deal in shown), *(one.operation.seller for one in disputed)]
    return ToolAnswer(
        summary=sentences(
            _differing_sentence(shown, differing),
            _conflict_sentence(disputed, disputes),
            rows_not_shown(len(rows) + differing - len(shown) + disputes - len(disputed)),
        ),
        table=table_of(rows),
        links=[
            *links_to("deal", shown, user),
            *links_to("conflict", disputed, user),
            *links_to("seller", sellers, user),
        ],
        data={"deals": differing, "conflicts": disputes, "differences": rows_data(rows)},
    )


def _asked_word(deal: Deal) -> str:
    return "approved" if deal.status in COMMITTED else "put_forward"


def _money_sentence(deal: Deal, amounts: Amounts) -> str:
    named = f"{deal.reference} with {deal.seller.name}"
    approved, committed = money(amounts.approved, deal.currency), money(amounts.committed, deal.currency)
    if deal.status in UNDECIDED:
        return f"{named} is {status_word(deal.status)}: {approved} is put forward and nothing is committed."
    if deal.status not in COMMITTED:
        return f"{named} is {status_word(deal.status)}: nothing of the {approved} put forward is committed."
    confirmed = "has confirmed no amount"
    if amounts.confirmed is not None:
        confirmed = f"confirms {money(amounts.confirmed, deal.currency)}"
    if deal.unapproved:
        return f"Nobody has approved {named} yet: {committed} is committed; its seller {confirmed}."
    standing = f"{approved} is approved and {committed} is committed"
    return f"{named} is {status_word(deal.status)}: {standing}; its seller {confirmed}."


def _pending_change_sentence(deal: Deal, reserved: Decimal) -> str:
    """Return what the amounts do not say: what an open change reserves, what ran of a cancelled deal."""
    if reserved:
        return f"An open change reserves {money(reserved, deal.currency)} more."
    if ran_uncounted(deal):
        return "It was cancelled after its flight began: what has run is owed and is in no amount here."
    return "People decide whether what its seller booked is accepted." if deal.differs else ""


def _remaining_sentence(campaign: str, remaining: Decimal, currency: str) -> str:
    if remaining < 0:
        return f"{campaign} is {money(-remaining, currency)} over its budget."
    return f"{money(remaining, currency)} of the budget of {campaign} remains."


def _line_rows(deal: Deal) -> list[Row]:
    title = _asked_word(deal).replace("_", " ").capitalize()
    each = [(line, line_amounts(deal, line)) for line in deal.lines.all()]
    return [
        {
            "Package": line.position,
            "Product": foreign_fact(line.product_name),
            "Channel": channel_fact(line.channel),
            title: amount_fact(amounts.approved, deal.currency),
            "Confirmed": amount_fact(amounts.confirmed, deal.currency),
            "Committed": amount_fact(amounts.committed, deal.currency),
        }
        for line, amounts in each
    ]


def _differing_sentence(deals: Sequence[Deal], total: int) -> str:
    if not total:
        return "No deal that you see is booked differently from what was approved."
    named = [f"{deal.reference} with {deal.seller.name} ({_change_words(deal)})" for deal in deals]
    are = f"{plural(total, 'deal')} {'is' if total == 1 else 'are'}"
    return f"{are} booked differently from what was approved: {some_of(named, total)}."


def _change_words(deal: Deal) -> str:
    """Return "USD 1,750 more", or that only other terms differ."""
    approved, confirmed = approved_shown(deal), confirmed_of(deal)
    if approved is None:
        return "nobody has approved it"
    if confirmed is None or confirmed == approved:
        return "other terms"
    change = money(abs(confirmed - approved), deal.currency)
    return f"{change} {'more' if confirmed > approved else 'less'}"


def _conflict_sentence(conflicts: Sequence[Conflict], total: int) -> str:
    if not total:
        return "No conflict that you see is open."
    named = [f"{one.reference} with {one.operation.seller.name}" for one in conflicts]
    are = f"{plural(total, 'conflict')} {'is' if total == 1 else 'are'}"
    return f"{are} open: {some_of(named, total)}."


def _difference_rows(deals: Iterable[Deal]) -> Iterable[Row]:
    for deal in deals:
        for found in deal.differences:
            yield {
                "Object": deal.reference,
                "Seller": seller_fact(deal.seller),
                "Product": foreign_fact(found["product"]),
                "Difference": found["field"].replace("_", " "),
                "Approved": _side_fact(found, "approved", deal.currency),
                "Booked": _side_fact(found, "confirmed", deal.currency),
            }


def _side_fact(found: Mapping[str, Any], side: str, currency: str) -> Fact:
    """Return one side of a difference: an amount, or what the seller stated."""
    amount = decimal_of(found[side]) if found["field"] in _IN_MONEY else None
    return foreign_fact(found[side]) if amount is None else amount_fact(amount, currency)


def _conflict_row(conflict: Conflict) -> Row:
    return {
        "Object": conflict.reference,
        "Seller": seller_fact(conflict.operation.seller),
        "Product": None,
        "Difference": conflict.get_kind_display().lower(),
        "Approved": None,
        "Booked": None,
    }


DEAL_MONEY = Tool(
    name="deal_money",
    description="State the money of one deal: approved, confirmed by the seller, committed, and what remains "
    "of its campaign's budget; by package in the table.",
    arguments=DealArguments,
    right=VIEW_DEAL,
    run=deal_money,
)
OPEN_DIFFERENCES = Tool(
    name="open_differences",
    description="List the deals that sellers booked differently from what was approved and nobody has "
    "accepted, and the open conflicts: sellers that contradict themselves.",
    arguments=NoArguments,
    right=VIEW_DEAL,
    run=open_differences,
)
