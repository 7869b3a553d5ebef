"""Any walk over any lifecycle leaves a trail that verifies and replays to the stored status."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks_app.lifecycle import guards
from tasks_app.lifecycle.declarations import ENTITIES
from tasks_app.lifecycle.errors import InvalidTransitionError, UnknownStatusError
from tasks_app.lifecycle.models import OutboxEvent
from tasks_app.lifecycle.transitions import allowed_transitions, transition
from tasks_app.lifecycle.verify import verify_entity
from tests.lifecycle.entities import MAKERS, trail
from tests.rounds import rounds

pytestmark = pytest.mark.django_db

REASONS = st.text(max_size=30)
METADATA = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)
# Which edge to take (counted round), and the wish for a status that may not follow.
STEPS = st.lists(st.tuples(st.integers(0, 20), st.booleans(), REASONS, METADATA), max_size=8)


@pytest.mark.parametrize("entity", ENTITIES)
@given(steps=STEPS)
@settings(
    max_examples=rounds(12, 40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_walk_verifies_and_replays(entity: str, steps: list[tuple[int, bool, str, dict]]) -> None:
    with transaction.atomic(), patch.object(guards, "_guards", {}):
        row = MAKERS[entity]()
        walked = [row.status]
        for choice, wrong, reason, metadata in steps:
            allowed = allowed_transitions(row)
            others = [s for s in (*row.declared().states, "nowhere") if s not in (*allowed, row.status)]
            if wrong:
                with pytest.raises((InvalidTransitionError, UnknownStatusError)):
                    transition(row, others[choice % len(others)], actor="system")
            if not allowed:
                assert row.is_terminal or row.status == "DELETED"
                break
            walked.append(allowed[choice % len(allowed)])
            transition(row, walked[-1], actor="system", reason=reason, metadata=metadata)
        found = trail(row)
        stored = type(row).objects.get(pk=row.pk)
        verification = verify_entity(entity, row.pk)
        assert verification.ok, verification.problem
        assert [entry.to_status for entry in found] == walked
        assert (stored.status, stored.version) == (walked[-1], len(walked))
        assert (row.status, row.version) == (stored.status, stored.version)
        assert OutboxEvent.objects.filter(entity_type=entity, entity_id=row.pk).count() == len(walked)
        transaction.set_rollback(True)
