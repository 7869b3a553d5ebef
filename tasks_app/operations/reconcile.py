"""Our pending operations beside the sellers' own lists of tasks: what either side knows alone.

Reading changes nothing, and no transaction is open while a seller is waited for. The database is read before
the calls (what to ask for) and again after them (what to compare with), so that work that went on meanwhile
is not taken for a difference. Source: AdCP protocol/list-tasks, L3/task-lifecycle "Task Reconciliation";
document 000 "reconcile_state_on_startup".
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from asgiref.sync import async_to_sync
from django.db.models.fields.json import KeyTransform

from tasks_app import clock
from tasks_app.adcp.tasks import (
    TaskItem,
    task_item,
    task_list_tool,
    task_status_arguments,
)
from tasks_app.adcp.types import TERMINAL_STATUSES, Seen
from tasks_app.adcp.values import identity_of
from tasks_app.operations.comparison import Finding, Reading, Verdict, refused_of, unnamed_of, unread_of
from tasks_app.operations.line import (
    Line,
    Teams,
    UnreadableError,
    accounts_by_reference,
    is_not_there,
    is_whose_open,
    refused_one,
    teams_of_accounts,
    unreadable,
    whose_open_words,
    within,
)
from tasks_app.operations.models import OPEN, PENDING, SETTLED, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.reading import reading_line_to
from tasks_app.operations.services import Subject
from tasks_app.sellers.accounts import is_anothers, names_another
from tasks_app.sellers.models import Account, Seller

# What a list alone shows.
_LISTED_ALONE = frozenset({Verdict.ORPHANED, Verdict.AHEAD})
_PENDING_THERE = ["submitted", "working", "input-required", "auth-required"]
# So many are looked up one by one in one run; a seller without a list is polled for each anyway.
_MOST_LOOKED_UP = 500
# So many that nobody here knows are taken up in one run: a seller may list whatever it likes.
_MOST_UNKNOWN = 200
_HEAVY = ("request_text", "webhook_token", "request", "result", "error")


def tasks_reconcile(sellers: Sequence[Seller], limit_s: float) -> list[Reading]:
    """Each seller's pending tasks against our pending operations there, all sellers at once.

    What is pending here and not listed there is looked up by its id before any verdict. A seller that takes
    longer than `limit_s` seconds in all is not read.
    """
    started = clock.now()
    plans = [_plan(seller) for seller in sellers]
    heard = async_to_sync(_hear_all)(plans, limit_s)
    return [_reading(plan, told, started) for plan, told in zip(plans, heard, strict=True)]


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What to ask one seller: `accounts` by their reference (None: without one), `pending` is task_id to
    account reference, `teams` to the team whose it is, `types` to the type of task that was asked for."""

    seller: Seller
    line: Line
    list_tool: str | None
    status_tool: str | None
    accounts: list[tuple[dict[str, Any] | None, list[Account]]]
    pending: dict[str, dict[str, Any] | None]
    teams: dict[str, uuid.UUID | None]
    types: dict[str, str]


@dataclass(kw_only=True)
class _Heard:
    """What one seller said: tasks in its lists with the accounts they were listed for, and answers to the
    questions about single tasks; `left`: accounts whose list was not read to its end; `held`: how many tasks
    may be of one of these; `unread`: why it could not be asked to the end."""

    items: dict[str, TaskItem] = field(default_factory=dict)
    listed_for: dict[str, list[Account]] = field(default_factory=dict)
    looked_up: dict[str, Seen] = field(default_factory=dict)
    refused: dict[str, Teams] = field(default_factory=dict)
    left: list[Account] = field(default_factory=list)
    held: int = 0
    passed_over: int = 0
    left_out: int = 0
    unread: UnreadableError | None = None


