"""What a deal comes to: the one definition of its money, which every sum, question and bound asks.

*Approved* is the sum of the lines' budgets. Until the seller has confirmed the purchase, it is the amount of
the answer that people last released to the seller's question, if there is one. *Confirmed* is what the
seller says it booked, packages that nobody ordered included. *Committed* is what the money is bound to: the
larger of approved and confirmed. *Outstanding* is committed and not confirmed yet. Zero is an amount: a
package that the seller cancelled comes to 0.

What has run of a media buy that was cancelled is owed all the same, and nobody here knows how much: sellers
state it in their reports and invoices. It is in no sum, and `ran_uncounted` is said wherever one is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Case, F, OuterRef, Q, QuerySet, Subquery, Sum, Value, When, Window
from django.db.models.functions import Coalesce, Greatest

from orders.models import CONFIRMED, Deal, DealLine, DealStatus, lines_read_once
from tasks_app.money import decimal_of
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.pauses import answers_let_go

_NOTHING = Decimal(0)
# Not bought yet, or given up before it was: what was answered is in no line of its.
_MAX_UNITS = Decimal(10) ** 18  # as many as a line holds
_ANSWERED, _GIVEN_UP = DealStatus.BOOKING, (DealStatus.FAILED, DealStatus.CANCELLED)
COMMITTED = (DealStatus.ACCEPTED, DealStatus.BOOKING, *CONFIRMED)


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """A deal's or a line's money, in the deal's currency; `confirmed` None: the seller has said nothing."""

    approved: Decimal
    confirmed: Decimal | None
    committed: Decimal

    @property
    def outstanding(self) -> Decimal:
        """Committed, and not confirmed yet."""
        return self.committed if self.confirmed is None else _NOTHING


def line_amounts(deal: Deal, line: DealLine) -> Amounts:
    """One package's."""
    return _amounts(deal, _NOTHING if deal.unapproved else line.budget, line.confirmed_budget)


def deal_amounts(deal: Deal) -> Amounts:
    """The whole deal's."""
    return _amounts(deal, approved_of(deal, lines_ordered(deal.lines.all())), deal.confirmed_gross)


def approved_of(deal: Deal, ordered: Decimal) -> Decimal:
    """What counts as approved of a deal whose lines come to `ordered`."""
    let_go = _answered_by(deal) if _is_answered(deal) else None
    return _agreed(deal, ordered) if let_go is None else let_go


def approved_and_left(deal: Deal) -> Decimal:
    """The same without an answer to the seller's question that has not left: what it is judged by."""
    let_go = _read(deal, answered(left=True)) if _is_answered(deal) else None
    return _agreed(deal, lines_ordered(deal.lines.all())) if let_go is None else let_go


def _is_answered(deal: Deal) -> bool:
    """`_unbought`, of one that was read."""
    return deal.status == _ANSWERED or (deal.status in _GIVEN_UP and not deal.media_buy_id)


def _unbought() -> Q:
    """Deals of which an answer to the seller's question about the purchase says what is approved: once one is
    booked, its lines and dates do."""
    return Q(status=_ANSWERED) | Q(status__in=_GIVEN_UP, media_buy_id="")


def _agreed(deal: Deal, ordered: Decimal) -> Decimal:
    return _NOTHING if deal.unapproved else ordered


def _answered_by(deal: Deal) -> Decimal | None:
    """As it was read with the deal, where it was (`with_answered`)."""
    known: dict[str, Any] = vars(deal)
    return known["answered"] if "answered" in known else _read(deal, answered())


def _read(deal: Deal, amount: Case) -> Decimal | None:
    paused = Continuation.objects.filter(operation__subject_type="deal", operation__subject_id=deal.pk)
    if not paused.exists():
        return None  # as of most: its seller never paused
    return Deal.objects.filter(pk=deal.pk).values_list(amount, flat=True).first()


def _amounts(deal: Deal, approved: Decimal, stated: Decimal | None) -> Amounts:
    told = stated if deal.status in CONFIRMED else None
    larger = approved if told is None else max(approved, told)
    return Amounts(
        approved=approved,
        confirmed=told,
        committed=larger if deal.status in COMMITTED else _NOTHING,
    )


def approved_shown(deal: Deal) -> Decimal | None:
    """What counts as approved, for people and integrators: None where nobody has approved anything yet."""
    return None if deal.unapproved else deal_amounts(deal).approved


