"""Whatever is seen, in whatever order, doubled and interleaved, by four processes at once: one end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks_app import clock
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.publish import publish_due
from tasks_app.sellers.models import Seller
from tests.operations.making import fresh, garbled, leased_until, silent, stand, unknown
from tests.races.conftest import Races, effects
from tests.races.racer import Act, Sight
from tests.races.sights import BOUGHT, OTHER, pending, poll, reply, webhook
from tests.rounds import rounds

RACERS, EACH, STORIES = 4, 4, 3
PENDING = ("submitted", "working", "input-required", "auth-required")
ENDS = ("completed", "failed", "canceled", "rejected")
FAILED: dict[str, Any] = {"errors": [{"code": "PRODUCT_UNAVAILABLE", "message": "Sold out."}]}


@dataclass
class Story:
    """What is seen of one operation: an end in many copies, maybe another end, news, noise."""

    operation: Operation
    acts: list[Act]
    ends: set[tuple[str, str]]
    latest: str


def end(rng: Random, operation: Operation, status: str, result: dict[str, Any]) -> Act:
    value = result if status == "completed" else FAILED
    return rng.choice((reply, poll, webhook))(operation, value, status)


def news(rng: Random, operation: Operation, status: str, at: Any) -> Act:
    if rng.random() < 0.5:
        return webhook(operation, {}, status, timestamp=at.isoformat())
    act = pending(operation, status, task_id=operation.task_id, channel="poll")
    return replace(act, seen=replace(act.seen, at=at))


def noise(rng: Random, operation: Operation) -> Act:
    seen = rng.choice([garbled(), silent(), unknown(rng.choice(["approved", "pending_manual"]))])
    return Sight(operation_id=operation.pk, seen=seen, channel=rng.choice(["poll", "reply"]))


def story(rng: Random, operation: Operation, kind: str) -> Story:
    room = RACERS * EACH
    statuses = [rng.choice(PENDING) for _ in range(rng.randint(3, 6))]
    begun = clock.now() - timedelta(hours=1)
    acts = [news(rng, operation, word, begun + timedelta(minutes=n)) for n, word in enumerate(statuses)]
    acts += [noise(rng, operation) for _ in range(3)]
    ends: list[tuple[str, dict[str, Any]]] = []
    if kind != "pending":
        ends = [(rng.choice(ENDS), BOUGHT)]
    if kind == "contradicting":
        ends.append(("completed", OTHER))
    while len(acts) < room:
        acts.append(end(rng, operation, *rng.choice(ends)) if ends else noise(rng, operation))
    rng.shuffle(acts)
    told = {(status, value["media_buy_id"] if status == "completed" else "") for status, value in ends}
    return Story(operation=operation, acts=acts, ends=told, latest=statuses[-1])


def stories(rng: Random, seller: Seller) -> Iterator[Story]:
    for kind in ("pending", "ending", "contradicting"):
        operation = stand(S.SUBMITTED, seller=seller, task_id=f"task-{rng.random()}")
        yield story(rng, operation, kind)


@settings(
    max_examples=rounds(2, 10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32))
def test_any_interleaving_converges(races: Races, norrland: Seller, seed: int) -> None:
    told = list(stories(Random(seed), norrland))  # noqa: S311 (no secret)
    answers = races.at_once(
        *[[act for one in told for act in one.acts[racer::RACERS]] for racer in range(RACERS)]
    )
    publish_due(limit=100)

    known = {"applied", "duplicate", "stale", "conflict", "indeterminate", "200", "409"}
    assert {answer for racer in answers for answer in racer} <= known
    for one in told:
        operation = fresh(one.operation)
        assert operation.observations.count() == len(one.acts), "nothing that was seen is lost"
        assert verify_entity("operation", operation.pk).ok
        if one.ends:
            _ended_once(operation, one)
        else:
            _where_the_latest_news_left_it(operation, one)


def _ended_once(operation: Operation, story: Story) -> None:
    ended = (operation.status, (operation.result or {}).get("media_buy_id", ""))
    assert ended in story.ends
    assert effects(operation) == 1
    moves = AuditEntry.objects.filter(entity_type="operation", entity_id=operation.pk)
    assert moves.filter(to_status__in=ENDS).count() == 1
    assert (operation.next_poll_at, operation.send_at, leased_until(operation)) == (None, None, None)
    ends = operation.observations.filter(status__in=ENDS)
    winner = ends.get(outcome="applied")
    for seen in ends.exclude(pk=winner.pk):
        same = seen.digest == winner.digest
        assert seen.outcome == ("duplicate" if same else "conflict")
    assert moves.latest("seq").to_status == operation.status, "nothing moved it afterwards"


def _where_the_latest_news_left_it(operation: Operation, story: Story) -> None:
    """By the seller's clock, not by ours."""
    assert operation.status == story.latest.replace("-", "_")
    assert operation.next_poll_at is not None
    assert effects(operation) == 0
