"""Reading deals with their lines, what is out with the seller about them, and what is asked of people."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

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
    Subquery,
    Sum,
    UUIDField,
    Value,
    When,
    Window,
    prefetch_related_objects,
)
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce, RowNumber

from orders.amounts import (
    approved,
    approved_of,
    confirmed,
    confirmed_of,
    gross,
    ordered_beside,
    with_answered,
)
from orders.models import UNSETTLED, Deal, DealLine
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.commands.models import Command
from tasks_app.operations.answer_stages import NO_ANSWERS, Answers, answers_of
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import SELLER_ASIDE

_SECRETS = tuple(f"seller__{name}" for name in SELLER_ASIDE)
_HEAVY = ("request_text", "webhook_token", "request", "result", "error")
LINES_SHOWN = 200  # of one deal
_KIN_SHOWN = 10
# The approvals about deals, about their operations, the commands of either, and contradictions.
_ASKED_OF = """
select id from tasks_app_approval where subject_type = 'deal' and subject_id = any(%s)
union all
select a.id from tasks_app_operation o join tasks_app_approval a
    on a.subject_type = 'operation' and a.subject_id = o.id
 where o.subject_type = 'deal' and o.subject_id = any(%s)
union all
select a.id from tasks_app_command c join tasks_app_approval a
    on a.subject_type = 'command' and a.subject_id = c.id
 where c.subject_type = 'deal' and c.subject_id = any(%s)
union all
select a.id from tasks_app_operation o join tasks_app_command c
    on c.subject_type = 'operation' and c.subject_id = o.id
    join tasks_app_approval a on a.subject_type = 'command' and a.subject_id = c.id
 where o.subject_type = 'deal' and o.subject_id = any(%s)
union all
select a.id from tasks_app_operation o join tasks_app_conflict c on c.operation_id = o.id
    join tasks_app_approval a on a.subject_type = 'conflict' and a.subject_id = c.id
 where o.subject_type = 'deal' and o.subject_id = any(%s)
