"""Row by row: what raises is put back for a growing while, counted, told to operators, and stops no other.

Every chore, batch and claim handles its rows through here. What is put back is left out of the next choice
(`held_back`), so that it takes no place in a batch either.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.lifecycle.transitions import exact
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.people.models import Team
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.people.scope import owner_of
from tasks_app.troubles.models import ENTITY, RowTrouble
from tasks_app.troubles.works import entity_worked_on

log = structlog.get_logger(__name__)
TOLD_AFTER = 3
_FIRST, _LONGEST = timedelta(seconds=5), timedelta(hours=1)
_DOUBLINGS = 12
_KEPT = timedelta(days=30)
_AT_ONCE = 1000
_ASKED_TO_END = (KeyboardInterrupt, SystemExit, GeneratorExit)
T = TypeVar("T")


def held_back(work: str) -> QuerySet[RowTrouble, Any]:
    """The ids of the rows that this work leaves out now, as a subquery."""
    return RowTrouble.objects.filter(work=work, again_at__gt=clock.now()).values("row")


def unhandled(work: str) -> QuerySet[RowTrouble, Any]:
    """The ids of the rows that this work put back and has not handled since, as a subquery."""
    return RowTrouble.objects.filter(work=work).values("row")


def due_again(work: str) -> QuerySet[RowTrouble, Any]:
    """The ids of the rows that this work put back and may try again now, the longest due first: of work that
    has no choice of its own, for what made its rows due happened once."""
    due = RowTrouble.objects.filter(work=work, again_at__lte=clock.now()).order_by("again_at")
    return due.values_list("row", flat=True)


def each_row(
    work: str, rows: Iterable[uuid.UUID], handle: Callable[[uuid.UUID], int], *, commits: bool = False
) -> int:
    """Handle each of `rows` in a savepoint of its own; answers the sum of what `handle` answers.

    One that raises, or is cancelled, is put back. `commits`: `handle` makes commits of its own. Raises what a
    lost connection raises and what ends the process, and nothing else.
    """
    done = 0
    for row in _begin(work, rows):
        error: BaseException | None = None
        try:
            with _savepoint(commits):
                done += handle(row.id)
        except BaseException as raised:  # whatever it was, the others are handled all the same
            error = raised
        _end(row, error)
    return done


async def side_by_side(
    work: str, rows: Iterable[uuid.UUID], handle: Callable[[uuid.UUID], Awaitable[int]]
) -> int:
    """`each_row` for work that waits for others meanwhile: all of `rows` at once, none waiting for another.
    `handle` makes commits of its own, and none is open while it waits. One that is cancelled from within (a
    seller's connection that breaks off) is put back like any other; whoever cancels this cancels all."""
    begun = await sync_to_async(_begin)(work, rows)

    async def one(row: _Row) -> int:
        done, error = 0, None
        try:
            done = await handle(row.id)
        except Exception as raised:  # whatever it was, the others are handled all the same
            error = raised
        await sync_to_async(_end)(row, error)
        return done

    # Within one, nothing tells whether it was cancelled by itself or with all.
    ended = await asyncio.gather(*(one(row) for row in begun), return_exceptions=True)
    for row, error in zip(begun, ended, strict=True):
        if isinstance(error, BaseException):
            await sync_to_async(_end)(row, error)
    return sum(done for done in ended if isinstance(done, int))


def together(
    work: str, rows: Iterable[uuid.UUID], handle: Callable[[Sequence[uuid.UUID]], list[T]]
) -> list[T]:
    """Handle `rows` in one savepoint where that goes well, else each in one of its own, as `each_row` does.
    Answers all that `handle` answered. Raises what `each_row` does."""
    ids = list(rows)
    if not ids:
        return []
    found: list[T] = []

    def one(row: uuid.UUID) -> int:
        found.extend(handle([row]))
        return 1

    if len(ids) > 1 and not _known(work, ids):
        try:
            with transaction.atomic():
                return handle(ids)
        except BaseException as error:  # one of them is wrong: each by itself tells which
            if _is_no_rows(error):
                raise
            log.warning("not_handled_together", work=work, rows=len(ids), error=str(error))
    each_row(work, ids, one)
    return found


def put_back(work: str, row: uuid.UUID, error: BaseException) -> None:
    """Leave a row out for a while, longer each time; operators are told once it has happened often."""
    log.error("row_put_back", work=work, row=str(row), exc_info=error)
    now = clock.now()
    with transaction.atomic():
        trouble = _held(work, row, now)
        trouble.times += 1
        trouble.error = exact(f"{type(error).__name__}: {error}")[:500]
        trouble.at = now
        trouble.again_at = now + min(_FIRST * 2 ** min(trouble.times - 1, _DOUBLINGS), _LONGEST)
        trouble.save(update_fields=["times", "error", "at", "again_at"])
        if trouble.times == TOLD_AFTER:
            _tell(trouble)


def _held(work: str, row: uuid.UUID, now: datetime) -> RowTrouble:
    """A row's trouble, held until the commit; begun where there is none. In one statement: another process
    may put the same row back meanwhile, or have handled it."""
    begun = RowTrouble(work=work, row=row, times=0, first_at=now, at=now, again_at=now)
    RowTrouble.objects.bulk_create(
        [begun], update_conflicts=True, unique_fields=["work", "row"], update_fields=["at"]
    )
    return RowTrouble.objects.get(work=work, row=row)


def troubled_until(work: str, row: uuid.UUID) -> datetime:
    """Until when a row that was put back is left out. Raises RowTrouble.DoesNotExist."""
    return RowTrouble.objects.values_list("again_at", flat=True).get(work=work, row=row)


def troubles_forget() -> int:
    """Remove what has not come again for long: its row was handled by other means, or is gone. Answers how
    many."""
    old = RowTrouble.objects.filter(at__lt=clock.now() - _KEPT).values("pk")[:_AT_ONCE]
    return RowTrouble.objects.filter(pk__in=list(old.values_list("pk", flat=True))).delete()[0]


def _tell(trouble: RowTrouble) -> None:
    """To those who may see the row; not the error, which may quote it: that stands on the trouble's page."""
    team, advertiser = owner_of(entity_worked_on(trouble.work), trouble.row)
    notify(
        kind="row_put_back",
        title=f"{trouble.work.replace('_', ' ').capitalize()}: one row cannot be handled",
        body=f"{trouble.row} has failed {trouble.times} times; its page says why. Everything else goes on. "
        "It is tried again, ever more seldom, at least every hour.",
        level=Notification.Level.WARNING,
        about=About(type=ENTITY, id=trouble.pk),
        team=Team.objects.filter(pk=team).first() if team else None,
        advertiser_id=advertiser,
        right=STEER_OPERATION,
        key=f"row_put_back:{trouble.pk}",
    )


@dataclass(frozen=True, kw_only=True)
class _Row:
    """One that is handled now. `known`: it was put back before."""

    work: str
    id: uuid.UUID
    known: bool


def _begin(work: str, rows: Iterable[uuid.UUID]) -> list[_Row]:
    ids = list(rows)
    known = _known(work, ids)
    return [_Row(work=work, id=one, known=one in known) for one in ids]


def _end(row: _Row, error: BaseException | None) -> None:
    """It was handled, or is put back for `error`, which is raised where it is no row's doing."""
    if error is not None:
        if _is_no_rows(error):
            raise error
        put_back(row.work, row.id, error)
    elif row.known:
        RowTrouble.objects.filter(work=row.work, row=row.id).delete()


def _is_no_rows(error: BaseException) -> bool:
    """Whether it is no row's doing: the connection is lost, or somebody asks the process to end."""
    asked = error.subgroup(_ASKED_TO_END) if isinstance(error, BaseExceptionGroup) else None
    return isinstance(error, _ASKED_TO_END) or asked is not None or connection_lost()


def _known(work: str, ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Those of them that were put back before."""
    if not ids:
        return set()
    return set(RowTrouble.objects.filter(work=work, row__in=ids).values_list("row", flat=True))


def _savepoint(commits: bool) -> AbstractContextManager[Any]:
    return nullcontext() if commits and not connection.in_atomic_block else transaction.atomic()


def connection_lost() -> bool:
    """Whether the connection is gone, which is no row's doing."""
    return not connection.is_usable()
