"""A new effect keeps the attempt its step's; that somebody holds the step for a moment is no failure."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction

from tasks_app.commands.boundary import effect_held
from tasks_app.jobs import attempts, claims
from tasks_app.jobs.actions import Done, Result, Run
from tasks_app.jobs.endings import job_cancel
from tasks_app.jobs.models import Step, WorkflowEvent
from tasks_app.jobs.worker import drain
from tests.clocks import Clock
from tests.database import Database
from tests.jobs.conftest import Bench, statuses, steps_of
from tests.lifecycle.threads import at_once
from tests.rounds import rounds
from tests.support import PATIENCE_S, joined

JOBS, WORKERS = rounds(100, 600), 6


class Holder:
    """Somebody else whose transaction holds a step; it commits at the attempt's first pause."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[Step], object]) -> None:
        self._act = act
        self._holds, self._goes_on = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self.pauses = 0
        monkeypatch.setattr(claims, "sleep", self._pause)

    def begin(self, step: Step) -> None:
        self._thread = threading.Thread(target=self._hold, args=[step])
        self._thread.start()
        assert self._holds.wait(PATIENCE_S)

    def end(self) -> None:
        self._goes_on.set()
        if self._thread is not None:
            joined(self._thread)

    def _pause(self, _: float) -> None:
        self.pauses += 1
        self.end()

    def _hold(self, step: Step) -> None:
        try:
            with transaction.atomic():
                self._act(step)
                self._holds.set()
                self._goes_on.wait(PATIENCE_S)
        finally:
            self._holds.set()
            connection.close()


def touch(step: Step) -> None:
    """As a claim does that read the step before it was taken: it holds it, and takes another."""
    assert Step.objects.select_for_update(no_key=True).filter(pk=step.pk).exists()


def cancel(step: Step) -> None:
    job_cancel(job_id=step.job_id, actor="system", reason="Called off")


def effect_of(bench: Bench, holder: Holder) -> list[str]:
    """The keys of the steps that had their effect; a recipe of one step, which the holder holds as its first
    attempt asks for it."""
    effects: list[str] = []

    def action(run: Run) -> Result:
        if run.step.attempts == 1:
            holder.begin(run.step)
        with transaction.atomic():
            effect_held()
            effects.append(run.step.key)
        return Done(outputs={})

    bench.action("effect", action)
    bench.recipe({"id": "a", "action": "effect"})
    return effects


def test_who_holds_a_step_for_a_moment_makes_no_attempt_fail(
    committed_db: Database, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = Holder(monkeypatch, touch)
    effects = effect_of(bench, holder)

    done = steps_of(bench.run())["a"]

    assert (done.status, done.attempts, done.failures) == ("completed", 1, 0)
    assert (effects, holder.pauses) == (["a"], 1)


def test_what_is_called_off_at_that_moment_has_no_effect(
    committed_db: Database, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = Holder(monkeypatch, cancel)
    effects = effect_of(bench, holder)

    job = bench.run()

    assert statuses(job) == {"a": "cancelled"}
    assert (effects, holder.pauses) == ([], 1)


def test_who_holds_it_for_longer_costs_a_failure_and_is_not_waited_for(
    committed_db: Database, bench: Bench, still: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may hold what the attempt goes on to wait for."""
    holder = Holder(monkeypatch, touch)
    effects = effect_of(bench, holder)
    monkeypatch.setattr(claims, "_HELD_S", 0)
    recorded = attempts._retry_or_fail
    monkeypatch.setattr(attempts, "_retry_or_fail", lambda *what: (holder.end(), recorded(*what)))
    job = bench.run()

    tried = steps_of(job)["a"]
    assert (effects, holder.pauses, tried.failures) == ([], 0, 1)
    assert tried.waiting_for["error"] == "HeldError: somebody else holds a at this moment"
    still.forward(seconds=1)
    drain()
    assert (statuses(job), effects) == ({"a": "completed"}, ["a"])


def test_claims_at_the_same_moment_make_no_attempt_fail(committed_db: Database, bench: Bench) -> None:
    def effect(run: Run) -> Result:
        with transaction.atomic():
            effect_held()
        return Done(outputs={})

    bench.action("effect", effect)
    bench.recipe({"id": "a", "action": "effect"})
    for _ in range(JOBS):
        bench.start()

    def worker() -> None:
        while drain():
            pass

    assert at_once(*[worker] * WORKERS) == [None] * WORKERS

    assert not WorkflowEvent.objects.filter(type="retry_scheduled").exists()
    assert Step.objects.filter(status="completed", attempts=1, failures=0).count() == JOBS
