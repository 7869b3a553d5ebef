"""Looking a call up at the seller by our own context, where nobody knows what became of it.

A purchase whose answer never came is neither failed nor, once the seller no longer recognises its key, sent
again: first its tasks, then its media buys are searched for the ids that we sent along. Found, it is observed
like anything else that is seen; not found, the same bytes go once more while the key is good; else a person
decides. Source: AdCP L1/security "Idempotency", adcp.md "Asking".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_args

from django.conf import settings

from tasks_app import clock
from tasks_app.adcp.requests import MediaBuyStatus
from tasks_app.adcp.tasks import STATUS_TOOL_NAMES, task_item, task_list_tool, task_status_arguments
from tasks_app.adcp.tasks import task_status_tool as status_tool_of
from tasks_app.adcp.types import Seen, WireError
from tasks_app.operations import policy
from tasks_app.operations.line import Line, UnreadableError, line_to
from tasks_app.operations.models import Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.resend import resend_is_safe

NOT_FOUND = "not_found"  # Seen.raw_status
_UNREADABLE = "X_FLIGHTDECK_LOOKUP"
_BUYS = "get_media_buys"
_ALL_STATUSES = sorted(get_args(MediaBuyStatus))
_LOOKUPS = 3  # so often a seller that cannot be asked is asked, before a person is
_MARGIN = timedelta(minutes=5)  # the seller's clock beside ours
_MOST_MESSAGE = 2000


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """What to search for at one seller, without the database."""

    operation_id: str
    subject_id: str
    task_type: str
    since: str
    account: dict[str, Any] | None
    line: Line
    list_tool: str | None
    status_tool: str
    can_list_buys: bool


def lookup_of(operation: Operation) -> Lookup:
    """The search for one operation that was sent."""
    seller = operation.seller
    sent = (operation.sent_at or operation.created_at) - _MARGIN
    return Lookup(
        operation_id=str(operation.pk),
        subject_id=str(operation.subject_id or ""),
        task_type=operation.task_type,
        since=sent.isoformat(timespec="seconds").replace("+00:00", "Z"),
        account=operation.account.reference if operation.account else None,
        line=line_to(seller),
        list_tool=task_list_tool(seller.tools),
        status_tool=status_tool_of(seller.tools) or STATUS_TOOL_NAMES[0],
        # Only a purchase makes a media buy that carries our context.
        can_list_buys=operation.task_type == "create_media_buy" and _BUYS in seller.tools,
    )


async def look_up(lookup: Lookup) -> Seen:
    """What the seller shows of the call: its task, its media buy, or an answer with raw_status NOT_FOUND.

    Of kind `no_answer` where the seller cannot be asked; nothing it does raises.
    """
    try:
        found = await _task(lookup) or await _media_buy(lookup)
    except UnreadableError as error:
        wire = WireError(code=_UNREADABLE, message=str(error), recovery="transient")
        return Seen(kind="no_answer", error=wire, message=str(error))
    return found or Seen(kind="answer", status="unknown", raw_status=NOT_FOUND)


async def _task(lookup: Lookup) -> Seen | None:
    if lookup.list_tool is None:
        return None
    wanted = {"filters": {"task_type": lookup.task_type, "created_after": lookup.since}}
    async for entries in lookup.line.rows(lookup.list_tool, _scoped(lookup, wanted), listed="tasks"):
        for item in map(task_item, entries):
            if item is not None and _is_ours(lookup, item.context):
                return await _status(lookup, item.task_id)
    return None


async def _status(lookup: Lookup, task_id: str) -> Seen:
    seen = await lookup.line.ask(lookup.status_tool, task_status_arguments(task_id, lookup.account))
    if seen.kind != "answer" or seen.task_id is None:
        raise UnreadableError(f"{lookup.status_tool} of {task_id} was not answered")
    return seen


async def _media_buy(lookup: Lookup) -> Seen | None:
    if not lookup.can_list_buys:
        return None
    asked = _scoped(lookup, {"status_filter": _ALL_STATUSES})
    async for buys in lookup.line.rows(_BUYS, asked, listed="media_buys"):
        for buy in buys:
            if _is_ours(lookup, buy.get("context")):
                return _bought(buy)
    return None


def _bought(buy: dict[str, Any]) -> Seen:
    """The media buy as the answer to its purchase: it proves the end; the own answer may still come."""
    state = buy.get("media_buy_status") or buy.get("status")
    refused = state == "rejected"
    return Seen(
        kind="answer",
        status="rejected" if refused else "completed",
        raw_status=str(state or ""),
        media_buy_status=state if isinstance(state, str) else None,
        message="Found at the seller by our context",
        payload=buy,
        partial=True,
        error=WireError(code="REJECTED", message="the seller shows it as rejected") if refused else None,
        context=buy.get("context"),
        raw=buy,
    )


def _scoped(lookup: Lookup, arguments: dict[str, Any]) -> dict[str, Any]:
    return {**arguments, "account": lookup.account} if lookup.account else arguments


def _is_ours(lookup: Lookup, context: object) -> bool:
    """By the operation's id; by the subject's where a seller keeps a part of the context only."""
    if not isinstance(context, Mapping):
        return False
    told = context.get("operation_id")
    if told is not None:
        return str(told) == lookup.operation_id
    return bool(lookup.subject_id) and lookup.subject_id in _texts(context)


def _texts(context: Mapping[str, Any]) -> Iterator[str]:
    return (value for value in context.values() if isinstance(value, str))


def is_fruitless(operation: Operation, seen: Seen, channel: str) -> bool:
    """Whether `seen` is a look-up that found nothing, of a call whose answer is still missing."""
    nothing = seen.kind != "answer" or seen.raw_status == NOT_FOUND
    return channel == Channel.RECONCILE and nothing and not operation.task_id


def after_lookup(operation: Operation, seen: Seen) -> tuple[str, dict[str, Any]]:
    """A note, and the columns to write, after a look-up that found nothing."""
    if operation.status == S.TIMED_OUT:
        return "nothing was found", {"next_poll_at": None}
    if seen.kind != "answer":
        return _unanswered(operation, seen)
    if resend_is_safe(operation) and not _lookups(operation, answered=True):
        due = clock.now() + timedelta(seconds=2 * settings.WORKING_TIMEOUT_S)
        note = "the seller shows nothing of it, and still recognises its key: sent once more"
        deadline = max(operation.deadline_at or due, due)
        return note, _next(send_at=clock.now(), deadline_at=deadline, message=note)
    return _to_a_person(
        "The outcome is unknown, and the seller shows neither a task nor a media buy with our ids: "
        "ask it before buying again."
    )


def _unanswered(operation: Operation, seen: Seen) -> tuple[str, dict[str, Any]]:
    tried = 1 + _lookups(operation, answered=False)
    why = seen.message or "no answer"
    if tried >= _LOOKUPS:
        return _to_a_person(f"The seller could not be asked whether it has it: {why}.")
    wait = policy.jittered(policy.backoff(4 + tried, operation.seller), operation.seller)
    return f"look-up {tried} of {_LOOKUPS}: {why}", _next(next_poll_at=clock.now() + wait)


def _to_a_person(why: str) -> tuple[str, dict[str, Any]]:
    """Overdue at once: whether it was bought is for a person to find out."""
    now = clock.now()
    return why, _next(looked_up_at=now, deadline_at=now, message=why[:_MOST_MESSAGE])


def _next(**columns: Any) -> dict[str, Any]:
    return {"next_poll_at": None, "send_at": None, **columns}


def _lookups(operation: Operation, *, answered: bool) -> int:
    """How many look-ups were made before and found nothing."""
    made = Observation.objects.filter(operation=operation, channel=Channel.RECONCILE)
    return made.filter(raw_status=NOT_FOUND).count() if answered else made.exclude(kind="answer").count()
