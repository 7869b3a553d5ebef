"""Tools about sellers: what is committed with one, and how several compare."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from pydantic import Field

from orders.amounts import COMMITTED
from orders.assistant.scoped_deals import VIEW_DEAL, committed_amounts, status_counts, visible_deals
from orders.models import CONFIRMED, Deal, DealStatus
from orders.questions import DEAL
from orders.selectors import deal_sums
from tasks_app import days
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.assistant.tools.answer_text import counted_statuses, money_list, sentences, some_of
from tasks_app.assistant.tools.facts import (
    Fact,
    Row,
    amount_fact,
    amounts_data,
    duration_fact,
    foreign_fact,
    rows_data,
    status_fact,
    table_of,
)
from tasks_app.assistant.tools.objects import links_to, visible_rows
from tasks_app.assistant.tools.registry import Arguments, Tool, ToolAnswer
from tasks_app.assistant.tools.sellers import SELLER_FIELD, find_seller, seller_fact
from tasks_app.desk import text
from tasks_app.desk.items import plural
from tasks_app.operations.estimates import estimates_of
from tasks_app.people.models import User
from tasks_app.sellers.health import SellerHealth, health_of
from tasks_app.sellers.models import Seller, SellerBreaker
from tasks_app.sellers.presenters import health_line

_MOST_COMPARED = 10
_NO_DEALS = {"deals": 0, "booked": 0, "failed": 0, "rejected": 0}


class SpendArguments(Arguments):
    """Arguments of `seller_spend`."""

    seller: str = Field(min_length=1, description=SELLER_FIELD)
    since: date | None = Field(
        default=None,
        ge=date(2000, 1, 1),
        le=date(2199, 12, 31),
        description="Only deals put forward on this day or later.",
    )


class SellersArguments(Arguments):
    """Arguments of `compare_sellers`."""

    sellers: list[str] = Field(
        default_factory=list,
        max_length=_MOST_COMPARED,
        description="Short names or names of sellers; empty for those with which the user has most deals.",
    )


@dataclass(frozen=True, kw_only=True)
class SellerFigures:
    """One seller beside others: the deals that the user sees, how fast it answers purchases, its health."""

    seller: Seller
    counts: Mapping[str, int]
    committed: Sequence[tuple[str, Decimal]]
    median: timedelta | None
    ninetieth: timedelta | None
    health: SellerHealth

    @property
    def is_suspended(self) -> bool:
        """Return whether Flightdeck does not call the seller, because too many calls failed."""
        breaker = self.health.breaker
        return breaker is not None and breaker.state != SellerBreaker.State.CLOSED


def seller_spend(user: User, wanted: SpendArguments) -> ToolAnswer:
    """Return what is committed with a seller. Raise ToolRefusedError for an unknown seller."""
    seller = find_seller(user, wanted.seller)
    deals = visible_deals(user).filter(seller=seller)
    about = f"with {seller.name}"
    if wanted.since:
        deals = deals.filter(created_at__gte=days.start_of(wanted.since))
        about = f"{about} put forward since {text.weekday(wanted.since)} ({text.zone_name()})"
    counts, committed, rows = status_counts(deals), committed_amounts(deals), _sum_rows(deals)
    total = counts.total()
    found = f"You see {plural(total, 'deal')} {about}: {counted_statuses(counts)}."
    return ToolAnswer(
        summary=sentences(
            found if total else f"You see no deals {about}.",
            f"They commit {money_list(committed)}." if total else "",
        ),
        table=table_of(rows),
        links=links_to("seller", [seller], user),
        data={
            "seller": seller.slug,
            "since": wanted.since.isoformat() if wanted.since else None,
            "committed": amounts_data(committed),
            "by_status": dict(counts),
            "sums": rows_data(rows),
        },
    )


def compare_sellers(user: User, wanted: SellersArguments) -> ToolAnswer:
    """Return how sellers compare. Raise ToolRefusedError for an unknown seller."""
    sellers, more = _sellers_wanted(user, wanted.sellers)
    if not sellers:
        return ToolAnswer(summary="You see no deals with any seller, so there is nothing to compare.")
    figures = _figures(user, sellers)
    rows = [_compared_row(one) for one in figures]
    leaves_out = f" and leaves out {more}" if more else ""
    return ToolAnswer(
        summary=sentences(
            f"The table compares {plural(len(sellers), 'seller')}{leaves_out}.",
            _most_booked(figures),
            _fastest(figures),
            _suspended(figures),
        ),
        table=table_of(rows),
        links=links_to("seller", sellers, user),
        data={"sellers": rows_data(rows), "sellers_left_out": more},
    )


def _sum_rows(deals: QuerySet[Deal]) -> list[Row]:
    currencies = deals.order_by("currency").values_list("currency", flat=True).distinct()
    each = [(code, sums) for code in currencies for sums in deal_sums(deals.filter(currency=code))]
    return [
        {
            "Status": status_fact(sums.status),
            "Deals": sums.deals,
            "Put forward": amount_fact(None if sums.status in COMMITTED else sums.approved, code),
            "Approved": amount_fact(sums.approved if sums.status in COMMITTED else None, code),
            "Confirmed": amount_fact(sums.confirmed, code),
        }
        for code, sums in each
    ]


def _sellers_wanted(user: User, named: Sequence[str]) -> tuple[list[Seller], int]:
    """Return the sellers to compare, and with how many others the user has deals."""
    if named:
        return list(dict.fromkeys(find_seller(user, name) for name in named)), 0
    deals = visible_deals(user).order_by().values("seller_id").annotate(count=Count("pk"))
    ranked = [row["seller_id"] for row in deals.order_by("-count", "seller_id")]
    found = visible_rows("seller", user).in_bulk(ranked[:_MOST_COMPARED])
    sellers = [found[pk] for pk in ranked if pk in found]
    return sellers, len(ranked) - len(sellers)


def _figures(user: User, sellers: Sequence[Seller]) -> list[SellerFigures]:
    ids = [seller.pk for seller in sellers]
    counts, health = _deal_counts(user, ids), health_of(sellers)
    estimates = estimates_of(sellers=ids, task_type="create_media_buy")
    return [
        SellerFigures(
            seller=seller,
            counts=counts.get(seller.pk, _NO_DEALS),
            committed=committed_amounts(visible_deals(user).filter(seller=seller)),
            median=estimates[seller.pk].median if seller.pk in estimates else None,
            ninetieth=estimates[seller.pk].ninetieth if seller.pk in estimates else None,
            health=health[seller.pk],
        )
        for seller in sellers
    ]


def _deal_counts(user: User, sellers: Collection[uuid.UUID]) -> dict[uuid.UUID, Mapping[str, int]]:
    """Return how many deals each seller has, and how many are booked, failed and rejected by people."""
    refused = Approval.objects.filter(
        kind=DEAL, subject_type="deal", subject_id=OuterRef("pk"), status=ApprovalStatus.REJECTED
    )
    deals = visible_deals(user).filter(seller__in=sellers).annotate(refused=Exists(refused))
    counted = (
        deals.order_by()
        .values("seller_id")
        .annotate(
            deals=Count("pk"),
            booked=Count("pk", filter=Q(status__in=CONFIRMED)),
            failed=Count("pk", filter=Q(status=DealStatus.FAILED)),
            rejected=Count("pk", filter=Q(status=DealStatus.CANCELLED, refused=True)),
        )
    )
    rows = counted.values_list("seller_id", *_NO_DEALS)
    return {seller: dict(zip(_NO_DEALS, counts, strict=True)) for seller, *counts in rows}


def _most_booked(figures: Sequence[SellerFigures]) -> str:
    best = max(figures, key=lambda one: one.counts["booked"])
    booked = best.counts["booked"]
    if not booked:
        return "None of them has booked a deal that you see."
    return f"{best.seller.name} has the most booked deals: {booked} of {best.counts['deals']}."


def _fastest(figures: Iterable[SellerFigures]) -> str:
    known = [(one.median, one.seller.name) for one in figures if one.median is not None]
    if not known:
        needed = settings.ESTIMATE_SAMPLE
        return f"None of them has answered the {needed} purchases that an estimate of its speed needs."
    median, name = min(known)
    return f"{name} answers purchases fastest: half of its answers come within {text.duration(median)}."


def _suspended(figures: Iterable[SellerFigures]) -> str:
    names = [one.seller.name for one in figures if one.is_suspended]
    if not names:
        return ""
    return f"Flightdeck does not call {some_of(names, len(names))} now: too many calls failed."


def _compared_row(one: SellerFigures) -> Row:
    calls = one.health.calls
    return {
        "Seller": seller_fact(one.seller),
        "Health": foreign_fact(health_line(one.health).text if one.seller.active else "Switched off"),
        "Call errors in 24 h": Fact(f"{calls.errors} of {calls.count}", [calls.errors, calls.count]),
        "Changes completed": _share_fact(one.health.share("completed")),
        "Deals": one.counts["deals"],
        "Booked": one.counts["booked"],
        "Failed": one.counts["failed"],
        "Rejected": one.counts["rejected"],
        "Committed": Fact(money_list(one.committed), amounts_data(one.committed)),
        "Half of answers within": duration_fact(one.median),
        "Nine in ten within": duration_fact(one.ninetieth),
    }


def _share_fact(share: float | None) -> Fact:
    return Fact(text.DASH, None) if share is None else Fact(f"{round(100 * share)} %", round(share, 3))


SELLER_SPEND = Tool(
    name="seller_spend",
    description="State what is committed with one seller, by currency, and how many deals with it have each "
    "status; of all time or since a day.",
    arguments=SpendArguments,
    right=VIEW_DEAL,
    run=seller_spend,
)
COMPARE_SELLERS = Tool(
    name="compare_sellers",
    description="Compare sellers: health, deals booked, failed and rejected by people, committed amounts, "
    "and how fast they answer purchases.",
    arguments=SellersArguments,
    right=VIEW_DEAL,
    run=compare_sellers,
)
