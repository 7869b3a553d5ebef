"""Reading deals with their lines, what is out with the seller about them, and what is asked of people."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import (
    Case,
    Count,
    F,
    IntegerField,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Sum,
    UUIDField,
    Value,
    When,
    Window,
)
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce, RowNumber

from orders.models import UNSETTLED, Deal, DealLine
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.commands.models import Command
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation

_SECRETS = ("seller__token", "seller__webhook_secret", "seller__capabilities", "seller__tools")
_HEAVY = ("request_text", "webhook_token", "request", "result", "error")
LINES_SHOWN = 200  # of one deal
_KIN_SHOWN = 10
OPERATIONS_SHOWN, APPROVALS_SHOWN = 60, 60  # of all deals that are read together


@dataclass(frozen=True, kw_only=True)
class Gross:
    """All packages of one deal together, in its currency; `confirmed` is None where nothing is,
    `confirmed_of` what was approved of the confirmed ones."""

    packages: int
    approved: Decimal
    confirmed: Decimal | None
    confirmed_of: Decimal


@dataclass(frozen=True, kw_only=True)
class DealRows:
    """Deals with what hangs on them. `operations` are those with the seller, oldest first, by deal; `asked`
    approvals, oldest first, by the deal or the operation that they are about (a risk gate's by the deal, a
    conflict's by the operation). Where there are more than are
    shown, what is open comes before what is over, and the newer before the older; `more_operations`: whether
    some were left out. `gross` tells of all packages of a deal, read or not."""

    deals: tuple[Deal, ...]
    more_operations: bool = False
    gross: dict[uuid.UUID, Gross] = field(default_factory=dict)
    lines: dict[uuid.UUID, list[DealLine]] = field(default_factory=dict)
    operations: dict[uuid.UUID, list[Operation]] = field(default_factory=dict)
    asked: dict[uuid.UUID, list[Approval]] = field(default_factory=dict)

    def open_questions(self, deal: Deal) -> list[Approval]:
        """Open approvals about a deal or its operations, the most urgent first."""
        subjects = [deal.pk, *(operation.pk for operation in self.operations.get(deal.pk, ()))]
        found = [
            a for subject in subjects for a in self.asked.get(subject, ()) if a.status == ApprovalStatus.OPEN
        ]
        return sorted(found, key=lambda approval: approval.due_at)

    def purchase(self, deal: Deal) -> Operation | None:
        """The latest create_media_buy of a deal."""
        bought = [o for o in self.operations.get(deal.pk, ()) if o.task_type == "create_media_buy"]
        return bought[-1] if bought else None


@dataclass(frozen=True, kw_only=True)
class DealSums:
    """What all deals of one status come to, in their currency: of `confirmed` amounts also what was approved
    (`confirmed_of`); and with whom."""

    status: str
    deals: int
    sellers: Collection[uuid.UUID]
    differing: int
    packages: int
    approved: Decimal
    confirmed: Decimal | None
    confirmed_of: Decimal


def deals_with_rows(deals: QuerySet[Deal], *, most: int | None = None, lines: int = LINES_SHOWN) -> DealRows:
    """Deals, oldest first, with lines, operations and approvals: four queries, bounded rows.

    `most`: of more deals than that those that differ or are open are taken first; `lines`: so many of each,
    those that were confirmed differently first.
    """
    rows = deals.select_related("seller", "advertiser", "account", "team").defer(*_SECRETS)
    if most is None:
        found = tuple(rows.order_by("pk"))
    else:
        found = tuple(sorted(rows.order_by(_urgency(), "pk")[:most], key=lambda deal: deal.pk))
    ids = [deal.pk for deal in found]
    operations, more = _operations(ids)
    packages, gross = _lines(ids, lines)
    sent = [operation.pk for rows in operations.values() for operation in rows]
    return DealRows(
        deals=found,
        lines=packages,
        gross=gross,
        operations=operations,
        more_operations=more,
        asked=_asked(ids, sent),
    )


def deal_sums(deals: QuerySet[Deal]) -> list[DealSums]:
    """What deals come to, by status: one query, however many."""
    confirmed = Q(lines__confirmed_budget__isnull=False)
    rows = (
        deals.order_by()
        .values("status")
        .annotate(
            deals=Count("pk", distinct=True),
            sellers=ArrayAgg("seller_id", distinct=True),
            differing=Count("pk", distinct=True, filter=Q(differs=True)),
            packages=Count("lines"),
            approved=Coalesce(Sum("lines__budget"), Decimal(0)),
            confirmed=Sum("lines__confirmed_budget"),
            confirmed_of=Coalesce(Sum("lines__budget", filter=confirmed), Decimal(0)),
        )
    )
    return [DealSums(**row) for row in rows]


def sums_read(rows: DealRows) -> list[DealSums]:
    """The same of deals that were all read, without asking again."""
    by_status: dict[str, list[Deal]] = {}
    for deal in rows.deals:
        by_status.setdefault(deal.status, []).append(deal)
    return [_summed(status, deals, rows) for status, deals in by_status.items()]


def _summed(status: str, deals: list[Deal], rows: DealRows) -> DealSums:
    gross = [rows.gross[deal.pk] for deal in deals if deal.pk in rows.gross]
    confirmed = [one.confirmed for one in gross if one.confirmed is not None]
    return DealSums(
        status=status,
        deals=len(deals),
        sellers={deal.seller_id for deal in deals},
        differing=sum(deal.differs for deal in deals),
        packages=sum(one.packages for one in gross),
        approved=sum((one.approved for one in gross), Decimal(0)),
        confirmed=sum(confirmed, Decimal(0)) if confirmed else None,
        confirmed_of=sum((one.confirmed_of for one in gross), Decimal(0)),
    )


def questions_counted(deals: QuerySet[Deal], kind: str) -> tuple[dict[str, int], datetime | None]:
    """(status to how many, next deadline of an open one) of one kind of approvals about deals; one query."""
    asked = Approval.objects.filter(kind=kind, subject_type="deal", subject_id__in=deals.values("pk"))
    rows = list(asked.order_by().values_list("status").annotate(Count("pk"), Min("due_at")))
    due = next((at for status, _, at in rows if status == ApprovalStatus.OPEN), None)
    return {status: count for status, count, _ in rows}, due


def decisions_on(approvals: Iterable[Approval]) -> dict[uuid.UUID, list[Decision]]:
    """What people decided on each, oldest first; one query."""
    found: dict[uuid.UUID, list[Decision]] = {}
    ids = [approval.pk for approval in approvals]
    for decision in Decision.objects.filter(approval__in=ids).order_by("id") if ids else ():
        found.setdefault(decision.approval_id, []).append(decision)
    return found


def deal_gross(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, object]:
    """Deal to its gross as confirmed, or as approved where nothing is confirmed."""
    taken = Sum(Coalesce(F("confirmed_budget"), F("budget")))
    rows = DealLine.objects.filter(deal__in=list(ids)).order_by().values_list("deal_id")
    return dict(rows.annotate(gross=taken))


def deal_kin(deal: Deal) -> list[Deal]:
    """The deal that it follows, and those that follow it: what was given up and came after all."""
    return list(Deal.objects.filter(Q(pk=deal.follows_id) | Q(follows=deal.pk)).order_by("pk")[:_KIN_SHOWN])


def deal_names(ids: Collection[uuid.UUID]) -> list[Deal]:
    """What it takes to name deals."""
    rows = Deal.objects.filter(pk__in=ids).select_related("seller")
    return list(rows.only("reference", "status", "differs", "campaign_id", "seller__name"))


def _urgency() -> Case:
    """What differs, what is open, the rest."""
    return Case(
        When(differs=True, then=Value(0)),
        When(status__in=UNSETTLED, then=Value(1)),
        default=Value(2),
        output_field=IntegerField(),
    )


def _lines(
    deals: Collection[uuid.UUID], most: int
) -> tuple[dict[uuid.UUID, list[DealLine]], dict[uuid.UUID, Gross]]:
    """The packages that are shown, and what all of them come to, by deal; one query."""
    if not deals:
        return {}, {}
    departs = Q(confirmed_budget__isnull=False) & ~Q(confirmed_budget=F("budget"))
    differs = Case(When(departs, then=Value(0)), default=Value(1), output_field=IntegerField())
    place = Window(RowNumber(), partition_by=[F("deal_id")], order_by=[differs, F("position")])
    whole = [F("deal_id")]
    approved_of_confirmed = Case(
        When(confirmed_budget__isnull=False, then=F("budget")), default=Value(Decimal(0))
    )
    rows = DealLine.objects.filter(deal__in=deals).annotate(
        place=place,
        packages=Window(Count("pk"), partition_by=whole),
        approved=Window(Sum("budget"), partition_by=whole),
        confirmed=Window(Sum("confirmed_budget"), partition_by=whole),
        confirmed_of=Window(Sum(approved_of_confirmed), partition_by=whole),
    )
    found: dict[uuid.UUID, list[DealLine]] = {}
    gross: dict[uuid.UUID, Gross] = {}
    for line in rows.filter(place__lte=most).order_by("deal_id", "position"):
        found.setdefault(line.deal_id, []).append(line)
        told = {name: vars(line)[name] for name in ("packages", "approved", "confirmed", "confirmed_of")}
        gross[line.deal_id] = Gross(**told)
    return found, gross


def _operations(deals: Collection[uuid.UUID]) -> tuple[dict[uuid.UUID, list[Operation]], bool]:
    """By deal, and whether there are more."""
    if not deals:
        return {}, False
    rows = Operation.objects.filter(subject_type="deal", subject_id__in=deals).select_related("seller")
    rows = rows.defer(*_HEAVY, *_SECRETS).order_by(F("settled_at").desc(nulls_first=True), "-pk")
    read = list(rows[: OPERATIONS_SHOWN + 1])
    found: dict[uuid.UUID, list[Operation]] = {}
    for operation in sorted(read[:OPERATIONS_SHOWN], key=lambda one: one.pk):
        if operation.subject_id is not None:
            found.setdefault(operation.subject_id, []).append(operation)
    return found, len(read) > OPERATIONS_SHOWN


_ASKED = """
select id from tasks_app_approval where subject_type in ('deal', 'operation') and subject_id = any(%s)
union all
select a.id from tasks_app_command c join tasks_app_approval a
    on a.subject_type = 'command' and a.subject_id = c.id
 where c.subject_type = 'deal' and c.subject_id = any(%s)
union all
select a.id from tasks_app_conflict c join tasks_app_approval a
    on a.subject_type = 'conflict' and a.subject_id = c.id
 where c.operation_id = any(%s)
"""


def _asked(deals: list[uuid.UUID], operations: list[uuid.UUID]) -> dict[uuid.UUID, list[Approval]]:
    if not deals:
        return {}
    is_over = Case(
        When(status=ApprovalStatus.OPEN, then=Value(0)), default=Value(1), output_field=IntegerField()
    )
    here = OuterRef("subject_id")
    about = Case(
        When(subject_type="command", then=Command.objects.filter(pk=here).values("subject_id")[:1]),
        When(subject_type="conflict", then=Conflict.objects.filter(pk=here).values("operation_id")[:1]),
        default=F("subject_id"),
        output_field=UUIDField(),
    )
    wanted = RawSQL(_ASKED, [[*deals, *operations], deals, operations])  # noqa: S611 (our own text)
    rows = Approval.objects.filter(pk__in=wanted).annotate(about=about).select_related("team")
    found: dict[uuid.UUID, list[Approval]] = {}
    read = rows.defer("evidence").order_by(is_over, "-pk")[:APPROVALS_SHOWN]
    for approval in sorted(read, key=lambda one: one.pk):
        found.setdefault(vars(approval)["about"], []).append(approval)
    return found
