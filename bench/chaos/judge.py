"""What must hold at the end, purchase by purchase: counted at the sellers, and compared with our rows."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command

from bench.chaos.drive import BUDGET, purchases
from bench.chaos.plan import Script
from orders.models import Deal, DealStatus
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.selectors import approvals_waiting_for
from tasks_app.jobs.models import JOB_ENDED, Job, Step, StepStatus
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import SETTLED, Operation, OperationStatus
from tasks_app.people.models import User

_HELD = (DealStatus.BOOKED, DealStatus.DELIVERING, DealStatus.COMPLETED)
_NOT_HELD = (DealStatus.FAILED, DealStatus.CANCELLED)
_REFERENCE = re.compile(r"(?:OP|DEAL)-\d{4}-\d+")


@dataclass(kw_only=True)
class Purchase:
    """One purchase as both sides know it. `confirmed`: what the deal's lines say was booked, in its currency.
    `person`: whom it waits for, in words. `times`: how often the deal was booked, the operation settled, the
    step that bought completed, by the trail. `asked_at_once`: open questions about one kind of conflict."""

    script: Script
    deals: list[Deal] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    job_status: str = ""
    bought: list[dict[str, Any]] = field(default_factory=list)
    confirmed: Decimal = Decimal(0)
    person: str = ""
    times: dict[str, int] = field(default_factory=dict)
    asked_at_once: int = 0

    @property
    def settled(self) -> bool:
        return (
            len(self.operations) == 1
            and self.operations[0].status in SETTLED
            and self.operations[0].published_at is not None
            and self.job_status in JOB_ENDED
        )

    @property
    def lost(self) -> bool:
        """Neither settled nor with a person."""
        return not self.settled and not self.person

    @property
    def given_up(self) -> bool:
        """Settled without a person, and not bought, though its seller would have."""
        return self.settled and not self.person and not self.bought and self.script.would_book

    def problems(self) -> list[str]:
        """What must not be, in words."""
        found = [f"{len(self.bought)} buys at the seller"] if len(self.bought) > 1 else []
        found += [f"{len(rows)} {name}" for name, rows in self._single().items() if len(rows) > 1]
        found += [f"{what} {times} times" for what, times in self.times.items() if times > 1]
        if self.asked_at_once > 1:
            found.append(f"{self.asked_at_once} open questions about one contradiction")
        if self.lost:
            found.append("neither settled nor with a person")
        if self.settled and not self.person:
            found += self._effects()
        return found

    def _single(self) -> Mapping[str, Sequence[object]]:
        """What there is one of: nobody keeps a late purchase here, as a deal of its own."""
        return {"deals": self.deals, "operations": self.operations}

    def _effects(self) -> list[str]:
        """Settled, and nobody is asked: then both sides agree, and the deal says so."""
        deal, operation = self.deals[0], self.operations[0]
        if operation.status != OperationStatus.COMPLETED:
            wrong = [f"{operation.status} here, and bought at the seller"] if self.bought else []
            wrong += ["given up, and its seller would have booked it"] if self.given_up else []
            return wrong + (
                [] if deal.status in _NOT_HELD else [f"not bought, and the deal is {deal.status}"]
            )
        if not self.bought:
            return ["completed here, and not bought at the seller"]
        return [*self._deal_problems(deal, self.bought[0])]

    def _deal_problems(self, deal: Deal, bought: Mapping[str, Any]) -> Iterable[str]:
        if deal.status not in _HELD:
            yield f"bought, and the deal is {deal.status}"
        if deal.media_buy_id != bought["media_buy_id"]:
            yield f"the deal holds {deal.media_buy_id or 'no media buy'}, the seller {bought['media_buy_id']}"
        if self.confirmed != BUDGET + self.script.number:
            yield f"{self.confirmed} confirmed, {BUDGET + self.script.number} approved"
        for what in ("deal booked", "operation settled", "step completed"):
            if self.times.get(what) != 1:
                yield f"{what} {self.times.get(what, 0)} times"


def gather(scripts: Sequence[Script], books: Mapping[str, Path], *, approver: User) -> list[Purchase]:
    """Every purchase, from our rows and the sellers' books."""
    found = {script.number: Purchase(script=script) for script in scripts}
    by_deal = {}
    for deal in Deal.objects.prefetch_related("lines"):
        line = deal.lines.all()[0]
        purchase = found[int(line.product_id.removeprefix("chaos-"))]
        purchase.deals.append(deal)
        purchase.confirmed = line.confirmed_budget or Decimal(0)
        by_deal[deal.pk] = purchase
    for operation in Operation.objects.filter(purchases()).select_related("seller"):
        _of(by_deal, operation).operations.append(operation)
    for job in Job.objects.filter(recipe="book_deal"):
        _of(by_deal, job).job_status = job.status
    for path in books.values():
        for row in seller_rows(path, "select * from buys"):
            found[row["number"]].bought.append(dict(row))
    _count(by_deal.values())
    _count_questions(by_deal.values())
    _with_people(by_deal.values(), approver)
    return list(found.values())


