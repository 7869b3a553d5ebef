"""The shipped lifecycles are the documents' own, to the letter."""

import json

import pytest

from tasks_app.lifecycle.declarations import ENTITIES, lifecycle
from tests.lifecycle.conftest import SHARED


@pytest.mark.parametrize("entity", ENTITIES)
def test_the_shipped_lifecycle_is_the_documents(entity: str) -> None:
    document = json.loads((SHARED / f"{entity}.json").read_text())
    shipped = lifecycle(entity)
    edges = [*document["transitions"], *document.get("extensions", [])]
    assert (shipped.initial, list(shipped.states)) == (document["initial"], document["states"])
    assert shipped.terminal == set(document["terminal"])
    assert shipped.edges == {(e["from"], e["to"]): e.get("description", "") for e in edges}
    assert len(shipped.edges) == len(edges)
    assert shipped.self_transitions == ("self_transitions" in document)
