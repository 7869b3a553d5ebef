"""Reading deals with their lines, what is out with the seller about them, and what is asked of people."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from django.db.models import F, QuerySet, Sum
from django.db.models.functions import Coalesce

from orders.models import Deal, DealLine
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.operations.models import Operation

_SECRETS = ("seller__token", "seller__webhook_secret", "seller__capabilities", "seller__tools")
_HEAVY = ("request_text", "webhook_token", "request", "result", "error")


@dataclass(frozen=True, kw_only=True)
class DealRows:
    """Deals with what hangs on them. `operations` are those with the seller, oldest first, by deal; `asked`
    all approvals about the deals or their operations, by subject, oldest first."""

    deals: tuple[Deal, ...]
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


def deals_with_rows(deals: QuerySet[Deal]) -> DealRows:
    """Deals, oldest first, with lines, operations and approvals: four queries."""
    found = tuple(
        deals.select_related("seller", "advertiser", "account", "team").defer(*_SECRETS).order_by("pk")
    )
    ids = [deal.pk for deal in found]
    lines: dict[uuid.UUID, list[DealLine]] = {}
    for line in DealLine.objects.filter(deal__in=ids).order_by("deal", "position") if ids else ():
        lines.setdefault(line.deal_id, []).append(line)
    operations: dict[uuid.UUID, list[Operation]] = {}
    for operation in _operations(ids):
        if operation.subject_id is not None:
            operations.setdefault(operation.subject_id, []).append(operation)
    about = [*ids, *(operation.pk for rows in operations.values() for operation in rows)]
    asked: dict[uuid.UUID, list[Approval]] = {}
    for approval in _approvals(about):
        asked.setdefault(approval.subject_id, []).append(approval)
    return DealRows(deals=found, lines=lines, operations=operations, asked=asked)


def deal_gross(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, object]:
    """Deal to its gross as confirmed, or as approved where nothing is confirmed."""
    taken = Sum(Coalesce(F("confirmed_budget"), F("budget")))
    rows = DealLine.objects.filter(deal__in=list(ids)).order_by().values_list("deal_id")
    return dict(rows.annotate(gross=taken))


def deal_names(ids: Collection[uuid.UUID]) -> list[Deal]:
    """What it takes to name deals."""
    rows = Deal.objects.filter(pk__in=ids).select_related("seller")
    return list(rows.only("reference", "status", "differs", "campaign_id", "seller__name"))


def _operations(deals: Collection[uuid.UUID]) -> Iterable[Operation]:
    if not deals:
        return ()
    rows = Operation.objects.filter(subject_type="deal", subject_id__in=deals).select_related("seller")
    return rows.defer(*_HEAVY, *_SECRETS).order_by("pk")


def _approvals(subjects: Collection[uuid.UUID]) -> Iterable[Approval]:
    if not subjects:
        return ()
    rows = Approval.objects.filter(subject_type__in=("deal", "operation"), subject_id__in=subjects)
    return rows.defer("evidence").order_by("pk")
