"""System check: what recipes name is registered. It is looked at when every storey has registered its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, Error, register

from tasks_app.jobs.actions import action_known
from tasks_app.jobs.recipes import Recipe, recipes_known


@register()
def recipes_can_run(**_: Any) -> list[CheckMessage]:
    """E001 for every action or nested recipe that a registered recipe names and nobody registered."""
    known = recipes_known()
    return [
        Error(f"The recipe {recipe.name} names {what}, which nobody registered.", id="jobs.E001")
        for recipe in known.values()
        for what in _missing(recipe, known)
    ]


def _missing(recipe: Recipe, known: dict[str, Recipe]) -> Iterator[str]:
    for step in recipe.steps:
        if step.action and not action_known(step.action):
            yield f"the action {step.action} (step {step.id})"
        if step.recipe and step.recipe not in known:
            yield f"the recipe {step.recipe} (step {step.id})"
