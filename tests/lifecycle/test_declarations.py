"""The models' declared transitions are the lifecycles' edges, in both directions."""

from __future__ import annotations

import json
import weakref

import pytest
from django.db.migrations.loader import MigrationLoader
from django.db.models.signals import class_prepared

from orders.models import UNSETTLED, Deal
from tasks_app.jobs.models import JOB_ENDED, JOB_OPEN, STEP_ENDED
from tasks_app.lifecycle import declarations
from tasks_app.lifecycle.declarations import ENTITIES, lifecycle
from tasks_app.lifecycle.descriptions import DESCRIPTIONS, PLACEHOLDERS
from tasks_app.lifecycle.models import Stateful
from tasks_app.lifecycle.status_field import StatusField
from tasks_app.lifecycle.verify import entity_models
from tasks_app.operations.models import OPEN, SETTLED

MODELS = entity_models()


def status_field(model: type[Stateful]) -> StatusField:
    return model._meta.get_field("status")


def declared_by_model(model: type[Stateful]) -> list[tuple[str, str]]:
    methods = status_field(model).transitions[model].values()
    return [
        (source, edge.target) for method in methods for source, edge in method._django_fsm.transitions.items()
    ]


def test_a_model_of_a_migrations_history_has_its_status_and_listens_to_no_other_models() -> None:
    """Each would be asked about every one that is made after it, by thousands."""
    then = MigrationLoader(None).project_state().apps.get_model("orders", "Deal")
    field = then._meta.get_field("status")
    heard = [receiver for _, receiver, _ in class_prepared.receivers]
    listening = [receiver() if isinstance(receiver, weakref.ref) else receiver for receiver in heard]
    assert isinstance(field, StatusField)
    assert status_field(Deal)._collect_transitions in listening
    assert field._collect_transitions not in listening


def test_every_lifecycle_has_its_model() -> None:
    assert set(MODELS) == set(ENTITIES)


@pytest.mark.parametrize("entity", ENTITIES)
def test_the_models_edges_are_the_lifecycles(entity: str) -> None:
    edges = declared_by_model(MODELS[entity])
    declared = {
        (source, target)
        for source, target in lifecycle(entity).edges
        if source != target or not lifecycle(entity).self_transitions
    }
    assert set(edges) == declared
    assert len(edges) == len(declared), "two methods for one edge"


@pytest.mark.parametrize("entity", ENTITIES)
def test_the_status_field_is_protected_and_holds_the_lifecycles_states(entity: str) -> None:
    field = status_field(MODELS[entity])
    assert field.protected
    assert [value for value, _ in field.choices] == list(lifecycle(entity).states)
    assert field.default == lifecycle(entity).initial
    assert max(map(len, lifecycle(entity).states)) <= field.max_length
    with pytest.raises(AttributeError):
        MODELS[entity]().status = lifecycle(entity).states[-1]


@pytest.mark.parametrize("entity", ENTITIES)
def test_no_edge_depends_on_a_condition_that_transition_would_not_ask(entity: str) -> None:
    """Guards are registered (lifecycle.guards); a condition of django-fsm's would be looked at too late."""
    model = MODELS[entity]
    methods = status_field(model).transitions[model].values()
    edges = [edge for method in methods for edge in method._django_fsm.transitions.values()]
    assert edges
    assert not any(edge.conditions or edge.on_error for edge in edges)


@pytest.mark.parametrize("entity", ENTITIES)
def test_every_state_is_known_and_reachable(entity: str) -> None:
    declared = lifecycle(entity)
    reached, before = {declared.initial}, set()
    while reached != before:
        before = set(reached)
        reached |= {to for source, to in declared.edges if source in before}
    assert reached == set(declared.states)
    assert {state for edge in declared.edges for state in edge} <= set(declared.states)


def test_terminal_states_lead_nowhere() -> None:
    for entity in ENTITIES:
        ends = {state for state in lifecycle(entity).terminal if lifecycle(entity).targets(state)}
        # A finished job may be hidden; a deal, an operation, a step, an approval never moves again.
        assert ends == (set(lifecycle("job").terminal) if entity == "job" else set()), entity


def test_the_sets_beside_the_enums_agree_with_the_lifecycles() -> None:
    assert set(SETTLED) == lifecycle("operation").terminal
    assert set(OPEN) | set(SETTLED) == set(lifecycle("operation").states)
    assert set(STEP_ENDED) == lifecycle("step").terminal
    assert set(JOB_ENDED) == {*lifecycle("job").terminal, "DELETED"}
    assert set(JOB_OPEN) | set(JOB_ENDED) == set(lifecycle("job").states)
    assert not set(UNSETTLED) & lifecycle("deal").terminal


@pytest.mark.parametrize("entity", ENTITIES)
def test_nothing_is_declared_twice(entity: str) -> None:
    data = json.loads((declarations._DATA / f"{entity}.json").read_text())
    edges = [(e["from"], e["to"]) for e in [*data["transitions"], *data.get("extensions", [])]]
    assert len(edges) == len(set(edges)) == len(lifecycle(entity).edges)
    assert len(set(data["states"])) == len(data["states"])


@pytest.mark.parametrize("entity", ENTITIES)
def test_every_edge_says_why(entity: str) -> None:
    """For the reason of a move defaults to it, and PostgreSQL takes no entry without one."""
    assert [
        edge
        for edge, said in lifecycle(entity).edges.items()
        if edge[0] != edge[1] and (not said.strip() or said in PLACEHOLDERS)
    ] == []


def test_no_description_stands_for_an_edge_that_is_described_or_undeclared() -> None:
    for entity, described in DESCRIPTIONS.items():
        data = json.loads((declarations._DATA / f"{entity}.json").read_text())
        edges = [*data["transitions"], *data.get("extensions", [])]
        said = {(e["from"], e["to"]): e.get("description", "") for e in edges}
        assert {said.get(edge) for edge in described} <= PLACEHOLDERS, entity
