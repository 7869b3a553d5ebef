"""The shipped lifecycles are the documents' own, to the letter."""

import json

import pytest

from tasks_app.lifecycle.declarations import ENTITIES, lifecycle
from tasks_app.lifecycle.descriptions import PLACEHOLDERS
from tests.lifecycle.conftest import SHARED


@pytest.mark.parametrize("entity", ENTITIES)
def test_the_shipped_lifecycle_is_the_documents(entity: str) -> None:
    document = json.loads((SHARED / f"{entity}.json").read_text())
    shipped = lifecycle(entity)
    edges = [*document["transitions"], *document.get("extensions", [])]
    assert (shipped.initial, list(shipped.states)) == (document["initial"], document["states"])
    assert shipped.terminal == set(document["terminal"])
    assert list(shipped.edges) == [(e["from"], e["to"]) for e in edges]
    told = {(e["from"], e["to"]): e.get("description", "") for e in edges}
    # Where the document has no words for an edge, ours stand (descriptions.py).
    assert {edge: shipped.edges[edge] for edge, said in told.items() if said not in PLACEHOLDERS} == {
        edge: said for edge, said in told.items() if said not in PLACEHOLDERS
    }
    assert len(shipped.edges) == len(edges)
    assert shipped.self_transitions == ("self_transitions" in document)
