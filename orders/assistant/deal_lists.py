"""Tools that list deals: by status, seller or campaign, and by their next dates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from django.db.models import QuerySet
from pydantic import Field

from orders.assistant.scoped_deals import (
    VIEW_DEAL,
    campaign_names_of,
    committed_amounts,
    deal_links,
    deal_row,
    status_counts,
    visible_deals,
)
from orders.cost_dates import OVER
from orders.models import Deal, DealStatus
from orders.next_dates import with_dates
from tasks_app import clock, days
from tasks_app.assistant.tools.answer_text import counted_statuses, money_list, sentences, status_word
from tasks_app.assistant.tools.facts import (
    MOST_ROWS,
    Fact,
    amounts_data,
    rows_data,
    rows_not_shown,
    table_of,
)
from tasks_app.assistant.tools.objects import find_by_reference, links_to, visible_rows
from tasks_app.assistant.tools.registry import Arguments, Link, Tool, ToolAnswer
from tasks_app.assistant.tools.sellers import SELLER_FIELD, find_seller
from tasks_app.desk import text
from tasks_app.desk.items import plural
from tasks_app.people.models import User

DateKind = Literal["ends", "starts", "creatives"]
_KINDS = {"ends": "end", "starts": "start", "creatives": "creative"}


class DealFilter(Arguments):
    """Arguments of `list_deals`."""

    status: DealStatus | None = Field(default=None, description="Only deals with this status.")
    seller: str = Field(default="", description=f"Only deals with this seller. {SELLER_FIELD}")
    campaign: str = Field(default="", description="Only deals of this campaign: its reference.")
    limit: int = Field(default=MOST_ROWS, ge=1, le=MOST_ROWS, description="How many deals the table has.")


class DatesArguments(Arguments):
    """Arguments of `upcoming_deals`."""

    what: DateKind = Field(description="Flights that end, flights that start, or creatives that are due.")
    within_days: int = Field(ge=1, le=90, description="How many days from now.")


def list_deals(user: User, wanted: DealFilter) -> ToolAnswer:
    """Return the deals that fit, newest first. Raise ToolRefusedError for an unknown seller or campaign."""
    rows, about, links = _narrowed(user, wanted)
    counts, committed = status_counts(rows), committed_amounts(rows)
    total, shown = counts.total(), list(rows[: wanted.limit])
    names = campaign_names_of(shown, user)
    table = [deal_row(deal, names) for deal in shown]
    by_status = "" if wanted.status else f": {counted_statuses(counts)}"
    found = f"You see {plural(total, 'deal')}{about}{by_status}."
    return ToolAnswer(
        summary=sentences(
            found if total else f"You see no deals{about}.",
            f"They commit {money_list(committed)}." if committed else "",
            rows_not_shown(total, len(shown)),
        ),
        table=table_of(table),
        links=list(dict.fromkeys([*links, *deal_links(shown, names, user)])),
        data={
            "total": total,
            "by_status": dict(counts),
            "committed": amounts_data(committed),
            "deals": rows_data(table),
        },
    )


def upcoming_deals(user: User, wanted: DatesArguments) -> ToolAnswer:
    """Return the deals whose flight ends or starts, or whose creatives are due, soon; the next date first."""
    now, kind = clock.now(), _KINDS[wanted.what]
    open_deals = visible_deals(user).exclude(status__in=OVER)
    rows = with_dates(open_deals, [kind], since=now, until=now + timedelta(days=wanted.within_days))
    total, shown = rows.count(), list(rows[:MOST_ROWS])
    names = campaign_names_of(shown, user)
    date = {"ends": "Last day", "starts": "First day", "creatives": "Creatives due"}[wanted.what]
    table = [{**deal_row(deal, names), date: _date_fact(deal, kind)} for deal in shown]
    return ToolAnswer(
        summary=sentences(
            _dates_sentence(wanted, total),
            _first_sentence(shown, kind),
            _unreadable_sentence(open_deals) if kind == "creative" else "",
            rows_not_shown(total),
        ),
        table=table_of(table),
        links=deal_links(shown, names, user),
        data={"total": total, "deals": rows_data(table)},
    )


def _narrowed(user: User, wanted: DealFilter) -> tuple[QuerySet[Deal], str, list[Link]]:
    """Return the rows, the words for what they are narrowed to, and links to what was named."""
    rows, about = visible_deals(user), ""
    links: list[Link] = []
    if wanted.seller:
        seller = find_seller(user, wanted.seller)
        rows, about = rows.filter(seller=seller), f"{about} with {seller.name}"
        links += links_to("seller", [seller], user)
    if wanted.campaign:
        campaign = find_by_reference("campaign", wanted.campaign, visible_rows("campaign", user))
        rows, about = rows.filter(campaign_id=campaign.pk), f"{about} of {campaign.reference}"
        links += links_to("campaign", [campaign], user)
    if wanted.status:
        rows, about = rows.filter(status=wanted.status), f"{about} in status {status_word(wanted.status)}"
    return rows, about, links


def _dates_sentence(wanted: DatesArguments, total: int) -> str:
    within = f"within {plural(wanted.within_days, 'day')}"
    if wanted.what == "creatives":
        what = f"Creatives of {plural(total, 'deal')}" if total else "No creatives that you see"
        return f"{what} are due {within}."
    if total > 1:
        return f"The flights of {total} deals {wanted.what.removesuffix('s')} {within}."
    return f"{'The flight of 1 deal' if total else 'No flight that you see'} {wanted.what} {within}."


def _first_sentence(deals: Sequence[Deal], kind: str) -> str:
    if not deals:
        return ""
    first = deals[0]
    date, zone = _date_text(first, kind), text.zone_name(first.zone)
    when = date if date.endswith(zone) else f"{date}, {zone}"
    return f"The first is {first.reference} with {first.seller.name}: {when}."


def _unreadable_sentence(deals: QuerySet[Deal]) -> str:
    unread = deals.filter(mirror__as_stated__has_key="creative_deadline").count()
    return f"Of {plural(unread, 'deal')} the seller states a date that cannot be read." if unread else ""


def _date_fact(deal: Deal, kind: str) -> Fact:
    """Return the date: in JSON a flight's day, or the moment at which creatives are due."""
    shown, due = _date_text(deal, kind), deal.creative_deadline
    if kind == "creative":
        return Fact(shown, due.isoformat() if due else None)
    day = days.day_of(deal.start_at, deal.zone) if kind == "start" else days.last_day(deal.end_at, deal.zone)
    return Fact(shown, day.isoformat())


def _date_text(deal: Deal, kind: str) -> str:
    """Return a flight's first or last day, or the moment at which creatives are due."""
    if kind == "creative":
        return text.moment_there(deal.creative_deadline, deal.zone)
    return text.flight_edge(kind, deal.start_at if kind == "start" else deal.end_at, deal.zone)


LIST_DEALS = Tool(
    name="list_deals",
    description="List deals, newest first, with status, flight and amount; narrowed by status, seller or "
    "campaign. Also counts them by status and states what they commit.",
    arguments=DealFilter,
    right=VIEW_DEAL,
    run=list_deals,
)
UPCOMING_DEALS = Tool(
    name="upcoming_deals",
    description="List the deals whose flight ends, whose flight starts, or whose creatives are due, within "
    "a number of days; the next date first.",
    arguments=DatesArguments,
    right=VIEW_DEAL,
    run=upcoming_deals,
)
