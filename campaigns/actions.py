"""The steps of the recipe campaign. Each may run again after a crash: it finds what it made before."""

from __future__ import annotations

import uuid
from decimal import Decimal

from django.conf import settings
from django.db import transaction

from campaigns.allocation import allocate as split_budget
from campaigns.models import Allocation, Campaign
from campaigns.models import CampaignStatus as C
from campaigns.outcome import campaign_finish, campaign_job_ended, campaign_job_retried, open_questions
from campaigns.proposals import propose
from campaigns.recommend import pick
from campaigns.services import campaign_brief, campaign_refuse, sellers_for
from orders.models import Deal, DealStatus
from orders.offers import Offer, offers
from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.adcp import requests
from tasks_app.commands.services import CommandRefusedError
from tasks_app.jobs.actions import (
    Done,
    Result,
    Run,
    StepFailedError,
    WaitForApprovals,
    WaitForOperation,
    action_register,
)
from tasks_app.jobs.over import on_job_ended
from tasks_app.jobs.retrying import on_retried
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.ordering import ACCOUNT, Order, order_question, order_run
from tasks_app.operations.reads import read_ensure
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.actors import SYSTEM
from tasks_app.sellers.models import Account, Seller
from tasks_app.sellers.services import account_record


def register() -> None:
    """Called when the application starts."""
    on_job_ended(campaign_job_ended, recipe="campaign")
    on_retried(campaign_job_retried)
    for action in (validate, allocate, recommend, approve, complete):
        action_register(f"campaigns.{action.__name__}", action, kind="idempotent")
    action_register("campaigns.research", research, kind="command")  # it may open an account


def validate(run: Run) -> Result:
    """The brief against the world: who could be asked at all; outputs {sellers: n}."""
    campaign = _campaign(run)
    sellers = sellers_for(campaign_brief(campaign))
    if not sellers:
        problem = {"field": "constraints.excluded_sellers", "problem": "no seller is left to ask"}
        if campaign.status == C.BRIEF_RECEIVED:
            campaign_refuse(campaign=campaign, problems=[problem])
        raise StepFailedError(problem["problem"])
    return Done(outputs={"sellers": len(sellers)})


@transaction.atomic
def allocate(run: Run) -> Result:
    """Split the budget; outputs {channels: {name: amount}, sellers: [id]}."""
    campaign = _campaign(run)
    brief = campaign_brief(campaign)
    if campaign.status == C.BRIEF_RECEIVED:
        shares = split_budget(brief.budget, brief.channels)
        Allocation.objects.bulk_create(
            Allocation(campaign=campaign, channel=channel, amount=amount)
            for channel, amount in shares.items()
        )
        transition(campaign, C.BUDGET_ALLOCATED, actor=SYSTEM, metadata={"channels": shares})
    if campaign.status == C.BUDGET_ALLOCATED:
        transition(campaign, C.RESEARCHING, actor=SYSTEM)
    channels = {a.channel: str(a.amount) for a in campaign.allocations.all()}
    return Done(outputs={"channels": channels, "sellers": [str(s.pk) for s in sellers_for(brief)]})


def research(run: Run) -> Result:
    """Ask one seller for products, opening the advertiser's account there first where it is missing.

    A seller that cannot or does not answer is an outcome, not a failure: the campaign goes on. Outputs
    {seller, operation, products: n, error}.
    """
    campaign = _campaign(run)
    seller = Seller.objects.get(pk=run.inputs["seller"])
    try:
        waiting = _account_operation(run, campaign, seller)
        if waiting is not None:
            return _until(waiting)
        operation = _products_operation(run, campaign, seller)
    except (OperationRefusedError, CommandRefusedError) as error:
        return Done(outputs={"seller": str(seller.pk), "operation": None, "products": 0, "error": str(error)})
    if operation.published_at is None:
        return WaitForOperation(operation_id=operation.pk)
    products = (operation.result or {}).get("products")
    ok = operation.status == O.COMPLETED and isinstance(products, list)
    return Done(
        outputs={
            "seller": str(seller.pk),
            "operation": str(operation.pk),
            "products": len(products) if ok and isinstance(products, list) else 0,
            "error": "" if ok else operation.message or f"{seller} answered no products ({operation.status})",
        }
    )


def recommend(run: Run) -> Result:
    """Rank what was offered and put the best forward, one deal per seller; outputs {deals, products}."""
    campaign = _campaign(run)
    existing = list(Deal.objects.filter(campaign_id=campaign.pk).order_by("id"))
    if not existing:
        existing = _propose(run, campaign)
    if not existing:
        raise StepFailedError("no product of any seller fits the brief: " + _errors(run))
    if campaign.status == C.RESEARCHING:
        transition(
            campaign, C.AWAITING_APPROVAL, actor=SYSTEM, metadata={"deals": [d.reference for d in existing]}
        )
    return Done(
        outputs={
            "deals": [str(deal.pk) for deal in existing],
            "products": sum(found["products"] for found in run.inputs["research"]),
        }
    )


