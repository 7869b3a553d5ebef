"""The steps of the recipe campaign. Each may run again after a crash: it finds what it made before."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

from django.db import transaction
from django.db.models import QuerySet

from campaigns.allocation import allocate as split_budget
from campaigns.brief import Brief
from campaigns.models import Allocation, Campaign
from campaigns.models import CampaignStatus as C
from campaigns.outcome import (
    account_out,
    campaign_execute,
    campaign_fail_unoffered,
    campaign_finish,
    campaign_job_ended,
    campaign_job_retried,
    campaign_put_forward,
    campaign_retry_refusals,
    fates,
    open_questions,
    operation_out,
)
from campaigns.proposals import propose
from campaigns.recommend import PassedOver, passed_unread, pick, products_wanted
from campaigns.services import campaign_brief, campaign_refuse, sellers_for
from orders.models import Deal, DealStatus
from orders.offers import LeftOut, Offer, channels_asked, left_out, offers
from orders.outcomes import booking_ended
from orders.questions import ask_undecided
from tasks_app import clock
from tasks_app.adcp.capabilities import regions_not_targeted
from tasks_app.commands.services import CommandRefusedError
from tasks_app.jobs.actions import (
    Done,
    Result,
    Run,
    StepFailedError,
    WaitForAccount,
    WaitForApprovals,
    WaitForOperation,
    WaitUntil,
    action_register,
)
from tasks_app.jobs.over import on_job_ended
from tasks_app.jobs.retrying import on_retried
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.account_reads import account_open
from tasks_app.operations.corrections import sellers_words
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import order_question
from tasks_app.operations.pages import listed_in, pages_read
from tasks_app.operations.reads import read_ensure
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.actors import SYSTEM
from tasks_app.sellers.accounts import ASKABLE, ENDED, account_standing, currency_problem
from tasks_app.sellers.models import Account, Seller

_SAID = 5  # reasons that a failed job names; its campaign keeps all
_NOT_APPROVED = (DealStatus.CANCELLED, DealStatus.EXPIRED)
_NONE_APPROVED = "no recommendation was approved"
# A deal may be open while nothing is asked or out, as where its account is still awaited.
_LOOK_AGAIN = timedelta(minutes=15)


def register() -> None:
    """Called when the application starts."""
    on_job_ended(campaign_job_ended, recipe="campaign")
    on_retried(campaign_job_retried, refusals=campaign_retry_refusals)
    on_job_ended(booking_ended, recipe="campaign_deal")
    for action in (validate, allocate, recommend, ask, approve_deal, approve, complete):
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
        campaign.allocations.all().delete()  # of a try before, where its job is retried from here on
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
    {seller, operation, pages: [operation], products: n, error, unread}.
    """
    campaign = _campaign(run)
    seller = Seller.objects.get(pk=run.inputs["seller"])
    try:
        _refuse_regions(campaign, seller)
        waiting = _account_operation(run, campaign, seller)
        if waiting is not None:
            return _until(waiting)
        account = _account(campaign, seller)
        operation = _products_operation(run, campaign, seller, account)
        pages = pages_read(
            operation, partial(_products_page, run, campaign, seller, account), member="products"
        )
    except (OperationRefusedError, CommandRefusedError) as error:
        return Done(outputs={"seller": str(seller.pk), "operation": None, "products": 0, "error": str(error)})
    if pages.waiting is not None:
        return WaitForOperation(operation_id=pages.waiting.pk)
    return Done(
        outputs={
            "seller": str(seller.pk),
            "operation": str(operation.pk),
            "pages": [str(page.pk) for page in pages.read],
            "products": len(pages.items),
            "error": "" if pages.read else _why(operation),
            "unread": pages.unread if pages.read else "",
        }
    )


def _why(operation: Operation) -> str:
    """Why a seller offered nothing, in its own words."""
    said = sellers_words(operation)
    return said or f"{operation.seller} answered no products ({operation.status})"


def recommend(run: Run) -> Result:
    """Rank what was offered and put the best forward, one deal per seller; outputs {deals, products}."""
    campaign = _campaign(run)
    existing = list(Deal.objects.filter(campaign_id=campaign.pk).order_by("id"))
    if not existing:
        existing = _propose(run, campaign)
    campaign_put_forward(campaign=campaign, deals=existing, left_out=())  # where an older version crashed
    return Done(
        outputs={
            "deals": [str(deal.pk) for deal in existing],
            "products": sum(found["products"] for found in run.inputs["research"]),
        }
    )


