"""The pages of a list that a seller answers: asked for one after the other until it ends, within bounds.

Source: AdCP core/pagination-response.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tasks_app.adcp.errors import recovery_for
from tasks_app.adcp.tasks import NoCursorError, cursor_of, listed_of, told_beside
from tasks_app.adcp.types import WireError
from tasks_app.adcp.values import text_of
from tasks_app.operations.corrections import sellers_words
from tasks_app.operations.models import Operation

MOST_PAGES = 20
PRODUCTS = "products"
_MOST_WORDS = 500
_PRODUCT_SCOPES = ("products", "wholesale_feed")


@dataclass(frozen=True, kw_only=True)
class Pages:
    """The answers that were read, in their order, each with a list named `member`. `waiting`: one that is
    still to come. `unread`: why there is more that nobody read, empty where the list is whole."""

    member: str
    read: tuple[Operation, ...]
    waiting: Operation | None = None
    unread: str = ""

    @property
    def items(self) -> list[Any]:
        """What they list, of all pages."""
        return [item for page in self.read for item in listed_in(page, self.member)]


def listed_in(page: Operation, member: str) -> list[Any]:
    """What one answer lists under this name; nothing where it is no list."""
    return listed_of(page.status, page.result, member) or []


def _whole(_page: Operation) -> bool:
    return False


def pages_read(
    first: Operation,
    ask: Callable[[str, int], Operation],
    *,
    member: str,
    is_enough: Callable[[Operation], bool] = _whole,
) -> Pages:
    """All pages of a list that `first` begins, or those up to the first that `is_enough`; `ask(cursor,
    number)` is the operation of a further one."""
    read: list[Operation] = []
    cursors: set[str] = set()
    page, lacking = first, ""
    while True:
        if page.published_at is None:
            return Pages(member=member, read=tuple(read), waiting=page)
        if listed_of(page.status, page.result, member) is None:
            why = sellers_words(page) or f"it answered no {member} ({page.status})"
            return Pages(member=member, read=tuple(read), unread=f"page {len(read) + 1} was not read: {why}")
        read.append(page)
        if is_enough(page):
            return Pages(member=member, read=tuple(read))
        cursor, unread = _next(page, cursors, len(read))
        lacking = lacking or _lacking(page, member, len(read))
        if cursor is None:
            return Pages(member=member, read=tuple(read), unread=unread or lacking)
        cursors.add(cursor)
        page = ask(cursor, len(read) + 1)


def _lacking(page: Operation, member: str, number: int) -> str:
    """Why a page may not list all that it should: an error stands beside its list. Beside products that may
    be a warning about them, unless it is one that passes, or the page has none.

    Source: AdCP media-buy/get-products `errors`, `incomplete`.
    """
    partial = _incomplete(page) if member == PRODUCTS else ""
    if partial:
        return f"page {number} is not the whole of it: {partial}"
    may_warn = member == PRODUCTS and bool(listed_in(page, member))
    beside = told_beside(page.result, counts=_passes if may_warn else _is_any)
    return f"page {number} came with an error: {beside.message or beside.code}" if beside else ""


def _passes(error: WireError) -> bool:
    return "transient" in (error.recovery, recovery_for(error.code))


def _is_any(_error: WireError) -> bool:
    return True


def _incomplete(page: Operation) -> str:
    """What of its products a seller declares not to have searched, in its words."""
    told = (page.result or {}).get("incomplete")
    scopes = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    said = [text_of(one.get("description")) or "" for one in scopes if one.get("scope") in _PRODUCT_SCOPES]
    return said[0][:_MOST_WORDS] or "its seller did not search all it has" if said else ""


def _next(page: Operation, cursors: set[str], read: int) -> tuple[str | None, str]:
    """Where the next page begins; None at the end, or with why what follows is not read."""
    try:
        cursor = cursor_of(page.result)
    except NoCursorError as error:
        return None, str(error)
    if cursor is None:
        return None, ""
    if cursor in cursors:
        return None, "its pages go round in a circle"
    if read == MOST_PAGES:
        return None, f"it lists more than {MOST_PAGES} pages"
    return cursor, ""
