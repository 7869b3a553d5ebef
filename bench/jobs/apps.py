"""The bench's recipe, registered as any app registers one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from bench.jobs.marks import CHAIN, mark

if TYPE_CHECKING:
    from tasks_app.jobs.actions import Result, Run


class BenchConfig(AppConfig):
    """Registers the recipe when Django starts."""

    name = "bench.jobs"
    label = "bench_jobs"

    def ready(self) -> None:
        """Register a chain of trivial steps."""
        from tasks_app.jobs.actions import action_register
        from tasks_app.jobs.recipes import Recipe, StepSpec, recipe_register

        action_register("bench.step", step, kind="pure")
        steps = tuple(
            StepSpec(id=f"s{number}", action="bench.step", after=(f"s{number - 1}",) if number else ())
            for number in range(CHAIN)
        )
        recipe_register(Recipe(name="bench_chain", version=1, title="A bench", steps=steps))


def step(run: Run) -> Result:
    """Note the time."""
    from tasks_app.jobs.actions import Done

    mark()
    return Done(outputs={"ok": True})
