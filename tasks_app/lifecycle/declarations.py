"""The lifecycles as data (data/*.json): states, initial, terminal, edges with descriptions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tasks_app.lifecycle.descriptions import DESCRIPTIONS, PLACEHOLDERS

_DATA = Path(__file__).parent / "data"
ENTITIES = ("approval", "assistant_turn", "campaign", "deal", "job", "operation", "step")


@dataclass(frozen=True, kw_only=True)
class Lifecycle:
    """One entity's declared states and edges. `edges` maps (from, to) to its description; only an edge from a
    state to itself has none."""

    entity: str
    initial: str
    states: tuple[str, ...]
    terminal: frozenset[str]
    edges: dict[tuple[str, str], str]
    self_transitions: bool

    def targets(self, status: str) -> tuple[str, ...]:
        """States that a declared edge leads to, in declared order, without the state itself."""
        return tuple(to for (frm, to) in self.edges if frm == status and to != status)


@cache
def lifecycle(entity: str) -> Lifecycle:
    """The declaration of `entity` (one of ENTITIES). Raises FileNotFoundError for another, ValueError for an
    edge that nobody describes."""
    data = json.loads((_DATA / f"{entity}.json").read_text())
    edges = {
        (edge["from"], edge["to"]): _description(entity, edge)
        for edge in [*data["transitions"], *data.get("extensions", [])]
    }
    return Lifecycle(
        entity=entity,
        initial=data["initial"],
        states=tuple(data["states"]),
        terminal=frozenset(data["terminal"]),
        edges=edges,
        self_transitions="self_transitions" in data,
    )


def _description(entity: str, edge: dict[str, str]) -> str:
    frm, to, said = edge["from"], edge["to"], edge.get("description", "")
    if said not in PLACEHOLDERS or frm == to:
        return said
    described = DESCRIPTIONS.get(entity, {}).get((frm, to), "")
    if not described:
        raise ValueError(f"{entity}: nobody describes the edge {frm} → {to}")
    return described
