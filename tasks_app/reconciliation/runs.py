"""Reconciliation runs: on the worker cluster's start, on schedule, by hand; one at a time.

A run is a row that was asked for; whoever takes it compares with all sellers at once, does what needs no
person, and keeps the report. A seller whose word cannot be handled is reported as unread, and operators are
told (tasks_app.troubles); the others are compared all the same. The database holds a lock for a run: a killed
worker's connection gives that back, and the next run finds the killed one lost.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import (
    IntegrityError,
    close_old_connections,
    transaction,
)

from tasks_app import clock
from tasks_app.lifecycle.transitions import Who
from tasks_app.operations import placeholders
from tasks_app.operations.comparison import Reader, Reading, Verdict
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import on_settled
from tasks_app.people.actors import SYSTEM, actor_key
from tasks_app.reconciliation.findings import Recorded, reading_record
from tasks_app.reconciliation.models import ReconciliationRun
from tasks_app.reconciliation.waiting import Waiting
from tasks_app.sellers.models import Seller
from tasks_app.session_locks import session_lock, session_unlock
from tasks_app.troubles.rows import connection_lost, each_row, put_back
from tasks_app.troubles.works import work_on
from tasks_app.waking import wake_workers

log = structlog.get_logger(__name__)
WORK = "tasks_app.reconciliation.runs.runs_work"
_UNHANDLED = "What it says could not be handled: nothing of it was compared"
ORDER = list(Verdict)
State, Trigger = ReconciliationRun.State, ReconciliationRun.Trigger
_WOKEN = timedelta(seconds=1)  # a wake-up that was lost costs the next look after it
_LOCK = 0xF117_4EC0
_MOST_KEPT = 500  # findings per seller and kind in a kept report
_readers: list[Reader] = []


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One seller after a run: what was read of it, kind by kind, and what was recorded of that."""

    seller: Seller
    kinds: dict[str, tuple[Reading, list[Recorded]]]

    def as_dict(self) -> dict[str, Any]:
        """For people: what could not be read, notes, and the findings of each kind (`tasks`, …)."""
        kept = self.as_kept(whole=True)
        rows = {name: [_without_team(row) for row in kept[name]] for name in self._names()}
        notes = dict.fromkeys([*kept["notes"], *(one["note"] for one in kept.pop("unnamed"))])
        unread = dict.fromkeys(one["why"] for one in kept["unread"])
        return {**kept, "unread": list(unread), "notes": list(notes), **rows}

    def as_kept(self, *, whole: bool = False) -> dict[str, Any]:
        """For the run's row: with the teams that each part is for, and without what is in step unless it is
        `whole`."""
        readings = [reading for reading, _ in self.kinds.values()]
        unnamed = [pair for reading in readings for pair in reading.unnamed]
        return {
            "seller": self.seller.slug,
            "unread": [_unread(reading) for reading in readings if reading.unread],
            "notes": [note for reading in readings for note in reading.notes],
            "unnamed": [{"note": note, "team": str(team or "")} for note, team in unnamed],
            **{f"{kind}s": _rows(recorded, whole=whole) for kind, (_, recorded) in self.kinds.items()},
        }

    def _names(self) -> list[str]:
        return [f"{kind}s" for kind in self.kinds]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a run came to."""

    run: ReconciliationRun
    sellers: list[Compared]

    def recorded(self) -> list[Recorded]:
        """Every finding."""
        return [one for seller in self.sellers for _, rows in seller.kinds.values() for one in rows]

    def differing(self) -> list[Recorded]:
        """Those that differ; what a person accepted as it is does not."""
        return [one for one in self.recorded() if one.finding.differs and not _accepted(one)]

    def unattended(self) -> list[Recorded]:
        """Those that differ, and that neither a service nor a person has."""
        left = [one for one in self.differing() if not one.handled]
        waiting = Waiting(one.row for one in left if one.row is not None)
        return [one for one in left if one.row is None or not waiting.words(one.row)]

    def counts(self) -> dict[str, int]:
        """Verdict to number."""
        found = Counter(one.finding.verdict for one in self.recorded())
        return {verdict.value: found[verdict] for verdict in ORDER}

    def unread(self) -> list[str]:
        """Names of sellers that could not be read."""
        return [s.seller.name for s in self.sellers if any(reading.unread for reading, _ in s.kinds.values())]


class RunsAlreadyError(Exception):
    """Another reconciliation is running; the text says since when."""


def reader_register(reader: Reader) -> None:
    """Compare what `reader` reads in every run."""
    if all(known.kind != reader.kind for known in _readers):
        _readers.append(reader)
        _work(reader)


def register() -> None:
    """Called when the application starts."""
    reader_register(placeholders.READER)
    on_settled(_settled)


def _settled(operation: Operation) -> None:
    if placeholders.lost_task_ended(operation):
        run_ask(trigger=Trigger.ORPHAN, actor=SYSTEM, only=operation.seller)


def run_ask(*, trigger: str, actor: Who, only: Seller | None = None) -> ReconciliationRun:
    """Ask for a run. One that waits already is the one: it compares with every seller that was asked for."""
    wanted = ReconciliationRun(trigger=trigger, asked_by=actor_key(actor), asked_at=clock.now(), only=only)
    try:
        with transaction.atomic():
            wanted.save(force_insert=True)
    except IntegrityError:
        waiting = ReconciliationRun.objects.filter(state=State.ASKED)
        if only is None:
            waiting.update(only=None)
        else:
            waiting.exclude(only=only).update(only=None)
        found = waiting.first()
        # None: a worker took it meanwhile; that one has not compared what changed since.
        return found or run_ask(trigger=trigger, actor=actor, only=only)
    return wanted


def runs_wake() -> int:
    """A chore of the sweep: ask for a run when the last is old, and wake a worker for one that waits.
    Answers 1 when it woke one."""
    now = clock.now()
    asked = ReconciliationRun.objects.filter(state=State.ASKED).first() or _by_schedule()
    if asked is None or (asked.woken_at is not None and asked.woken_at > now - _WOKEN):
        return 0
    ReconciliationRun.objects.filter(pk=asked.pk).update(woken_at=now)
    return wake_workers(WORK)


def runs_work() -> int:
    """Take the run that waits and perform it. A task of the queue. Answers how many differ."""
    close_old_connections()
    asked = ReconciliationRun.objects.filter(state=State.ASKED).select_related("only").first()
    if asked is None:
        return 0
    try:
        report = run_perform(run=asked, limit_s=settings.RECONCILE_LIMIT_S)
    except RunsAlreadyError:
        return 0
    return report.run.differ


def run_perform(*, run: ReconciliationRun, limit_s: float) -> Report:
    """Compare with the sellers now; no transaction is open while they are asked, in all for `limit_s`.

    Raises RunsAlreadyError: another run has not ended, or somebody took this one.
    """
    if not session_lock(_LOCK):
        raise RunsAlreadyError("A reconciliation is running.")
    try:
        return _perform(run, limit_s)
    finally:
        session_unlock(_LOCK)


def _perform(run: ReconciliationRun, limit_s: float) -> Report:
    _begin(run)
    sellers = [run.only] if run.only else list(Seller.objects.filter(active=True))
    try:
        read = [(reader, _read(reader, sellers, limit_s / max(len(_readers), 1))) for reader in _readers]
        report = Report(run=run, sellers=_recorded(run, sellers, read))
    except Exception as error:  # whatever it was stands in the run's report
        # Not its words: they may quote rows of teams whose people do not see each other's.
        _end(run, error=f"{type(error).__name__}: the log has the rest")
        raise
    run.differ, run.counts = len(report.differing()), report.counts()
    run.report = [seller.as_kept() for seller in report.sellers]
    _end(run)
    return report


def _by_schedule() -> ReconciliationRun | None:
    latest = ReconciliationRun.objects.filter(only__isnull=True).order_by("-id").first()
    every = timedelta(seconds=settings.RECONCILE_EVERY_S)
    if latest is not None and latest.asked_at + every > clock.now():
        return None
    return run_ask(trigger=Trigger.SCHEDULE, actor=SYSTEM)


def _begin(run: ReconciliationRun) -> None:
    """Take the run that was asked for. Who holds the lock knows that nobody else is running."""
    now = clock.now()
    ReconciliationRun.objects.filter(state=State.RUNNING).update(
        state=State.LOST, ended_at=now, error="Its worker was killed before it had ended"
    )
    asked = ReconciliationRun.objects.filter(pk=run.pk, state=State.ASKED)
    if not asked.update(state=State.RUNNING, started_at=now):
        raise RunsAlreadyError("Somebody else has taken this reconciliation.")
    run.refresh_from_db()


def _end(run: ReconciliationRun, *, error: str = "") -> None:
    """A run that was taken for lost meanwhile stays so; its findings hold."""
    ReconciliationRun.objects.filter(pk=run.pk, state=State.RUNNING).update(
        state=State.ENDED,
        ended_at=clock.now(),
        differ=run.differ,
        counts=run.counts,
        report=run.report,
        error=error,
    )
    run.refresh_from_db()


def _read(reader: Reader, sellers: Sequence[Seller], limit_s: float) -> list[Reading]:
    """What each seller says, all asked at once; where one's word cannot be read, each by itself. Those
    whose word cannot be read are left out."""
    try:
        return reader.read(sellers, limit_s)
    except Exception as error:  # whoever's it was, the others are read all the same
        if connection_lost():
            raise
        log.warning("not_read_together", kind=reader.kind, sellers=len(sellers), error=str(error))
    found: list[Reading] = []
    for seller in sellers:
        try:
            found += reader.read([seller], limit_s / len(sellers))
        except Exception as error:  # as above
            if connection_lost():
                raise
            put_back(_work(reader), seller.pk, error)
    return found


def _recorded(
    run: ReconciliationRun, sellers: Sequence[Seller], read: list[tuple[Reader, list[Reading]]]
) -> list[Compared]:
    compared = [Compared(seller=seller, kinds={}) for seller in sellers]
    for reader, readings in read:
        told = {reading.seller.pk: reading for reading in readings}
        done = _kept(run, reader, told)
        for one in compared:
            pk, nothing = one.seller.pk, Reading(seller=one.seller, unread=_UNHANDLED, complete=False)
            one.kinds[reader.kind] = (told[pk], done[pk]) if pk in done else (nothing, [])
    return compared


def _kept(
    run: ReconciliationRun, reader: Reader, told: Mapping[uuid.UUID, Reading]
) -> dict[uuid.UUID, list[Recorded]]:
    """What was recorded of each seller's reading; nothing of one that cannot be."""
    done: dict[uuid.UUID, list[Recorded]] = {}

    def record(seller_id: uuid.UUID) -> int:
        done[seller_id] = reading_record(run=run, reader=reader, reading=told[seller_id])
        return 1

    each_row(_work(reader), told, record, commits=True)
    return done


