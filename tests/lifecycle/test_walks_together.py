"""Several threads walk the same entities at once, legally and not: who wins stands in the trail, in order.

Each thread draws its own steps: along an edge that its own reading of the entity allows, to a status that no
edge leads to, to one that does not exist, with a stale instance, or past the application, in SQL.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from unittest.mock import patch

import pytest
from django.db import DatabaseError, connection

from tasks_app.lifecycle import guards
from tasks_app.lifecycle.declarations import ENTITIES
from tasks_app.lifecycle.errors import InvalidTransitionError, StaleVersionError, UnknownStatusError
from tasks_app.lifecycle.models import OutboxEvent, Stateful
from tasks_app.lifecycle.refusals import refusal_of
from tasks_app.lifecycle.replay import entity_at
from tasks_app.lifecycle.transitions import allowed_transitions, transition
from tasks_app.lifecycle.verify import verify_entity
from tests.database import Database
from tests.factories import make_deal, make_seller
from tests.lifecycle.entities import MAKERS, make_operation, trail
from tests.lifecycle.threads import at_once
from tests.rounds import rounds

THREADS, STEPS, TOGETHER = 4, rounds(10, 30), 3
SEEDS = (1, 20261120)[: rounds(1, 2)]
# Where the usual maker makes one alone.
MAKE: dict[str, Callable[[int], Stateful]] = {
    "deal": lambda number: make_deal(seller=make_seller(f"Seller {number}")),
    "operation": lambda number: make_operation(f"walk {number}"),
}


@dataclass
class Walker:
    """One thread's way: what it won, (entity, version) to status, and how often what refused it."""

    name: str
    rows: list[Stateful]
    random: random.Random
    won: dict[tuple[object, int], str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)

    def walk(self) -> Walker:
        ways: list[Callable[[Stateful], None]] = [self.allowed] * 4 + [self.stale, self.wrong, self.in_sql]
        for _ in range(STEPS):
            self.random.choice(ways)(self.random.choice(self.rows))
        return self

    def allowed(self, row: Stateful) -> None:
        """Along an edge, as far as this thread knows; a rival may be faster."""
        mine = type(row)._default_manager.get(pk=row.pk)
        self._towards(mine)

    def stale(self, row: Stateful) -> None:
        """With the instance that every thread began with."""
        self._towards(row)

    def wrong(self, row: Stateful) -> None:
        """To a status that nothing leads to from here."""
        mine = type(row)._default_manager.get(pk=row.pk)
        others = {*mine.declared().states, "nowhere"} - {*allowed_transitions(mine), mine.status}
        with pytest.raises((InvalidTransitionError, UnknownStatusError)):
            transition(mine, self.random.choice(sorted(others)), actor=self.name)
        self.refused["undeclared"] += 1

    def in_sql(self, row: Stateful) -> None:
        """As somebody in psql would, with the owner's rights: any status, whatever version."""
        to = self.random.choice(row.declared().states)
        where = f"update {row._meta.db_table} set status = %L, version = version + 1 where id = %L"
        with pytest.raises(DatabaseError) as raised, connection.cursor() as cursor:
            cursor.execute("select testing.as_owner(format(%s, %s, %s))", [where, to, str(row.pk)])
        refused = refusal_of(raised.value)
        assert refused is not None, raised.value
        self.refused["in SQL"] += 1

    def _towards(self, mine: Stateful) -> None:
        allowed = allowed_transitions(mine)
        if not allowed:
            return
        to = self.random.choice(allowed)
        try:
            version = transition(mine, to, actor=self.name, metadata={"step": len(self.won)})
        except StaleVersionError:
            self.refused["stale"] += 1
        else:
            assert (mine.pk, version) not in self.won
            self.won[mine.pk, version] = to


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("entity", ENTITIES)
def test_threads_walk_the_same_entities(committed_db: Database, entity: str, seed: int) -> None:
    rows = [MAKE.get(entity, lambda _: MAKERS[entity]())(number) for number in range(TOGETHER)]
    with patch.object(guards, "_guards", {}):
        walkers = [
            # Each with instances of its own; stale from the first rival's move on.
            Walker(
                name=f"agent:walker-{number}",
                rows=[type(row)._default_manager.get(pk=row.pk) for row in rows],
                random=random.Random(f"{seed} {number}"),  # noqa: S311 - a test's
            )
            for number in range(THREADS)
        ]
        ended = at_once(*(walker.walk for walker in walkers))
    assert ended == walkers, "a thread was stopped by something else"

    told = {key: (walker.name, to) for walker in walkers for key, to in walker.won.items()}
    assert len(told) == sum(len(walker.won) for walker in walkers), "two won the same version"
    for row in rows:
        entries = trail(row)
        stored = type(row)._default_manager.get(pk=row.pk)
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        for entry in entries[1:]:
            assert told.pop((row.pk, entry.seq)) == (entry.actor, entry.to_status)
            assert entry.reason == row.declared().edges[entry.from_status, entry.to_status]
        assert (stored.status, stored.version) == (entries[-1].to_status, len(entries))
        assert verify_entity(entity, row.pk).ok
        replayed = [entity_at(entity, row.pk, at=entry.at).status for entry in entries]
        assert replayed == [entry.to_status for entry in entries]
        assert OutboxEvent.objects.filter(entity_type=entity, entity_id=row.pk).count() == len(entries)
    assert not told, "somebody won what is not in the trail"
    refused = sum((walker.refused for walker in walkers), Counter())
    assert all(refused[kind] for kind in ("undeclared", "in SQL", "stale")), refused
