"""What reconciliation does about tasks without a person: observe what was lost, look again at what moved on.

Source: document 000 "reconcile_state_on_startup": a task that the seller has and we do not know becomes a
placeholder operation of type `unknown`, observed to its end.
"""

from __future__ import annotations

import hashlib
import json
import uuid

from django.db import IntegrityError, transaction

from tasks_app import clock, ids
from tasks_app.adcp.types import Seen
from tasks_app.lifecycle.imports import create_imported, import_record
from tasks_app.lifecycle.references import next_reference
from tasks_app.operations import policy
from tasks_app.operations.comparison import Finding, Reader, Settled, Verdict
from tasks_app.operations.converge import observe
from tasks_app.operations.models import PENDING, UNKNOWN_TYPE, Channel, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.publish import publish_or_leave
from tasks_app.operations.reconcile import tasks_reconcile
from tasks_app.operations.services import operation_poll_now
from tasks_app.people.actors import SYSTEM
from tasks_app.people.scope import advertiser_of
from tasks_app.sellers.models import Seller

TASK = "task"
_LONGEST_ID = 255
_MOST_OBSERVED = 200  # of one seller at a time: a list of tasks that nobody knows is a person's


def task_settle(seller: Seller, finding: Finding) -> Settled | None:
    """Observe an orphan, bind what the seller's echo names, look again at what ended there.

    Harmless when repeated; rows only.
    """
    if finding.verdict == Verdict.ORPHANED:
        return _observe_orphan(seller, finding)
    if finding.subject is None:
        return None
    if finding.verdict == Verdict.UNANSWERED:
        return _bind(finding, finding.subject.id)
    if finding.verdict in (Verdict.BEHIND, Verdict.UNCLEAR):
        return _look_again(finding, finding.subject.id)
    return None


def placeholder_ensure(*, seller: Seller, finding: Finding) -> Operation:
    """The operation that observes a task nobody here knows: a recorded import, in the status the seller says.

    It is polled at once and sent never. Asked again for the same task it answers the one there is. Raises
    ValueError for a task_id that no column holds, and where as many of the seller's are observed as may be.
    """
    if not 0 < len(finding.theirs) <= _LONGEST_ID:
        raise ValueError(f"the task_id has {len(finding.theirs)} characters")
    try:
        with transaction.atomic():
            existing = _of_task(seller, finding.theirs)
            if existing is None and _observed(seller) >= _MOST_OBSERVED:
                raise ValueError(f"{_MOST_OBSERVED} tasks of {seller} that nobody knows are observed already")
            return existing or _placeholder(seller, finding)
    except IntegrityError:
        # Another run, or the answer to the call itself, was faster: theirs is the one.
        return Operation.objects.get(seller=seller, task_id=finding.theirs)


def _of_task(seller: Seller, task_id: str) -> Operation | None:
    return Operation.objects.filter(seller=seller, task_id=task_id).first()


def _observed(seller: Seller) -> int:
    """How many placeholders of the seller's are open, counted no further than there may be."""
    unsettled = Operation.objects.filter(seller=seller, task_type=UNKNOWN_TYPE, settled_at=None)
    return unsettled.order_by()[:_MOST_OBSERVED].count()


def _placeholder(seller: Seller, finding: Finding) -> Operation:
    now, told = clock.now(), finding.told or {}
    named = f"{seller.pk}:{finding.theirs}"
    status = finding.status_there.replace("-", "_")
    operation = Operation(
        id=ids.new_id(),
        reference=next_reference("OP"),
        status=status if status in PENDING else S.SUBMITTED,
        purpose=f"placeholder:{hashlib.sha256(named.encode()).hexdigest()}",
        task_type=UNKNOWN_TYPE,
        seller=seller,
        account_id=finding.account_id,
        team_id=finding.team_id,
        advertiser_id=advertiser_of("account", finding.account_id),
        requested_by=SYSTEM,
        request_text=json.dumps({}),
        request={"observed_only": True, "listed_as": told},
        task_id=finding.theirs,
        message=f"Listed by the seller as {told.get('task_type') or 'a task'}; nobody here asked for it",
        next_poll_at=now,
        deadline_at=now + policy.deadline(UNKNOWN_TYPE, seller),
        created_at=now,
        status_since=now,
    )
    recorded = import_record(source=f"reconciliation with {seller.slug}", actor=SYSTEM, rows=1)
    create_imported(
        operation,
        actor=SYSTEM,
        reason=f"{seller.name} lists the task {finding.theirs}, which nobody here knows"[:500],
        import_row=recorded,
    )
    return operation


def _observe_orphan(seller: Seller, finding: Finding) -> Settled | None:
    try:
        operation = placeholder_ensure(seller=seller, finding=finding)
    except ValueError:
        return None  # a person's
    return Settled(how="observed", note=f"observed as {operation.reference}")


def _bind(finding: Finding, operation_id: uuid.UUID) -> Settled:
    """The seller echoed our operation's id with the task: as if the call's answer had come."""
    seen = Seen(
        kind="answer",
        status="submitted",
        task_id=finding.theirs,
        raw=finding.told,
        asked_at=finding.asked_at,
    )
    return _observe(operation_id, seen, "bound to its task")


def _look_again(finding: Finding, operation_id: uuid.UUID) -> Settled:
    """A look-up that brought the result is an observation; a list alone is a reason to poll at once."""
    if finding.seen is not None and finding.seen.status == "completed" and finding.seen.payload:
        return _observe(operation_id, finding.seen, "settled by what the seller answered")
    operation_poll_now(operation_id=operation_id)
    return Settled(how="polled", note="it is asked for its result at once")


def _observe(operation_id: uuid.UUID, seen: Seen, note: str) -> Settled:
    observe(operation_id=operation_id, seen=seen, channel=Channel.RECONCILE)
    publish_or_leave(operation_id=operation_id)
    return Settled(how="observed", note=note)


def lost_task_ended(operation: Operation) -> bool:
    """Whether this is a placeholder that ended with a media buy: whose it is, is to be found out at once."""
    bought = isinstance(operation.result, dict) and "media_buy_id" in operation.result
    return operation.task_type == UNKNOWN_TYPE and operation.status == S.COMPLETED and bought


READER = Reader(kind=TASK, read=tasks_reconcile, settle=task_settle)
