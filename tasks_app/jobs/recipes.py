"""Recipes: JSON files, validated whole when they are registered; cycles and unknown references are named."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Self

import networkx
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,59}$")]


class RecipeError(ValueError):
    """A recipe that cannot be run; the text names what is wrong."""


class StepSpec(BaseModel):
    """One step: an action or a nested recipe, after which steps, over which list, under which condition."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Name
    title: str = ""
    action: str = ""
    recipe: str = ""
    after: tuple[Name, ...] = ()
    for_each: str = ""
    condition: str = ""
    inputs: dict[str, Any] = Field(default_factory=dict)
    optional: bool = False
    max_failures: int = Field(default=3, ge=1, le=10)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.action) == bool(self.recipe):
            raise ValueError(f"step {self.id}: name an action or a recipe, one of them")
        return self


class Recipe(BaseModel):
    """A process as data."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    version: int = Field(ge=1)
    title: str
    steps: tuple[StepSpec, ...] = Field(min_length=1)
    outputs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_a_graph(self) -> Self:
        known = [step.id for step in self.steps]
        if len(set(known)) != len(known):
            raise ValueError("two steps have the same id")
        unknown = {f"{s.id} → {a}" for s in self.steps for a in s.after if a not in known}
        if unknown:
            raise ValueError(f"unknown steps referred to: {', '.join(sorted(unknown))}")
        graph = networkx.DiGraph((a, s.id) for s in self.steps for a in s.after)
        if not networkx.is_directed_acyclic_graph(graph):
            circle = " → ".join(edge[0] for edge in networkx.find_cycle(graph))
            raise ValueError(f"the steps go in a circle: {circle}")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the recipe's canonical JSON."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


_recipes: dict[str, Recipe] = {}


def recipe_parse(text: str) -> Recipe:
    """A recipe from its JSON text. Raises RecipeError."""
    try:
        return Recipe.model_validate_json(text)
    except ValueError as error:
        raise RecipeError(str(error)) from error


def recipes_register(folder: Path) -> None:
    """Make every recipe in `folder` (*.json) known by its name. Raises RecipeError."""
    for path in sorted(folder.glob("*.json")):
        recipe = recipe_parse(path.read_text())
        _recipes[recipe.name] = recipe


def recipe_named(name: str) -> Recipe:
    """The registered recipe. Raises RecipeError."""
    try:
        return _recipes[name]
    except KeyError:
        raise RecipeError(f"there is no recipe {name!r}; known: {', '.join(sorted(_recipes))}") from None
