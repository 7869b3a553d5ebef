"""Four processes race for the same deals along two conflicting edges: one wins, the others are told."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from unittest.mock import patch

from orders.models import Deal
from tasks_app import ids
from tasks_app.lifecycle import guards
from tasks_app.lifecycle.models import AuditEntry, OutboxEvent
from tasks_app.lifecycle.transitions import create_many, transition_many
from tasks_app.lifecycle.verify import verify_all
from tests.database import Database
from tests.enforcement.racer import race, ready
from tests.factories import make_deal
from tests.rounds import rounds

DEALS = rounds(100, 500)
RIVALS = ("booked", "failed", "booked", "failed")


def deals_in_booking() -> list[str]:
    first = make_deal()
    copies = []
    for number in range(1, DEALS):
        copy = Deal.objects.get(pk=first.pk)
        copy.pk, copy.reference, copy._state.adding = ids.new_id(), f"DEAL-R-{number}", True
        copies.append(copy)
    create_many(copies, actor="system", reason="A test")
    with patch.object(guards, "_guards", {}):  # nobody approves five hundred deals for a race
        for to in ("accepted", "booking"):
            assert transition_many(Deal.objects.all(), to, actor="system") == DEALS
    return sorted(str(pk) for pk in Deal.objects.values_list("pk", flat=True))


def test_of_two_conflicting_moves_one_wins(committed_db: Database) -> None:
    deals = deals_in_booking()
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(len(RIVALS))
    with ProcessPoolExecutor(len(RIVALS), mp_context=spawn, initializer=ready, initargs=(barrier,)) as pool:
        told = [one.result() for one in [pool.submit(race, to, deals) for to in RIVALS]]

    winners = {}
    for number, pk in enumerate(deals):
        answers = [answer[number] for answer in told]
        assert Counter(answers) == {"won": 1, "StaleVersionError": len(RIVALS) - 1}, (pk, answers)
        winners[pk] = RIVALS[answers.index("won")]
    assert set(winners.values()) == {"booked", "failed"}, "nobody was raced"

    stored = {str(pk): status for pk, status in Deal.objects.values_list("pk", "status")}
    assert stored == winners
    assert set(Deal.objects.values_list("version", flat=True)) == {4}
    last = AuditEntry.objects.filter(entity_type="deal", from_status="booking")
    assert {str(pk): to for pk, to in last.values_list("entity_id", "to_status")} == winners
    assert last.count() == DEALS
    assert OutboxEvent.objects.filter(entity_type="deal").count() == 4 * DEALS
    assert all(found.ok for _, found in verify_all("deal"))
