"""One entity's trail to take away: CSV for people, JSON Lines for programs, the verification last.

JSON Lines holds every entry exactly as stored (metadata and changes byte for byte, `body` in base64), so that
its reader can hash for himself. In CSV a cell that a spreadsheet would take for a formula begins with an
apostrophe.
"""

from __future__ import annotations

import base64
import csv
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from tasks_app import clock
from tasks_app.desk.export import Echo, csv_cell
from tasks_app.lifecycle import stored
from tasks_app.lifecycle.chain import Chain, Verification
from tasks_app.lifecycle.stored import Row
from tasks_app.lifecycle.verify import read_entity

COLUMNS = (
    "seq", "at", "from_status", "to_status", "actor", "reason", "metadata", "changes", "trace_id",
    "format_version", "body", "prev_hash", "hash",
)  # fmt: skip
_JSON = ("metadata", "changes")


def trail_csv(entity_type: str, entity_id: uuid.UUID) -> Iterator[str]:
    """Lines: COLUMNS, a record an entry, and one that begins with "verification", its result as the reason.
    Raises KeyError for an unknown entity type."""
    write: Callable[[list[str]], str] = csv.writer(Echo()).writerow
    yield write(list(COLUMNS))
    for told in _told(entity_type, entity_id):
        if isinstance(told, Verification):
            result = "holds" if told.ok else f"does not hold: {told.problem}"
            ending = {"seq": "verification", "at": _now(), "reason": f"{told.entries} entries: {result}"}
            yield write([csv_cell(ending.get(name, "")) for name in COLUMNS])
        else:
            yield write([csv_cell(told[name]) for name in COLUMNS])


def trail_jsonl(entity_type: str, entity_id: uuid.UUID) -> Iterator[str]:
    """A JSON object an entry, with COLUMNS, and last {"verification": {…}}. Raises KeyError for an unknown
    entity type."""
    for told in _told(entity_type, entity_id):
        if isinstance(told, Verification):
            yield _verification_line(entity_type, entity_id, told)
        else:
            # What is JSON already goes in as it is: read and written again, its numbers would blur.
            pairs = (f"{json.dumps(n)}: {told[n] if n in _JSON else json.dumps(told[n])}" for n in COLUMNS)
            yield "{" + ", ".join(pairs) + "}\n"


def _told(entity_type: str, entity_id: uuid.UUID) -> Iterator[dict[str, Any] | Verification]:
    rows, status, version = read_entity(entity_type, entity_id)
    chain = Chain(entity_type, entity_id)
    for row in rows:
        chain.add(row)
        yield _entry(row)
    yield chain.verification(status, version)


def _entry(row: Row) -> dict[str, Any]:
    _, seq, frm, to, at, actor, reason, metadata, changes, trace, version, body, previous, digest = row[:14]
    return {
        "seq": seq,
        "at": _at(at),
        "from_status": frm.decode(),
        "to_status": to.decode(),
        "actor": actor.decode(),
        "reason": reason.decode(),
        "metadata": metadata[1:].decode(),
        "changes": changes[1:].decode(),
        "trace_id": trace.decode(),
        "format_version": version,
        "body": base64.b64encode(body).decode(),
        "prev_hash": previous.hex(),
        "hash": digest.hex(),
    }


def _at(sent: bytes) -> str:
    try:
        return stored.at_time(sent).isoformat(timespec="microseconds")
    except OverflowError:  # no moment of ours: somebody wrote "infinity"
        return "beyond the year 9999"


def _verification_line(entity_type: str, entity_id: uuid.UUID, told: Verification) -> str:
    result = {
        "entity_type": entity_type,
        "entity_id": str(entity_id),
        "ok": told.ok,
        "entries": told.entries,
        "problem": told.problem,
        "broken_at": told.broken_at,
        "head": told.head.hex(),
        "checked_at": _now(),
    }
    return json.dumps({"verification": result}) + "\n"


def _now() -> str:
    return clock.now().isoformat(timespec="microseconds")