def _work(reader: Reader) -> str:
    """What comparing one kind of thing is called: what troubles one kind is over once that was recorded."""
    return work_on(f"{reader.kind}s_reconciled", "seller")


def _rows(recorded: list[Recorded], *, whole: bool) -> list[dict[str, str]]:
    shown = [one for one in recorded if whole or one.finding.verdict != Verdict.IN_STEP]
    shown.sort(key=lambda one: (ORDER.index(one.finding.verdict), one.finding.here, one.finding.theirs))
    told = shown if whole else shown[:_MOST_KEPT]
    waiting = Waiting(one.row for one in told if one.row is not None)
    return [
        {
            **one.finding.as_dict(),
            "handled": one.handled,
            "waits_on": waiting.words(one.row) if one.row is not None else "",
            "team": str(one.finding.team_id or ""),
            "finding": str(one.row.pk) if one.row is not None else "",
        }
        for one in told
    ]


def _unread(reading: Reading) -> dict[str, Any]:
    """Why it could not be read: `why` for `teams`, `ours` for everybody."""
    return {
        "why": reading.unread,
        "ours": reading.unread_ours or reading.unread,
        "teams": sorted(str(team or "") for team in reading.unread_teams),
    }


def _without_team(row: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in row.items() if name != "team"}


def _accepted(one: Recorded) -> bool:
    return one.row is not None and one.row.resolution == one.row.Resolution.SEEN
