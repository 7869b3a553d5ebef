"""Asking one seller to compare with it: the wire part of reconciliation and of mirrors, without the database.

Whatever a seller lists is bounded: pages, rows and time. Source: AdCP core/pagination-response.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from django.conf import settings

from tasks_app.adcp import client
from tasks_app.adcp.errors import recovery_for
from tasks_app.adcp.optional import merged
from tasks_app.adcp.tasks import NoCursorError, listed_of, next_cursor, told_beside
from tasks_app.adcp.types import Endpoint, Seen, WireError
from tasks_app.adcp.values import identity_of
from tasks_app.desk.items import plural
from tasks_app.sellers.accounts import is_anothers
from tasks_app.sellers.models import Account, Seller

T = TypeVar("T")
Teams = frozenset[uuid.UUID | None]  # None: nobody's
_NOT_THERE = frozenset({"REFERENCE_NOT_FOUND", "TASK_NOT_FOUND", "MEDIA_BUY_NOT_FOUND", "NOT_FOUND"})
# How a note on an account, or a thing, that a seller does not tell of, or not whole, begins.
NOT_READ = ("not read for", "not read whole for")
PAGE_SIZE = 100
_MAX_PAGES = 500
MOST_NAMED = 50  # notes of one run; what else is refused is said once for each account
# What everybody may read of an answer that is of no use; its own words are for whom it was asked for.
_NO_USE = "what it answered about an account, or a thing in one, is of no use"
_OURS = {"not_sent": "it could not be reached", "no_answer": "it did not answer"}
_MAX_ROWS = PAGE_SIZE * _MAX_PAGES


class UnreadableError(Exception):
    """A seller's answer cannot be compared with: it did not come, or is none; the text says why.

    `unknown_there`: the seller does not know what was asked for. `answered`: it refused this one question, so
    that others (about another account, say) may still be answered. `in_part`: what it lists was given, and an
    error beside it says that there may be more. `begun`: of a list that was refused, pages were given before.
    `ours`: the same for everybody, without what the question or the answer names; `teams`: those whose
    account or thing was asked about.
    """

    def __init__(
        self,
        why: str,
        *,
        unknown_there: bool = False,
        answered: bool = False,
        in_part: bool = False,
        begun: bool = False,
        ours: str = "",
    ) -> None:
        self.unknown_there, self.answered, self.ours = unknown_there, answered, ours or why
        self.in_part, self.begun = in_part, begun
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

        Raises UnreadableError: no list (`listed_of`), pages in a circle, or more of them than anybody has;
        and after the last page (`in_part`), where an error came beside what they list: what is not in it may
        be there. Not so of what was asked for by its id where each was found, or is said not to be there.
        """
        asked_with: set[str] = set()
        unfound: set[str | None] = set(arguments.get("media_buy_ids") or ())
        counts = partial(_says_lacking, by_id=bool(unfound))
        lacking: WireError | None = None
        cursor: str | None = None
        rows = 0
        for _ in range(_MAX_PAGES):
            more = {"cursor": cursor} if cursor else {}
            page = await self.ask(tool, {**arguments, "pagination": {"max_results": PAGE_SIZE, **more}})
            found = listed_of(page.status, page.payload, listed)
            if found is None:
                raise unreadable(tool, page, begun=cursor is not None)
            rows += len(found)
            if rows > _MAX_ROWS:
                raise UnreadableError(f"{tool}: more than {_MAX_ROWS} rows")
            objects = [row for row in found if isinstance(row, dict)]
            unfound -= {identity_of(row.get("media_buy_id")) for row in objects} if unfound else set()
            lacking = lacking or told_beside(page.payload, page.errors, counts=counts)
            yield objects
            try:
                cursor = next_cursor(page)
            except NoCursorError as error:
                raise UnreadableError(f"{tool}: {error}") from None
            if cursor is None:
                if lacking is not None and (unfound or "media_buy_ids" not in arguments):
                    raise _in_part(tool, lacking)
                return
            if cursor in asked_with:
                raise UnreadableError(f"{tool}: its pages go round in a circle")
            asked_with.add(cursor)
        raise UnreadableError(f"{tool}: more than {_MAX_PAGES} pages")


def _in_part(tool: str, lacking: WireError) -> UnreadableError:
    why_not = f"{tool}: its list came with an error: {lacking.message or lacking.code}"
    return UnreadableError(why_not, answered=True, in_part=True, ours=_NO_USE)


def _says_lacking(error: WireError, *, by_id: bool) -> bool:
    """Whether an error beside a list says that a part of it is lacking: of what was asked for by its id it
    may say that it is not there."""
    return not by_id or error.code not in _NOT_THERE


@contextmanager
def told_in_part() -> Iterator[list[UnreadableError]]:
    """Around reading a list whose part is of use: what was given stays, and why it may lack some is noted
    in the list that this yields."""
    lacking: list[UnreadableError] = []
    try:
        yield lacking
    except UnreadableError as error:
        if not error.in_part:
            raise
        lacking.append(error)


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


def unreadable(what: str, seen: Seen, *, begun: bool = False) -> UnreadableError:
    """The error for an answer that is of no use. `begun`: pages came before it."""
    error = seen.error if seen.kind == "answer" else None
    refused = error is not None and "transient" not in (error.recovery, recovery_for(error.code))
    why_not = f"{what}: {why(seen)}"
    ours, unknown = _OURS.get(seen.kind, _NO_USE), is_not_there(seen)
    return UnreadableError(why_not, unknown_there=unknown, answered=refused, begun=begun, ours=ours)


def refused_one(
    error: UnreadableError,
    refused: dict[str, Teams],
    *,
    account: Mapping[str, Any] | None,
    thing: str = "",
    teams: Collection[uuid.UUID | None],
    last: bool,
) -> None:
    """Note in `refused` that the seller does not tell of one account, or of one `thing` under it (its id), or
    not of all, and `teams`, whose it is: the note names it, and nobody else may read that. The rest is read
    on.

    Raises the error where it did not answer at all, or where all were refused (`last`).
    """
    whose = frozenset(teams or {None})
    if last or not error.answered:
        error.teams = whose
        raise error
    named = json.dumps(account, sort_keys=True) if account else "no account"
    is_named = not thing or len(refused) < MOST_NAMED
    about = f"{thing if is_named else 'others'} under {named}" if thing else named
    words = f"{NOT_READ[error.in_part]} {about}: {error if is_named else _NO_USE}"
    refused[words] = refused.get(words, frozenset()) | whose


def is_whose_open(record: Mapping[str, Any], owners: Collection[Account], left: Collection[Account]) -> bool:
    """Whether what was listed for `owners` alone may be another's all the same: of the accounts in `left` the
    seller was not asked, or not to the end, and one that takes no notice of the account lists it for them
    too. Not of those that its `record` excludes."""
    return any(one not in owners and not is_anothers(record, one) for one in left)


def whose_open_words(held: int, thing: str) -> list[str]:
    """A note on so many of which that is open."""
    words = "that may be of an account whose list was not read to its end"
    return [f"not judged: {plural(held, thing)} {words}"] if held else []


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
