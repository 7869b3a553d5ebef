"""Asking one seller to compare with it: the wire part of reconciliation and of mirrors, without the database.

Whatever a seller lists is bounded: pages, rows and time. Source: AdCP core/pagination-response.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from django.conf import settings

from tasks_app.adcp import client
from tasks_app.adcp.errors import recovery_for
from tasks_app.adcp.optional import merged
from tasks_app.adcp.tasks import NoCursorError, listed_of, next_cursor, told_beside
from tasks_app.adcp.types import Endpoint, Seen
from tasks_app.sellers.models import Account, Seller

T = TypeVar("T")
Teams = frozenset[uuid.UUID | None]  # None: nobody's
_NOT_THERE = frozenset({"REFERENCE_NOT_FOUND", "TASK_NOT_FOUND", "MEDIA_BUY_NOT_FOUND", "NOT_FOUND"})
NOT_READ = "not read for"  # how a note on an account, or a thing, that a seller does not tell of begins
PAGE_SIZE = 100
_MAX_PAGES = 500
# What everybody may read of an answer that is of no use; its own words are for whom it was asked for.
_NO_USE = "what it answered about an account, or a thing in one, is of no use"
_OURS = {"not_sent": "it could not be reached", "no_answer": "it did not answer"}
_MAX_ROWS = PAGE_SIZE * _MAX_PAGES


class UnreadableError(Exception):
    """A seller's answer cannot be compared with: it did not come, or is none; the text says why.

    `unknown_there`: the seller does not know what was asked for. `answered`: it refused this one question, so
    that others (about another account, say) may still be answered. `ours`: the same for everybody, without
    what the question or the answer names; `teams`: those whose account or thing was asked about.
    """

    def __init__(
        self, why: str, *, unknown_there: bool = False, answered: bool = False, ours: str = ""
    ) -> None:
        self.unknown_there, self.answered, self.ours = unknown_there, answered, ours or why
        self.teams: Teams = frozenset()
        super().__init__(why)


@dataclass(frozen=True, kw_only=True)
class Line:
    """How to ask one seller, without the database. `seller` is read, never written; `learned`: its quirks, as
    found out while asking."""

    seller: Seller
    endpoint: Endpoint
    secrets: tuple[str, ...] = field(repr=False)
    learned: set[str] = field(default_factory=set)

    async def ask(self, tool: str, arguments: Mapping[str, Any], *, task_type: str = "") -> Seen:
        """One call; whatever comes back. `task_type`: of the task that a status tool is asked for. Raises
        UnreadableError: the seller has no such tool."""
        lacking = self.seller.lacks(tool)
        if lacking:
            raise UnreadableError(lacking)
        endpoint = replace(self.endpoint, quirks=merged(self.endpoint.quirks, self.learned))
        seen = await client.call(endpoint, tool, arguments, secrets=self.secrets, task_type=task_type)
        self.learned.update(seen.learned)
        return seen

    async def rows(
        self, tool: str, arguments: Mapping[str, Any], *, listed: str
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """The objects in the list `listed`, page by page: no more than one page is held.

        Raises UnreadableError: no list (`listed_of`), or not all of one, pages in a circle, or more of them
        than anybody has.
        """
        asked_with: set[str] = set()
        cursor: str | None = None
        rows = 0
        for _ in range(_MAX_PAGES):
            more = {"cursor": cursor} if cursor else {}
            page = await self.ask(tool, {**arguments, "pagination": {"max_results": PAGE_SIZE, **more}})
            found = listed_of(page.status, page.payload, listed)
            if found is None:
                raise unreadable(tool, page)
            _refuse_in_part(tool, arguments, page, found)
            rows += len(found)
            if rows > _MAX_ROWS:
                raise UnreadableError(f"{tool}: more than {_MAX_ROWS} rows")
            yield [row for row in found if isinstance(row, dict)]
            try:
                cursor = next_cursor(page)
            except NoCursorError as error:
                raise UnreadableError(f"{tool}: {error}") from None
            if cursor is None:
                return
            if cursor in asked_with:
                raise UnreadableError(f"{tool}: its pages go round in a circle")
            asked_with.add(cursor)
        raise UnreadableError(f"{tool}: more than {_MAX_PAGES} pages")


def _refuse_in_part(tool: str, arguments: Mapping[str, Any], page: Seen, found: Collection[object]) -> None:
    """An error beside a list says that a part of it is lacking: what is not in it may be there. Beside what
    was asked for by its id it may say that it is not there; where nothing was found, that alone is believed.
    """
    beside = told_beside(page.payload, page.errors)
    if beside is None or (arguments.get("media_buy_ids") and (found or beside.code in _NOT_THERE)):
        return
    why_not = f"{tool}: its list came with an error: {beside.message or beside.code}"
    raise UnreadableError(why_not, answered=True, ours=_NO_USE)


def line_to(seller: Seller) -> Line:
    """The line to a seller, with what it may echo and nobody may see."""
    endpoint = seller.endpoint(timeout_s=settings.CALL_TIMEOUT_S)
    return Line(seller=seller, endpoint=endpoint, secrets=tuple(seller.known_secrets))


async def within(seconds: float, work: Awaitable[T], *, of: float | None = None) -> T:
    """What `work` answers. Raises UnreadableError when it takes longer. `of`: how long all answers of the
    seller together may take, where `seconds` is what earlier ones left of that."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise UnreadableError(f"its answers took longer than {of or seconds:g} s") from None


