"""Our pending operations beside the sellers' own lists of tasks: what either side knows alone.

Reading changes nothing, and no transaction is open while a seller is waited for. The database is read before
the calls (what to ask for) and again after them (what to compare with), so that work that went on meanwhile
is not taken for a difference. Source: AdCP protocol/list-tasks, L3/task-lifecycle "Task Reconciliation";
document 000 "reconcile_state_on_startup".
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from asgiref.sync import async_to_sync

from tasks_app import clock
from tasks_app.adcp.tasks import (
    STATUS_TOOL_NAMES,
    TaskItem,
    task_item,
    task_list_tool,
    task_status_arguments,
    task_status_tool,
)
from tasks_app.adcp.types import TERMINAL_STATUSES, Seen
from tasks_app.operations.comparison import Finding, Reading, Verdict, unnamed_of
from tasks_app.operations.line import (
    Line,
    UnreadableError,
    accounts_by_reference,
    is_not_there,
    why,
    within,
)
from tasks_app.operations.models import OPEN, PENDING, SETTLED, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.reading import reading_line_to
from tasks_app.operations.services import Subject
from tasks_app.sellers.models import Account, Seller

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
    account reference."""

    seller: Seller
    line: Line
    list_tool: str | None
    status_tool: str
    accounts: list[tuple[dict[str, Any] | None, list[Account]]]
    pending: dict[str, dict[str, Any] | None]


@dataclass(kw_only=True)
class _Heard:
    """What one seller said: tasks in its lists with the accounts they were listed for, and answers to the
    questions about single tasks."""

    items: dict[str, TaskItem] = field(default_factory=dict)
    listed_for: dict[str, list[Account]] = field(default_factory=dict)
    looked_up: dict[str, Seen] = field(default_factory=dict)
    passed_over: int = 0
    left_out: int = 0
    unread: str = ""


def _plan(seller: Seller) -> _Plan:
    known = Operation.objects.filter(seller=seller, status__in=(*PENDING, S.TIMED_OUT)).exclude(task_id="")
    pending = {
        operation.task_id: operation.account.reference if operation.account else None
        for operation in known.select_related("account").defer(*_HEAVY)
    }
    accounts: list[tuple[dict[str, Any] | None, list[Account]]] = [
        (json.loads(reference), owners) for reference, owners in accounts_by_reference(seller).items()
    ]
    if not accounts or None in pending.values():
        accounts.append((None, []))
    return _Plan(
        seller=seller,
        line=reading_line_to(seller),
        list_tool=task_list_tool(seller.tools),
        status_tool=task_status_tool(seller.tools) or STATUS_TOOL_NAMES[0],
        accounts=accounts,
        pending=pending,
    )


async def _hear_all(plans: Iterable[_Plan], limit_s: float) -> list[_Heard]:
    return list(await asyncio.gather(*(_hear(plan, limit_s) for plan in plans)))


async def _hear(plan: _Plan, limit_s: float) -> _Heard:
    heard = _Heard()
    try:
        await within(limit_s, _ask(plan, heard))
    except UnreadableError as error:
        heard.unread = str(error)
    return heard


async def _ask(plan: _Plan, heard: _Heard) -> None:
    for reference, owners in plan.accounts if plan.list_tool else ():
        async for item in _listed(plan, reference):
            heard.items[item.task_id] = item
            heard.listed_for.setdefault(item.task_id, []).extend(owners)
    unlisted = [task_id for task_id in plan.pending if task_id not in heard.items]
    heard.passed_over = max(0, len(unlisted) - _MOST_LOOKED_UP)
    for task_id in unlisted[:_MOST_LOOKED_UP]:
        heard.looked_up[task_id] = await _looked_up(plan, task_id)


async def _listed(plan: _Plan, account: dict[str, Any] | None) -> Any:
    arguments: dict[str, Any] = {"filters": {"statuses": _PENDING_THERE}}
    if account is not None:
        arguments["account"] = account
    async for rows in plan.line.rows(str(plan.list_tool), arguments, listed="tasks"):
        for row in rows:
            item = task_item(row)
            if item is not None:
                yield replace(item, raw={})


async def _looked_up(plan: _Plan, task_id: str) -> Seen:
    seen = await plan.line.ask(plan.status_tool, task_status_arguments(task_id, plan.pending[task_id]))
    told = seen.kind == "answer" and seen.task_id is not None
    if not told and not is_not_there(seen):
        raise UnreadableError(f"{plan.status_tool} of {task_id}: {why(seen)}")
    return seen


def _reading(plan: _Plan, heard: _Heard, started: datetime) -> Reading:
    reading = Reading(seller=plan.seller, unread=heard.unread)
    if heard.unread:
        return reading
    asked_for = {*plan.pending, *heard.items}
    rows = Operation.objects.filter(seller=plan.seller, task_id__in=asked_for).defer(*_HEAVY)
    ours = {o.task_id: o for o in rows}
    judged = [task_id for task_id in plan.pending if task_id in heard.items or task_id in heard.looked_up]
    reading.findings = [_pending_here(ours[task_id], heard) for task_id in judged]
    reading.findings += _listed_only(plan, heard, ours, started)
    reading.notes, reading.complete = list(_notes(plan, heard)), not (heard.passed_over + heard.left_out)
    nameless = Operation.objects.filter(seller=plan.seller, status__in=PENDING, task_id="")
    reading.unnamed = unnamed_of(nameless, state="pending", name="task_id")
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
            unknown += 1
            if unknown <= _MOST_UNKNOWN:
                yield _unknown_here(item, heard.listed_for[task_id], nameless)
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
    return list(sent.exclude(status=S.REQUESTED).defer(*_HEAVY).order_by("id"))


def _unknown_here(item: TaskItem, owners: Sequence[Account], nameless: Sequence[Operation]) -> Finding:
    named = _named_by(item, nameless)
    likely = named or next((o for o in nameless if item.task_type in (None, o.task_type)), None)
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
            note=f"{may} {likely.reference}, whose answer has not come",
            subject=Subject(type="operation", id=named.pk) if named else None,
            team_id=likely.team_id,
            told=told,
        )
    team_id, account_id = _owner(owners)
    return Finding(
        verdict=Verdict.ORPHANED,
        theirs=item.task_id,
        status_there=there,
        note=item.task_type or "",
        team_id=team_id,
        account_id=account_id,
        told=told,
    )


def _named_by(item: TaskItem, nameless: Sequence[Operation]) -> Operation | None:
    """The operation that the task's echoed context names (we send it with every purchase)."""
    named = str((item.context or {}).get("operation_id", ""))
    return next((o for o in nameless if str(o.pk) == named), None)


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
    if heard.passed_over:
        yield f"{heard.passed_over} pending operations were not listed and not looked up in this run"
    if heard.left_out:
        yield f"{heard.left_out} more tasks that nobody here knows were not taken up in this run"