"""
OPERATIONS_SHOWN, APPROVALS_SHOWN = 60, 60  # of all deals that are read together


@dataclass(frozen=True, kw_only=True)
class Gross:
    """All packages of one deal together, in its currency: as `ordered`, and as `approved` now; `confirmed` is
    None where nothing is, `confirmed_of` what was approved of the confirmed ones."""

    packages: int
    ordered: Decimal
    approved: Decimal
    confirmed: Decimal | None
    confirmed_of: Decimal


@dataclass(frozen=True, kw_only=True)
class DealRows:
    """Deals with what hangs on them. `operations` are those with the seller, oldest first, by deal; `asked`
    approvals, oldest first, by the deal or the operation that they are about (a risk gate's by the deal, a
    conflict's by the operation). Where there are more than are
    shown, what is open comes before what is over, and the newer before the older; `more_operations`: whether
    some were left out. `answers`: ours to what sellers ask about those operations. `gross` tells of all
    packages of a deal, read or not."""

    deals: tuple[Deal, ...]
    more_operations: bool = False
    gross: dict[uuid.UUID, Gross] = field(default_factory=dict)
    lines: dict[uuid.UUID, list[DealLine]] = field(default_factory=dict)
    operations: dict[uuid.UUID, list[Operation]] = field(default_factory=dict)
    asked: dict[uuid.UUID, list[Approval]] = field(default_factory=dict)
    answers: Answers = NO_ANSWERS

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
    """Deals, oldest first, with lines, operations and approvals: four queries, bounded rows; where something
    pauses, a few more tell how far our answers are.

    `most`: of more deals than that those that differ or are open are taken first; `lines`: so many of each,
    those that were confirmed differently first.
    """
    rows = with_answered(deals).select_related("seller__breaker", "advertiser", "account", "team")
    rows = rows.defer(*_SECRETS)
    if most is None:
        found = tuple(rows.order_by("pk"))
    else:
        found = tuple(sorted(rows.order_by(_urgency(), "pk")[:most], key=lambda deal: deal.pk))
    ids = [deal.pk for deal in found]
    operations, more = _operations(ids)
    packages, gross = _lines(found, lines)
    sent = [operation.pk for rows in operations.values() for operation in rows]
    return DealRows(
        deals=found,
        lines=packages,
        gross=gross,
        operations=operations,
        more_operations=more,
        asked=_asked(ids, sent),
        answers=answers_of(one for rows in operations.values() for one in rows),
    )


def deal_sums(deals: QuerySet[Deal]) -> list[DealSums]:
    """What deals come to, by status: one query, however many."""
    lines = DealLine.objects.filter(deal=OuterRef("pk")).order_by().values("deal")
    counted = Coalesce(Subquery(lines.annotate(count=Count("pk")).values("count")), 0)
    rows = (
        deals.order_by()
        .annotate(agreed=approved(), stated=confirmed(), counted=counted)
        .values("status")
        .annotate(
            deals=Count("pk"),
            sellers=ArrayAgg("seller_id", distinct=True),
            differing=Count("pk", filter=Q(differs=True)),
            packages=Sum("counted"),
            approved=Sum("agreed"),
            confirmed=Sum("stated"),
            confirmed_of=Coalesce(Sum("agreed", filter=Q(stated__isnull=False)), Decimal(0)),
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


def questions_open(deal: Deal) -> list[Approval]:
    """Open approvals about a deal, its operations, its commands and their contradictions, the most urgent
    first."""
    return questions_of([deal.pk]).get(deal.pk, [])


def questions_of(deals: Collection[uuid.UUID]) -> dict[uuid.UUID, list[Approval]]:
    """The same of many deals: one query, however many they are."""
    if not deals:
        return {}
    here = OuterRef("subject_id")
    of_operation = Operation.objects.filter(pk=here).values("subject_id")[:1]
    own = Case(When(subject_type="operation", then=of_operation), default=F("subject_id"))
    about = Case(
        When(subject_type="operation", then=of_operation),
        When(subject_type="command", then=Command.objects.filter(pk=here).values(deal=own)[:1]),
        When(
            subject_type="conflict", then=Conflict.objects.filter(pk=here).values("operation__subject_id")[:1]
        ),
        default=F("subject_id"),
        output_field=UUIDField(),
    )
    wanted = RawSQL(_ASKED_OF, [list(deals)] * 5)  # noqa: S611 (our own text)
    rows = Approval.objects.filter(pk__in=wanted, status=ApprovalStatus.OPEN).annotate(about=about)
    found: dict[uuid.UUID, list[Approval]] = {}
    for approval in rows.defer("evidence").select_related("team").order_by("due_at", "pk"):
        found.setdefault(vars(approval)["about"], []).append(approval)
    return found


def decisions_on(approvals: Iterable[Approval]) -> dict[uuid.UUID, list[Decision]]:
    """What people decided on each, oldest first; one query, after which each question has its own to tell."""
    rows = list(approvals)
    prefetch_related_objects(rows, "decisions")
    return {approval.pk: said for approval in rows if (said := list(approval.decisions.all()))}


def deal_gross(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, object]:
    """Return each deal's gross: the larger of confirmed and approved."""
    return dict(
        Deal.objects.filter(pk__in=list(ids)).order_by().annotate(gross=gross()).values_list("pk", "gross")
    )


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
    deals: Collection[Deal], most: int
) -> tuple[dict[uuid.UUID, list[DealLine]], dict[uuid.UUID, Gross]]:
    """The packages that are shown, and what all of them come to, by deal; one query."""
    if not deals:
        return {}, {}
    departs = Q()
    for name in ("budget", "start_at", "end_at", "rate", "targeting"):
        departs |= Q(**{f"confirmed_{name}__isnull": False}) & ~Q(**{f"confirmed_{name}": F(name)})
    differs = Case(When(departs, then=Value(0)), default=Value(1), output_field=IntegerField())
    place = Window(RowNumber(), partition_by=[F("deal_id")], order_by=[differs, F("position")])
    whole = [F("deal_id")]
    rows = DealLine.objects.filter(deal__in=deals).annotate(
        place=place,
        packages=Window(Count("pk"), partition_by=whole),
        ordered=ordered_beside(),
    )
    by_id = {deal.pk: deal for deal in deals}
    found: dict[uuid.UUID, list[DealLine]] = {}
    gross: dict[uuid.UUID, Gross] = {}
    for line in rows.filter(place__lte=most).order_by("deal_id", "position"):
        found.setdefault(line.deal_id, []).append(line)
        gross[line.deal_id] = _gross(by_id[line.deal_id], vars(line))
    return found, gross


def _gross(deal: Deal, summed: Mapping[str, Any]) -> Gross:
    told = confirmed_of(deal)
    agreed = approved_of(deal, summed["ordered"])
    return Gross(
        packages=summed["packages"],
        ordered=summed["ordered"],
        approved=agreed,
        confirmed=told,
        confirmed_of=Decimal(0) if told is None else agreed,
    )


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
 where c.subject_type in ('deal', 'operation') and c.subject_id = any(%s)
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
    ours = [*deals, *operations]
    wanted = RawSQL(_ASKED, [ours, ours, operations])  # noqa: S611 (our own text)
    rows = Approval.objects.filter(pk__in=wanted).annotate(about=about).select_related("team")
    found: dict[uuid.UUID, list[Approval]] = {}
    read = rows.defer("evidence").order_by(is_over, "-pk")[:APPROVALS_SHOWN]
    for approval in sorted(read, key=lambda one: one.pk):
        found.setdefault(vars(approval)["about"], []).append(approval)
    return found
