"""The conditions at the end of a run: our rows compared with the sellers' own books."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.core.management import CommandError, call_command

from orders.models import Deal, DealStatus
from tasks_app.approvals.selectors import approvals_waiting_for
from tasks_app.jobs.models import JOB_ENDED, Job
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.models import SETTLED, Operation, OperationStatus
from tasks_app.people.models import User
from tests.chaos.buyer import budget, purchases
from tests.chaos.plan import Scenario
from tests.fake_seller.driver import FakeSeller

_BOOKED = (DealStatus.BOOKED, DealStatus.DELIVERING, DealStatus.COMPLETED)
_NOT_BOOKED = (DealStatus.FAILED, DealStatus.CANCELLED)
_REFERENCE = re.compile(r"(?:OP|DEAL)-\d{4}-\d+")
_MOST_WITH_PEOPLE = 0.1
_FEWEST_KILLS = 3


@dataclass(kw_only=True)
class Purchase:
    """One purchase as both sides know it.

    `bought`: the seller's media buys. `person`: the open question that it waits for, in words. `times`: how
    often the audit trail says that the deal was booked and the operation settled.
    """

    scenario: Scenario
    deals: list[Deal] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    job_status: str = ""
    bought: list[str] = field(default_factory=list)
    confirmed: Decimal = Decimal(0)
    person: str = ""
    times: dict[str, int] = field(default_factory=dict)

    @property
    def is_settled(self) -> bool:
        is_published = [operation.published_at is not None for operation in self.operations] == [True]
        return is_published and self.operations[0].status in SETTLED and self.job_status in JOB_ENDED

    @property
    def is_lost(self) -> bool:
        return not self.is_settled and not self.person

    def names(self) -> Iterator[str]:
        """Yield every name by which an approval or a row of `reconcile` may call the purchase."""
        yield from (deal.reference for deal in self.deals)
        yield from (name for row in self.operations for name in (row.reference, row.task_id) if name)
        yield from self.bought

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the purchase."""
        rows = {"buys at the seller": self.bought, "deals": self.deals, "operations": self.operations}
        for name, found in rows.items():
            if len(found) > 1:
                yield f"{len(found)} {name}"
        for name, times in self.times.items():
            if times > 1:
                yield f"{name} {times} times"
        if self.is_lost:
            yield "neither settled nor with a person"
        elif not self.person:
            yield from self._differences(self.deals[0], self.operations[0])

    def _differences(self, deal: Deal, operation: Operation) -> Iterator[str]:
        """Yield what the two sides of a settled purchase disagree about."""
        if operation.status != OperationStatus.COMPLETED:
            if self.bought:
                yield f"{operation.status} here, and bought at the seller"
            elif self.scenario.is_sold:
                yield f"{operation.status} here, and the seller would have sold"
            if deal.status not in _NOT_BOOKED:
                yield f"not bought, and the deal is {deal.status}"
            return
        if deal.status not in _BOOKED:
            yield f"bought, and the deal is {deal.status}"
        if [deal.media_buy_id] != self.bought:
            yield f"the deal has {deal.media_buy_id or 'no media buy'}, the seller {self.bought}"
        if self.confirmed != budget(self.scenario):
            yield f"{self.confirmed} confirmed, {budget(self.scenario)} approved"
        for name in ("deal booked", "operation settled"):
            if not self.times.get(name):
                yield f"{name} 0 times"


def gather(scenarios: Sequence[Scenario], sellers: Iterable[FakeSeller], *, approver: User) -> list[Purchase]:
    """Return every purchase, from our rows and the sellers' books."""
    found = {scenario.product_id: Purchase(scenario=scenario) for scenario in scenarios}
    by_deal: dict[Any, Purchase] = {}
    for deal in Deal.objects.prefetch_related("lines"):
        line = deal.lines.all()[0]
        purchase = by_deal[deal.pk] = found[line.product_id]
        purchase.deals.append(deal)
        purchase.confirmed = line.confirmed_budget or Decimal(0)
    for operation in purchases():
        by_deal[operation.subject_id].operations.append(operation)
    for job in Job.objects.filter(recipe="book_deal"):
        by_deal[job.subject_id].job_status = job.status
    for seller in sellers:
        for media_buy in seller.books():
            found[media_buy["product_id"]].bought.append(media_buy["media_buy_id"])
    _count_effects(by_deal)
    _add_people(by_deal.values(), approver)
    return list(found.values())


