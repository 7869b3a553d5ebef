"""Pages that change by themselves while they are open: how it is known that one would look different.

Who owns a page registers how its signs are found. One reader per process asks for those of all open pages at
once (`tasks_app/jobs/feed.py`); a browser whose page shows another sign asks for its live part anew.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from django.db import connection

HEADER = "X-Flightdeck-Stream"
RETRY = b"retry: 3000\n\n"
_PAGE = "page"
# Entity id to its sign: a text that differs wherever what its page shows was written; what is gone has none.
Signs = Callable[[Collection[uuid.UUID]], Mapping[uuid.UUID, str]]
IsLast = Callable[[str], bool]
_pages: dict[str, tuple[Signs, IsLast]] = {}


@dataclass(frozen=True, kw_only=True)
class Followed:
    """An open page, as Django tells what keeps its connection open: whose and by which proof
    (people/access.py), of which kind, about what, and the sign it was told of."""

    user: str
    proof: str
    page: str
    entity_id: uuid.UUID
    sign: str

    def header(self) -> str:
        return f"{_PAGE} {self.user} {self.proof} {self.page} {self.entity_id} {self.sign}"

    @classmethod
    def read(cls, header: str) -> Followed | None:
        """What `header` wrote; None for another's header."""
        if not header.startswith(f"{_PAGE} "):
            return None
        _, user, proof, page, entity_id, sign = header.split(" ", 5)
        return cls(user=user, proof=proof, page=page, entity_id=uuid.UUID(entity_id), sign=sign)


def stream_headers(continuation: str) -> dict[str, str]:
    """Return the headers of a stream's first answer. Proxies must neither compress nor buffer it.

    Args:
        continuation: `header()` of a `Followed` or a `Going`.
    """
    return {HEADER: continuation, "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


def _never(_sign: str) -> bool:
    return False


def page_register(page: str, signs: Signs, *, is_last: IsLast = _never) -> None:
    """Register a kind of page when the application starts.

    Args:
        page: Its name.
        signs: Reads the signs of many pages.
        is_last: Whether nothing follows a sign; its stream then ends.

    Raises:
        ValueError: The name is taken.
    """
    if _pages.setdefault(page, (signs, is_last)) != (signs, is_last):
        raise ValueError(f"the page {page} is registered already")


def sign_of(page: str, entity_id: uuid.UUID) -> str:
    """The sign of one page now; empty where there is no such entity. Raises KeyError for an unknown page."""
    return _pages[page][0]([entity_id]).get(entity_id, "")


def is_last_sign(page: str, sign: str) -> bool:
    """Return whether nothing follows this sign."""
    return _pages[page][1](sign)


def signs_of(wanted: Iterable[tuple[str, uuid.UUID]]) -> dict[tuple[str, uuid.UUID], str]:
    """The signs of many pages now: one query for each kind."""
    by_page: dict[str, set[uuid.UUID]] = {}
    for page, entity_id in wanted:
        by_page.setdefault(page, set()).add(entity_id)
    return {(page, pk): sign for page, ids in by_page.items() for pk, sign in _pages[page][0](ids).items()}


def signs_by(statement: str, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Signs by a statement of (entity id, sign) over an array of ids."""
    with connection.cursor() as cursor:
        cursor.execute(statement, [list(ids)])
        return dict(cursor.fetchall())


def sign_told(sign: str) -> bytes:
    """A sign as a server-sent event (WHATWG HTML, 9.2)."""
    return f"data: {sign}\n\n".encode()
