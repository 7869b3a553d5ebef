"""Guards: named predicates on declared edges.

The storey that owns a rule registers it in code (`guard_register`); beyond that an administrator may attach
a named guard to an edge (`rule_add`), which is recorded and holds in every process. An edge itself is never
added at run time: that is a change of the declaration and a migration run as the owner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import Q, QuerySet

from tasks_app import clock
from tasks_app.lifecycle.declarations import lifecycle
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.lifecycle.models import LifecycleRule
from tasks_app.people.actors import actor_key
from tasks_app.people.models import Actor, User

# A guard answers True, False, or the reason why not (document 002, "Guard Conditions"); `entity`
# is the stored one, in `context["entity"]`.
Guard = Callable[[str, str, str, Mapping[str, Any]], "bool | str"]
Edge = tuple[str, str, str]
_guards: dict[Edge, list[Guard]] = {}
_named: dict[str, Guard] = {}
# Rules attached by others are seen within this time.
_RULES_KEEP_S = 2.0
_rules: dict[Edge, tuple[str, ...]] = {}
_rules_until = 0.0


def guard_register(*, entity: str, from_status: str, to_status: str, guard: Guard) -> None:
    """Attach `guard` to a declared edge. Raises ValueError where the edge is not declared."""
    _declared(entity, from_status, to_status)
    registered = _guards.setdefault((entity, from_status, to_status), [])
    if guard not in registered:
        registered.append(guard)


def guard_name(name: str, guard: Guard) -> None:
    """Make `guard` available to `rule_add`. Raises ValueError for a name that is taken by another."""
    if _named.setdefault(name, guard) is not guard:
        raise ValueError(f"another guard is called {name}")


def rule_add(
    *, entity: str, from_status: str, to_status: str, guard: str, actor: str | User | Actor, reason: str
) -> LifecycleRule:
    """Attach a named guard to a declared edge of the stored entities, recorded with who and why.

    Raises ValueError for an undeclared edge or an unknown guard, UnknownActorError.
    """
    _declared(entity, from_status, to_status)
    if guard not in _named:
        raise ValueError(f"there is no guard {guard!r}; known: {', '.join(sorted(_named)) or 'none'}")
    rule, _ = LifecycleRule.objects.get_or_create(
        entity=entity,
        from_status=from_status,
        to_status=to_status,
        guard=guard,
        defaults={"actor": actor_key(actor), "reason": reason, "at": clock.now()},
    )
    rules_reload()
    return rule


def rules_reload() -> None:
    """Read the attached rules anew before the next transition."""
    global _rules_until
    _rules_until = 0.0


def narrow(rows: QuerySet[Any], entity: str, from_status: str, to_status: str) -> QuerySet[Any]:
    """`rows` without those of `from_status` that a guard of the edge refuses, where every guard can say so
    as a queryset filter (its `as_filter()`, a Q). Raises InvalidTransitionError for one that cannot."""
    for guard in _on((entity, from_status, to_status)):
        allowed = getattr(guard, "as_filter", None)
        if allowed is None:
            why = f"the guard {guard.__name__} offers no queryset filter: move them one at a time"
            raise InvalidTransitionError(entity, "many", from_status, to_status, why)
        rows = rows.filter(~Q(status=from_status) | allowed())
    return rows


def any_on(edges: frozenset[Edge]) -> bool:
    """Whether a guard stands on any of these edges (entity, from, to)."""
    return not (edges.isdisjoint(_guards) and edges.isdisjoint(_attached()))


def refusal(entity: str, entity_id: str, from_status: str, to_status: str, context: Mapping[str, Any]) -> str:
    """Why a guard refuses the edge; empty when all allow it."""
    for guard in _on((entity, from_status, to_status)):
        answer = guard(entity_id, from_status, to_status, context)
        if answer is not True:
            return answer if isinstance(answer, str) and answer else "guard condition failed"
    return ""


def _on(edge: Edge) -> list[Guard]:
    return [*_guards.get(edge, ()), *(_known(name) for name in _attached().get(edge, ()))]


def _known(name: str) -> Guard:
    """A rule whose guard no code registers any more refuses: fail closed."""
    return _named.get(name) or (lambda *_: f"its guard {name} is not known to this version")


def _attached() -> dict[Edge, tuple[str, ...]]:
    global _rules, _rules_until
    if time.monotonic() >= _rules_until:
        found: dict[Edge, tuple[str, ...]] = {}
        for rule in LifecycleRule.objects.order_by("id"):
            edge = (rule.entity, rule.from_status, rule.to_status)
            found[edge] = (*found.get(edge, ()), rule.guard)
        _rules, _rules_until = found, time.monotonic() + _RULES_KEEP_S
    return _rules


def _declared(entity: str, from_status: str, to_status: str) -> None:
    if (from_status, to_status) not in lifecycle(entity).edges:
        raise ValueError(f"{entity} has no edge {from_status} → {to_status}")
