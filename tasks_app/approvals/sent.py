"""What leaves in the request that a question is about, leaf by leaf in words, as its evidence holds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tasks_app.adcp.values import parse_time
from tasks_app.approvals.models import Approval
from tasks_app.desk import text

# As people read an order: whose it is, when it runs, and its packages last.
_ORDER = ("brand", "account", "po number", "start time", "end time")


def sent_leaves(approval: Approval) -> list[tuple[str, str]]:
    """(field, value) of everything that is sent, a moment in the flight's zone beside how it is written;
    nothing where nothing is sent."""
    zone = str(approval.evidence.get("zone", ""))
    sent = sorted(leaves(approval.evidence.get("sent", {})), key=lambda leaf: _place(leaf[0][0]))
    return [(field_words(keys), _words(value, zone)) for keys, value in sent]


def _place(first: str) -> int:
    if first == "packages":
        return len(_ORDER) + 1
    return _ORDER.index(first) if first in _ORDER else len(_ORDER)


def field_words(keys: tuple[str, ...]) -> str:
    """The names that lead to a leaf, the place in a list beside the list's name."""
    words = "".join(f" {key}" if key.isdecimal() else f", {key}" for key in keys)
    return words.removeprefix(", ").replace("po number", "PO number")


def leaves(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value of a piece of JSON with the keys that lead to it; an element of a list by its place from 1,
    an empty object or list as itself."""
    inner: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        inner = ((str(key).replace("_", " "), one) for key, one in value.items())
    elif isinstance(value, list):
        inner = ((str(place), one) for place, one in enumerate(value, start=1))
    if keys and not (value and isinstance(value, dict | list)):
        yield keys, value
    for key, one in inner:
        yield from leaves(one, (*keys, key))


def _words(value: Any, zone: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    at = parse_time(value) if isinstance(value, str) else None
    if at is not None:
        return f"{text.moment(at, zone)} ({value})"
    return text.DASH if value in (None, "", {}, []) else str(value)