def _plan(seller: Seller) -> _Plan:
    known = Operation.objects.filter(seller=seller, status__in=(*PENDING, S.TIMED_OUT)).exclude(task_id="")
    operations = list(known.select_related("account").defer(*_HEAVY))
    pending = {one.task_id: one.account.reference if one.account else None for one in operations}
    accounts: list[tuple[dict[str, Any] | None, list[Account]]] = [
        (json.loads(reference), owners) for reference, owners in accounts_by_reference(seller).items()
    ]
    if not accounts or None in pending.values():
        accounts.append((None, []))
    return _Plan(
        seller=seller,
        line=reading_line_to(seller),
        list_tool=task_list_tool(seller.tools),
        status_tool=seller.task_tool,
        accounts=accounts,
        pending=pending,
        teams={one.task_id: one.team_id for one in operations},
        types={one.task_id: one.type_asked for one in operations},
    )


async def _hear_all(plans: Iterable[_Plan], limit_s: float) -> list[_Heard]:
    return list(await asyncio.gather(*(_hear(plan, limit_s) for plan in plans)))


async def _hear(plan: _Plan, limit_s: float) -> _Heard:
    """What there is no time, or no way, to ask for by its id leaves what was listed readable."""
    heard, until = _Heard(), time.monotonic() + limit_s
    try:
        await within(limit_s, _ask_for_lists(plan, heard))
        await within(until - time.monotonic(), _ask_for_each(plan, heard), of=limit_s)
    except UnreadableError as error:
        heard.unread = error
    return heard


async def _ask_for_lists(plan: _Plan, heard: _Heard) -> None:
    """An account that the seller refuses to tell of leaves the others readable."""
    asked, untold = plan.accounts if plan.list_tool else [], 0
    heard.left = [owner for _, owners in asked for owner in owners]
    for reference, owners in asked:
        left = [one for one in heard.left if one not in owners]
        try:
            async for item in _listed(plan, reference):
                heard.items[item.task_id] = item
                heard.listed_for.setdefault(item.task_id, []).extend(owners)
        except UnreadableError as error:
            untold += not error.in_part
            last, teams = untold == len(asked), teams_of_accounts(owners)
            left = heard.left = left if error.answered and not error.begun else heard.left
            refused_one(error, heard.refused, account=reference, teams=teams, last=last)
        heard.left = left


async def _ask_for_each(plan: _Plan, heard: _Heard) -> None:
    """What is pending here and not listed there; the same of single tasks."""
    unlisted = [task_id for task_id in plan.pending if task_id not in heard.items]
    heard.passed_over = max(0, len(unlisted) - _MOST_LOOKED_UP)
    for task_id in unlisted[:_MOST_LOOKED_UP] if plan.status_tool else ():
        try:
            heard.looked_up[task_id] = await _looked_up(plan, task_id)
        except UnreadableError as error:
            account, teams = plan.pending[task_id], {plan.teams[task_id]}
            refused_one(error, heard.refused, account=account, thing=task_id, teams=teams, last=False)


async def _listed(plan: _Plan, account: dict[str, Any] | None) -> Any:
    arguments: dict[str, Any] = {"filters": {"statuses": _PENDING_THERE}}
    if account is not None:
        arguments["account"] = account
    async for rows in plan.line.rows(str(plan.list_tool), arguments, listed="tasks"):
        for row in rows:
            named = identity_of(row.get("task_id")) or ""
            item = task_item(row, task_type=plan.types.get(named, ""))
            if item is not None:
                yield replace(item, seen=replace(item.seen, raw=None, payload=None))


async def _looked_up(plan: _Plan, task_id: str) -> Seen:
    asked = task_status_arguments(task_id, plan.pending[task_id])
    seen = await plan.line.ask(str(plan.status_tool), asked, task_type=plan.types[task_id])
    told = seen.kind == "answer" and seen.task_id is not None
    if not told and not is_not_there(seen):
        raise unreadable(f"{plan.status_tool} of {task_id}", seen)
    return seen


