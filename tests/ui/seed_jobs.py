"""Walks the seeded campaigns' jobs: the engine's own commits, with what the steps would have found."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from campaigns.models import Campaign
from orders.models import CONFIRMED, Deal, DealStatus
from orders.questions import ask_undecided
from orders.services import deal_book
from tasks_app.adcp.types import Seen
from tasks_app.jobs import engine, planning
from tasks_app.jobs.models import JOB_ENDED, Job, Step, StepStatus
from tasks_app.operations.asking import operation_ensure
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.publish import publish
from tasks_app.people.actors import SYSTEM
from tasks_app.sellers.models import Seller
from tests.jobs.claiming import claim_step
from tests.operations.making import observed

Pass = Callable[[float], None]


def walk(passes: Pass) -> int:
    """Run every ready step; `passes(seconds)` moves the story's clock. Answers how many ran."""
    ran = 0
    while (step := claim_step()) is not None:
        _STEPS[step.spec["id"]](step, passes)
        ran += 1
    return ran


def _validate(step: Step, passes: Pass) -> None:
    passes(0.2)
    engine.mark_complete(step=step, outputs={"sellers": Seller.objects.count()})


def _allocate(step: Step, passes: Pass) -> None:
    passes(0.1)
    campaign = _campaign(step)
    channels = {a.channel: str(a.amount) for a in campaign.allocations.all()}
    sellers = [str(pk) for pk in Seller.objects.order_by("pk").values_list("pk", flat=True)]
    engine.mark_complete(step=step, outputs={"channels": channels, "sellers": sellers})


def _research(step: Step, passes: Pass) -> None:
    if step.fan_out_id is None:
        engine.expand(step=step, items=_outputs(step, "allocate")["sellers"])
        return
    seller = Seller.objects.get(pk=str(step.item))
    operation = operation_ensure(
        purpose=f"step:{step.pk}:get_products",
        task_type="get_products",
        seller=seller,
        team=step.job.team,
        arguments={"buying_mode": "brief", "brief": _campaign(step).name},
        actor=SYSTEM,
    )
    claim_one(operation_id=operation.pk)
    passes(4.1 + (step.item_index or 0) * 1.4)
    products = [{"product_id": f"{seller.slug}-{n}", "name": f"Product {n}"} for n in range(5)]
    seen = Seen(kind="answer", status="completed", payload={"products": products})
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    publish(operation_id=operation.pk)
    engine.mark_complete(
        step=step,
        outputs={
            "seller": str(seller.pk),
            "operation": str(operation.pk),
            "products": len(products),
            "error": "",
        },
    )


def _recommend(step: Step, passes: Pass) -> None:
    passes(0.4)
    deals = [str(deal.pk) for deal in _deals(step)]
    engine.mark_complete(step=step, outputs={"deals": deals, "products": 17})


def _ask(step: Step, passes: Pass) -> None:
    passes(0.3)
    asked = [ask_undecided(deal.pk) for deal in _deals(step)]
    engine.mark_complete(step=step, outputs={"asked": sum(one is not None for one in asked)})


def _book(step: Step, passes: Pass) -> None:
    if step.fan_out_id is None:
        engine.expand(step=step, items=_outputs(step, "recommend")["deals"])
        return
    child = Job.objects.filter(parent_step=step).first() or planning.job_start(
        recipe="campaign_deal",
        inputs={"deal_id": step.item},
        team=step.job.team,
        actor=SYSTEM,
        subject_type="campaign",
        subject_id=step.job.subject_id,
        parent_step=step,
    )
    if child.status in JOB_ENDED:
        engine.mark_complete(step=step, outputs=child.outputs or {})
    else:
        _wait(step, StepStatus.AWAITING_TOOL, {"type": "job", "id": str(child.pk)}, f"{child.reference} runs")


def _approve(step: Step, passes: Pass) -> None:
    pk = uuid.UUID(step.job.inputs["deal_id"])
    asked = ask_undecided(pk)
    if asked is not None:
        waiting = {"type": "approvals", "ids": [str(asked.pk)]}
        _wait(step, StepStatus.AWAITING_USER, waiting, "Decisions are open")
        return
    status = Deal.objects.get(pk=pk).status
    accepted = status not in (DealStatus.CANCELLED, DealStatus.EXPIRED)
    engine.mark_complete(step=step, outputs={"accepted": accepted, "status": status})


def _buy(step: Step, passes: Pass) -> None:
    deal = Deal.objects.select_related("seller").get(pk=step.job.inputs["deal_id"])
    operation = deal_book(deal=deal)
    if operation.published_at is None:
        _wait(
            step, StepStatus.AWAITING_TOOL, {"type": "operation", "id": str(operation.pk)}, "With the seller"
        )
        return
    deal.refresh_from_db()
    booked = deal.status in CONFIRMED
    engine.mark_complete(
        step=step, outputs={"deal_id": str(deal.pk), "status": deal.status, "booked": booked}
    )


def _read_back(step: Step, passes: Pass) -> None:
    passes(1.2)
    engine.mark_complete(step=step, outputs={"deal_id": step.job.inputs["deal_id"], "read": True})


def _complete(step: Step, passes: Pass) -> None:
    engine.mark_complete(step=step, outputs={"status": _campaign(step).status})


_STEPS: dict[str, Callable[[Step, Pass], None]] = {
    "validate": _validate,
    "allocate": _allocate,
    "research": _research,
    "recommend": _recommend,
    "ask": _ask,
    "book": _book,
    "approve": _approve,
    "complete": _complete,
    "buy": _buy,
    "read_back": _read_back,
}


def _wait(step: Step, status: str, waiting_for: dict[str, Any], reason: str) -> None:
    engine.mark_waiting(step=step, status=status, waiting_for=waiting_for, reason=reason)


def _campaign(step: Step) -> Campaign:
    return Campaign.objects.get(pk=uuid.UUID(step.job.inputs["campaign_id"]))


def _deals(step: Step) -> list[Deal]:
    found = Deal.objects.filter(campaign_id=step.job.inputs["campaign_id"])
    return list(found.select_related("seller", "team", "advertiser", "account").order_by("pk"))


def _outputs(step: Step, key: str) -> dict[str, Any]:
    return Step.objects.get(job=step.job, key=key).outputs or {}


def seconds(days: Any) -> Pass:
    """Moves the clock of the seed's days."""

    def passes(amount: float) -> None:
        days.at += timedelta(seconds=amount)

    return passes
