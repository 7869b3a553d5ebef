"""Claiming what is due and doing the call: no transaction is open while a seller is waited for."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

import structlog
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q
from encrypted_fields.fields import EncryptedCharField

from tasks_app import clock
from tasks_app.adcp import client
from tasks_app.adcp.account_keys import account_in
from tasks_app.adcp.tasks import task_status_arguments
from tasks_app.adcp.types import Endpoint, Seen
from tasks_app.commands.kill_switch import NO_STOPS, Stops, stops
from tasks_app.database_connection import is_held_by_another
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations import claims, policy
from tasks_app.operations.breaker import breaker_is_clean, breaker_record, is_failure
from tasks_app.operations.converge import observe, observe_many
from tasks_app.operations.doubted import doubted_among
from tasks_app.operations.leases import Lease
from tasks_app.operations.leaving import is_still_wanted, may_leave, passes_though_off
from tasks_app.operations.lookup import Lookup, can_be_searched, look_up, lookup_of
from tasks_app.operations.models import PENDING, SETTLED, Channel, Operation, type_asked
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import answer_hold_back, answer_waits, can_continue, resume_take
from tasks_app.operations.publish import publish_or_leave
from tasks_app.operations.resend import resend_is_safe
from tasks_app.operations.services import operation_secrets
from tasks_app.people.actors import SYSTEM
from tasks_app.sellers.accounts import is_shared
from tasks_app.sellers.heard import seller_learn, version_heard
from tasks_app.sellers.models import Seller, SellerBreaker
from tasks_app.troubles.rows import connection_lost, each_row, together

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Route:
    """What the calls of one claim to one seller with one tool have in common."""

    seller_id: uuid.UUID
    channel: str
    endpoint: Endpoint
    tool: str
    secrets: tuple[str, ...] = field(repr=False)
    calm: bool = True  # the seller's breaker had nothing to remember when this was claimed
    claimed_at: datetime = field(default_factory=clock.now)


@dataclass(slots=True, kw_only=True)  # a claim makes hundreds: freezing one takes longer than making it
class Call:
    """One call about to be made: everything it needs, so that it touches no database."""

    lease: Lease
    route: Route
    arguments: dict[str, Any] = field(repr=False)  # our webhook credentials among them
    task_type: str = ""  # of the task that is looked at
    sealed_token: str | None = field(default=None, repr=False)  # one secret more, still encrypted
    lookup: Lookup | None = field(default=None, repr=False)
    continuation: dict[str, str] | None = field(default=None, repr=False)
    spare: dict[str, Any] = field(default_factory=dict)  # what a read may be asked for besides

    @property
    def operation_id(self) -> uuid.UUID:
        return self.lease.id

    @property
    def seller_id(self) -> uuid.UUID:
        return self.route.seller_id

    @property
    def channel(self) -> str:
        return self.route.channel

    @property
    def tool(self) -> str:
        return self.route.tool


Ended = tuple[Call, Seen]  # a call, and what came of it
# A look may be due in any of these: overdue, and ended without the result (`partial.py`), too.
_WATCHED = (S.CALLING_ADCP, *PENDING, S.TIMED_OUT, *SETTLED)
# Pending without a task is sent again too: what waits for credentials, or a person said to keep waiting for.
_SENDABLE = (S.REQUESTED, S.CALLING_ADCP, *PENDING)


def claim_sends(
    *,
    limit: int,
    out: Counter[uuid.UUID] | None = None,
    due_by: datetime | None = None,
    batch: int | None = None,
    mine: Collection[uuid.UUID] = (),
) -> list[Call]:
    """Take operations that are due to be sent: `calling_adcp` is durable before anything leaves.

    No seller gets more than its slots, over all processes (`claims.claim_due`). `due_by` defaults to now.
    """
    return _claim_sends(_SENDABLE, limit=limit, out=out, due_by=due_by, batch=batch, mine=mine)


@transaction.atomic
def claim_polls(
    *,
    limit: int,
    out: Counter[uuid.UUID] | None = None,
    due_by: datetime | None = None,
    batch: int | None = None,
    mine: Collection[uuid.UUID] = (),
) -> list[Call]:
    """Take operations that are due to be looked at, overdue ones too: a late answer is still taken. One that
    the seller gave no task for is looked up by our context, and so is a doubted end at one that tells of no
    task."""
    claimed = claims.claim_due(
        column="next_poll_at",
        statuses=_WATCHED,
        due_by=due_by or clock.now(),
        limit=limit,
        out=out,
        batch=batch,
        mine=mine,
    )
    searched = _searched(claimed)
    _leave_unpollable(claimed, searched)

    def look_ups(ids: Sequence[uuid.UUID]) -> list[Call]:
        return [_look_up(operation, claimed) for operation in claimed.operations(ids)]

    nameless = [one.id for one in claimed.due if not one.task_id or one.id in searched]
    calls = [*_polls(claimed), *together(claims.WORK, nameless, look_ups)]
    claimed.release_but([call.operation_id for call in calls])
    return calls


def claim_one(*, operation_id: uuid.UUID) -> Call | None:
    """Take one operation to be sent at once; None when somebody else has it, its seller has no slot, or
    somebody holds a row that the claim needs, the seller's for one, for longer than the database lets anybody
    wait: then a sweep sends it."""
    try:
        calls = _claim_sends((S.REQUESTED, S.CALLING_ADCP), limit=1, only=operation_id)
    except OperationalError as error:
        if not is_held_by_another(error):
            raise
        log.warning("claim_left_to_sweep", operation=str(operation_id))
        return None
    return next(iter(calls), None)


@transaction.atomic
def _claim_sends(
    statuses: Sequence[str],
    *,
    limit: int,
    out: Counter[uuid.UUID] | None = None,
    due_by: datetime | None = None,
    only: uuid.UUID | None = None,
    batch: int | None = None,
    mine: Collection[uuid.UUID] = (),
) -> list[Call]:
    claimed = claims.claim_due(
        column="send_at",
        statuses=statuses,
        due_by=due_by or clock.now(),
        limit=limit,
        out=out,
        only=only,
        batch=batch,
        mine=mine,
    )

    def take(ids: Sequence[uuid.UUID]) -> list[Call]:
        operations = claimed.operations(ids)
        stopped = stops() if any(operation.is_mutation for operation in operations) else NO_STOPS
        taken = (_take_send(operation, claimed, stopped) for operation in operations)
        return [call for call in taken if call is not None]

    calls = together(claims.WORK, [one.id for one in claimed.due], take)
    claimed.release_but([call.operation_id for call in calls])
    return calls


def _take_send(operation: Operation, claimed: claims.Claimed, stopped: Stops) -> Call | None:
    answers = operation.status in PENDING and answer_waits(operation)
    repeated = operation.attempts > 0 and operation.is_mutation and not answers
    if answers and not can_continue(operation):
        answer_hold_back(operation, "its seller’s transport gives no way to answer any more")
        return None
    if not is_still_wanted(operation, answers=answers):
        return None
    goes = operation.seller.active or passes_though_off(operation)
    if goes and not operation.seller.active and operation.pk not in claimed.passed:
        return None  # people let it pass just now: it has its place in the next claim
    # An answer waits for its seller; what people let it pass is kept for when it can leave.
    is_kept = answers and not goes
    if not is_kept and not may_leave(operation, stopped, repeated=repeated, answers=answers):
        return None
    shut = operation.seller.shut(mutates=operation.is_mutation, though_off=goes)
    if shut:
        _refuse(operation, "NO_IDEMPOTENCY" if goes else "SELLER_OFF", shut)
        return None
    lacking = operation.seller.lacks(operation.task_type)
    if lacking and operation.attempts == 0:
        _refuse(operation, "NO_TOOL", lacking)
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


def _unpollable(claimed: claims.Claimed) -> Iterator[claims.Due]:
    """Those with a task of a seller that has no tool for the state of one."""
    none = {pk for pk, seller in claimed.sellers.items() if seller.task_tool is None}
    return (one for one in claimed.due if one.task_id and one.seller_id in none) if none else iter(())


def _searched(claimed: claims.Claimed) -> set[uuid.UUID]:
    """Of those, what nobody else asks about: a doubted end is not among what is pending, and no further
    webhook need come."""
    sellers = {pk for pk, seller in claimed.sellers.items() if can_be_searched(seller)}
    return doubted_among([one.id for one in _unpollable(claimed) if one.seller_id in sellers])


def _leave_unpollable(claimed: claims.Claimed, searched: Collection[uuid.UUID]) -> None:
    """The others are not called for, but looked after: their seller's list of tools may be read anew, and
    webhooks and reconciliation tell of the task."""
    left = [one.id for one in _unpollable(claimed) if one.id not in searched]
    if left:
        together(claims.WORK, left, _leave)


def _leave(ids: Sequence[uuid.UUID]) -> list[int]:
    wait = policy.poll_interval(status=S.TIMED_OUT, polls=0, age_s=0, webhook=False, retry_after_s=None)
    rows = Operation.objects.filter(pk__in=ids)
    gone = Q(settled_at__lte=clock.now() - settings.LOOK_AFTER_GIVING_UP)
    given_up = rows.filter(gone).update(next_poll_at=None)
    return [given_up + rows.exclude(gone).update(next_poll_at=clock.now() + wait)]


def _polls(claimed: claims.Claimed) -> Iterator[Call]:
    """The looks at what has a task. From columns, not operations: a look needs little, there may be many."""
    routes = {pk: _poll_route(seller, claimed.breakers.get(pk)) for pk, seller in claimed.sellers.items()}
    for one in claimed.due:
        route = routes[one.seller_id]
        if one.task_id and route is not None:
            yield Call(
                lease=claimed.lease(one.id),
                route=route,
                arguments=task_status_arguments(one.task_id, one.account),
                task_type=type_asked(one.task_type),
                sealed_token=one.sealed_token,
            )


def _poll_route(seller: Seller, breaker: SellerBreaker | None) -> Route | None:
    """Of all looks at one seller; None where it has no tool for them."""
    tool = seller.task_tool
    if tool is None:
        return None
    return Route(
        seller_id=seller.pk,
        channel=Channel.POLL,
        endpoint=seller.endpoint(timeout_s=policy.call_timeout_s(tool)),
        tool=tool,
        secrets=tuple(seller.known_secrets),
        calm=breaker_is_clean(breaker),
    )


def _look_up(operation: Operation, claimed: claims.Claimed) -> Call:
    call = _call(operation, claimed, Channel.RECONCILE, "get_media_buys", {})
    return replace(call, lookup=lookup_of(operation))


def _call(
    operation: Operation, claimed: claims.Claimed, channel: str, tool: str, arguments: dict[str, Any]
) -> Call:
    seller = operation.seller
    route = Route(
        seller_id=seller.pk,
        channel=channel,
        endpoint=_endpoint(operation, tool),
        tool=tool,
        secrets=tuple(operation_secrets(operation)),
        calm=breaker_is_clean(claimed.breakers.get(seller.pk)),
    )
    return Call(
        lease=claimed.lease(operation.pk),
        route=route,
        arguments=arguments,
        spare={"account": operation.account.reference} if operation.account else {},
    )


def _endpoint(operation: Operation, tool: str) -> Endpoint:
    """What somebody asked for of one account keeps its account where another advertiser's would be told
    besides: the seller's refusal is the answer then, and teaches nothing."""
    seller = operation.seller
    endpoint = seller.endpoint(timeout_s=policy.call_timeout_s(tool))
    account = operation.account if operation.requested_by != SYSTEM else None
    if account is None or operation.is_mutation or seller.omits_account(tool) or not is_shared(account):
        return endpoint
    return replace(endpoint, reads_account=True)


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
    secrets = call.route.secrets
    if call.sealed_token is not None:  # opened here and not while the claim holds its rows
        sealed = cast(EncryptedCharField, Operation._meta.get_field("webhook_token"))
        secrets = (*secrets, str(sealed.to_python(call.sealed_token)))
    seen = await client.call(
        call.route.endpoint,
        call.tool,
        call.arguments,
        secrets=secrets,
        continuation=call.continuation,
        spare=call.spare,
        task_type=call.task_type,
    )
    return _of_its_account(call, seen)