def _reading(plan: _Plan, heard: _Heard, started: datetime) -> Reading:
    reading = Reading(seller=plan.seller)
    if heard.unread:
        reading = unread_of(plan.seller, heard.unread, heard.refused)
        if not (heard.items or heard.looked_up):
            return reading
    asked_for = {*plan.pending, *heard.items}
    rows = Operation.objects.filter(seller=plan.seller, task_id__in=asked_for).defer(*_HEAVY)
    ours = {o.task_id: o for o in rows}
    judged = [task_id for task_id in plan.pending if task_id in heard.items or task_id in heard.looked_up]
    reading.findings = [_pending_here(ours[task_id], heard) for task_id in judged]
    reading.findings += _listed_only(plan, heard, ours, started)
    reading.notes = list(_notes(plan, heard))
    reading.complete = not (heard.passed_over or heard.left_out or heard.refused or heard.unread)
    reading.unseen = frozenset() if plan.list_tool else _LISTED_ALONE
    reading.unjudged = frozenset(plan.pending) - frozenset(judged)
    nameless = Operation.objects.filter(seller=plan.seller, status__in=PENDING, task_id="")
    reading.unnamed = [
        *refused_of(heard.refused),
        *unnamed_of(nameless, state="pending", name="task_id"),
    ]
    return reading


def _pending_here(operation: Operation, heard: _Heard) -> Finding:
    task_id = operation.task_id
    item, seen = heard.items.get(task_id), heard.looked_up.get(task_id)
    there = item.raw_status or item.status if item else seen.raw_status or seen.status if seen else ""
    ended_there = (item.status if item else seen.status if seen else "") in TERMINAL_STATUSES
    verdict, note = Verdict.IN_STEP, ""
    if operation.status in SETTLED:
        note = "ended here meanwhile"
    elif seen is not None and is_not_there(seen):
        verdict, there = Verdict.MISSING, ""
    elif ended_there:
        verdict = Verdict.BEHIND
    elif (item.status if item else seen.status if seen else "") == "unknown":
        verdict, note = Verdict.UNCLEAR, f"{there or 'its status'} is none of AdCP’s task statuses"
    elif operation.status == S.TIMED_OUT:
        note = "overdue here"
    return Finding(
        verdict=verdict,
        theirs=task_id,
        status_there=there,
        note=note,
        seen=seen,
        **_ours(operation),
    )


def _ours(operation: Operation) -> dict[str, Any]:
    return {
        "here": operation.reference,
        "status_here": operation.status,
        "subject": Subject(type="operation", id=operation.pk),
        "team_id": operation.team_id,
        "account_id": operation.account_id,
    }


def _listed_only(
    plan: _Plan, heard: _Heard, ours: Mapping[str, Operation], started: datetime
) -> Iterator[Finding]:
    """Tasks that the seller lists as pending and that were not pending here when we began."""
    nameless, unknown = _nameless(plan.seller), 0
    for task_id, item in heard.items.items():
        if task_id in plan.pending or item.status in TERMINAL_STATUSES:
            continue
        operation = ours.get(task_id)
        if operation is None:
            owners = heard.listed_for[task_id]
            is_open = unknown < _MOST_UNKNOWN and is_whose_open(_whose(item), owners, heard.left)
            if is_open and _named_by(item, nameless) is None:
                heard.held += 1
                continue
            unknown += 1
            if unknown <= _MOST_UNKNOWN:
                yield _unknown_here(item, owners, nameless, started)
            continue
        ended = operation.settled_at is not None and operation.settled_at < started
        yield Finding(
            verdict=Verdict.AHEAD if ended else Verdict.IN_STEP,
            theirs=task_id,
            status_there=item.raw_status or item.status,
            **_ours(operation),
        )
    heard.left_out = max(0, unknown - _MOST_UNKNOWN)


def _nameless(seller: Seller) -> list[Operation]:
    """What was sent, is not over, and whose task we do not know: the seller may list it."""
    sent = Operation.objects.filter(seller=seller, status__in=OPEN, task_id="", settled_at__isnull=True)
    rows = sent.exclude(status=S.REQUESTED).select_related("account__advertiser", "account__seller")
    return list(rows.defer(*_HEAVY).annotate(sent_under=KeyTransform("account", "request")).order_by("id"))


