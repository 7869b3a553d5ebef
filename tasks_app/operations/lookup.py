"""Looking a call up at the seller by our own context, where nobody knows what became of it.

A purchase whose answer never came is neither failed nor, once the seller no longer recognises its key, sent
again: first its tasks, then its media buys are searched for the ids that we sent along. Found, it is observed
like anything else that is seen; not found, the same bytes go once more while the key is good; else a person
decides. Source: AdCP L1/security "Idempotency".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, get_args

from django.conf import settings
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.adcp.answers import read_bought
from tasks_app.adcp.meaning import plain_word
from tasks_app.adcp.requests import MediaBuyStatus
from tasks_app.adcp.tasks import TaskItem, task_item, task_list_tool, task_status_arguments
from tasks_app.adcp.types import BUY_GONE, ENDED_BADLY, Seen, WireError
from tasks_app.adcp.values import identity_of
from tasks_app.operations import policy
from tasks_app.operations.continuation import answer_due
from tasks_app.operations.line import Line, UnreadableError, line_to, told_in_part, within
from tasks_app.operations.models import SETTLED, Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.resend import refusal_of, resend_is_safe
from tasks_app.sellers.models import Seller

# The seller said that it has it: it is waited for until it is overdue, not sent again nor asked about.
LOOKED_UP = frozenset({S.SUBMITTED, S.WORKING})
NOT_FOUND, SEVERAL = "not_found", "several_found"  # Seen.raw_status
_UNREADABLE = "X_FLIGHTDECK_LOOKUP"
_BUYS = "get_media_buys"
_ALL_STATUSES = sorted(get_args(MediaBuyStatus))
_LOOKUPS = 3  # so often a seller that cannot be asked is asked, before a person is
_MARGIN = timedelta(minutes=5)  # the seller's clock beside ours
_MOST_MESSAGE = 2000


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """What to search for at one seller, without the database. `task_id`: where it is known, and the seller
    has no tool to tell of it; `others`: tasks of further operations for the same subject."""

    operation_id: str
    subject_id: str
    task_id: str
    others: frozenset[str]
    task_type: str
    since: str
    account: dict[str, Any] | None
    line: Line
    list_tool: str | None
    status_tool: str | None
    can_list_buys: bool


def can_be_searched(seller: Seller) -> bool:
    """Whether it shows its tasks, or its media buys."""
    return task_list_tool(seller.tools) is not None or seller.offers(_BUYS)


def asked_with(operation: Operation) -> str:
    """The tool by which the seller is asked now and then how it stands, or for what it has of it; empty where
    it has none."""
    seller = operation.seller
    if operation.task_id:
        return seller.task_tool or ""
    if operation.status == S.TIMED_OUT:
        return ""
    return task_list_tool(seller.tools) or (_BUYS if _lists_buys(operation) else "")


def is_told_by_webhook(operation: Operation) -> bool:
    """Whether its seller tells by webhook how its task stands: of a read nobody asked it to."""
    return operation.seller.uses_webhooks and operation.is_mutation and bool(operation.task_id)


def lookup_of(operation: Operation) -> Lookup:
    """The search for one operation that was sent."""
    seller = operation.seller
    sent = (operation.sent_at or operation.created_at) - _MARGIN
    return Lookup(
        operation_id=str(operation.pk),
        subject_id=str(operation.subject_id or ""),
        task_id=operation.task_id,
        others=_tasks_of_others(operation),
        task_type=operation.task_type,
        since=sent.isoformat(timespec="seconds").replace("+00:00", "Z"),
        account=operation.account.reference if operation.account else None,
        line=line_to(seller),
        list_tool=task_list_tool(seller.tools),
        status_tool=seller.task_tool,
        can_list_buys=_lists_buys(operation),
    )


def _tasks_of_others(operation: Operation) -> frozenset[str]:
    """The tasks that the seller gave to what else was asked of it for the same subject."""
    if operation.subject_id is None or operation.task_id:
        return frozenset()
    beside = Operation.objects.filter(
        seller=operation.seller_id, subject_type=operation.subject_type, subject_id=operation.subject_id
    )
    return frozenset(beside.exclude(task_id="").values_list("task_id", flat=True))


def _lists_buys(operation: Operation) -> bool:
    """Only a purchase makes a media buy that carries our context."""
    return operation.task_type == "create_media_buy" and operation.seller.offers(_BUYS)


async def look_up(lookup: Lookup) -> Seen:
    """What the seller shows of the call: its task, its media buy, or an answer with raw_status NOT_FOUND, or
    SEVERAL where more than one task, or media buy, may be what it came to.

    Of kind `no_answer` where the seller cannot be asked, or takes too long for its lists; nothing it does
    raises.
    """
    try:
        found = await within(settings.RECONCILE_LIMIT_S, _searched(lookup))
    except UnreadableError as error:
        wire = WireError(code=_UNREADABLE, message=str(error), recovery="transient")
        return Seen(kind="no_answer", error=wire, message=str(error))
    return found or Seen(kind="answer", status="unknown", raw_status=NOT_FOUND)


async def _searched(lookup: Lookup) -> Seen | None:
    """Its task, or else its media buy. Raises UnreadableError: neither was found, or one that came to
    nothing, in lists that may lack another."""
    with told_in_part() as lacking:
        found = await _task(lookup)
        if found is not None:
            return found
    bought = await _media_buy(lookup)
    if lacking and (bought is None or _has_ended(bought)):
        raise lacking[0]
    return bought


async def _task(lookup: Lookup) -> Seen | None:
    if lookup.list_tool is None:
        return None
    wanted = {"filters": {"task_type": lookup.task_type, "created_after": lookup.since}}
    named: dict[str, TaskItem] = {}
    likely: dict[str, TaskItem] = {}
    lacking: UnreadableError | None = None
    try:
        async for entries in lookup.line.rows(lookup.list_tool, _scoped(lookup, wanted), listed="tasks"):
            for item in (task_item(entry, task_type=lookup.task_type) for entry in entries):
                if item is not None and _is_named(lookup, item):
                    named[item.task_id] = item
                elif item is not None and _may_be_its(lookup, item):
                    likely[item.task_id] = item
    except UnreadableError as error:
        lacking = error  # what it gave until then is used, where it is surely the call's
    if lacking is not None and not (named or lacking.in_part):
        raise lacking
    seen = await _the_task(lookup, named, likely)
    is_sure = lookup.task_id and seen is not None
    if lacking is not None and not is_sure and (seen is None or seen.status in ENDED_BADLY):
        raise lacking  # what came to nothing proves nothing where another may be lacking
    return seen


async def _the_task(
    lookup: Lookup, named: Mapping[str, TaskItem], likely: Mapping[str, TaskItem]
) -> Seen | None:
    """The call's task. Of those that name the call the one that lives: what came to nothing proves nothing
    beside it. Of several that live, or that are about the same subject alone, people say which it is."""
    live = {name: item for name, item in named.items() if item.status not in ENDED_BADLY}
    ours = live or dict(sorted(named.items())[:1]) or likely
    if len(ours) > 1:
        return _several("task", ours)
    return await _status(lookup, next(iter(ours.values()))) if ours else None


async def _status(lookup: Lookup, item: TaskItem) -> Seen:
    """What the seller says of the one task; its own list's word where it has no tool for that."""
    if lookup.status_tool is None:
        return item.seen
    asked = task_status_arguments(item.task_id, lookup.account)
    seen = await lookup.line.ask(lookup.status_tool, asked, task_type=lookup.task_type)
    if seen.kind != "answer" or seen.task_id is None:
        raise UnreadableError(f"{lookup.status_tool} of {item.task_id} was not answered")
    return seen


