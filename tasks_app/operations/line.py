"""Asking one seller to compare with it: the wire part of reconciliation and of mirrors, without the database.

Whatever a seller lists is bounded: pages, rows and time. Source: AdCP core/pagination-response.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.conf import settings

from tasks_app.adcp import client
from tasks_app.adcp.tasks import next_cursor
from tasks_app.adcp.types import Endpoint, Seen
from tasks_app.sellers.models import Account, Seller

T = TypeVar("T")
_NOT_THERE = frozenset({"REFERENCE_NOT_FOUND", "TASK_NOT_FOUND", "MEDIA_BUY_NOT_FOUND", "NOT_FOUND"})
PAGE_SIZE = 100
_MAX_PAGES = 500
_MAX_ROWS = PAGE_SIZE * _MAX_PAGES


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

    async def rows(
        self, tool: str, arguments: Mapping[str, Any], *, listed: str
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """The objects in the list `listed`, page by page: no more than one page is held.

        Raises UnreadableError: no list, pages in a circle, or more of them than anybody has.
        """
        asked_with: set[str] = set()
        cursor: str | None = None
        rows = 0
        for _ in range(_MAX_PAGES):
            more = {"cursor": cursor} if cursor else {}
            page = await self.ask(tool, {**arguments, "pagination": {"max_results": PAGE_SIZE, **more}})
            found = (page.payload or {}).get(listed)
            if page.error is not None or not isinstance(found, list):
                raise UnreadableError(f"{tool}: {why(page)}", unknown_there=is_not_there(page))
            rows += len(found)
            if rows > _MAX_ROWS:
                raise UnreadableError(f"{tool}: more than {_MAX_ROWS} rows")
            yield [row for row in found if isinstance(row, dict)]
            cursor = next_cursor(page)
            if cursor is None:
                return
            if cursor in asked_with:
                raise UnreadableError(f"{tool}: its pages go round in a circle")
            asked_with.add(cursor)
        raise UnreadableError(f"{tool}: more than {_MAX_PAGES} pages")


def line_to(seller: Seller) -> Line:
    """The line to a seller, with what it may echo and nobody may see."""
    endpoint = seller.endpoint(timeout_s=settings.CALL_TIMEOUT_S)
    return Line(endpoint=endpoint, secrets=tuple(seller.known_secrets))


async def within(seconds: float, work: Awaitable[T]) -> T:
    """What `work` answers. Raises UnreadableError when it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise UnreadableError(f"its answers took longer than {seconds:g} s") from None


def accounts_by_reference(seller: Seller) -> dict[str, list[Account]]:
    """Our accounts with a seller by their AdCP reference (canonical JSON), in the order they were made."""
    found: dict[str, list[Account]] = {}
    kept = Account.objects.filter(seller=seller).select_related("advertiser__team").order_by("id")
    for account in kept:
        if account.reference:
            found.setdefault(json.dumps(account.reference, sort_keys=True), []).append(account)
    return found


def why(seen: Seen) -> str:
    """Why an answer is of no use, in words."""
    if seen.error is not None:
        return seen.error.message or seen.error.code
    return seen.message or "the answer holds no list"


def is_not_there(seen: Seen) -> bool:
    """Whether the seller says that it does not know what was asked for."""
    return seen.kind == "answer" and seen.error is not None and seen.error.code in _NOT_THERE
