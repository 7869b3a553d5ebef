"""Reading a campaign with everything its page shows, in a bounded number of queries."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from campaigns.models import Allocation, Campaign
from campaigns.services import campaign_job
from orders.models import Deal
from orders.presenters import deal_name
from orders.selectors import DealRows, deals_with_rows
from tasks_app.approvals.models import Approval, Decision
from tasks_app.jobs.selectors import JobRows, job_rows
from tasks_app.lifecycle.models import AuditEntry, Stateful
from tasks_app.lifecycle.selectors import entries_of_many, verify_shown
from tasks_app.lifecycle.verify import Verification
from tasks_app.operations.models import Operation
from tasks_app.operations.selectors import operations_of_steps
from tasks_app.people.actors import actor_names

_HEAVY = (
    "request_text",
    "webhook_token",
    "request",
    "result",
    "error",
    "seller__token",
    "seller__webhook_secret",
    "seller__capabilities",
    "seller__tools",
)


@dataclass(frozen=True, kw_only=True)
class CampaignRows:
    """A campaign's rows. `operations` are all, reads too, oldest first; `decisions` by approval; `entries`
    the chains of the campaign, its deals, approvals and operations, by entity."""

    campaign: Campaign
    allocations: tuple[Allocation, ...]
    job: JobRows | None
    deals: DealRows
    operations: tuple[Operation, ...]
    decisions: dict[uuid.UUID, list[Decision]]
    entries: dict[uuid.UUID, list[AuditEntry]]
    names: dict[str, str]
    verification: Verification

    @property
    def approvals(self) -> list[Approval]:
        return [approval for asked in self.deals.asked.values() for approval in asked]


def campaign_rows(campaign: Campaign) -> CampaignRows:
    """Everything the campaign's page needs: about twenty queries, however many deals it has."""
    job = campaign_job(campaign)
    deals = deals_with_rows(Deal.objects.filter(campaign_id=campaign.pk))
    named = {str(deal.pk): deal_name(deal, campaign.name) for deal in deals.deals}
    approvals = [approval for asked in deals.asked.values() for approval in asked]
    graph = job_rows(job, named, approvals) if job else None
    operations = _operations(deals, graph)
    entities: list[Stateful] = [campaign, *deals.deals, *approvals, *operations]
    entries = entries_of_many(
        {
            kind: [entity.pk for entity in entities if entity.entity == kind]
            for kind in ("campaign", "deal", "approval", "operation")
        }
    )
    decisions: dict[uuid.UUID, list[Decision]] = {}
    for decision in Decision.objects.filter(approval__in=[a.pk for a in approvals]).order_by("id"):
        decisions.setdefault(decision.approval_id, []).append(decision)
    actors = {entry.actor for chain in entries.values() for entry in chain} | {campaign.requested_by}
    return CampaignRows(
        campaign=campaign,
        allocations=tuple(campaign.allocations.all()),
        job=graph,
        deals=deals,
        operations=operations,
        decisions=decisions,
        entries=entries,
        names=actor_names(actors),
        verification=_verified(entities, entries),
    )


def campaign_names(ids: Collection[uuid.UUID]) -> list[Campaign]:
    """What it takes to name campaigns."""
    return list(Campaign.objects.filter(pk__in=ids).only("reference", "name"))


def _operations(deals: DealRows, graph: JobRows | None) -> tuple[Operation, ...]:
    """Purchases by deal, reads by the steps that asked for them."""
    found = {o.pk: o for operations in deals.operations.values() for o in operations}
    if graph is not None:
        steps = [step.pk for step in graph.steps if not step.spec.get("for_each")]
        steps += [step.pk for nested in graph.child_steps.values() for step in nested]
        for operation in operations_of_steps(steps).select_related("seller").defer(*_HEAVY):
            found.setdefault(operation.pk, operation)
    return tuple(sorted(found.values(), key=lambda operation: operation.pk))


def _verified(entities: Collection[Stateful], entries: dict[uuid.UUID, list[AuditEntry]]) -> Verification:
    """One verdict over all chains; the first thing that is wrong names its entity."""
    total = 0
    for entity in entities:
        checked = verify_shown(entity, entries.get(entity.pk, []))
        if not checked.ok:
            return Verification(ok=False, entries=total, problem=f"{entity}: {checked.problem}")
        total += checked.entries
    return Verification(ok=True, entries=total)
