"""Makes a worker process know random graphs' recipes, actions and questions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from django.apps import AppConfig

RECIPES = "FLIGHTDECK_TEST_RECIPES"  # the file that a `manage.py worker` of a test reads them from


class PlayingConfig(AppConfig):
    """For `tests.jobs.worker_settings`."""

    name = "tests.jobs"
    label = "random_graphs"

    def ready(self) -> None:
        register(json.loads(Path(os.environ[RECIPES]).read_text()))


def register(graphs: list[dict[str, Any]]) -> None:
    """Know these recipes, and no others."""
    from tasks_app.approvals import kinds
    from tasks_app.jobs import recipes
    from tests.jobs import worlds

    recipes._recipes.clear()
    for recipe in graphs:
        recipes.recipe_register(recipes.recipe_parse(json.dumps(recipe)))
    worlds.register_actions()
    kinds._kinds.setdefault(worlds.QUESTION, worlds.kind())
