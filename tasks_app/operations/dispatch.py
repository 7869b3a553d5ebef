"""Claiming what is due and doing the call: no transaction is open while a seller is waited for."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

import structlog
from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, transaction
from encrypted_fields.fields import EncryptedCharField

from tasks_app import clock
from tasks_app.adcp import client
from tasks_app.adcp.tasks import STATUS_TOOL_NAMES, task_status_arguments, task_status_tool
from tasks_app.adcp.types import Endpoint, Seen
from tasks_app.commands.kill_switch import NO_STOPS, Stops, stops
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations import claims, policy
from tasks_app.operations.breaker import breaker_is_clean, breaker_record, is_failure
from tasks_app.operations.converge import observe, observe_many
from tasks_app.operations.leases import leases_release
from tasks_app.operations.leaving import may_leave, passes_though_off
from tasks_app.operations.lookup import Lookup, look_up, lookup_of
from tasks_app.operations.models import PENDING, SETTLED, Channel, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import answer_waits, resume_take
from tasks_app.operations.publish import publish_or_leave
from tasks_app.operations.resend import resend_is_safe
from tasks_app.operations.services import operation_secrets
from tasks_app.sellers.models import Seller, SellerBreaker

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call about to be made: everything it needs, so that it touches no database."""

    operation_id: uuid.UUID
    seller_id: uuid.UUID
    channel: str
    endpoint: Endpoint
    tool: str
    arguments: dict[str, Any] = field(repr=False)  # our webhook credentials among them
    secrets: tuple[str, ...] = field(repr=False)
    sealed_token: str | None = field(default=None, repr=False)  # one secret more, still encrypted
    calm: bool = True  # the seller's breaker had nothing to remember when this was claimed
    lookup: Lookup | None = field(default=None, repr=False)
    continuation: dict[str, str] | None = field(default=None, repr=False)


# A look may be due in any of these: overdue, and ended without the result (`partial.py`), too.
_WATCHED = (S.CALLING_ADCP, *PENDING, S.TIMED_OUT, *SETTLED)
# Pending without a task is sent again too: what waits for credentials, or a person said to keep waiting for.
_SENDABLE = (S.REQUESTED, S.CALLING_ADCP, *PENDING)


def claim_sends(
    *, limit: int, out: Counter[uuid.UUID] | None = None, due_by: datetime | None = None
) -> list[Call]:
    """Take operations that are due to be sent: `calling_adcp` is durable before anything leaves.

    No seller gets more than its slots, over all processes (`claims.claim_due`). `due_by` defaults to now.
    """
    return _claim_sends(_SENDABLE, limit=limit, out=out, due_by=due_by)


@transaction.atomic
def claim_polls(
    *, limit: int, out: Counter[uuid.UUID] | None = None, due_by: datetime | None = None
) -> list[Call]:
    """Take operations that are due to be looked at, overdue ones too: a late answer is still taken. One that
    the seller gave no task for is looked up by our context."""
    claimed = claims.claim_due(
        column="next_poll_at", statuses=_WATCHED, due_by=due_by or clock.now(), limit=limit, out=out
    )
    nameless = claimed.operations([one for one in claimed.due if not one.task_id])
    return [*_polls(claimed), *(_look_up(operation, claimed) for operation in nameless)]


def claim_one(*, operation_id: uuid.UUID) -> Call | None:
    """Take one operation to be sent at once; None when somebody else has it, or its seller has no slot."""
    calls = _claim_sends((S.REQUESTED, S.CALLING_ADCP), limit=1, only=operation_id)
    return next(iter(calls), None)


@transaction.atomic
def _claim_sends(
    statuses: Sequence[str],
    *,
    limit: int,
    out: Counter[uuid.UUID] | None = None,
    due_by: datetime | None = None,
    only: uuid.UUID | None = None,
) -> list[Call]:
    claimed = claims.claim_due(
        column="send_at", statuses=statuses, due_by=due_by or clock.now(), limit=limit, out=out, only=only
    )
    operations = claimed.operations()
    stopped = stops() if any(operation.is_mutation for operation in operations) else NO_STOPS
    taken = (_take_send(operation, claimed, stopped) for operation in operations)
    calls = [call for call in taken if call is not None]
    leases_release({one.id for one in claimed.due} - {call.operation_id for call in calls})
    return calls


def _take_send(operation: Operation, claimed: claims.Claimed, stopped: Stops) -> Call | None:
    answers = operation.seller.protocol == Seller.Protocol.A2A and answer_waits(operation)
    repeated = operation.attempts > 0 and operation.is_mutation and not answers
    if not may_leave(operation, stopped, repeated=repeated):
        return None
    if not operation.seller.active and not repeated and not passes_though_off(operation):
        _refuse(operation, "SELLER_OFF", f"{operation.seller.name} is switched off")
        return None
    if operation.is_mutation and not operation.seller.may_be_sent_mutations:
        why = f"{operation.seller.name} declares no idempotency: an administrator must accept the risk first"
        _refuse(operation, "NO_IDEMPOTENCY", why)
        return None
    resume = resume_take(operation) if answers else None
    if resume is not None:
        Operation.objects.filter(pk=operation.pk).update(attempts=operation.attempts + 1)
        call = _call(operation, claimed, Channel.REPLY, operation.task_type, resume.arguments)
        return replace(call, continuation=resume.continuation)
    if not resend_is_safe(operation):
        # The seller no longer recognises the key: it is asked for what it has before anything is sent again.
        Operation.objects.filter(pk=operation.pk).update(send_at=None, next_poll_at=clock.now())
        return None
    changes: dict[str, Any] = {
        "attempts": operation.attempts + 1,
        "sent_at": operation.sent_at or clock.now(),
    }
    if operation.status == S.REQUESTED:
        # The time it was held for people, or queued for the seller, is not the seller's.
        changes["deadline_at"] = clock.now() + policy.deadline(operation.task_type, operation.seller)
        transition(operation, S.CALLING_ADCP, actor="system", changes=changes)
    else:
        Operation.objects.filter(pk=operation.pk).update(**changes)
    return _call(operation, claimed, Channel.REPLY, operation.task_type, json.loads(operation.request_text))


