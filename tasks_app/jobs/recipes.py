"""Recipes: JSON files, validated whole when they are registered; cycles and unknown references are named."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,59}$")]
# What an expression needs: not what it asks for first, or has a default for.
_NEEDED = r"\b(?!\s*(?:is\s+(?:not\s+)?defined|\|\s*default))"
_INPUT = re.compile(rf"\binputs\.([A-Za-z0-9_]+){_NEEDED}")
_OUTPUT = re.compile(rf"\bsteps\.([A-Za-z0-9_]+)\.outputs\.([A-Za-z0-9_]+){_NEEDED}")
# steps.name, steps["name"]
_REFERENCE = re.compile(r"""\bsteps(?:\.|\[\s*["'])([A-Za-z0-9_]+)""")
_STEPS = re.compile(r"\bsteps\b")


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
    max_attempts: int = Field(default=3, ge=1, le=20)  # tries that ended in an error or with their worker
    lane: Literal["recipes", "background"] = "recipes"  # which workers take it
    preview: bool = False  # its outputs are worth showing before the job ends

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.action) == bool(self.recipe):
            raise ValueError(f"step {self.id}: name an action or a recipe, one of them")
        return self

    @classmethod
    def stored(cls, spec: Mapping[str, Any]) -> Self:
        """A step's spec as it was pinned, maybe by an earlier release: what is not known any more is left."""
        return cls.model_validate({name: spec[name] for name in cls.model_fields if name in spec})

    @classmethod
    def of_step(cls, spec: Mapping[str, Any]) -> StepSpec:
        """`stored()`, kept: jobs of a recipe have the same, and so have the items of a fan-out."""
        return _of_text(json.dumps(spec))

    def references(self) -> set[str]:
        """The steps that this one's expressions speak of."""
        return {name for text in self.texts() for name in _REFERENCE.findall(text)}

    def texts(self) -> list[str]:
        """Where its expressions stand."""
        return [self.for_each, self.condition, *texts_of(self.inputs)]


@lru_cache(maxsize=512)
def _of_text(text: str) -> StepSpec:
    return StepSpec.stored(json.loads(text))


class Recipe(BaseModel):
    """A process as data."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    version: int = Field(ge=1)
    title: str
    steps: tuple[StepSpec, ...] = Field(min_length=1)
    # Time to live, waits for people and sellers not counted.
    ttl_hours: float = Field(default=24, gt=0, le=24 * 366)
    outputs: dict[str, Any] = Field(default_factory=dict)
    startable: bool = False  # people may start it, now and by schedule

    @model_validator(mode="after")
    def _is_a_graph(self) -> Self:
        twice = [name for name, times in Counter(step.id for step in self.steps).items() if times > 1]
        if twice:
            raise ValueError(f"more than one step is called {', '.join(twice)}")
        known = {step.id for step in self.steps}
        unknown = {f"{s.id} → {a}" for s in self.steps for a in s.after if a not in known}
        if unknown:
            raise ValueError(f"unknown steps referred to: {', '.join(sorted(unknown))}")
        direct = {step.id: step.after for step in self.steps}
        _refuse_circles(direct, "the steps go in a circle")
        for step in self.steps:
            spoken = step.references() - set(step.after)
            early = spoken - _reached(step.id, direct) if spoken else spoken
            if early:
                raise ValueError(f"step {step.id} speaks of {', '.join(sorted(early))}, not done before it")
        missing = {name for text in texts_of(self.outputs) for name in _REFERENCE.findall(text)} - known
        if missing:
            raise ValueError(f"the outputs speak of unknown steps: {', '.join(sorted(missing))}")
        return self

    @classmethod
    def stored(cls, plan: Mapping[str, Any]) -> Self:
        """A job's plan as it was pinned, maybe by an earlier release."""
        known = {name: plan[name] for name in cls.model_fields if name in plan}
        return cls.model_validate({**known, "steps": [StepSpec.stored(spec) for spec in plan["steps"]]})

    def missing_inputs(self, inputs: Mapping[str, Any]) -> list[str]:
        """The inputs that the expressions speak of and that are not given, unless they say what then."""
        texts = [*texts_of(self.outputs), *(text for step in self.steps for text in step.texts())]
        return sorted({name for text in texts for name in _INPUT.findall(text)} - set(inputs))

    def missed_by(self, key: str) -> list[str]:
        """Who needs of that step what it does not have when it is skipped: titles of steps, "the outputs"."""
        spec = next(step for step in self.steps if step.id == key)
        kept = {"skipped", "results"} if spec.for_each else {"skipped"}

        def needs(texts: Iterable[str]) -> bool:
            found = (name for text in texts for name in _OUTPUT.findall(text))
            return any(step == key and name not in kept for step, name in found)

        missed = [step.title or step.id for step in self.steps if needs(step.texts())]
        return [*missed, "the job's outputs"] if needs(texts_of(self.outputs)) else missed

    def from_step(self, key: str) -> frozenset[str]:
        """The step and everything that comes after it."""
        after: dict[str, list[str]] = {}
        for step in self.steps:
            for before in step.after:
                after.setdefault(before, []).append(step.id)
        return frozenset({key, *_reached(key, after)})

    def anew(self, done: Collection[str], wanted: Collection[str]) -> frozenset[str]:
        """The steps that a retry does anew: those `wanted`, and each that speaks of one which runs, anew or
        because it was not `done`: its inputs may be others now."""
        found: set[str] = set(wanted)
        steps = {step.id: step for step in self.steps}
        direct = {step.id: step.after for step in self.steps}
        for key in TopologicalSorter(direct).static_order():
            spoken = steps_named(steps[key].texts())
            of = _reached(key, direct) if spoken is None else spoken
            if any(before in found or before not in done for before in of):
                found.add(key)
        return frozenset(found)

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
    """Make every recipe in `folder` (*.json) known by its name. Raises RecipeError, naming the file."""
    for path in sorted(folder.glob("*.json")):
        try:
            recipe_register(recipe_parse(path.read_text()))
        except RecipeError as error:
            raise RecipeError(f"{path.name}: {error}") from error


def recipe_register(recipe: Recipe) -> None:
    """Make a recipe known. Raises RecipeError for a taken name and for recipes that nest without end."""
    if _recipes.get(recipe.name, recipe) != recipe:
        raise RecipeError(f"another recipe is called {recipe.name} already")
    known = [*_recipes.values(), recipe]
    nested = {outer.name: [step.recipe for step in outer.steps if step.recipe] for outer in known}
    try:
        _refuse_circles(nested, "the recipes nest in a circle")
    except ValueError as error:
        raise RecipeError(str(error)) from error
    _recipes[recipe.name] = recipe


def recipe_named(name: str) -> Recipe:
    """The registered recipe. Raises RecipeError."""
    try:
        return _recipes[name]
    except KeyError:
        raise RecipeError(f"there is no recipe {name!r}; known: {', '.join(sorted(_recipes))}") from None


def recipes_known() -> dict[str, Recipe]:
    """The registered recipes by name."""
    return dict(_recipes)


def recipe_titles() -> dict[str, str]:
    """The registered recipes' titles by name, in the titles' order."""
    return dict(sorted(((name, recipe.title) for name, recipe in _recipes.items()), key=lambda one: one[1]))


def recipe_pinned(recipe: Recipe, pinned: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe's JSON as a job keeps it. Under `nested` stand the recipes that run below it, by name: as
    they are pinned already, else as they are now. One that nobody knows is left out; its step says so."""
    found: dict[str, Any] = {}
    names = [step.recipe for step in recipe.steps]
    while names:
        name = names.pop()
        inner = pinned.get(name) or (_recipes[name].model_dump(mode="json") if name in _recipes else None)
        if inner is not None and name not in found:
            found[name] = inner
            names += [step["recipe"] for step in inner["steps"]]
    whole = recipe.model_dump(mode="json")
    return {**whole, "nested": found} if found else whole


def recipes_startable() -> list[Recipe]:
    """Those that people may start, by title."""
    return sorted((one for one in _recipes.values() if one.startable), key=lambda one: one.title)


def steps_named(texts: Iterable[str]) -> set[str] | None:
    """The steps that expressions speak of by name; None where they speak of steps in another way."""
    named: set[str] = set()
    for text in texts:
        found = _REFERENCE.findall(text)
        if len(found) < len(_STEPS.findall(text)):
            return None
        named.update(found)
    return named


def texts_of(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts_of(inner)


def _refuse_circles(direct: Mapping[str, Iterable[str]], words: str) -> None:
    """Raises ValueError, saying `words` and the circle, where what comes before a node leads back to it."""
    try:
        TopologicalSorter(direct).prepare()
    except CycleError as error:
        circle = list(reversed(error.args[1][1:]))
        raise ValueError(f"{words}: {' → '.join(circle)}") from error


def _reached(node: str, direct: Mapping[str, Iterable[str]]) -> set[str]:
    """Every node that a way leads to from `node`. Of one only: all their sets grow with the square of
    a graph."""
    found: set[str] = set()
    ways = [node]
    while ways:
        for following in direct.get(ways.pop(), ()):
            if following not in found:
                found.add(following)
                ways.append(following)
    return found
