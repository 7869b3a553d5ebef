"""Which observations keep what was received, whole: a seller that says the same over and over, or ever other
things, fills no disk.

Kept always: that something was seen, when, with which status, and its digest. Whole: an operation's end, what
was missing of it, and a person's word. Of everything else a body goes where the one that was kept last says
exactly the same (but not where it contradicts or moves the operation), and where so much of the operation is
kept already: settings.OBSERVED_BYTES, as it lies there, at least 1 kB for each observation. What people are
asked to decide is whole in its Conflict, whatever was kept before.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection

from tasks_app.adcp.types import Seen
from tasks_app.operations.judging import Verdict
from tasks_app.operations.models import SETTLED, Channel, Observation

SAME = "the same words as before"
FULL = "its words are not kept: enough of this operation are"
_Outcome = Observation.Outcome
_LEAST = 1024
# Bytes of bodies in one statement: PostgreSQL refuses a message of a gigabyte, and with it all of a batch.
_STATEMENT = 16 * 2**20
# The latest alone are looked at: so many of the least size are the allowance.
_KEPT = """
select seen.operation, held.size, held.same
  from unnest(%(operations)s::uuid[], %(bodies)s::text[]) seen (operation, body)
 cross join lateral (
   with latest as (
     select id, body from tasks_app_observation
      where operation_id = seen.operation order by id desc limit %(most)s)
   select coalesce(sum(greatest(pg_column_size(body), %(least)s)), 0) as size,
          (select last.body = seen.body::jsonb from (
             select body from latest where body is not null order by id desc limit 1) last) as same
     from latest) held
"""


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """How much is kept of an operation, and whether the body kept last is the one seen now."""

    size: int
    same: bool


def body_of(seen: Seen) -> dict[str, Any] | None:
    """What was received, as an object; text in one of its own."""
    if isinstance(seen.raw, dict):
        return seen.raw
    return {"text": seen.raw} if seen.raw else None


def is_whole(channel: str, verdict: Verdict) -> bool:
    """Whether a body is kept whatever was before: a person's word, an end or its late result."""
    ends = verdict.outcome == _Outcome.APPLIED and (verdict.to is None or verdict.to in SETTLED)
    return ends or channel == Channel.HUMAN


def leave_out(observations: Sequence[Observation]) -> None:
    """Take the bodies that are not kept from observations of locked operations, one of each, that are about
    to be written, and note why. One query for all of them, or for as many as one statement should carry."""
    for part in _parts(_measurable(observations)):
        kept = _kept({one.operation_id: written for one, written in part})
        for one, written in part:
            _leave(one, _why_not(one, kept[one.operation_id], len(written)))


def insert(observations: Sequence[Observation]) -> None:
    """Insert observations with the bodies that they have: in one statement, or in as many as should carry
    them."""
    written = ((one, "" if one.body is None else json.dumps(one.body)) for one in observations)
    for part in _parts(written):
        Observation.objects.bulk_create([one for one, _ in part])


def _measurable(observations: Sequence[Observation]) -> Iterator[tuple[Observation, str]]:
    """Those that may be kept, with their bodies; what no allowance can hold is not sent to be measured."""
    for one in observations:
        if one.body is None:
            continue
        written = json.dumps(one.body)
        if len(written) > settings.OBSERVED_BYTES:
            _leave(one, FULL)
        else:
            yield one, written


def _leave(observation: Observation, why: str) -> None:
    """Take its body from it, where there is a reason."""
    if why:
        observation.body, observation.note = None, "; ".join(filter(None, (observation.note, why)))


def _parts(bodies: Iterable[tuple[Observation, str]]) -> Iterator[list[tuple[Observation, str]]]:
    """So many together as one statement should carry."""
    part: list[tuple[Observation, str]] = []
    room = _STATEMENT
    for one, written in bodies:
        size = _carried(written)
        if part and size > room:
            yield part
            part, room = [], _STATEMENT
        part.append((one, written))
        room -= size
    if part:
        yield part


def _carried(written: str) -> int:
    """The most that it takes in a statement: within an array, within a literal, each escaping anew."""
    return len(written) + 3 * written.count("\\") + 2 * written.count('"')


def _why_not(observation: Observation, kept: _Kept, size: int) -> str:
    """Why the body is not kept; "" where it is."""
    if kept.same and observation.outcome not in (_Outcome.CONFLICT, _Outcome.APPLIED):
        return SAME
    return FULL if kept.size + max(size, _LEAST) > settings.OBSERVED_BYTES else ""


def _kept(written: dict[uuid.UUID, str]) -> dict[uuid.UUID, _Kept]:
    """What is kept of each operation, by what was just received of it."""
    most = settings.OBSERVED_BYTES // _LEAST + 1
    told: dict[str, Any] = {"operations": list(written), "bodies": list(written.values())}
    with connection.cursor() as cursor:
        cursor.execute(_KEPT, {**told, "most": most, "least": _LEAST})
        return {pk: _Kept(size=int(size), same=bool(same)) for pk, size, same in cursor.fetchall()}
