"""Reading a campaign with everything its page shows, in a bounded number of queries and rows."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.db.models import QuerySet

from campaigns.explain import progress_of
from campaigns.explain_words import Progress
from campaigns.models import Allocation, Campaign, CampaignStatus
from campaigns.services import campaign_job
from orders.models import Deal, DealStatus
from orders.presenters import deal_name
from orders.questions import DEAL
from orders.selectors import (
    DealRows,
    DealSums,
    deal_sums,
    deals_with_rows,
    decisions_on,
    questions_counted,
    sums_read,
)
from orders.ways import PURCHASE
from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.jobs.selectors import JobRows, job_rows
from tasks_app.lifecycle.models import AuditEntry, Stateful
from tasks_app.lifecycle.names import EntityName
from tasks_app.lifecycle.selectors import entries_of_many, verify_shown
from tasks_app.lifecycle.verify import Verification
from tasks_app.operations.answer_stages import Answers
from tasks_app.operations.blockers import seller_blocker
from tasks_app.operations.models import Operation
from tasks_app.operations.selectors import operations_of_steps
from tasks_app.people.actors import actor_names
from tasks_app.sellers.models import Account
from tasks_app.sellers.presenters import seller_name

_HEAVY = (
    "request_text",
    "webhook_token",
    "request",
    "result",
    "error",
    "seller__token",
    "seller__webhook_secret",
    "seller__capabilities",
)


DEALS_SHOWN, LINES_SHOWN = 25, 12
_STEPS_ASKED = 120  # whose readings of sellers are shown
_READS_SHOWN = 60


@dataclass(frozen=True, kw_only=True)
class CampaignRows:
    """A campaign's rows. Of many deals those that differ or are open are read; `sums` tells of all of them,
    by status, `asked` (status to how many, the next deadline) of all recommendations. `operations` are those
    of the deals that were read and the readings of sellers, oldest first; `decisions` by approval; `entries`
    the chains of the campaign, its deals, approvals and operations, by entity."""

    campaign: Campaign
    allocations: tuple[Allocation, ...]
    job: JobRows | None
    deals: DealRows
    sums: tuple[DealSums, ...]
    asked: tuple[Mapping[str, int], datetime | None]
    operations: tuple[Operation, ...]
    decisions: dict[uuid.UUID, list[Decision]]
    entries: dict[uuid.UUID, list[AuditEntry]]
    names: dict[str, str]
    verification: Verification

    @property
    def approvals(self) -> list[Approval]:
        return [approval for asked in self.deals.asked.values() for approval in asked]

    @property
    def answers(self) -> Answers:
        """Ours to what sellers ask about its purchases, and about what its job waits for."""
        return self.job.answers if self.job is not None else self.deals.answers

    @property
    def goes_on(self) -> bool:
        """Whether what comes next is up to workers, beside people and sellers that were asked."""
        return not self._may_be_kept or self.progress.goes_on

    @cached_property
    def progress(self) -> Progress:
        """Why it stands as it does, as its explanation has it; read when it is asked for, once."""
        return progress_of(self.campaign)

    @property
    def _may_be_kept(self) -> bool:
        """Whether something may be in the way of its approved deals, by what was read already."""
        accepted = [deal for deal in self.deals.deals if deal.status == DealStatus.ACCEPTED]
        executing = self.campaign.status == CampaignStatus.EXECUTING_BOOKINGS
        return executing and (self.more_deals > 0 or any(map(_is_kept, accepted)))

    @property
    def deal_count(self) -> int:
        return sum(one.deals for one in self.sums)

    @property
    def more_deals(self) -> int:
        """How many deals were not read."""
        return self.deal_count - len(self.deals.deals)

    def deals_in(self, *statuses: str) -> int:
        """How many deals stand in any of these."""
        return sum(one.deals for one in self.sums if one.status in statuses)


def _is_kept(deal: Deal) -> bool:
    active = deal.account is not None and deal.account.status == Account.Status.ACTIVE
    begun = deal.start_at <= clock.now()
    return begun or not active or seller_blocker(deal.seller, PURCHASE) is not None


def campaign_rows(campaign: Campaign) -> CampaignRows:
    """Everything the campaign's page needs: about twenty queries and a bounded number of rows, however many
    deals it has."""
    job = campaign_job(campaign)
    own = Deal.objects.filter(campaign_id=campaign.pk)
    deals = deals_with_rows(own, most=DEALS_SHOWN, lines=LINES_SHOWN)
    sums = tuple(sums_read(deals) if len(deals.deals) < DEALS_SHOWN else deal_sums(own))
    approvals = [approval for asked in deals.asked.values() for approval in asked]
    sent = [operation for operations in deals.operations.values() for operation in operations]
    graph = job_rows(job, _named(deals, campaign), approvals, sent, deals.answers) if job else None
    operations = _operations(sent, graph)
    entities: list[Stateful] = [campaign, *deals.deals, *approvals, *operations]
    entries = entries_of_many(
        {
            kind: [entity.pk for entity in entities if entity.entity == kind]
            for kind in ("campaign", "deal", "approval", "operation")
        }
    )
    actors = {entry.actor for chain in entries.values() for entry in chain} | {campaign.requested_by}
    actors |= {key for approval in approvals for key in approval.actors}
    return CampaignRows(
        campaign=campaign,
        allocations=tuple(campaign.allocations.all()),
        job=graph,
        deals=deals,
        sums=sums,
        asked=_asked(own, deals, approvals, sums),
        operations=operations,
        decisions=decisions_on(approvals),
        entries=entries,
        names=actor_names(actors),
        verification=_verified(entities, entries),
    )


def campaign_names(ids: Collection[uuid.UUID]) -> list[Campaign]:
    """What it takes to name campaigns."""
    return list(Campaign.objects.filter(pk__in=ids).only("reference", "name"))


def _named(deals: DealRows, campaign: Campaign) -> dict[str, EntityName]:
    """What the graph's items are called, by their own texts: deals and their sellers."""
    sellers = {deal.seller_id: deal.seller for deal in deals.deals}
    named = {str(pk): seller_name(one) for pk, one in sellers.items()}
    return named | {str(deal.pk): deal_name(deal, campaign.name) for deal in deals.deals}


def _asked(
    own: QuerySet[Deal], deals: DealRows, approvals: Collection[Approval], sums: Collection[DealSums]
) -> tuple[Mapping[str, int], datetime | None]:
    if sum(one.deals for one in sums) > len(deals.deals):
        return questions_counted(own, DEAL)
    asked = [approval for approval in approvals if approval.kind == DEAL]
    due = min((a.due_at for a in asked if a.status == ApprovalStatus.OPEN), default=None)
    return Counter(approval.status for approval in asked), due


def _operations(sent: Collection[Operation], graph: JobRows | None) -> tuple[Operation, ...]:
    """Purchases by deal, reads by the steps that asked for them."""
    found = {operation.pk: operation for operation in sent}
    if graph is not None:
        steps = [step.pk for step in graph.steps if not step.spec.get("for_each")]
        steps += [step.pk for nested in graph.child_steps.values() for step in nested]
        rows = operations_of_steps(steps[:_STEPS_ASKED]).select_related("seller").defer(*_HEAVY)
        for operation in rows.order_by("-pk")[:_READS_SHOWN]:
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
