"""Claiming what is due and doing the call: no transaction is open while a seller is waited for."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from tasks_app import clock
from tasks_app.adcp import client
from tasks_app.adcp.tasks import STATUS_TOOL_NAMES, task_status_arguments, task_status_tool
from tasks_app.adcp.types import Endpoint, Seen
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations import policy
from tasks_app.operations.converge import observe
from tasks_app.operations.models import PENDING, Channel, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import resume_take
from tasks_app.operations.publish import publish_or_leave
from tasks_app.operations.resend import EXPIRED_KEY, resend_is_safe
from tasks_app.operations.services import operation_secrets
from tasks_app.sellers.models import Seller


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
    continuation: dict[str, str] | None = field(default=None, repr=False)


# Pending without a task is sent again too: what waits for credentials, or a person said to keep waiting for.
_SENDABLE = (S.REQUESTED, S.CALLING_ADCP, *PENDING)


def claim_sends(*, limit: int, out: Counter[uuid.UUID], due_by: datetime | None = None) -> list[Call]:
    """Take operations that are due to be sent: `calling_adcp` is durable before anything leaves.

    `out` counts the calls already out per seller; no seller gets more than its slots. `due_by` defaults
    to now.
    """
    due = Q(send_at__lte=due_by or clock.now(), status__in=_SENDABLE)
    return _claim(due, "send_at", limit, out)


def claim_polls(*, limit: int, out: Counter[uuid.UUID], due_by: datetime | None = None) -> list[Call]:
    """Take operations that are due to be looked at, overdue ones too: a late answer is still taken."""
    return _claim(Q(next_poll_at__lte=due_by or clock.now()), "next_poll_at", limit, out)


def claim_one(*, operation_id: uuid.UUID) -> Call | None:
    """Take one operation to be sent at once; None when somebody else has it."""
    due = Q(pk=operation_id, send_at__isnull=False, status__in=(S.REQUESTED, S.CALLING_ADCP))
    return next(iter(_claim(due, "send_at", 1, Counter())), None)


@transaction.atomic
def _claim(due: Q, order: str, limit: int, out: Counter[uuid.UUID]) -> list[Call]:
    free = Q(lease_until__isnull=True) | Q(lease_until__lt=clock.now())
    full = Q(seller__slots=0)
    for seller_id, calls in out.items():
        full |= Q(seller_id=seller_id, seller__slots__lte=calls)
    rows = (
        Operation.objects.filter(due & free)
        .exclude(full)
        .select_related("seller", "account")
        .order_by(order)
        .select_for_update(of=("self",), skip_locked=True, no_key=True)[:limit]
    )
    take = _take_send if order == "send_at" else _take_poll
    taken = Counter(out)
    claimed: list[Call] = []
    for operation in rows:
        if taken[operation.seller_id] >= operation.seller.slots:
            continue
        call = take(operation)
        if call is not None:
            taken[operation.seller_id] += 1
            claimed.append(call)
    return claimed


def _take_send(operation: Operation) -> Call | None:
    if not operation.seller.active:
        _refuse(operation, "SELLER_OFF", f"{operation.seller.name} is switched off")
        return None
    timeout = policy.call_timeout_s(operation.task_type)
    resume = resume_take(operation) if operation.seller.protocol == Seller.Protocol.A2A else None
    if resume is not None:
        Operation.objects.filter(pk=operation.pk).update(
            attempts=operation.attempts + 1, lease_until=_lease()
        )
        call = _call(operation, Channel.REPLY, operation.task_type, resume.arguments, timeout)
        return replace(call, continuation=resume.continuation)
    if not resend_is_safe(operation):
        _stop_sending(operation)
        return None
    changes: dict[str, Any] = {
        "attempts": operation.attempts + 1,
        "sent_at": operation.sent_at or clock.now(),
        "lease_until": _lease(),
    }
    if operation.status == S.REQUESTED:
        # The time it was held for people, or queued for the seller, is not the seller's.
        changes["deadline_at"] = clock.now() + policy.deadline(operation.task_type)
        transition(operation, S.CALLING_ADCP, actor="system", changes=changes)
    else:
        Operation.objects.filter(pk=operation.pk).update(**changes)
    return _call(operation, Channel.REPLY, operation.task_type, json.loads(operation.request_text), timeout)


def _take_poll(operation: Operation) -> Call:
    timeout = policy.call_timeout_s("get_task_status")
    Operation.objects.filter(pk=operation.pk).update(polls=F("polls") + 1, lease_until=_lease())
    account = operation.account.reference if operation.account else None
    # A seller that lists neither name is asked by the present one: its error then says so.
    tool = task_status_tool(operation.seller.tools) or STATUS_TOOL_NAMES[0]
    return _call(operation, Channel.POLL, tool, task_status_arguments(operation.task_id, account), timeout)


def renew_leases(operation_ids: list[uuid.UUID]) -> None:
    """Keep the operations whose calls are still out."""
    Operation.objects.filter(pk__in=operation_ids, lease_until__isnull=False).update(lease_until=_lease())


def release_leases(operation_ids: list[uuid.UUID]) -> None:
    """Give back operations whose calls were cut off: due again at once, the same bytes and key."""
    Operation.objects.filter(pk__in=operation_ids, lease_until__isnull=False).update(lease_until=None)


def _lease() -> datetime:
    return clock.now() + timedelta(seconds=settings.OPERATION_LEASE_S)


def _call(operation: Operation, channel: str, tool: str, arguments: dict[str, Any], timeout_s: float) -> Call:
    seller = operation.seller
    return Call(
        operation_id=operation.pk,
        seller_id=seller.pk,
        channel=channel,
        endpoint=seller.endpoint(timeout_s=timeout_s),
        tool=tool,
        arguments=arguments,
        secrets=tuple(operation_secrets(operation)),
    )


def _refuse(operation: Operation, code: str, why: str) -> None:
    """Nothing left for the seller and nothing will, unless an earlier attempt is still open there."""
    if operation.status != S.REQUESTED:
        Operation.objects.filter(pk=operation.pk).update(send_at=clock.now() + policy.resend_delay(6, None))
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


def _stop_sending(operation: Operation) -> None:
    """Overdue at once: whether it was bought is for a person to find out."""
    Operation.objects.filter(pk=operation.pk).update(
        send_at=None, lease_until=None, deadline_at=clock.now(), message=EXPIRED_KEY
    )


async def perform(call: Call) -> None:
    """Make the call and observe what came of it."""
    seen = await client.call(
        call.endpoint, call.tool, call.arguments, secrets=call.secrets, continuation=call.continuation
    )
    await sync_to_async(_finish)(call, seen)


def _finish(call: Call, seen: Seen) -> None:
    observe(operation_id=call.operation_id, seen=seen, channel=call.channel)
    publish_or_leave(operation_id=call.operation_id)
