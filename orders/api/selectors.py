"""What the API reads of deals and operations. Every selector takes the viewer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet

from orders.amounts import with_answered
from orders.changes.send import CHANGE
from orders.models import Deal
from orders.presenters import unread_of
from orders.questions import DEAL
from tasks_app.approvals.models import Approval
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.people.scope import visible

_QUESTION = {"create_media_buy": DEAL, "update_media_buy": CHANGE}
# Never read for the API: our credentials, and the bytes that hold them.
_HIDDEN = ("request_text", "webhook_token", "seller__token", "seller__webhook_secret")
_LARGE = ("request", "result")


def deals_of(viewer: User) -> QuerySet[Deal]:
    """Deals of the viewer's teams with their lines."""
    related = Deal.objects.select_related("seller", "advertiser", "account", "mirror").prefetch_related(
        "lines"
    )
    rows = related.defer("seller__token", "seller__webhook_secret", "seller__capabilities")
    return visible(with_answered(rows), viewer)


def operations_of(viewer: User, *, whole: bool) -> QuerySet[Operation]:
    """Operations of the viewer's teams; `whole`: with request and result, and what was observed."""
    configured = ExpressionWrapper(Q(webhook_token__isnull=False), output_field=BooleanField())
    rows = visible(Operation.objects.select_related("seller"), viewer).annotate(webhook_configured=configured)
    rows = rows.defer(*_HIDDEN, "seller__capabilities")
    return rows.prefetch_related("observations") if whole else rows.defer(*_LARGE)


@dataclass(frozen=True, kw_only=True)
class Behind:
    """What stands behind an operation: the approval it waited for, and its deal's creative deadline;
    `creative_deadline_as_stated` where nobody can read what the seller stated last."""

    approval_id: UUID | None = None
    deal_id: UUID | None = None
    creative_deadline: datetime | None = None
    creative_deadline_as_stated: str = ""


def behind(operations: Sequence[Operation]) -> dict[UUID, Behind]:
    """By operation id, for operations the viewer was found to see; two queries, however many there are."""
    of_deals = {o.pk: o.subject_id for o in operations if o.subject_type == "deal" and o.subject_id}
    if not of_deals:
        return {}
    deals = Deal.objects.filter(pk__in=of_deals.values()).select_related("mirror")
    about = {deal.pk: deal for deal in deals.only("creative_deadline", "mirror__as_stated")}
    asked = (
        Approval.objects.filter(
            subject_type="deal", subject_id__in=of_deals.values(), kind__in=_QUESTION.values()
        )
        .order_by("id")
        .values_list("kind", "subject_id", "evidence__operation_id", "id")
    )
    # The latest of each: one that was voided and asked anew has a successor.
    latest = {(kind, named, deal_id): approval_id for kind, deal_id, named, approval_id in asked}
    return {
        o.pk: Behind(
            approval_id=latest.get((*_question(o), of_deals[o.pk])),
            deal_id=of_deals[o.pk],
            creative_deadline=about[of_deals[o.pk]].creative_deadline,
            creative_deadline_as_stated=unread_of(about[of_deals[o.pk]]).get("creative_deadline", ""),
        )
        for o in operations
        if of_deals.get(o.pk) in about
    }


def _question(operation: Operation) -> tuple[str, str | None]:
    """The kind of question it waits for, and the operation it names, where it names one."""
    kind = _QUESTION.get(operation.task_type, "")
    return kind, str(operation.pk) if kind == CHANGE else None
