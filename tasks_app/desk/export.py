"""Lists to take away as CSV: what is on screen, with the same filter, columns and scope."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.utils.html import strip_tags
from django.utils.safestring import SafeString

_AT_ONCE = 500  # rows read and named together
# A cell that a spreadsheet would take for a formula, full-width signs among them.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_CURRENCY = re.compile(r'<span class="cur">[^<]*</span>')
_SECOND_LINE = re.compile(r"<small\b|<br\b|<div\b|</p>|</li>", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Export:
    """A list as CSV. `cells` answers what each of some rows (at most 500) shows, a text for each of
    `columns`. `joined` puts among the rows what stands in the same list and in no table of theirs."""

    columns: Sequence[str]
    rows: QuerySet[Any]
    cells: Callable[[list[Any]], Iterable[Sequence[str]]]
    joined: Callable[[Iterator[Any]], Iterator[Any]] = iter


def export_lines(export: Export, *, most: int) -> Iterator[str]:
    """The CSV, some hundred rows at a time, read by a cursor of the server. After `most` rows a last one says
    that there are more."""
    write: Callable[[Iterable[str]], str] = csv.writer(Echo()).writerow
    yield write(map(csv_cell, export.columns))
    found = export.joined(export.rows[: most + 1].iterator(chunk_size=_AT_ONCE))
    left = islice(found, most + 1)
    told = 0
    while some := list(islice(left, _AT_ONCE)):
        shown = some[: most - told]
        told += len(shown)
        lines = [write(map(csv_cell, row)) for row in export.cells(shown)] if shown else []
        if len(shown) < len(some):
            lines.append(write([f"Only the first {most:,} rows are here. Narrow the list to have the rest."]))
        yield "".join(lines)


def plain(shown: object) -> str:
    """What a cell shows: of markup the words, a second line after a comma; a text as it is, angle brackets
    and all; nothing for a dash."""
    words = _words(shown) if isinstance(shown, SafeString) else str(shown)
    text = " ".join(words.split()).removeprefix(", ")
    return "" if text in ("–", "-", "None") else text


def _words(markup: str) -> str:
    marked = _SECOND_LINE.sub(lambda found: f", {found[0]}", _CURRENCY.sub(r"\g<0> ", markup))
    return html.unescape(strip_tags(marked))


def csv_cell(value: object) -> str:
    """A value as a cell: text that a spreadsheet would take for a formula begins with an apostrophe."""
    text = str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


async def beside(lines: Iterator[str]) -> AsyncIterator[str]:
    """Lines for the event loop, made beside it."""
    following = sync_to_async(lambda: next(lines, ""))
    while line := await following():
        yield line


class Echo:
    """A file for csv.writer that hands its line back."""

    def write(self, line: str) -> str:
        return line