def _count_effects(by_deal: Mapping[Any, Purchase]) -> None:
    ends = {"deal": [DealStatus.BOOKED], "operation": SETTLED}
    entries: Counter[Any] = Counter()
    for kind, statuses in ends.items():
        moves = AuditEntry.objects.filter(entity_type=kind, to_status__in=statuses)
        entries.update(moves.values_list("entity_id", flat=True))
    for deal_id, purchase in by_deal.items():
        purchase.times = {
            "deal booked": entries[deal_id],
            "operation settled": sum(entries[operation.pk] for operation in purchase.operations),
        }


def _add_people(found: Iterable[Purchase], approver: User) -> None:
    """Find the open question about each purchase that the approver can decide."""
    asked: dict[Any, str] = {}
    for approval in approvals_waiting_for(approver):
        asked[approval.subject_id] = approval.kind
        asked |= dict.fromkeys(_REFERENCE.findall(json.dumps(approval.evidence)), approval.kind)
    for purchase in found:
        names = [*(row.pk for row in (*purchase.deals, *purchase.operations)), *purchase.names()]
        purchase.person = next((asked[name] for name in names if name in asked), "")


def reconcile(found: Sequence[Purchase]) -> list[dict[str, str]]:
    """Return the rows of `reconcile` that are not in step and not with a person."""
    with_person = {name for purchase in found if purchase.person for name in purchase.names()}
    rows: list[dict[str, str]] = []
    for seller in _command("reconcile")["sellers"]:
        rows += [{"verdict": "unread", "theirs": f"{seller['seller']}: {why}"} for why in seller["unread"]]
        rows += [
            row
            for row in (*seller["tasks"], *seller["media_buys"])
            if row["verdict"] != "in_step" and not {row["theirs"], row["here"]} & with_person
        ]
    return rows


def is_trail_sound() -> bool:
    """Return what `verify_audit` says."""
    return bool(_command("verify_audit")["ok"])


def _command(name: str) -> dict[str, Any]:
    """Return the JSON of a command, also when it exits with an error."""
    output = io.StringIO()
    try:
        call_command(name, "--json", stdout=output)
    except CommandError:
        if not output.getvalue():
            raise
    answer: dict[str, Any] = json.loads(output.getvalue())
    return answer


def summarize(found: Sequence[Purchase], **counts: int) -> dict[str, int]:
    """Return the numbers of a run. `counts`: `differences`, `kills`, `held`, `seed`."""
    return {
        "operations": len(found),
        "bought": sum(len(purchase.bought) for purchase in found),
        "settled": sum(purchase.is_settled and not purchase.person for purchase in found),
        "waiting_on_person": sum(bool(purchase.person) for purchase in found),
        "bought_twice": sum(len(purchase.bought) > 1 for purchase in found),
        "lost": sum(purchase.is_lost for purchase in found),
        "broken": sum(any(purchase.problems()) for purchase in found),
        **counts,
    }


def verdict(summary: Mapping[str, int], *, trail_is_sound: bool) -> list[str]:
    """Return every condition that the run does not meet."""
    operations, waiting = summary["operations"], summary["waiting_on_person"]
    wrong = [f"{summary[name]} {name}" for name in ("broken", "differences") if summary[name]]
    if waiting > _MOST_WITH_PEOPLE * operations:
        wrong.append(f"{waiting} of {operations} wait on people")
    if summary["kills"] < _FEWEST_KILLS:
        wrong.append(f"only {summary['kills']} kills")
    if summary["held"] < fewest_held(operations):
        wrong.append(f"the kill switch held only {summary['held']}")
    if not trail_is_sound:
        wrong.append("verify_audit fails")
    return wrong


def fewest_held(operations: int) -> int:
    """Return how many purchases the kill switch must hold."""
    return min(10, operations // 20)