async def _media_buy(lookup: Lookup) -> Seen | None:
    if not lookup.can_list_buys:
        return None
    asked = _scoped(lookup, {"status_filter": _ALL_STATUSES})
    ours: dict[str | None, Seen] = {}
    with told_in_part() as lacking:
        async for buys in lookup.line.rows(_BUYS, asked, listed="media_buys"):
            for buy in buys:
                if _is_ours(lookup, buy.get("context")):
                    ours[identity_of(buy.get("media_buy_id"))] = read_bought(buy)
    if lacking and all(map(_has_ended, ours.values())):
        raise lacking[0]
    return _the_one(ours)


def _the_one(ours: Mapping[str | None, Seen]) -> Seen | None:
    """Of the media buys with our context the one that was bought, however the seller orders its list: what
    came to nothing proves nothing beside one that lives. Of several that live people say which it is."""
    live = [name for name, seen in ours.items() if not _has_ended(seen)]
    if len(live) > 1:
        return _several("media buy", [name or "one without a name" for name in live])
    # Of those that are over, one that was bought before one that never was.
    ranked = sorted(live or ours, key=lambda name: (ours[name].status == "rejected", name or ""))
    return ours[ranked[0]] if ranked else None


def _several(what: str, names: Collection[str]) -> Seen:
    why = f"The seller shows more than one {what} with our ids: {', '.join(sorted(names))}."
    return Seen(kind="answer", status="unknown", raw_status=SEVERAL, message=why[:_MOST_MESSAGE])


def _has_ended(seen: Seen) -> bool:
    return plain_word(seen.media_buy_status) in BUY_GONE


def _scoped(lookup: Lookup, arguments: dict[str, Any]) -> dict[str, Any]:
    return {**arguments, "account": lookup.account} if lookup.account else arguments


def _is_named(lookup: Lookup, item: TaskItem) -> bool:
    """Whether a task is certainly the one that is looked for: by its own id, or the operation's."""
    if lookup.task_id:
        return item.task_id == lookup.task_id
    return str((item.context or {}).get("operation_id")) == lookup.operation_id


