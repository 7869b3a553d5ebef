"""What an approval page shows around a deal: its campaign, the money left there, the seller's history."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef
from django.urls import reverse

from campaigns.commitments import Money, money_of
from campaigns.models import Campaign
from campaigns.seller_history import seller_history
from campaigns.track import middle, purchases
from orders.amounts import cancelled_running, gross
from orders.models import Deal
from orders.presenters import unread_of
from orders.questions import DEAL, DIFFERENT
from tasks_app.approvals.around import Budget, Detail, Place, StartedOperation, around_register
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.desk.items import joined
from tasks_app.ids import first_id_at
from tasks_app.lifecycle.names import link_to
from tasks_app.operations.models import Operation
from tasks_app.operations.selectors import conflicts_of
from tasks_app.people.models import User
from tasks_app.people.scope import visible

_NAMED = 3  # deals named in one sentence
_SHOWN = ("reference", "currency", "campaign_id", "advertiser__name")


def register() -> None:
    """Called when the application starts."""
    around_register("deal", places=deal_places, detail=deal_detail, started=deal_started)
    around_register("operation", places=operation_places, detail=operation_detail)
    around_register("conflict", places=conflict_places, detail=conflict_detail)


def deal_places(ids: Collection[uuid.UUID], viewer: User) -> dict[uuid.UUID, Place]:
    """Deal id to its page, campaign and gross, of those the viewer may see."""
    rows = visible(Deal.objects.filter(pk__in=ids), viewer).annotate(gross=gross())
    deals = list(rows.select_related("advertiser").only(*_SHOWN))
    about = {deal.campaign_id for deal in deals if deal.campaign_id}
    campaigns = dict(visible(Campaign.objects.filter(pk__in=about), viewer).values_list("pk", "name"))
    return {deal.pk: _place(deal, campaigns) for deal in deals}


def operation_places(ids: Collection[uuid.UUID], viewer: User) -> dict[uuid.UUID, Place]:
    """Operation id to its page, with campaign and money of the deal it is for."""
    found = list(
        visible(Operation.objects.filter(pk__in=ids), viewer).values_list(
            "pk", "reference", "subject_type", "subject_id"
        )
    )
    about = {subject for _, _, kind, subject in found if kind == "deal" and subject}
    deals = deal_places(about, viewer) if about else {}
    return {
        pk: replace(
            (deals.get(subject) if subject else None) or Place(reference=""),
            reference=reference,
            link=reverse("admin:tasks_app_operation_change", args=[pk]),
        )
        for pk, reference, _, subject in found
    }


def conflict_places(ids: Collection[uuid.UUID], viewer: User) -> dict[uuid.UUID, Place]:
    """Conflict id to its page, with campaign and money of what its operation is for."""
    found = dict(conflicts_of(viewer).filter(pk__in=ids).values_list("pk", "operation_id"))
    operations = operation_places(set(found.values()), viewer)
    return {
        pk: replace(operations[about], link=reverse("admin:tasks_app_conflict_change", args=[pk]))
        for pk, about in found.items()
        if about in operations
    }


def conflict_detail(conflict_id: uuid.UUID, viewer: User) -> Detail:
    """What surrounds its operation."""
    about = conflicts_of(viewer).filter(pk=conflict_id).values_list("operation_id", flat=True).first()
    detail = operation_detail(about, viewer) if about else Detail()
    if detail.place is None:
        return detail
    link = reverse("admin:tasks_app_conflict_change", args=[conflict_id])
    return replace(detail, place=replace(detail.place, link=link))


def operation_detail(operation_id: uuid.UUID, viewer: User) -> Detail:
    """What surrounds the deal that the operation is for."""
    found = visible(Operation.objects.filter(pk=operation_id), viewer)
    row = found.values_list("reference", "subject_type", "subject_id").first()
    if row is None:
        return Detail()
    reference, kind, subject = row
    detail = deal_detail(subject, viewer) if kind == "deal" and subject else Detail()
    link = reverse("admin:tasks_app_operation_change", args=[operation_id])
    place = replace(detail.place or Place(reference=""), reference=reference, link=link)
    return replace(detail, place=place, group=())


def deal_detail(deal_id: uuid.UUID, viewer: User) -> Detail:
    """Money left in the campaign at this moment, its other deals, and how the seller did so far."""
    rows = visible(Deal.objects.select_related("mirror", "advertiser").filter(pk=deal_id), viewer)
    rows = rows.annotate(gross=gross())
    deal = rows.first()
    if deal is None:
        return Detail()
    campaign = _campaign_of(deal, viewer)
    money = money_of([campaign.pk]).get(campaign.pk, Money()) if campaign else Money()
    bought = purchases(viewer, deal.seller_id)
    return Detail(
        place=_place(deal, {campaign.pk: campaign.name} if campaign else {}),
        budget=_budget(campaign, money, deal) if campaign else None,
        group=tuple(money.deals - {deal.pk}),
        history=seller_history(viewer, deal.seller_id, without=deal.pk, bought=bought),
        answer_time=middle([one.took for one in bought if one.took is not None]),
        creative_deadline=deal.creative_deadline,
        creative_deadline_unread=unread_of(deal).get("creative_deadline", ""),
    )


def deal_started(approval: Approval, viewer: User) -> list[StartedOperation]:
    """Return the operations with the seller that a decision about a deal released."""
    rows = visible(Operation.objects.filter(subject_type="deal", subject_id=approval.subject_id), viewer)
    if approval.kind == DIFFERENT:
        starts = approval.status == ApprovalStatus.REJECTED
        rows = rows.filter(task_type="update_media_buy", pk__gte=first_id_at(approval.status_since))
    elif "operation_id" in approval.evidence:
        starts = approval.status == ApprovalStatus.APPROVED
        rows = rows.filter(pk=approval.evidence["operation_id"])
    else:
        starts = approval.status == ApprovalStatus.APPROVED and approval.kind == DEAL
        rows = rows.filter(task_type="create_media_buy")
    return [
        StartedOperation(
            reference=one.reference,
            link=link_to(Operation, one.pk),
            task_type=one.task_type,
            status=one.status,
        )
        for one in (rows.order_by("pk") if starts else ())
    ]


def _place(deal: Deal, campaigns: dict[uuid.UUID, str]) -> Place:
    """Return the place of a deal with its `gross`; `campaigns`: id to name, of those that may be seen."""
    place = Place(
        reference=deal.reference,
        link=link_to(Deal, deal.pk),
        advertiser=deal.advertiser.name,
        amount=vars(deal)["gross"],
        currency=deal.currency,
    )
    if deal.campaign_id is None or deal.campaign_id not in campaigns:
        return place
    link = link_to(Campaign, deal.campaign_id)
    return replace(place, campaign=campaigns[deal.campaign_id], campaign_link=link)


def _budget(campaign: Campaign, money: Money, deal: Deal) -> Budget | None:
    if campaign.budget is None:
        return None
    return Budget(
        total=campaign.budget,
        taken=money.taken_without(deal.pk),
        currency=campaign.currency,
        besides=_owed_besides(getattr(campaign, "ran", ())),
    )


def _campaign_of(deal: Deal, viewer: User) -> Campaign | None:
    """The campaign of a deal; `ran`: which of its deals were cancelled while they ran."""
    if deal.campaign_id is None:
        return None
    ended = Deal.objects.filter(cancelled_running(), campaign_id=OuterRef("pk")).order_by("pk")
    ran = ArraySubquery(ended.values("reference")[: _NAMED + 1])
    return visible(Campaign.objects.filter(pk=deal.campaign_id), viewer).annotate(ran=ran).first()


def _owed_besides(ran: Sequence[str]) -> str:
    """What ran of DEAL-3 and DEAL-4 before the cancellation is owed besides."""
    if not ran:
        return ""
    few = [*ran[:_NAMED], *(["others"] if len(ran) > _NAMED else [])]
    return f"What ran of {joined(few)} before the cancellation is owed besides"