def ask(run: Run) -> Result:
    """Ask people about every deal put forward, in one commit; where the campaign books all together, wait
    until every one is decided. Outputs {asked: how many are undecided}."""
    asked = _asked(run)
    if asked and _campaign(run).booking == "together":
        return WaitForApprovals(approval_ids=asked)
    return Done(outputs={"asked": len(asked)})


def approve_deal(run: Run) -> Result:
    """Wait until people have decided about one deal; the first that is approved moves its campaign on, while
    others may be undecided. Outputs {accepted, status}."""
    asked = ask_undecided(uuid.UUID(run.inputs["deal_id"]))
    if asked is not None:
        return WaitForApprovals(approval_ids=(asked.pk,))
    deal = Deal.objects.get(pk=run.inputs["deal_id"])
    accepted = deal.status not in _NOT_APPROVED
    if accepted:
        campaign_execute(accepted=[deal])
    return Done(outputs={"accepted": accepted, "status": deal.status})


def approve(run: Run) -> Result:
    """Ask people about every deal put forward, and wait for all; outputs {accepted: [id]}. Of campaigns that
    began with version 1 of their recipe: it books nothing before the last deal is decided."""
    asked = _asked(run)
    if asked:
        return WaitForApprovals(approval_ids=asked)
    accepted = list(_put_forward(run).exclude(status__in=_NOT_APPROVED))
    if not accepted:
        raise StepFailedError(_NONE_APPROVED)
    campaign_execute(accepted=accepted)
    return Done(outputs={"accepted": [str(deal.pk) for deal in accepted]})


def complete(run: Run) -> Result:
    """End the campaign as its deals ended; while one of them is open, wait for what it hangs on: a person,
    what is out with its seller, or its account."""
    campaign = _campaign(run)
    if campaign.status == C.AWAITING_APPROVAL:
        raise StepFailedError(_NONE_APPROVED)
    questions = open_questions(campaign)
    if questions:
        return WaitForApprovals(approval_ids=questions)
    out = operation_out(campaign)
    if out is not None:
        return WaitForOperation(operation_id=out.pk)
    account = account_out(campaign)
    if account is not None:
        return WaitForAccount(account_id=account, look_again=_LOOK_AGAIN)
    if not campaign_finish(campaign=campaign):
        return WaitUntil(moment=clock.now() + _LOOK_AGAIN)
    return Done(outputs={"status": campaign.status, "outcome": fates(campaign)})


def _put_forward(run: Run) -> QuerySet[Deal]:
    return Deal.objects.filter(pk__in=run.inputs["deals"]).order_by("id")


@transaction.atomic
def _asked(run: Run) -> tuple[uuid.UUID, ...]:
    """The open questions about what was put forward, asked where they are not."""
    asked = [ask_undecided(pk) for pk in _put_forward(run).values_list("pk", flat=True)]
    return tuple(question.pk for question in asked if question is not None)


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
    if not seller.offers("sync_accounts"):
        return None
    brief = campaign_brief(campaign)
    operation = account_open(
        advertiser=campaign.buyer,
        seller=seller,
        purpose=run.purpose(f"sync_accounts:{seller.pk}"),
        actor=SYSTEM,
        currency=brief.budget.currency,
        zone=brief.flight.zone,
        awaited=True,
    )
    return operation if operation.published_at is None else None


def _refuse_regions(campaign: Campaign, seller: Seller) -> None:
    """Raises OperationRefusedError for regions that the seller does not declare to honour: it might deliver
    everywhere."""
    beyond = _regions_beyond(campaign_brief(campaign), seller)
    if beyond:
        raise OperationRefusedError(beyond)


def _regions_beyond(brief: Brief, seller: Seller) -> str:
    beyond = regions_not_targeted(seller.capabilities, brief.geography.regions)
    return f"{seller} does not declare that it targets {', '.join(beyond)}" if beyond else ""


def _account(campaign: Campaign, seller: Seller) -> Account | None:
    """The account to ask under: none while the seller reviews it. Raises OperationRefusedError for one that
    the seller refused or closed, or that is bound to another currency."""
    rows = Account.objects.select_related("seller", "advertiser")
    account = rows.filter(advertiser=campaign.buyer, seller=seller).first()
    other = currency_problem(account, campaign_brief(campaign).budget.currency) if account else ""
    if other:
        raise OperationRefusedError(other)
    if account is None or account.status in ASKABLE:
        return account
    if account.status in ENDED:
        raise OperationRefusedError(account_standing(account))
    return None