def _of(by_deal: Mapping[uuid.UUID, Purchase], row: Operation | Job) -> Purchase:
    """The purchase that an operation or a job is for."""
    return by_deal[row.subject_id or row.pk]


def seller_rows(path: Path, query: str, *values: object) -> list[sqlite3.Row]:
    """Rows of a seller's books, read beside the seller."""
    connection = sqlite3.connect(path, timeout=60)
    try:
        connection.row_factory = sqlite3.Row
        return connection.execute(query, values).fetchall()
    finally:
        connection.close()


def differences(found: Sequence[Purchase]) -> list[dict[str, str]]:
    """Rows of `reconcile` that are not in step and not with a person either."""
    with_person = {name for purchase in found if purchase.person for name in names_of(purchase)}
    told = _told("reconcile")
    rows = [
        {"seller": seller["seller"], **row}
        for seller in told["sellers"]
        for row in (*seller["tasks"], *seller["media_buys"])
        if row["verdict"] != "in_step"
    ]
    unread = [
        {"seller": s["seller"], "verdict": "unread", "theirs": w}
        for s in told["sellers"]
        for w in s["unread"]
    ]
    return unread + [row for row in rows if not {row["theirs"], row["here"]} & with_person]


def trail_holds() -> bool:
    """What `verify_audit` says."""
    return bool(_told("verify_audit")["ok"])


def _told(command: str) -> dict[str, Any]:
    """A command's JSON, whatever its exit code."""
    output = io.StringIO()
    try:
        call_command(command, "--json", stdout=output)
    except CommandError as found:
        if not output.getvalue():
            raise found
    answer: dict[str, Any] = json.loads(output.getvalue())
    return answer


def names_of(purchase: Purchase) -> Iterable[str]:
    """Everything that a row of reconcile may call it by."""
    yield from (deal.reference for deal in purchase.deals)
    for operation in purchase.operations:
        yield operation.reference
        if operation.task_id:
            yield operation.task_id
    for bought in purchase.bought:
        yield bought["media_buy_id"]


def _count(found: Iterable[Purchase]) -> None:
    """How often things happened, by the trail."""
    entries: dict[tuple[str, Any], int] = defaultdict(int)
    ends = {"deal": (DealStatus.BOOKED,), "operation": SETTLED, "step": (StepStatus.COMPLETED,)}
    for kind, statuses in ends.items():
        moved = AuditEntry.objects.filter(entity_type=kind, to_status__in=statuses)
        for entity_id in moved.values_list("entity_id", flat=True):
            entries[kind, entity_id] += 1
    bought_in = {
        step.job.subject_id: step.pk for step in Step.objects.filter(key="buy").select_related("job")
    }
    for purchase in found:
        deal = purchase.deals[0]
        settled = (entries["operation", operation.pk] for operation in purchase.operations)
        purchase.times = {
            "deal booked": entries["deal", deal.pk],
            "operation settled": sum(settled),
            "step completed": entries["step", bought_in.get(deal.pk)],
        }


def _count_questions(found: Iterable[Purchase]) -> None:
    """The most open questions about conflicts of one kind that an operation has."""
    open_ones = Approval.objects.filter(
        kind="conflict", subject_type="conflict", status=ApprovalStatus.OPEN
    ).values("subject_id")
    asked = Counter(Conflict.objects.filter(pk__in=open_ones).values_list("operation_id", "kind"))
    for purchase in found:
        of_it = {operation.pk for operation in purchase.operations}
        purchase.asked_at_once = max((n for (pk, _), n in asked.items() if pk in of_it), default=0)


def _with_people(found: Iterable[Purchase], approver: User) -> None:
    """Whom each waits for: an open question that the approver can decide on."""
    asked: dict[Any, str] = {}
    for approval in approvals_waiting_for(approver):
        what = approval.evidence.get("what")
        words = f"{approval.kind}{f' ({what})' if what else ''}, {approver}"
        asked[approval.subject_id] = words
        asked |= dict.fromkeys(_REFERENCE.findall(json.dumps(approval.evidence)), words)
    for purchase in found:
        ids = [row.pk for rows in (purchase.deals, purchase.operations) for row in rows]
        names = (asked.get(name, "") for name in (*ids, *names_of(purchase)))
        purchase.person = next(filter(None, names), "")
