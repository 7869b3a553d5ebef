"""Our pending operations beside the sellers' own lists of tasks: what either side knows alone.

A listing: it changes nothing, and no transaction is open while a seller is waited for. The database is read
before the calls (what to ask for) and again after them (what to compare with), so that work that went on
meanwhile is not taken for a difference. Source: AdCP protocol/list-tasks, L3/task-lifecycle.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db.models import Q

from tasks_app import clock
from tasks_app.adcp import client
from tasks_app.adcp.tasks import (
    STATUS_TOOL_NAMES,
    TaskItem,
    next_cursor,
    task_items,
    task_list_tool,
    task_status_arguments,
    task_status_tool,
)
from tasks_app.adcp.types import TERMINAL_STATUSES, Endpoint, Seen
from tasks_app.operations.models import PENDING, SETTLED, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Account, Seller

_PENDING_THERE = ["submitted", "working", "input-required", "auth-required"]
_NOT_THERE = frozenset({"REFERENCE_NOT_FOUND", "TASK_NOT_FOUND", "MEDIA_BUY_NOT_FOUND", "NOT_FOUND"})
_PAGE_SIZE = 100
_MAX_PAGES = 500


class Verdict(StrEnum):
    """What a comparison of one task, or one media buy, comes to."""

    BOUGHT_UNKNOWN = "bought_unknown"  # a media buy with our ids that is no deal's: money is being spent
    ORPHANED = "orphaned"  # at the seller, unknown here
    MISSING = "missing"  # here, unknown at the seller
    BEHIND = "behind"  # ended at the seller, not here
    AHEAD = "ahead"  # ended here, not at the seller
    UNANSWERED = "unanswered"  # ours most likely: the answer to a call is still to come
    EXTERNAL = "external"  # a media buy made without us
    IN_STEP = "in_step"  # both say the same


DIFFERENT = frozenset(
    {Verdict.BOUGHT_UNKNOWN, Verdict.ORPHANED, Verdict.MISSING, Verdict.BEHIND, Verdict.AHEAD}
)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One task or media buy: the seller's id for it, our reference, the status on either side."""

    verdict: Verdict
    theirs: str
    here: str = ""
    status_there: str = ""
    status_here: str = ""
    note: str = ""

    @property
    def differs(self) -> bool:
        return self.verdict in DIFFERENT

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(kw_only=True)
class Reading:
    """What one seller was found to know. `unread`: why it could not be asked; there are no findings then.
    `notes`: what could not be compared."""

    seller: Seller
    findings: list[Finding] = field(default_factory=list)
    unread: str = ""
    notes: list[str] = field(default_factory=list)


class UnreadableError(Exception):
    """A seller's answer cannot be compared with: it did not come, or is none; the text says why.

    `unknown_there`: the seller does not know what was asked for.
    """

    def __init__(self, why: str, *, unknown_there: bool = False) -> None:
        self.unknown_there = unknown_there
        super().__init__(why)


@dataclass(frozen=True, kw_only=True)
class Line:
    """How to ask one seller, without the database."""

    endpoint: Endpoint
    secrets: tuple[str, ...] = field(repr=False)

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> Seen:
        """One call; whatever comes back."""
        return await client.call(self.endpoint, tool, arguments, secrets=self.secrets)

    async def pages(self, tool: str, arguments: Mapping[str, Any], *, listed: str) -> list[Seen]:
        """Every page of a list tool whose answer holds a list named `listed`. Raises UnreadableError."""
        pages: list[Seen] = []
        cursors: list[str] = []
        while len(pages) < _MAX_PAGES:
            cursor = {"cursor": cursors[-1]} if cursors else {}
            asked = {**arguments, "pagination": {"max_results": _PAGE_SIZE, **cursor}}
            page = await self.ask(tool, asked)
            if page.error is not None or not isinstance((page.payload or {}).get(listed), list):
                raise UnreadableError(f"{tool}: {why(page)}", unknown_there=is_not_there(page))
            pages.append(page)
            following = next_cursor(page)
            if following is None:
                return pages
            if following in cursors:
                raise UnreadableError(f"{tool}: its pages go round in a circle")
            cursors.append(following)
        raise UnreadableError(f"{tool}: more than {_MAX_PAGES} pages")


def line_to(seller: Seller) -> Line:
    """The line to a seller, with what it may echo and nobody may see."""
    endpoint = seller.endpoint(timeout_s=settings.CALL_TIMEOUT_S)
    return Line(endpoint=endpoint, secrets=tuple(seller.known_secrets))


def account_references(seller: Seller) -> list[dict[str, Any]]:
    """Our accounts with a seller, as AdCP references."""
    kept = Account.objects.filter(seller=seller).order_by("id").values_list("reference", flat=True)
    return list(
        {json.dumps(reference, sort_keys=True): reference for reference in kept if reference}.values()
    )


def why(seen: Seen) -> str:
    """Why an answer is of no use, in words."""
    if seen.error is not None:
        return seen.error.message or seen.error.code
    return seen.message or "the answer holds no list"