def _products_operation(run: Run, campaign: Campaign, seller: Seller, account: Account | None) -> Operation:
    """The products asked for; once more where the seller refused an account’s id that it had handed out."""
    operation = _products_asked(run, campaign, seller, account, "get_products")
    if operation.published_at is None or account is None:
        return operation
    refused = (operation.error or {}).get("code") == "ACCOUNT_NOT_FOUND"
    if refused and operation.request.get("account") == account.refused_reference:
        return _products_asked(run, campaign, seller, account, "get_products:renamed")
    return operation


def _products_page(
    run: Run, campaign: Campaign, seller: Seller, account: Account | None, cursor: str, number: int
) -> Operation:
    """A further page of the products, as the page before named it."""
    purpose = f"get_products:page-{number}"
    return _products_asked(run, campaign, seller, account, purpose, cursor=cursor)


def _products_asked(
    run: Run, campaign: Campaign, seller: Seller, account: Account | None, purpose: str, *, cursor: str = ""
) -> Operation:
    asked = products_wanted(
        campaign_brief(campaign),
        brand_domain=campaign.buyer.brand_domain,
        account=account.reference if account else None,
        cursor=cursor,
    )
    return read_ensure(
        purpose=run.purpose(purpose),
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
    shares = {a.channel: a.amount for a in campaign.allocations.all()}
    found: list[Offer] = []
    unread: list[LeftOut] = []
    ceilings = {str(basis): limit for basis, limit in brief.constraints.ceilings.items()}
    withdrawn = _regions_withdrawn(run, brief)
    for answer in run.inputs["research"]:
        if answer["operation"] and not answer["error"] and answer["seller"] not in withdrawn:
            # A campaign that was researched before lists had pages names its one answer alone.
            for page in answer.get("pages") or [answer["operation"]]:
                operation = Operation.objects.select_related("seller").get(pk=uuid.UUID(page))
                products, asked = listed_in(operation, "products"), channels_asked(operation.request)
                found += offers(operation.seller, products, ceilings, asked=asked)
                unread += left_out(operation.seller, products)
    picks, passed = pick(brief, shares, found, now=clock.now())
    passed += [*(passed_unread(one) for one in unread), *_not_whole(run)]
    unanswered = [*_unanswered(run), *_of_sellers(withdrawn)]
    if not picks:
        left = [*unanswered, *passed]
        why = "no product of any seller fits the brief: " + _first(left)
        campaign_fail_unoffered(campaign=campaign, reason=why, left_out=[vars(one) for one in left])
        raise StepFailedError(why)
    return propose(campaign=campaign, brief=brief, picks=picks, passed=passed, unanswered=unanswered)


def _unanswered(run: Run) -> list[PassedOver]:
    """The sellers that offered nothing, each with what it said."""
    return _of_sellers(_told(run, "error"))


def _not_whole(run: Run) -> list[PassedOver]:
    """The sellers whose list of products was not read to its end, each with why."""
    return _of_sellers(_told(run, "unread"))


def _told(run: Run, name: str) -> dict[str, str]:
    return {found["seller"]: str(found[name]) for found in run.inputs["research"] if found.get(name)}


def _regions_withdrawn(run: Run, brief: Brief) -> dict[str, str]:
    """Of the sellers that answered, those that do not declare, or no more, to honour the brief's regions,
    with why."""
    asked = [found["seller"] for found in run.inputs["research"] if found["operation"] and not found["error"]]
    sellers = Seller.objects.in_bulk(asked) if brief.geography.regions else {}
    return {str(pk): why for pk, seller in sellers.items() if (why := _regions_beyond(brief, seller))}


def _of_sellers(why: Mapping[str, str]) -> list[PassedOver]:
    names = {str(pk): seller.name for pk, seller in Seller.objects.in_bulk(list(why)).items()}
    return [
        PassedOver(seller=names[seller], product="", option="", channel="", why=said)
        for seller, said in why.items()
    ]


def _first(left: Sequence[PassedOver]) -> str:
    """The first few reasons, and how many more there are on the campaign."""
    said = [f"{one.product} of {one.seller} {one.why}" if one.product else one.why for one in left]
    more = f"; and {len(said) - _SAID} more" if len(said) > _SAID else ""
    return "; ".join(said[:_SAID]) + more or "nothing was offered"
