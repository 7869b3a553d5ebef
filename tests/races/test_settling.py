"""Two channels bring the end of an operation at the same moment: one of them settles it, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.models import WebhookDelivery
from tests.operations.making import fresh, leased_until, stand
from tests.operations.sweeping import sweep
from tests.races.conftest import Races, effects, outcomes
from tests.races.racer import Act
from tests.races.sights import BOUGHT, OTHER, pending, poll, reply, webhook
from tests.rounds import rounds

ROUNDS = rounds(4, 12)
SAW = {"reply": reply, "poll": poll, "webhook": webhook}
# What a channel is told of an end that is known already, and of one that contradicts it.
KNOWN = {"reply": "duplicate", "poll": "duplicate", "webhook": "200"}
CONTRADICTED = {"reply": "conflict", "poll": "conflict", "webhook": "409"}
WON = {"reply": "applied", "poll": "applied", "webhook": "200"}


def settled_once(operation: Operation) -> Operation:
    """It ended once, by one observation, with its effects once; nothing more is looked for."""
    operation = fresh(operation)
    ends = AuditEntry.objects.filter(entity_type="operation", entity_id=operation.pk, to_status="completed")
    assert (operation.status, ends.count(), effects(operation)) == (S.COMPLETED, 1, 1)
    assert operation.observations.filter(outcome="applied", status="completed").count() == 1
    assert (operation.next_poll_at, operation.send_at, leased_until(operation)) == (None, None, None)
    assert verify_entity("operation", operation.pk).ok
    return operation


def both_orders(races: Races, seller: Seller, channel: str) -> None:
    """The channel and a webhook meet at the operation's row, each first once, with the same end and with
    another."""
    number = 0
    for first, second in ((channel, "webhook"), ("webhook", channel)):
        for result, told in ((BOUGHT, KNOWN), (OTHER, CONTRADICTED)):
            number += 1
            operation = stand(S.WORKING, seller=seller, task_id=f"task-{number}")
            answers = races.meeting(operation, SAW[first](operation), SAW[second](operation, result))

            assert answers == [WON[first], told[second]]
            operation = settled_once(operation)
            assert (operation.settled_by, operation.result) == (first, BOUGHT)
            losers = operation.observations.exclude(outcome="applied").values_list("outcome", "body")
            ((outcome, body),) = losers
            assert outcome == ("duplicate" if result == BOUGHT else "conflict")
            assert result["media_buy_id"] in str(body), "kept whole"


def test_reply_against_webhook(races: Races, norrland: Seller) -> None:
    both_orders(races, norrland, "reply")


def test_poll_against_webhook(races: Races, norrland: Seller) -> None:
    both_orders(races, norrland, "poll")


@pytest.mark.parametrize("contradicting", [False, True])
def test_all_channels_at_once(races: Races, norrland: Seller, contradicting: bool) -> None:
    operations = [stand(S.WORKING, seller=norrland, task_id=f"task-{n}") for n in range(ROUNDS)]
    ways: list[Callable[..., Act]] = [reply, poll, webhook, webhook]
    last = OTHER if contradicting else BOUGHT
    answers = races.at_once(
        *[[way(one) for one in operations] for way in ways[:3]], [ways[3](one, last) for one in operations]
    )

    for number, operation in enumerate(operations):
        settled = settled_once(operation)
        told = Counter(answer[number] for answer in answers)
        assert set(told) <= {"applied", "duplicate", "conflict", "200", "409"}, told
        if not contradicting:
            assert outcomes(operation) == ["applied", *["duplicate"] * 3]
            assert told["200"] == 2
        elif settled.result == OTHER:
            assert outcomes(operation) == ["applied", *["conflict"] * 3]
        else:
            assert outcomes(operation) == ["applied", "conflict", "duplicate", "duplicate"]


@pytest.mark.parametrize("names", ["operation_id", "context"])
@pytest.mark.parametrize("first", ["webhook", "reply"])
@pytest.mark.parametrize("status", ["submitted", "working"])
def test_terminal_webhook_against_the_reply_that_is_still_to_come(
    races: Races, norrland: Seller, first: str, status: str, names: str
) -> None:
    operation = stand(S.CALLING_ADCP, seller=norrland)
    operation.task_id = "task-1"  # as the seller names it, in both
    context = operation.request["context"]
    told = {"context": {"operation_id": None, "context": context}, "operation_id": {}}[names]
    acts = {"webhook": webhook(operation, **told), "reply": pending(operation, status, task_id="task-1")}
    second = "reply" if first == "webhook" else "webhook"

    answers = races.meeting(operation, acts[first], acts[second])

    assert answers == (["200", "stale"] if first == "webhook" else ["applied", "200"])
    settled = settled_once(operation)
    assert (settled.task_id, settled.settled_by, settled.result) == ("task-1", "webhook", BOUGHT)


def test_terminal_webhook_that_only_its_task_names(races: Races, norrland: Seller) -> None:
    """A 3.0 seller echoes nothing of ours: what comes before the reply is committed waits for it."""
    operations = [stand(S.CALLING_ADCP, seller=norrland) for _ in range(ROUNDS)]
    for number, operation in enumerate(operations):
        operation.task_id = f"task-{number}"
    answers = races.at_once(
        [pending(one, "submitted", task_id=one.task_id) for one in operations],
        [webhook(one, operation_id=None) for one in operations],
    )
    sweep()

    assert set(answers[0]) <= {"applied", "stale"}
    assert set(answers[1]) == {"200"}
    for operation in operations:
        settled_once(operation)
    assert not WebhookDelivery.objects.filter(verdict="early").exists()


def test_a_reply_under_another_name_than_the_webhooks_is_a_conflict(races: Races, norrland: Seller) -> None:
    for first in ("webhook", "reply"):
        operation = stand(S.CALLING_ADCP, seller=norrland)
        operation.task_id = f"task-of-{first}"
        acts = [webhook(operation), pending(operation, "submitted", task_id="task-another")]
        if first == "reply":
            acts.reverse()

        answers = races.meeting(operation, *acts)

        assert answers == (["200", "conflict"] if first == "webhook" else ["applied", "409"])
        assert outcomes(operation) == ["applied", "conflict"]
        assert effects(operation) == (1 if first == "webhook" else 0)


def test_different_delivery_keys_of_one_end(races: Races, norrland: Seller) -> None:
    """Re-emissions: the task and the value are the end's identity, not the delivery's key."""
    operations = [stand(S.WORKING, seller=norrland, task_id=f"task-{n}") for n in range(ROUNDS)]

    answers = races.at_once(*[[webhook(one) for one in operations] for _ in range(4)])

    assert answers == [["200"] * ROUNDS] * 4
    for operation in operations:
        settled_once(operation)
        assert outcomes(operation) == ["applied", *["duplicate"] * 3]
    assert WebhookDelivery.objects.values("key").distinct().count() == 4 * ROUNDS