def accounts_by_reference(seller: Seller) -> dict[str, list[Account]]:
    """Our accounts with a seller by their AdCP reference (canonical JSON), in the order they were made."""
    found: dict[str, list[Account]] = {}
    kept = Account.objects.filter(seller=seller).select_related("advertiser__team").order_by("id")
    for account in kept:
        if account.reference:
            found.setdefault(json.dumps(account.reference, sort_keys=True), []).append(account)
    return found


def unreadable(what: str, seen: Seen) -> UnreadableError:
    """The error for an answer that is of no use."""
    error = seen.error if seen.kind == "answer" else None
    refused = error is not None and "transient" not in (error.recovery, recovery_for(error.code))
    why_not = f"{what}: {why(seen)}"
    return UnreadableError(
        why_not, unknown_there=is_not_there(seen), answered=refused, ours=_OURS.get(seen.kind, _NO_USE)
    )


def refused_one(
    error: UnreadableError,
    refused: dict[str, Teams],
    *,
    account: Mapping[str, Any] | None,
    teams: Collection[uuid.UUID | None],
    last: bool,
) -> None:
    """Note in `refused` that the seller does not tell of one account or thing, and `teams`, whose it is: the
    note names it, and nobody else may read that. The rest is read on.

    Raises the error where it did not answer at all, or where all were refused (`last`).
    """
    whose = frozenset(teams or {None})
    if last or not error.answered:
        error.teams = whose
        raise error
    named = json.dumps(account, sort_keys=True) if account else "no account"
    words = f"{NOT_READ} {named}: {error}"
    refused[words] = refused.get(words, frozenset()) | whose


def teams_of_accounts(owners: Collection[Account]) -> set[uuid.UUID | None]:
    """The teams whose accounts these are."""
    return {owner.advertiser.team_id for owner in owners}


def why(seen: Seen) -> str:
    """Why an answer is of no use, in words."""
    if seen.error is not None:
        return seen.error.message or seen.error.code
    unfinished = "" if seen.status == "completed" else f": {seen.raw_status or seen.status}"
    return seen.message or f"the answer holds no list{unfinished}"


def is_not_there(seen: Seen) -> bool:
    """Whether the seller says that it does not know what was asked for."""
    return seen.kind == "answer" and seen.error is not None and seen.error.code in _NOT_THERE