def _polls(claimed: claims.Claimed) -> Iterator[Call]:
    """The looks at what has a task. From columns, not operations: a look needs little, there may be many."""
    lines = {pk: _poll_line(seller, claimed.breakers.get(pk)) for pk, seller in claimed.sellers.items()}
    for one in claimed.due:
        if one.task_id:
            yield Call(
                operation_id=one.id,
                seller_id=one.seller_id,
                channel=Channel.POLL,
                arguments=task_status_arguments(
                    one.task_id, json.loads(one.account) if one.account else None
                ),
                sealed_token=one.sealed_token,
                **lines[one.seller_id],
            )


def _poll_line(seller: Seller, breaker: SellerBreaker | None) -> dict[str, Any]:
    """What all looks at one seller have in common."""
    # A seller that lists neither name is asked by the present one: its error then says so.
    tool = task_status_tool(seller.tools) or STATUS_TOOL_NAMES[0]
    return {
        "endpoint": seller.endpoint(timeout_s=policy.call_timeout_s(tool)),
        "tool": tool,
        "secrets": tuple(seller.known_secrets),
        "calm": breaker_is_clean(breaker),
    }


def _look_up(operation: Operation, claimed: claims.Claimed) -> Call:
    call = _call(operation, claimed, Channel.RECONCILE, "get_media_buys", {})
    return replace(call, lookup=lookup_of(operation))


def _call(
    operation: Operation, claimed: claims.Claimed, channel: str, tool: str, arguments: dict[str, Any]
) -> Call:
    seller = operation.seller
    return Call(
        operation_id=operation.pk,
        seller_id=seller.pk,
        channel=channel,
        endpoint=seller.endpoint(timeout_s=policy.call_timeout_s(tool)),
        tool=tool,
        arguments=arguments,
        secrets=tuple(operation_secrets(operation)),
        calm=breaker_is_clean(claimed.breakers.get(seller.pk)),
    )


def _refuse(operation: Operation, code: str, why: str) -> None:
    """Nothing left for the seller and nothing will, unless an earlier attempt is still open there."""
    if operation.status != S.REQUESTED:
        Operation.objects.filter(pk=operation.pk).update(
            send_at=clock.now() + policy.resend_delay(6, None, operation.seller)
        )
        return
    transition(
        operation,
        S.FAILED,
        actor="system",
        reason=why,
        changes={
            "error": {"code": code, "message": why},
            "message": why,
            "send_at": None,
            "settled_at": clock.now(),
        },
    )


async def perform(call: Call) -> None:
    """Make the call and observe what came of it."""
    seen = await make(call)
    await sync_to_async(finish)([(call, seen)])


async def make(call: Call) -> Seen:
    """Make the call; whatever comes back. No database."""
    if call.lookup is not None:
        return await look_up(call.lookup)
    secrets = call.secrets
    if call.sealed_token is not None:  # opened here and not while the claim holds its rows
        sealed = cast(EncryptedCharField, Operation._meta.get_field("webhook_token"))
        secrets = (*secrets, str(sealed.to_python(call.sealed_token)))
    return await client.call(
        call.endpoint, call.tool, call.arguments, secrets=secrets, continuation=call.continuation
    )


def finish(done: Sequence[tuple[Call, Seen]]) -> None:
    """Observe what came of calls, together where that goes well, else one by one, and publish what settled.

    One that raises stops no other; its lease runs out and it is due again.
    """
    seen = {call.operation_id: (seen, call.channel) for call, seen in done}
    try:
        observed = {o.operation_id: o.operation for o in observe_many(seen)} if len(done) > 1 else {}
    except (OperationalError, InterfaceError):
        raise
    except Exception:  # one of them is wrong: each is tried by itself
        log.exception("not_observed_together", operations=len(done))
        observed = {}
    for call, what in done:
        try:
            _finish(call, what, observed.get(call.operation_id))
        except (OperationalError, InterfaceError):
            raise
        except Exception:  # it stops no other; its lease runs out and it is due again
            log.exception("call_not_observed", operation=str(call.operation_id), tool=call.tool)


def _finish(call: Call, seen: Seen, operation: Operation | None) -> None:
    if operation is None:
        operation = observe(operation_id=call.operation_id, seen=seen, channel=call.channel).operation
    if not call.calm or is_failure(seen):
        breaker_record(seller_id=call.seller_id, seen=seen)
    if operation.settled_at is not None:
        publish_or_leave(operation_id=call.operation_id)
