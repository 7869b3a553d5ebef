"""The recipes of the bench and their two actions, registered as any app does."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from django.apps import AppConfig

from bench.jobs import CHAIN, LONG, NAP_S, WIDE
from bench.jobs.marks import mark

if TYPE_CHECKING:
    from tasks_app.jobs.actions import Result, Run

# Set where the widest recipe is wanted: its ten thousand steps would be part of the memory of every process.
WITH_WIDE = "BENCH_WIDE"


class BenchConfig(AppConfig):
    name = "bench.jobs"
    label = "bench_jobs"

    def ready(self) -> None:
        """Register everything; imported here, for models are not there earlier."""
        from tasks_app.jobs.actions import action_register
        from tasks_app.jobs.recipes import Recipe, StepSpec, recipe_register

        def recipe(name: str, *steps: StepSpec) -> None:
            recipe_register(Recipe(name=name, version=1, title="A bench", steps=steps))

        def chain(lane: str, steps: int) -> list[StepSpec]:
            ids = [f"{lane}_{number}" for number in range(steps)]
            return [
                StepSpec(id=one, action="bench.trivial", after=(before,) if before else ())
                for before, one in zip(["", *ids], ids, strict=False)
            ]

        action_register("bench.trivial", trivial, kind="pure")
        action_register("bench.nap", nap, kind="pure")
        recipe("bench_single", *chain("s", 1))
        recipe("waiting", *chain("s", 1))
        recipe("bench_chain", *chain("s", CHAIN))
        recipe("bench_long", *chain("s", LONG))
        if os.environ.get(WITH_WIDE):
            recipe("bench_wide", *(step for lane in range(WIDE) for step in chain(f"l{lane}", LONG)))
        recipe("bench_fanout", StepSpec(id="all", action="bench.nap", for_each="{{ inputs.items }}"))


def trivial(run: Run) -> Result:
    """What every party's step does: it notes the moment."""
    from tasks_app.jobs.actions import Done

    mark()
    return Done(outputs={"ok": True})


def nap(run: Run) -> Result:
    """A step that takes 10 ms."""
    from tasks_app.jobs.actions import Done

    mark()
    time.sleep(NAP_S)
    return Done(outputs={"item": run.inputs.get("item")})
