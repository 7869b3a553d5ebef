"""What a worker holds: steps it has claimed and not begun, and ends of short ones not yet committed.

A commit costs as much as many short steps do. So where pure actions take a fraction of a millisecond, several
steps are claimed and completed in one; each still makes its own moves, with its own entries and events
(decision 0034). A worker that is killed leaves attempts that are made again, as ever; a pure action has no
effect to repeat.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import structlog
from django.conf import settings

from tasks_app.jobs import calls, claims, engine
from tasks_app.jobs.attempts import attempt
from tasks_app.jobs.models import Step
from tasks_app.jobs.pace import is_short, short_actions

log = structlog.get_logger(__name__)
MANY = 16
_WAIT_S = 0.005  # that an end is kept from its commit by the steps behind it


class Hand:
    """Of one drain of `lanes`. `steps`: claimed and not begun, in their order."""

    def __init__(self, lanes: Sequence[str]) -> None:
        self.steps: deque[Step] = deque()
        self._lanes = tuple(lanes)
        self._ended: list[calls.Ended] = []
        self._kept_at = self._ended_at = 0.0

    def next(self) -> Step | None:
        """The next step to run; None where another worker has taken over all that was held."""
        self._keep()
        if not self.steps:
            return None
        step = self.steps.popleft()
        if self._ended and not self._may_wait(step):
            self.settle(0)
        return step

    def end(self, step: Step, outputs: dict[str, Any]) -> None:
        """Its action has ended well. Raises TypeError or ValueError for outputs that cannot be recorded."""
        if not self._ended:
            self._ended_at = time.monotonic()
        self._ended.append(calls.Ended(step=step, outputs=outputs))

    def settle_due(self, room: int) -> list[Step]:
        """`settle()`, where nothing is left to run or what ended last may not wait for it."""
        if not self.steps:
            return self.settle(room)
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
        short = short_actions()
        return calls.Wanted(lanes=self._lanes, many=min(room, MANY) if short else 1, short=short)

    def _may_wait(self, step: Step) -> bool:
        return is_short(step.spec["action"]) and time.monotonic() - self._ended_at < _WAIT_S

    def _complete(self, wanted: calls.Wanted | None) -> calls.Claim | None:
        ended, self._ended = self._ended, []
        if len(ended) > 1:
            try:
                return _complete(ended, wanted)
            except Exception as error:  # one of them may be what cannot be: each by itself tells which
                log.warning("not_completed_together", steps=len(ended), error=str(error))
        claim = None
        for one in ended:
            with attempt(one.step):
                claim = _complete([one], wanted if len(ended) == 1 else None)
        return claim


def _complete(ended: Sequence[calls.Ended], wanted: calls.Wanted | None) -> calls.Claim | None:
    """The claim; None where there was none: what is completed apart releases steps that may come first."""
    completion = engine.mark_complete_many(ended, wanted=wanted)
    for one, done in zip(ended, completion.done, strict=True):
        if not done:
            with attempt(one.step):
                engine.complete_apart(step=one.step, outputs=one.outputs)
    return completion.claim
