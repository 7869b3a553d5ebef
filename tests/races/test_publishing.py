"""Who publishes the end of an operation: one process, also when the one that began is killed."""

from __future__ import annotations

from psycopg import sql

from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.publish import publish, publish_due
from tasks_app.sellers.models import Seller
from tests.database import Database
from tests.operations.making import fresh, stand
from tests.operations.sweeping import sweep
from tests.races.conftest import Races, effects
from tests.races.life import Life
from tests.races.racer import Publication
from tests.races.sights import pending, webhook
from tests.rounds import rounds
from tests.support import PATIENCE_S, until

ROUNDS = rounds(4, 12)


def ended(seller: Seller, number: int = 1) -> Operation:
    """Settled, and nobody was told."""
    return stand(S.COMPLETED, seller=seller, task_id=f"task-{number}")


def test_two_receivers_publish_once(races: Races, norrland: Seller) -> None:
    operations = [ended(norrland, number) for number in range(ROUNDS)]
    acts = [Publication(operation_id=one.pk) for one in operations]

    answers = races.at_once(acts, acts, acts, acts)

    for number, operation in enumerate(operations):
        assert [answer[number] for answer in answers].count("True") == 1
        assert effects(operation) == 1


def test_killed_between_its_effects_and_their_commit(
    races: Races, committed_db: Database, norrland: Seller
) -> None:
    """The owner had run every handler: its effects go with it, a recovery owner has them once."""
    operation = ended(norrland)
    with Life("publish", operation.pk, until="in_publish") as owner:
        assert owner.killed()
    assert (effects(operation), fresh(operation).published_at) == (0, None)

    answers = races.at_once(*[[Publication(operation_id=operation.pk)] for _ in range(3)])

    assert sorted(answers) == [["False"], ["False"], ["True"]]
    assert effects(operation) == 1
    assert publish_due(limit=10) == 0


def test_killed_in_the_middle_of_a_webhook(races: Races, committed_db: Database, norrland: Seller) -> None:
    """Settled and acknowledged to nobody: the sender's retry is a duplicate, the sweep publishes."""
    operation = stand(S.WORKING, seller=norrland)
    post = webhook(operation)
    with Life("receive", post, until="before_publish") as receiver:
        assert receiver.killed()
    assert (fresh(operation).status, effects(operation)) == (S.COMPLETED, 0)

    (answer,) = races.at_once([post])

    assert answer == ["200"]
    publish_due(limit=10)
    assert effects(operation) == 1
    assert operation.observations.count() == 1


def test_killed_before_the_webhook_is_durable(races: Races, committed_db: Database, norrland: Seller) -> None:
    operation = stand(S.WORKING, seller=norrland)
    post = webhook(operation)
    with Life("receive", post, until="in_observe") as receiver:
        assert receiver.killed()
    assert (fresh(operation).status, operation.observations.count()) == (S.WORKING, 0)

    assert races.at_once([post], [post])[0][0] in ("200", "503")
    assert races.at_once([post]) == [["200"]]
    assert fresh(operation).status == S.COMPLETED
    assert effects(operation) == 1


def test_nobody_publishes_beside_a_living_owner(
    races: Races, committed_db: Database, norrland: Seller
) -> None:
    """The owner is slow, not dead: nobody takes its publication over, and nobody waits for it."""
    operation = ended(norrland)
    effects_held = sql.SQL("lock table tasks_app_notification in share mode").format()
    with races.holding(effects_held) as waiting:
        owner = races.begin(Publication(operation_id=operation.pk))
        until(lambda: waiting() == 1, "the owner is at its handlers")
        assert races.begin(Publication(operation_id=operation.pk)).result(PATIENCE_S) == ["False"]
        assert publish(operation_id=operation.pk) is False

    assert owner.result(PATIENCE_S) == ["True"]
    assert effects(operation) == 1


def test_killed_before_deliveries_that_came_early_were_looked_for(
    races: Races, committed_db: Database, norrland: Seller
) -> None:
    """The reply named the task, and its process died before it told the webhook that waited for that name."""
    operation = stand(S.CALLING_ADCP, seller=norrland)
    operation.task_id = "task-1"
    assert races.at_once([webhook(operation, operation_id=None)]) == [["200"]]
    with Life("observe", pending(operation, "submitted", task_id="task-1"), until="observed") as reply:
        assert reply.killed()
    assert (fresh(operation).status, fresh(operation).task_id) == (S.SUBMITTED, "task-1")

    assert sweep().chores["early_applied"] == 1
    assert fresh(operation).status == S.COMPLETED
    assert effects(operation) == 1
