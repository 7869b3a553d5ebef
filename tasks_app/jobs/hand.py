"""What a worker holds: steps it has claimed and not begun, those that run aside, and ends not yet committed.

A commit costs as much as many short steps do. So where pure actions take a fraction of a millisecond, or
mostly wait, several steps are claimed and completed in one; each still makes its own moves, with its own
entries and events (decisions 0034 and 0036). A worker that is killed leaves attempts that are made again, as
ever; a pure action has no effect to repeat.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import structlog
from django.conf import settings

from tasks_app.jobs import calls, claims, engine
from tasks_app.jobs.actions import Run
from tasks_app.jobs.aside import MANY, Aside, Returned
from tasks_app.jobs.attempts import attempt
from tasks_app.jobs.models import Step
from tasks_app.jobs.pace import is_short, is_waiting, taken_together
from tasks_app.troubles.rows import connection_lost

log = structlog.get_logger(__name__)
# That an end is kept from its commit by the steps behind it, or beside it: as long as a commit takes where
# that is longer, for on a busy machine many small ones cost most of the time.
_WAIT_S = 0.005
_MOST_WAIT_S = 0.05


class Hand:
    """Of one drain of `lanes`, as a context manager. `steps`: claimed and not begun, in their order."""

    def __init__(self, lanes: Sequence[str]) -> None:
        self.steps: deque[Step] = deque()
        self._aside = Aside()
        self._lanes = tuple(lanes)
        self._ended: list[calls.Ended] = []
        self._kept_at = self._ended_at = 0.0
        self._commit_s = 0.0  # what the latest one of several took

    def __enter__(self) -> Hand:
        return self

    def __exit__(self, *_: object) -> None:
        self._aside.close()

    def __bool__(self) -> bool:
        """Whether anything is left to run, or to hear of."""
        return bool(self.steps or self._aside)

    def next(self) -> Step | None:
        """The next step to run; None where nothing is left, or another worker has taken over all that was."""
        self._keep()
        if not self.steps:
            return None
        step = self.steps.popleft()
        if self._ended and not self._may_wait(step):
            self.settle(0)
        return step

    def run_aside(self, run: Run) -> bool:
        """Have the action run beside what else is held, where it mostly waits and is not alone."""
        if not is_waiting(run.step.spec["action"]) or not self:
            return False
        self._aside.begin(run)
        return True

    def returned(self) -> Sequence[Returned]:
        """What has run aside and ended; waits for some where nothing else is left to do."""
        return self._aside.returned(_WAIT_S) if self._aside and not self.steps else ()

    def end(self, step: Step, outputs: dict[str, Any]) -> None:
        """Its action has ended well. Raises TypeError or ValueError for outputs that cannot be recorded."""
        if not self._ended:
            self._ended_at = time.monotonic()
        self._ended.append(calls.Ended(step=step, outputs=outputs))

    def settle_due(self, room: int) -> list[Step]:
        """`settle()`, where nothing is left to run or what ended last may not wait for it. What still runs
        aside is waited for before anything is claimed: its end would lie behind the next step's."""
        if not self.steps:
            return self.settle(0 if self._aside else room)
        if self._ended and not self._may_wait(self._ended[-1].step):
            return self.settle(0)
        return []

    def settle(self, room: int) -> list[Step]:
        """Commit what has ended and claim at most `room` steps, together where that can be. Answers those."""
        wanted = self._wanted(room) if room else None
        claim = self._complete(wanted) if self._ended else None
        if wanted is None:
            return []
        self._kept_at = time.monotonic()
        taken = claims.claim_steps(wanted, claim=claim)
        self.steps.extend(taken)
        return taken

    def _keep(self) -> None:
        """Renew what is held where that took long: on a busy machine it is not taken from who works on it."""
        if time.monotonic() - self._kept_at < settings.STEP_LEASE_S / 4:
            return
        held = [*self.steps, *(one.step for one in self._ended)]
        self._kept_at = time.monotonic()
        mine = claims.renew_leases(held)
        self.steps = deque(step for step in self.steps if step.pk in mine)

    def _wanted(self, room: int) -> calls.Wanted:
        together = taken_together()
        return calls.Wanted(lanes=self._lanes, many=min(room, MANY) if together else 1, together=together)

    def _may_wait(self, step: Step) -> bool:
        action = step.spec["action"]
        wait_s = max(_WAIT_S, min(self._commit_s, _MOST_WAIT_S))
        return (is_short(action) or is_waiting(action)) and time.monotonic() - self._ended_at < wait_s

    def _complete(self, wanted: calls.Wanted | None) -> calls.Claim | None:
        ended, self._ended = self._ended, []
        if len(ended) > 1 or wanted is not None:
            began = time.monotonic()
            try:
                return _complete(ended, wanted)
            except Exception as error:  # one of them, or of those to claim, may be what cannot be
                if connection_lost():
                    raise
                log.warning("not_completed_together", steps=len(ended), error=str(error))
            finally:
                self._commit_s = time.monotonic() - began
        for one in ended:
            with attempt(one.step):
                _complete([one], None)
        return None


def _complete(ended: Sequence[calls.Ended], wanted: calls.Wanted | None) -> calls.Claim | None:
    """The claim; None where there was none: what is completed apart releases steps that may come first."""
    completion = engine.mark_complete_many(ended, wanted=wanted)
    for one, done in zip(ended, completion.done, strict=True):
        if not done:
            with attempt(one.step):
                engine.complete_apart(step=one.step, outputs=one.outputs)
    return completion.claim