def _may_be_its(lookup: Lookup, item: TaskItem) -> bool:
    """Whether a task with the subject's id may be the one that is looked for: one subject has several calls,
    of several kinds."""
    is_free = not lookup.task_id and item.task_id not in lookup.others
    return is_free and item.task_type in (None, lookup.task_type) and _is_ours(lookup, item.context)


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
    """Whether `seen` is a look-up that found nothing, of a call whose answer is still missing, or too
    much."""
    if channel != Channel.RECONCILE or operation.status in SETTLED:
        return False
    nothing = seen.kind != "answer" or seen.raw_status == NOT_FOUND
    return seen.raw_status == SEVERAL or (nothing and not operation.task_id)


def look_up_at(operation: Operation, status: str) -> datetime:
    """When to look (again) for what the seller has under a task that it did not name, about to be in
    `status`: as often as it would be polled, without a webhook."""
    now = clock.now()
    wait = policy.poll_interval(
        status=status,
        polls=_looks(operation).count(),
        age_s=(now - (operation.sent_at or now)).total_seconds(),
        webhook=False,
        retry_after_s=None,
        seller=operation.seller,
    )
    return now + policy.jittered(wait, operation.seller)


def after_lookup(operation: Operation, seen: Seen) -> tuple[str, dict[str, Any]]:
    """A note, and the columns to write, after a look-up that is fruitless."""
    if seen.raw_status == SEVERAL:
        return _several_shown(operation, seen.message or SEVERAL)
    if operation.status == S.TIMED_OUT:
        return "nothing was found", {"next_poll_at": None}
    if operation.status in LOOKED_UP:
        return "the seller has it, and does not show it yet", looks_on(operation, operation.status)
    if seen.kind != "answer":
        return _unanswered(operation, seen)
    if resend_is_safe(operation) and not _lookups(operation, answered=True):
        due = clock.now() + timedelta(seconds=2 * settings.WORKING_TIMEOUT_S)
        note = f"{_shown(operation)}, and still recognises its key: sent once more"
        deadline = max(operation.deadline_at or due, due)
        return note, _next(send_at=clock.now(), deadline_at=deadline, message=note)
    refused = refusal_of(operation)
    said = f" It is not sent again: {refused}" if refused else ""
    return _to_a_person(f"The outcome is unknown, and {_shown(operation)}: ask it before buying again.{said}")


def _several_shown(operation: Operation, why: str) -> tuple[str, dict[str, Any]]:
    """A person says which of them it is; one who knows of these and waits on is asked at the deadline."""
    known = _looks(operation).filter(raw_status=SEVERAL, note=why)
    if operation.status in LOOKED_UP and known.exists():
        return why, looks_on(operation, operation.status)
    return _to_a_person(why)


def looks_on(operation: Operation, status: str) -> dict[str, Any]:
    """The next look for what the seller named no task for, about to be in `status`: none where it is overdue,
    for people are asked; where it was not looked for, none because of this."""
    if status not in LOOKED_UP and operation.next_poll_at is None:
        return {}
    return {"next_poll_at": None if status == S.TIMED_OUT else look_up_at(operation, status)}


def after_another(operation: Operation, why: str) -> dict[str, Any]:
    """The columns to write after a look-up that came upon what cannot be this operation's: the seller was
    asked, and is asked again where it said that it has it; else a person is."""
    if operation.status in (*LOOKED_UP, S.TIMED_OUT):
        return looks_on(operation, operation.status)
    return _to_a_person(f"What the seller shows with our ids cannot be it: {why}")[1]


def _shown(operation: Operation) -> str:
    """What the seller was searched for in vain, or that there is nothing to search."""
    searched = {
        "task": task_list_tool(operation.seller.tools) is not None,
        "media buy": _lists_buys(operation),
    }
    lists = [name for name, is_there in searched.items() if is_there]
    if not lists:
        return "the seller has no tool that would show it"
    return f"the seller shows no {' and no '.join(lists)} with our ids"


def _unanswered(operation: Operation, seen: Seen) -> tuple[str, dict[str, Any]]:
    tried = 1 + _lookups(operation, answered=False)
    why = seen.message or "no answer"
    if tried >= _LOOKUPS:
        return _to_a_person(f"The seller could not be asked whether it has it: {why}.")
    wait = policy.jittered(policy.backoff(4 + tried, operation.seller), operation.seller)
    due = {"next_poll_at": clock.now() + wait, "send_at": answer_due(operation)}
    return f"look-up {tried} of {_LOOKUPS}: {why}", _next(**due)


def _to_a_person(why: str) -> tuple[str, dict[str, Any]]:
    """Overdue at once: whether it was bought is for a person to find out."""
    now = clock.now()
    return why, _next(looked_up_at=now, deadline_at=now, message=why[:_MOST_MESSAGE])


def _next(**columns: Any) -> dict[str, Any]:
    return {"next_poll_at": None, "send_at": None, **columns}


def _lookups(operation: Operation, *, answered: bool) -> int:
    """How many look-ups were made before and found nothing."""
    made = _looks(operation)
    return made.filter(raw_status=NOT_FOUND).count() if answered else made.exclude(kind="answer").count()


def _looks(operation: Operation) -> QuerySet[Observation]:
    return Observation.objects.filter(operation=operation, channel=Channel.RECONCILE)