def _of_its_account(call: Call, seen: Seen) -> Seen:
    """Of the accounts that a seller lists the one that was asked for: one of before AdCP 3.1 does not know
    that one may be, and lists every advertiser's."""
    asked, listed = call.spare.get("account"), (seen.payload or {}).get("accounts")
    if call.tool != "list_accounts" or not asked or not isinstance(listed, list):
        return seen
    own = account_in([one for one in listed if isinstance(one, dict)], asked)
    if len(listed) == (own is not None):
        return seen
    told = {**(seen.payload or {}), "accounts": [own] if own is not None else []}
    return replace(seen, payload=told, raw=told)


def finish(done: Sequence[Ended]) -> None:
    """Observe what came of calls, together where that goes well, else one by one, and publish what settled.

    One that raises stops no other; its lease runs out and it is due again.
    """
    left = [(call, _dated(call, seen)) for call, seen in done]
    while left:
        left = _finish_first(left)


def _finish_first(done: Sequence[Ended]) -> list[Ended]:
    """Of each operation the first alone. Answers the rest: where the first waited so long that the operation
    was called again, it is told of both, in their order."""
    first: dict[uuid.UUID, Ended] = {}
    left: list[Ended] = []
    for one in done:
        if first.setdefault(one[0].operation_id, one) is not one:
            left.append(one)
    _finish_each(first)
    return left


