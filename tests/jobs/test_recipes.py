"""Recipes: what is wrong with one is named when it is registered, not when money is moving."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks

from tasks_app.jobs import recipes
from tasks_app.jobs.recipes import RecipeError, recipe_named, recipe_parse, recipe_register, recipes_register
from tasks_app.jobs.templates import resolve


def text(*steps: dict[str, Any], **fields: Any) -> str:
    return json.dumps({"name": "test", "version": 1, "title": "Test", "steps": list(steps), **fields})


def step(name: str, *after: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "action": "note", "after": list(after), **fields}


WRONG: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "EOF|JSON"),
    "not an object": ("[]", "object"),
    "no steps": (text(), "steps"),
    "no name": (json.dumps({"version": 1, "title": "", "steps": [step("a")]}), "name"),
    "version zero": (text(step("a"), version=0), "version"),
    "a field nobody knows": (text(step("a"), colour="red"), "colour"),
    "a step's field nobody knows": (text(step("a", retries=3)), "retries"),
    "a name with a space": (text(step("a b")), "a b"),
    "a name in capitals": (text(step("Buy")), "Buy"),
    "neither action nor recipe": (text({"id": "lonely"}), "step lonely: name an action or a recipe"),
    "action and recipe": (text(step("both", recipe="other")), "step both: name an action or a recipe"),
    "a budget of no failures": (text(step("a", max_failures=0)), "max_failures"),
    "duplicates": (text(step("a"), step("b"), step("b"), step("a")), "called a, b"),
    "unknown references": (text(step("a"), step("b", "a", "ghost", "phantom")), "b → ghost, b → phantom"),
    "a circle of three": (
        text(step("a", "c"), step("b", "a"), step("c", "b")),
        "circle: (. → ){2}.",
    ),
    "a circle of one": (text(step("a", "a")), "circle: a"),
    "an expression of an unknown step": (
        text(step("a", inputs={"x": {"y": ["{{ steps.ghost.outputs }}"]}})),
        "step a speaks of ghost",
    ),
    "an expression of a step beside": (
        text(step("a"), step("b", for_each="{{ steps.a.outputs.results }}")),
        "step b speaks of a, not done before it",
    ),
    "an unknown step in brackets": (
        text(step("a", inputs={"x": "{{ steps['ghost'].outputs }}"})),
        "step a speaks of ghost",
    ),
    "a step beside in brackets": (
        text(step("a"), step("b", condition='{{ steps[ "a" ].outputs.ok }}')),
        "step b speaks of a, not done before it",
    ),
    "a condition on a later step": (
        text(step("a", condition="{{ steps.b.outputs.ok }}"), step("b", "a")),
        "step a speaks of b",
    ),
    "outputs of an unknown step": (text(step("a"), outputs={"x": "{{ steps.ghost.outputs }}"}), "ghost"),
    "nested in itself": (text({"id": "again", "recipe": "test"}), "nest in a circle: test"),
}


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "_recipes", dict(recipes._recipes))


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_recipe_is_refused_by_name(case: str, tmp_path: Path) -> None:
    body, words = WRONG[case]
    (tmp_path / "wrong.json").write_text(body)
    with pytest.raises(RecipeError, match=words) as refused:
        recipes_register(tmp_path)
    assert str(refused.value).startswith("wrong.json: ")
    assert "test" not in recipes._recipes


def test_recipes_that_nest_in_each_other_are_refused() -> None:
    recipe_register(recipe_parse(text({"id": "down", "recipe": "two"}, name="one")))
    with pytest.raises(RecipeError, match=r"nest in a circle: (one → two|two → one)"):
        recipe_register(recipe_parse(text({"id": "up", "recipe": "one"}, name="two")))
    assert "two" not in recipes._recipes


def test_what_nobody_registered_is_named_by_the_check() -> None:
    """Of each recipe on its own: what it names may be registered after it."""
    assert [found for found in run_checks() if found.id == "jobs.E001"] == []
    recipe_register(recipe_parse(text(step("a", action="no.such"), {"id": "b", "recipe": "ghost"})))
    assert [found.msg for found in run_checks() if found.id == "jobs.E001"] == [
        "The recipe test names the action no.such (step a), which nobody registered.",
        "The recipe test names the recipe ghost (step b), which nobody registered.",
    ]


def test_a_name_is_taken_once() -> None:
    first = recipe_parse(text(step("a")))
    recipe_register(first)
    recipe_register(recipe_parse(text(step("a"))))
    with pytest.raises(RecipeError, match="another recipe is called test already"):
        recipe_register(recipe_parse(text(step("b"))))
    assert recipe_named("test") == first


def test_an_unknown_recipe_is_named_with_the_known_ones() -> None:
    with pytest.raises(RecipeError, match=r"no recipe 'ghost'; known: .*book_deal.*campaign"):
        recipe_named("ghost")


def test_the_digest_follows_the_meaning_and_not_the_spelling() -> None:
    one = recipe_parse(text(step("a"), step("b", "a")))
    spaced = recipe_parse(json.dumps(json.loads(text(step("a"), step("b", "a"))), indent=4, sort_keys=True))
    other = recipe_parse(text(step("a"), step("b", "a", optional=True)))
    assert one.digest == spaced.digest
    assert one.digest != other.digest


def test_the_shipped_recipes_are_registered() -> None:
    assert [s.id for s in recipe_named("campaign").steps] == [
        "validate",
        "allocate",
        "research",
        "recommend",
        "ask",
        "book",
        "complete",
    ]
    assert [s.id for s in recipe_named("campaign_deal").steps] == ["approve", "buy", "read_back"]
    assert [s.id for s in recipe_named("book_deal").steps] == ["buy", "read_back"]


def test_a_step_that_people_skipped_fails_no_shipped_recipe() -> None:
    """Whether the next one runs, and what the job puts out, can be told without its outputs."""
    for recipe in recipes.recipes_known().values():
        inputs = dict.fromkeys(("deal_id", "campaign_id", "act", "reason"), "x") | {"jobs": []}
        steps = {spec.id: {"outputs": {"skipped": True}} for spec in recipe.steps}
        for texts in (recipe.outputs, *(spec.condition for spec in recipe.steps)):
            resolve(texts, {"inputs": inputs, "steps": steps})
