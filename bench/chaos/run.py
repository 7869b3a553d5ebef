"""The run itself: deals in, kills among them, until nothing moves any more; then the verdict."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from enum import Enum

from django.db import InterfaceError, OperationalError, connections

from bench.chaos import judge, load, report
from bench.chaos.drive import Desk
from bench.chaos.kills import Killer
from bench.chaos.plan import SELLERS, Script
from bench.chaos.stage import Stage, StageError
from tasks_app.adcp.types import DiscoveryError

LIMIT_S = 13 * 60  # of the run's 15 minutes; the rest is for starting and judging
_PATIENCE_S = 180  # without any purchase getting done
_TICK_S = 0.2
_TOLD_EVERY_S = 15
_WINDOW = 120
_STOPPED_S = 6.0  # how long the kill switch is on before a day passes, and after
_DEADLINES_FROM = 0.4  # of all purchases: so many are done when the first deadlines come
_READ_AGAIN = 10


def play(stage: Stage, scripts: Sequence[Script], *, seed: int, rounds: int) -> int:
    """The exit code: 0 when every invariant holds. Raises StageError when a seller cannot be asked."""
    desk = Desk(scripts, window=_WINDOW)
    try:
        desk.prepare(stage)
    except DiscoveryError as error:
        raise StageError(f"a seller could not be asked what it can do: {error}") from error
    killer = Killer(stage, seed=seed, operations=len(scripts), rounds=rounds)
    books = {name: stage.books(name) for name in SELLERS}

    def gather() -> list[judge.Purchase]:
        return judge.gather(scripts, books, approver=desk.approver)

    watch = _Watch(stage, desk, killer, len(scripts), gather)
    watch.until_rest()
    found = gather()
    borne = load.load(books, held=watch.held)  # before anything is read beside the run
    rows = _differences(stage, found)
    told = report.summary(found, rows, killer.kills, borne, seed=seed)
    wrong = report.broken(told, found, borne, trail_holds=judge.trail_holds())
    for line in (*report.trails(found, rows, books), "", *report.table(found)):
        print(line)
    print("killed: " + ", ".join(f"{n} {kind}" for kind, n in sorted(killer.kills.items())))
    for row in rows:
        print(f"difference: {json.dumps(row)}")
    for words in wrong:
        print(f"BROKEN: {words}")
    print(json.dumps(told), flush=True)
    return 1 if wrong else 0


class _Stop(Enum):
    """How far the stop is. `LATE`: the sweep looks at what is held and past its time."""

    BEFORE, ON, LATE, OVER = range(4)


class _Watch:
    """Puts deals forward and kills, until everything is at rest or the time is over."""

    def __init__(
        self,
        stage: Stage,
        desk: Desk,
        killer: Killer,
        operations: int,
        gather: Callable[[], list[judge.Purchase]],
    ) -> None:
        self._stage, self._desk, self._killer = stage, desk, killer
        self._operations, self._gather = operations, gather
        self._began = self._moved_at = time.monotonic()
        self._tell_at = 0.0
        self._done = 0
        self._stop, self._stopped_at = _Stop.BEFORE, 0.0
        self.held = 0  # purchases that the switch held when a day had passed
        # In the middle, or while there is still something to hold.
        self._wanted = report.fewest_held(operations)
        self._stop_from = max(0, min(operations // 2, operations - _WINDOW - self._wanted))

    def until_rest(self) -> None:
        while time.monotonic() < min(self._began + LIMIT_S, self._moved_at + _PATIENCE_S):
            self._stage.group.wait(timeout_s=_TICK_S)
            try:
                self._step()
                if self._at_rest():
                    return
            except (OperationalError, InterfaceError):
                connections.close_all()  # the database was killed: what was asked is asked again
            self._kill()
            self._tell()
        self._say("the time is over: what is not done now is judged as it stands")

    def _step(self) -> None:
        done = self._desk.done()
        self._desk.step(done)
        if done != self._done:
            self._done, self._moved_at = done, time.monotonic()
        self._stop_for_a_day(done)
        if self._stop in (_Stop.BEFORE, _Stop.OVER) and (looked_at := self._desk.flood()):
            self._say(f"{looked_at} tasks of one seller are looked at")
        if done >= _DEADLINES_FROM * self._operations:
            self._desk.time_passes()

    def _stop_for_a_day(self, done: int) -> None:
        """The kill switch in the middle of the run: on, a day, off. A step that failed is made again."""
        if self._stop is _Stop.OVER or done < self._stop_from:
            return
        if self._stop is _Stop.BEFORE:
            self._desk.stop(on=True)
            self._stop, self._stopped_at = _Stop.ON, time.monotonic()
            self._say("the kill switch is on")
        elif time.monotonic() < self._stopped_at + _STOPPED_S or not self._enough_held():
            return
        elif self._stop is _Stop.ON:
            self.held = self._desk.day_passes()
            self._stop, self._stopped_at = _Stop.LATE, time.monotonic()
            self._say(f"a day passes; {self.held} purchases are held")
        else:
            self._desk.stop(on=False)
            self._stop, self._moved_at = _Stop.OVER, time.monotonic()
            self._say("the kill switch is off")

    def _enough_held(self) -> bool:
        return self._desk.held() >= self._wanted or self._desk.all_stand()

    def _at_rest(self) -> bool:
        """Everybody was killed who was to be, nothing moves by itself, and what follows has followed."""
        if not (self._killer.over and self._desk.at_rest(self._done) and self._sellers_at_rest()):
            return False
        return not any(purchase.problems() for purchase in self._gather())

    def _kill(self) -> None:
        killed = self._killer.step(self._done)
        if killed:
            self._say(f"killed: {killed}")

    def _tell(self) -> None:
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + _TOLD_EVERY_S
            self._say(f"{self._done} of {self._operations} done")

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", flush=True)

    def _sellers_at_rest(self) -> bool:
        """No task of theirs ends any more by itself, no webhook is still to be delivered."""
        due = "select 1 from {} where due_at is not null limit 1"
        return not any(
            judge.seller_rows(self._stage.books(name), due.format(table))
            for name in SELLERS
            for table in ("tasks", "posts")
        )


def _differences(stage: Stage, found: Sequence[judge.Purchase]) -> list[dict[str, str]]:
    """What reconcile finds; asked again while a seller that was killed is coming back."""
    rows = judge.differences(found)
    for _ in range(_READ_AGAIN):
        if not any(row["verdict"] == "unread" for row in rows):
            break
        stage.group.wait(timeout_s=1.0)
        rows = judge.differences(found)
    return rows