def _finish_each(calls: Mapping[uuid.UUID, Ended]) -> None:
    done = list(calls.values())
    try:
        observed = _observe_together(done) if len(done) > 1 else {}
    except Exception as error:  # one of them is wrong, or another session stands in the way: each by itself
        if isinstance(error, OperationalError | InterfaceError) and connection_lost():
            raise
        log.exception("not_observed_together", operations=len(done))
        observed = {}

    def end(pk: uuid.UUID) -> int:
        _finish(*calls[pk], observed.get(pk))
        return 1

    each_row(claims.WORK, calls, end, commits=True)


def _observe_together(done: Sequence[Ended]) -> dict[uuid.UUID, Operation]:
    """Those that nobody held, by id."""
    sights = {call.operation_id: (seen, call.channel) for call, seen in done}
    observations = observe_many(sights, answered=[call.lease for call, _ in done])
    return {one.operation_id: one.operation for one in observations}


def _dated(call: Call, seen: Seen) -> Seen:
    """What comes back tells how things stood no earlier than when the call left."""
    return replace(seen, asked_at=call.route.claimed_at)


def _finish(call: Call, seen: Seen, operation: Operation | None) -> None:
    if operation is None:
        operation = observe(
            operation_id=call.operation_id, seen=seen, channel=call.channel, answered=call.lease
        ).operation
    if seen.learned:
        seller_learn(seller_id=call.seller_id, learned=seen.learned)
    version_heard(seller_id=call.seller_id, seen=seen)
    if not call.route.calm or is_failure(seen):
        breaker_record(seller_id=call.seller_id, seen=seen)
    if operation.settled_at is not None:
        publish_or_leave(operation_id=call.operation_id)
