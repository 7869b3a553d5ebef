"""Guards: named predicates on declared edges, registered by the storey that owns the rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tasks_app.lifecycle.declarations import lifecycle

# A guard answers True, False, or the reason why not (document 002, "Guard Conditions"); `entity`
# is the stored one, in `context["entity"]`.
Guard = Callable[[str, str, str, Mapping[str, Any]], "bool | str"]
_guards: dict[tuple[str, str, str], list[Guard]] = {}


def guard_register(*, entity: str, from_status: str, to_status: str, guard: Guard) -> None:
    """Attach `guard` to a declared edge. Raises ValueError where the edge is not declared."""
    if (from_status, to_status) not in lifecycle(entity).edges:
        raise ValueError(f"{entity} has no edge {from_status} → {to_status}")
    registered = _guards.setdefault((entity, from_status, to_status), [])
    if guard not in registered:
        registered.append(guard)


def refusal(entity: str, entity_id: str, from_status: str, to_status: str, context: Mapping[str, Any]) -> str:
    """Why a guard refuses the edge; empty when all allow it."""
    for guard in _guards.get((entity, from_status, to_status), ()):
        answer = guard(entity_id, from_status, to_status, context)
        if answer is not True:
            return answer if isinstance(answer, str) and answer else "guard condition failed"
    return ""