def _unknown_here(
    item: TaskItem, owners: Sequence[Account], nameless: Sequence[Operation], started: datetime
) -> Finding:
    whose = _whose(item)
    own = [owner for owner in owners if not is_anothers(whose, owner)]
    elsewhere = names_another(whose, owners[0]) if owners and not own else ""
    named = _named_by(item, nameless)
    if named is not None and named.account is not None and _is_not_of(named, named.account, whose):
        # What echoes our context is whoever's it says that it is: it is no answer of ours. All who steer read
        # of it, those of other teams too.
        echoed = named.reference if named.team_id is None else "an operation of ours"
        elsewhere = f"it echoes {echoed}, but {names_another(whose, named.account)}"
        named, own = None, []
    likely = named or next((o for o in nameless if _may_be_its(o, item, owners, whose)), None)
    told = {
        "task_id": item.task_id,
        "task_type": item.task_type,
        "status": item.raw_status or item.status,
        "created_at": item.created_at.isoformat() if item.created_at else None,
    }
    there = item.raw_status or item.status
    if likely is not None:
        may = "is" if named else "may belong to"
        return Finding(
            verdict=Verdict.UNANSWERED,
            theirs=item.task_id,
            status_there=there,
            note="; ".join(filter(None, [f"{may} {likely.reference}, whose answer has not come", elsewhere])),
            subject=Subject(type="operation", id=named.pk) if named else None,
            team_id=likely.team_id,
            told=told,
            asked_at=started,
        )
    team_id, account_id = _owner(own)
    return Finding(
        verdict=Verdict.ORPHANED,
        theirs=item.task_id,
        status_there=there,
        note="; ".join(filter(None, [item.task_type, elsewhere])),
        team_id=team_id,
        account_id=account_id,
        told=told,
    )


def _whose(item: TaskItem) -> dict[str, Any]:
    """What it says of whose it is, as a record does."""
    return {"account": item.account} if item.account else {}


def _named_by(item: TaskItem, nameless: Sequence[Operation]) -> Operation | None:
    """The operation that the task's echoed context names (we send it with every purchase)."""
    named = str((item.context or {}).get("operation_id", ""))
    return next((o for o in nameless if str(o.pk) == named), None)


def _may_be_its(
    operation: Operation, item: TaskItem, owners: Sequence[Account], whose: Mapping[str, Any]
) -> bool:
    """Whether a task may be that of an operation without an answer: by its type, by `whose` it says that it
    is, and by the accounts that it was listed for; a seller that was asked about none may mean any."""
    if item.task_type not in (None, operation.task_type):
        return False
    if operation.account is None:
        return not owners or operation.team_id in teams_of_accounts(owners)
    is_listed = not owners or operation.account_id in {owner.pk for owner in owners}
    return is_listed and not _is_not_of(operation, operation.account, whose)


def _is_not_of(operation: Operation, account: Account, whose: Mapping[str, Any]) -> bool:
    """Whether a task says that it is of another account than the operation's, by the reference that this has
    today or that its seller was sent."""
    sent = getattr(operation, "sent_under", None)
    return is_anothers(whose, account, sent=sent if isinstance(sent, Mapping) else None)


def _owner(owners: Sequence[Account]) -> tuple[uuid.UUID | None, uuid.UUID | None]:
    """Team and account of a task; None where it was listed for several, as by a seller that takes no
    notice of the account it is asked about."""
    accounts = {account.pk: account for account in owners}
    teams = {account.advertiser.team_id for account in accounts.values()}
    return (
        next(iter(teams)) if len(teams) == 1 else None,
        next(iter(accounts)) if len(accounts) == 1 else None,
    )


def _notes(plan: _Plan, heard: _Heard) -> Iterator[str]:
    if plan.list_tool is None:
        yield "lists no tasks: ones unknown here would not be seen"
    if plan.status_tool is None:
        yield "cannot be asked about a single task"
    if heard.unread and plan.pending.keys() - heard.items.keys() - heard.looked_up.keys():
        yield "not every pending operation that it did not list could be looked up"
    if heard.passed_over:
        yield f"{heard.passed_over} pending operations were not listed and not looked up in this run"
    yield from whose_open_words(heard.held, "task")
    if heard.left_out:
        yield f"{heard.left_out} more tasks that nobody here knows were not taken up in this run"