def units_at(line: DealLine, budget: Decimal) -> Decimal | None:
    """How many units a budget buys at the rate that a line was ordered at; None where nobody says how many,
    or they are more than a line holds."""
    if line.units is None or budget == line.budget:
        return line.units
    units = line.units * budget / line.budget if line.budget else _MAX_UNITS
    return units.quantize(Decimal("0.1")) if units < _MAX_UNITS else None


def lines_ordered(lines: Iterable[DealLine]) -> Decimal:
    """What packages come to as ordered."""
    return sum((line.budget for line in lines), _NOTHING)


def unstated(deal: Deal) -> str:
    """That its seller has confirmed a deal and says of no amount what it booked; empty where it does."""
    if deal.status not in CONFIRMED or deal.confirmed_gross is not None:
        return ""
    said = f"{deal.seller} states no amounts in {deal.currency}, neither for its packages nor in all"
    return f"{said}: nobody knows whether it booked what was approved"


def ran_uncounted(deal: Deal) -> bool:
    """Whether something of it may have run that is in no sum: its media buy was cancelled after its flight
    had begun."""
    return (
        deal.status == DealStatus.CANCELLED and bool(deal.media_buy_id) and deal.start_at < deal.status_since
    )


def cancelled_running() -> Q:
    """`ran_uncounted`, for a query of deals."""
    return Q(status=DealStatus.CANCELLED, start_at__lt=F("status_since")) & ~Q(media_buy_id="")


def departs_by(deal: Deal, ordered: Decimal) -> Decimal:
    """How much more than `ordered` the seller booked, of a deal that is over too; 0 where it has said
    nothing."""
    return _NOTHING if deal.confirmed_gross is None else deal.confirmed_gross - ordered


def confirmed_of(deal: Deal) -> Decimal | None:
    """The whole deal's confirmed amount, without reading its lines."""
    return deal.confirmed_gross if deal.status in CONFIRMED else None


def approved() -> Coalesce:
    """What counts as approved of a deal, for a query of deals."""
    return Coalesce(answered(), Case(When(unapproved=True, then=Value(_NOTHING))), ordered())


def gross() -> Greatest:
    """The larger of what a deal's seller confirms and what counts as approved, for a query of deals."""
    return Greatest("confirmed_gross", approved())


def gross_of(deal: Deal, lines: Iterable[DealLine]) -> Decimal:
    """`gross`, of a deal whose lines were read."""
    return max(approved_of(deal, lines_ordered(lines)), deal.confirmed_gross or _NOTHING)


def answered(*, left: bool = False) -> Case:
    """What the newest answer that people let go about a deal's purchase brings it to, until the seller has
    confirmed it; null without one, or where it is as ordered. For a query of deals. `left`: of answers that
    have left."""
    about = {"operation__subject_type": "deal", "operation__subject_id": OuterRef("pk")}
    rows = answers_let_go(left=left).filter(operation__task_type="create_media_buy", **about)
    return Case(When(_unbought(), then=Subquery(rows.values("amount")[:1])))


def with_answered(deals: QuerySet[Deal]) -> QuerySet[Deal]:
    """Deals with what it takes to say what counts as approved of each, without asking again."""
    return deals.annotate(answered=answered())


def ordered() -> Coalesce:
    """What a deal's lines come to as ordered, for a query of deals."""
    lines = DealLine.objects.filter(deal=OuterRef("pk")).order_by().values("deal")
    return Coalesce(Subquery(lines.annotate(gross=Sum("budget")).values("gross")), _NOTHING)


def ordered_beside() -> Window:
    """What all lines of a line's deal come to as ordered, for a query of lines."""
    return Window(Sum("budget"), partition_by=[F("deal_id")])


def confirmed() -> Case:
    """`confirmed_of`, for a query of deals."""
    return Case(When(status__in=CONFIRMED, then=F("confirmed_gross")))


@lines_read_once
def amount_after(deal: Deal, change: Mapping[str, Any]) -> Decimal:
    """Return what a deal comes to after a change (update_media_buy's arguments)."""
    asked = {p["package_id"]: decimal_of(p.get("budget")) for p in change.get("packages") or ()}
    after = deal_amounts(deal).committed
    for line in deal.lines.all():
        budget = asked.get(line.package_id)
        if budget is not None:
            amounts = line_amounts(deal, line)
            after += budget - max(amounts.approved, amounts.confirmed or _NOTHING)
    return after