def is_not_there(seen: Seen) -> bool:
    """Whether the seller says that it does not know what was asked for."""
    return seen.kind == "answer" and seen.error is not None and seen.error.code in _NOT_THERE


def tasks_reconcile(*, sellers: Sequence[Seller]) -> list[Reading]:
    """Each seller's pending tasks against our pending operations there, all sellers at once.

    What is pending here and not listed there is looked up by its id before any verdict.
    """
    started = clock.now()
    plans = [_plan(seller) for seller in sellers]
    heard = asyncio.run(_hear_all(plans))
    return [_reading(plan, told, started) for plan, told in zip(plans, heard, strict=True)]


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What to ask one seller: `pending` is task_id to account reference."""

    seller: Seller
    line: Line
    list_tool: str | None
    status_tool: str
    accounts: list[dict[str, Any] | None]
    pending: dict[str, dict[str, Any] | None]


@dataclass(kw_only=True)
class _Heard:
    """What one seller said: tasks in its lists, and answers to the questions about single tasks."""

    items: dict[str, TaskItem] = field(default_factory=dict)
    looked_up: dict[str, Seen] = field(default_factory=dict)
    unread: str = ""


def _plan(seller: Seller) -> _Plan:
    known = Operation.objects.filter(seller=seller, status__in=(*PENDING, S.TIMED_OUT)).exclude(task_id="")
    pending = {
        operation.task_id: operation.account.reference if operation.account else None
        for operation in known.select_related("account")
    }
    accounts: list[dict[str, Any] | None] = list(account_references(seller))
    if not accounts or None in pending.values():
        accounts.append(None)
    return _Plan(
        seller=seller,
        line=line_to(seller),
        list_tool=task_list_tool(seller.tools),
        status_tool=task_status_tool(seller.tools) or STATUS_TOOL_NAMES[0],
        accounts=accounts,
        pending=pending,
    )


async def _hear_all(plans: Iterable[_Plan]) -> list[_Heard]:
    return list(await asyncio.gather(*map(_hear, plans)))


async def _hear(plan: _Plan) -> _Heard:
    heard = _Heard()
    try:
        for account in plan.accounts if plan.list_tool else ():
            heard.items |= await _listed(plan, account)
        for task_id in plan.pending.keys() - heard.items.keys():
            heard.looked_up[task_id] = await _looked_up(plan, task_id)
    except UnreadableError as error:
        heard.unread = str(error)
    return heard


async def _listed(plan: _Plan, account: dict[str, Any] | None) -> dict[str, TaskItem]:
    arguments: dict[str, Any] = {"filters": {"statuses": _PENDING_THERE}}
    if account is not None:
        arguments["account"] = account
    pages = await plan.line.pages(str(plan.list_tool), arguments, listed="tasks")
    return {item.task_id: item for page in pages for item in task_items(page)}


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
    asked_for = Q(task_id__in=[*plan.pending, *heard.items])
    ours = {o.task_id: o for o in Operation.objects.filter(asked_for, seller=plan.seller)}
    reading.findings = [_pending_here(ours[task_id], heard) for task_id in plan.pending]
    reading.findings += _listed_only(plan, heard, ours, started)
    reading.notes = list(_notes(plan))
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
        verdict=verdict, theirs=task_id, here=operation.reference, status_there=there,
        status_here=operation.status, note=note,
    )  # fmt: skip


def _listed_only(
    plan: _Plan, heard: _Heard, ours: Mapping[str, Operation], started: datetime
) -> Iterator[Finding]:
    """Tasks that the seller lists as pending and that were not pending here when we began."""
    out = Operation.objects.filter(seller=plan.seller, status=S.CALLING_ADCP, task_id="")
    unanswered = dict(out.values_list("task_type", "reference"))
    for task_id, item in heard.items.items():
        if task_id in plan.pending or item.status in TERMINAL_STATUSES:
            continue
        operation = ours.get(task_id)
        there = item.raw_status or item.status
        if operation is None:
            yield _unknown_here(item, there, unanswered)
            continue
        ended = operation.settled_at is not None and operation.settled_at < started
        yield Finding(
            verdict=Verdict.AHEAD if ended else Verdict.IN_STEP, theirs=task_id, here=operation.reference,
            status_there=there, status_here=operation.status,
        )  # fmt: skip


def _unknown_here(item: TaskItem, there: str, unanswered: Mapping[str, str]) -> Finding:
    waiting = unanswered.get(item.task_type or "")
    return Finding(
        verdict=Verdict.UNANSWERED if waiting else Verdict.ORPHANED,
        theirs=item.task_id,
        status_there=there,
        note=f"may belong to {waiting}, whose answer has not come" if waiting else item.task_type or "",
    )


def _notes(plan: _Plan) -> Iterator[str]:
    if plan.list_tool is None:
        yield "lists no tasks: ones unknown here would not be seen"
    nameless = Operation.objects.filter(seller=plan.seller, status__in=PENDING, task_id="")
    for reference in nameless.order_by("id").values_list("reference", flat=True):
        yield f"{reference} is pending without a task_id of the seller's: it cannot be compared"
