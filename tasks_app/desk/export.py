"""Lists to take away as CSV: what is on screen, with the same filter, columns and scope."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.html import strip_tags
from django.utils.safestring import SafeString

from tasks_app.desk import text

_ZONE = "Time zone"
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


@dataclass(frozen=True, kw_only=True)
class PlainColumns:
    """Columns of a CSV in place of one column of its list: their titles, and the cells of a row."""

    titles: tuple[str, ...]
    cells: Callable[[Any], tuple[str, ...]]


def amount_columns(
    title: str, amount_of: Callable[[Any], Decimal | None], *, with_currency: bool = False
) -> PlainColumns:
    """Return the amount of a row, with the row's currency in a column before it."""

    def cells(row: Any) -> tuple[str, ...]:
        shown = text.amount_plain(amount_of(row), row.currency)
        return (row.currency, shown) if with_currency else (shown,)

    return PlainColumns(titles=("Currency", title) if with_currency else (title,), cells=cells)


def _flight_cells(row: Any) -> tuple[str, ...]:
    if row.start_at is None or row.end_at is None:
        return ("", "", "")
    edges = {"start": row.start_at, "end": row.end_at}
    return (*(text.flight_edge(name, at, row.zone) for name, at in edges.items()), row.zone)


FLIGHT_COLUMNS = PlainColumns(titles=("First day", "Last day", "Flight zone"), cells=_flight_cells)


def export_lines(export: Export, *, most: int) -> Iterator[str]:
    """Return the CSV, some hundred rows at a time, read by a cursor of the server.

    The last column names the time zone of all moments. After `most` rows a line says that there are more.
    """
    write: Callable[[Iterable[str]], str] = csv.writer(Echo()).writerow
    yield write(map(csv_cell, [*export.columns, _ZONE]))
    found = export.joined(export.rows[: most + 1].iterator(chunk_size=_AT_ONCE))
    left = islice(found, most + 1)
    told = 0
    while some := list(islice(left, _AT_ONCE)):
        shown = some[: most - told]
        told += len(shown)
        zone = timezone.get_current_timezone_name()
        lines = [write(map(csv_cell, [*row, zone])) for row in export.cells(shown)] if shown else []
        if len(shown) < len(some):
            lines.append(write([f"Only the first {most:,} rows are here. Narrow the list to have the rest."]))
        yield "".join(lines)


def plain(shown: object) -> str:
    """What a cell shows: of markup the words, a second line after a comma; a text as it is, angle brackets
    and all; nothing for a dash."""
    words = _words(shown) if isinstance(shown, SafeString) else str(shown)
    cell = " ".join(words.split()).removeprefix(", ")
    return "" if cell in (text.DASH, "-", "None") else cell


def _words(markup: str) -> str:
    marked = _SECOND_LINE.sub(lambda found: f", {found[0]}", _CURRENCY.sub(r"\g<0> ", markup))
    return html.unescape(strip_tags(marked))


def csv_cell(value: object) -> str:
    """Return a value as a cell, with an apostrophe before what a spreadsheet would take for a formula."""
    cell = str(value)
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA) else cell


async def beside(lines: Iterator[str]) -> AsyncIterator[str]:
    """Lines for the event loop, made beside it."""
    following = sync_to_async(lambda: next(lines, ""))
    while line := await following():
        yield line


class Echo:
    """A file for csv.writer that hands its line back."""

    def write(self, line: str) -> str:
        return line