def approve(run: Run) -> Result:
    """Ask people about every deal put forward, and wait; outputs {accepted: [id]}."""
    campaign = _campaign(run)
    deals = Deal.objects.filter(pk__in=run.inputs["deals"]).select_related(
        "seller", "team", "advertiser", "account"
    )
    with transaction.atomic():
        asked = [ask_deal(deal).pk for deal in deals.filter(status=DealStatus.QUOTED).order_by("id")]
    if asked:
        return WaitForApprovals(approval_ids=tuple(asked))
    accepted = [
        deal for deal in deals.order_by("id") if deal.status not in (DealStatus.CANCELLED, DealStatus.EXPIRED)
    ]
    if not accepted:
        raise StepFailedError("no recommendation was approved")
    if campaign.status == C.AWAITING_APPROVAL:
        transition(
            campaign,
            C.EXECUTING_BOOKINGS,
            actor=SYSTEM,
            metadata={"accepted": [deal.reference for deal in accepted]},
        )
    return Done(outputs={"accepted": [str(deal.pk) for deal in accepted]})


def complete(run: Run) -> Result:
    """End the campaign as its deals ended; waits where a deal still hangs on a person."""
    campaign = _campaign(run)
    questions = open_questions(campaign)
    if questions:
        return WaitForApprovals(approval_ids=questions)
    campaign_finish(campaign=campaign)
    return Done(outputs={"status": campaign.status, "outcome": campaign.outcome})


def _until(operation: Operation) -> Result:
    """Until a command's operation has ended; at a gate, until people have decided."""
    asked = order_question(operation)
    return (
        WaitForApprovals(approval_ids=(asked.pk,)) if asked else WaitForOperation(operation_id=operation.pk)
    )


def _campaign(run: Run) -> Campaign:
    return Campaign.objects.select_related("team", "advertiser").get(pk=run.job.inputs["campaign_id"])


def _account_operation(run: Run, campaign: Campaign, seller: Seller) -> Operation | None:
    """The operation that opens an account, while it runs; None once there is one, or none to be had."""
    if Account.objects.filter(advertiser=campaign.buyer, seller=seller).exists():
        return None
    if "sync_accounts" not in seller.tools:
        return None
    brand = {"domain": campaign.buyer.brand_domain}
    wanted = {"brand": brand, "operator": settings.ORGANISATION_DOMAIN, "billing": "operator"}
    opening = Order(
        kind=ACCOUNT,
        purpose=run.purpose("sync_accounts"),
        seller=seller,
        arguments={"accounts": [wanted]},
        team=campaign.team,
        advertiser_id=campaign.buyer.pk,
    )
    operation = order_run(order=opening, actor=SYSTEM, awaited=True)
    if operation.published_at is None:
        return operation
    opened = (operation.result or {}).get("accounts")
    if (
        operation.status == O.COMPLETED
        and isinstance(opened, list)
        and opened
        and isinstance(opened[0], dict)
    ):
        account_record(advertiser=campaign.buyer, seller=seller, answer={**wanted, **opened[0]})
    return None


def _products_operation(run: Run, campaign: Campaign, seller: Seller) -> Operation:
    brief = campaign_brief(campaign)
    account = Account.objects.filter(advertiser=campaign.buyer, seller=seller).first()
    asked = requests.GetProducts(
        buying_mode="brief",
        brief=f"{brief.name}: {brief.objective.goal}. {brief.audience}".strip(),
        brand=requests.Brand(domain=campaign.buyer.brand_domain),
        account=requests.Account.model_validate(account.reference) if account else None,
        filters=requests.ProductFilters(
            channels=[wish.channel for wish in brief.channels],
            countries=list(brief.geography.countries),
            start_date=brief.flight.start.isoformat(),
            end_date=brief.flight.end.isoformat(),
            delivery_type=brief.constraints.delivery_type,
        ),
    )
    return read_ensure(
        purpose=run.purpose("get_products"),
        task_type="get_products",
        seller=seller,
        arguments=asked.model_dump(mode="json", exclude_none=True),
        actor=SYSTEM,
        team=campaign.team,
        account=account,
        advertiser_id=campaign.buyer.pk,
    )


def _propose(run: Run, campaign: Campaign) -> list[Deal]:
    brief = campaign_brief(campaign)
    shares = {a.channel: Decimal(a.amount) for a in campaign.allocations.all()}
    found: list[Offer] = []
    ceilings = {str(basis): limit for basis, limit in brief.constraints.ceilings.items()}
    for answer in run.inputs["research"]:
        if answer["operation"] and not answer["error"]:
            operation = Operation.objects.select_related("seller").get(pk=uuid.UUID(answer["operation"]))
            found += offers(operation.seller, (operation.result or {}).get("products"), ceilings)
    picks, passed = pick(brief, shares, found, now=clock.now())
    return propose(campaign=campaign, brief=brief, picks=picks, passed=passed)


def _errors(run: Run) -> str:
    said = [str(found["error"]) for found in run.inputs["research"] if found["error"]]
    return "; ".join(said) or "everything offered was passed over"
