"""One entity of every kind in its initial status, and what a trail looks like."""

from __future__ import annotations

from typing import Any

from campaigns.models import Campaign
from tasks_app import ids
from tasks_app.approvals.models import Approval
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import approval_open
from tasks_app.assistant.models import AssistantTurn
from tasks_app.assistant.services import ask
from tasks_app.assistant.types import Channel
from tasks_app.jobs.models import Job, Step
from tasks_app.lifecycle.models import AuditEntry, OutboxEvent, Stateful
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import create
from tasks_app.operations.asking import operation_ensure
from tasks_app.operations.models import Operation
from tests.factories import make_deal, make_seller, make_team, make_user


def make_campaign(**fields: Any) -> Campaign:
    told = {"name": "Autumn", "requested_by": "system", "brief": {}, **fields}
    campaign = Campaign(reference=next_reference("CMP"), team=make_team(), **told)
    create(campaign, actor="system", reason="Submitted")
    return campaign


def make_operation(purpose: str = "test", **fields: Any) -> Operation:
    defaults = {
        "task_type": "get_products",
        "seller": make_seller(slug=f"seller-{ids.new_id()}"),
        "arguments": {"brief": "Coffee"},
        "actor": "system",
        "team": make_team(),
    }
    return operation_ensure(purpose=purpose, **{**defaults, **fields})


def make_job() -> Job:
    job = Job(
        reference=next_reference("JOB"),
        recipe="test",
        recipe_version=1,
        recipe_digest="0" * 64,
        plan={},
        team=make_team(),
        requested_by="system",
    )
    create(job, actor="system", reason="Started")
    return job


def make_step(**fields: Any) -> Step:
    step = Step(job=make_job(), key="one", spec={}, **fields)
    create(step, actor="system", reason="Planned")
    return step


def make_approval(**fields: Any) -> Approval:
    defaults: dict[str, Any] = {
        "kind": "test",
        "team": make_team(),
        "title": "May it?",
        "subject_type": "thing",
        "subject_id": ids.new_id(),
        "subject_version": 1,
        "evidence": {"gross": "10.00"},
        "policy": "Always",
    }
    question = Question(**{**defaults, **fields})
    return approval_open(question=question, requested_by="system", opened_by="system")


def make_turn() -> AssistantTurn:
    return ask(user=make_user("Buyer"), question="What waits for me?", channel=Channel.API)


MAKERS = {
    "approval": make_approval,
    "assistant_turn": make_turn,
    "campaign": make_campaign,
    "deal": make_deal,
    "job": make_job,
    "operation": make_operation,
    "step": make_step,
}


def trail(entity: Stateful) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(entity_type=entity.entity, entity_id=entity.pk).order_by("seq"))


def written() -> tuple[int, int]:
    """How many audit entries and outbox events there are."""
    return AuditEntry.objects.count(), OutboxEvent.objects.count()
