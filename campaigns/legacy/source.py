"""The reference buyer's SQLite file, read as a stranger's: copied first, then opened read-only.

Source: IABTechLab/buyer-agent, `storage/schema.py` (schema versions 1 to 5). The copy takes what is still in
the write-ahead log with it; the file itself, its log and its directory are never written to.
"""

from __future__ import annotations

import hashlib
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# Bytes of one row, and of one value.
MAX_ROW = 1_000_000
_MAGIC = b"SQLite format 3\0"
_BESIDE = ("", "-wal", "-journal")
_CHUNK = 1 << 20


class UnreadableSourceError(Exception):
    """The file is no SQLite database, is broken, or is being written to."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: `values` by lower-case column name, bytes where a text is not UTF-8; or why it is unread."""

    table: str
    rowid: int
    values: dict[str, Any] = field(default_factory=dict)
    unread: str = ""


class Source:
    """An opened copy. `digest`: SHA-256 (hex) of the file and what lay beside it."""

    def __init__(self, connection: sqlite3.Connection, digest: str) -> None:
        self._connection = connection
        self.digest = digest
        self.tables = self._tables()

    def count(self, table: str) -> int:
        """How many rows a table has; 0 for one that is not there. Raises UnreadableSourceError."""
        if table not in self.tables:
            return 0
        sql = f"select count(*) from {_quoted(table)}"  # noqa: S608
        with _understood():
            return int(self._connection.execute(sql).fetchone()[0])

    def rows(self, table: str) -> Iterator[Row]:
        """A table's rows as written, none of one that is not there. Raises UnreadableSourceError."""
        if table not in self.tables:
            return
        sql = f"select rowid from {_quoted(table)} order by 1"  # noqa: S608
        with _understood():
            ids = [rowid for (rowid,) in self._connection.execute(sql)]
        if not all(isinstance(rowid, int) for rowid in ids):
            raise UnreadableSourceError(f"the table {table} has no row ids")
        for rowid in ids:
            yield self._row(table, rowid)

    def one(self, table: str, rowid: int, column: str) -> Any:
        """One column of a row that is too large to be read whole; None where that cannot be read either."""
        sql = f"select {_quoted(column)} from {_quoted(table)} where rowid = ?"  # noqa: S608
        with _understood():
            try:
                found = self._connection.execute(sql, [rowid]).fetchone()
            except sqlite3.DataError:
                return None
        return found[0] if found else None

    def _row(self, table: str, rowid: int) -> Row:
        sql = f"select * from {_quoted(table)} where rowid = ?"  # noqa: S608
        with _understood():
            try:
                cursor = self._connection.execute(sql, [rowid])
                found = cursor.fetchone()
            except sqlite3.DataError:
                return Row(table=table, rowid=rowid, unread=f"is larger than {MAX_ROW} bytes")
            names = [str(column[0]).lower() for column in cursor.description]
        return Row(table=table, rowid=rowid, values=dict(zip(names, found, strict=True)))

    def _tables(self) -> frozenset[str]:
        """Ordinary tables: a view or a virtual table would run somebody's code."""
        with _understood():
            found = self._connection.execute("select name, sql from sqlite_master where type = 'table'")
            return frozenset(
                name
                for name, sql in found
                if isinstance(name, str)
                and isinstance(sql, str)
                and not sql.upper().startswith("CREATE VIRTUAL")
            )


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """The database at `path`. Raises UnreadableSourceError, also while reading."""
    with TemporaryDirectory(prefix="flightdeck-import-") as folder:
        copy = Path(folder) / "source.db"
        try:
            digest = _copied(path, copy)
        except OSError as error:
            raise UnreadableSourceError(f"{path} cannot be read: {error.strerror or error}") from error
        with _understood(), closing(sqlite3.connect(copy)) as connection:
            connection.text_factory = _text
            connection.execute("pragma trusted_schema = off")
            connection.execute("pragma query_only = on")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ROW)
            yield Source(connection, digest)


def _copied(path: Path, copy: Path) -> str:
    if not stat.S_ISREG(path.stat().st_mode):
        raise UnreadableSourceError(f"{path} is no file")
    before, digest = _stamps(path), hashlib.sha256()
    for ending in _BESIDE:
        part = Path(f"{path}{ending}")
        if not part.is_file():
            continue
        with part.open("rb") as read, Path(f"{copy}{ending}").open("wb") as write:
            while chunk := read.read(_CHUNK):
                digest.update(chunk)
                write.write(chunk)
    if _stamps(path) != before:
        raise UnreadableSourceError(f"{path} is being written to: stop the buyer first")
    with copy.open("rb") as read:
        if read.read(len(_MAGIC)) != _MAGIC:
            raise UnreadableSourceError(f"{path} is no SQLite database")
    return digest.hexdigest()


def _stamps(path: Path) -> list[tuple[int, int] | None]:
    parts = [Path(f"{path}{ending}") for ending in _BESIDE]
    return [(part.stat().st_mtime_ns, part.stat().st_size) if part.exists() else None for part in parts]


@contextmanager
def _understood() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise UnreadableSourceError(f"the database cannot be read: {error}") from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
