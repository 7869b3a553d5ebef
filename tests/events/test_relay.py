"""The relay as it runs: threads, processes, writers at the same time, killed at the worst moment."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from orders.models import Deal
from tasks_app.events.bus import Event, subscribers
from tasks_app.events.models import EventDelivery, EventStream, EventSubscription
from tasks_app.events.relay import Relay
from tasks_app.lifecycle.errors import StaleVersionError
from tasks_app.lifecycle.models import OutboxEvent
from tests.database import Database
from tests.ending import ending
from tests.events.parts import Dedup, Recorder, committed, move, quoted
from tests.lifecycle.threads import at_once
from tests.rounds import rounds
from tests.support import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
COMMITS = rounds(10, 40)
# Of a process of relaying.py: publishing, the application's own subscribers, and `filed`.
_ERRANDS = 1 + len(subscribers()) + 1


@contextmanager
def relaying(file: Path, what: str = "go", at: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.events.relaying", str(file), what, str(at)]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with ending(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stderr=nowhere, stdout=nowhere)) as process:
        yield process


def filed(file: Path) -> list[Dedup]:
    lines = file.read_text().splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines]
    return [(kind, UUID(pk), seq) for kind, pk, seq in found]


def all_delivered(*names: str) -> bool:
    """Positions are asked for before deliveries: what steps aside does so in the commit that moves them."""
    if OutboxEvent.objects.filter(position__isnull=True).exists():
        return False
    head = EventStream.objects.get().head
    passed = EventSubscription.objects.filter(pk__in=names, position=head, in_hand_to__isnull=True)
    return passed.count() == len(names) and not EventDelivery.objects.exists()


def in_order(took: list[Dedup]) -> bool:
    """Whether each entity's events were first handed over in the order of their seq."""
    first = list(dict.fromkeys(took))
    by_entity: dict[UUID, list[int]] = {}
    for _, pk, seq in first:
        by_entity.setdefault(pk, []).append(seq)
    return all(seqs == sorted(seqs) for seqs in by_entity.values())


def write(deals: list[UUID], seed: int) -> int:
    """Moves deals that others move too: one or several in a commit, or rolled back. Answers the commits."""
    dice, commits = random.Random(seed), 0  # noqa: S311
    while commits < COMMITS:
        chosen = sorted(dice.sample(deals, dice.choice([1, 1, 1, 3])))
        try:
            with transaction.atomic():
                for pk in chosen:
                    move(Deal.objects.get(pk=pk), dice.choice([1, 2]))
                if dice.random() < 0.2:
                    transaction.set_rollback(True)
                else:
                    commits += 1
        except StaleVersionError:
            continue
    return commits


def test_four_writers_and_a_failing_subscriber_at_once(
    committed_db: Database, nobody: None, settings: Any
) -> None:
    settings.EVENT_RETRY_FIRST_S = 0.05
    settings.EVENT_TICK_S = 0.01
    good, shaky = Recorder("good"), Recorder("shaky", ["deal.*"])
    dice = random.Random(7)  # noqa: S311
    shaky.fails = lambda _event: dice.random() < 0.1
    deals = [quoted(f"Seller {number}").pk for number in range(6)]

    with Relay():
        commits = at_once(*[lambda seed=seed: write(deals, seed) for seed in range(4)])
        assert commits == [COMMITS] * 4
        until(lambda: all_delivered("good", "shaky"), "everything is delivered")

    assert sorted(good.took) == sorted(committed()), "each once, none missing"
    assert in_order(good.took)
    of_deals = [one for one in committed() if one[0] == "deal"]
    assert sorted(shaky.took) == sorted(of_deals)
    for pk, seqs in shaky.by_entity().items():
        assert seqs == list(range(1, len(seqs) + 1)), pk
    assert len(shaky.tried) > len(shaky.took), "it did fail"
    positions = sorted(OutboxEvent.objects.values_list("position", flat=True))
    assert positions == list(range(1, len(positions) + 1))


def test_killed_between_the_handler_and_the_commit_it_is_delivered_again(
    committed_db: Database, nobody: None, tmp_path: Path
) -> None:
    file = tmp_path / "filed"
    deals = [quoted("One"), quoted("Two")]
    for deal in deals:
        move(deal, 5)

    with relaying(file, "die", 4) as process:
        assert process.wait(PATIENCE_S) == -9
    before = filed(file)
    assert before[-1][2] == 4
    left = EventSubscription.objects.get(pk="filed")
    assert left.in_hand_to is not None
    assert left.position == 0, "what was handled is not yet known to have been"

    with relaying(file):
        until(lambda: all_delivered("filed"), "everything is delivered")
    after = filed(file)
    assert set(after) == {one for one in committed() if one[0] == "deal"}
    assert in_order(after[len(before) :])
    assert in_order(after)
    assert set(before) < set(after[len(before) :]), "at least once: the killed one's again"


def test_an_event_that_kills_each_relay_costs_attempts_and_stops_no_other_entity(
    committed_db: Database, nobody: None, tmp_path: Path
) -> None:
    file = tmp_path / "filed"
    poison, well = quoted("Poison"), quoted("Well")
    move(poison, 2)
    move(well, 1)
    for died in range(1, 3):
        with relaying(file, "die", 3) as process:
            assert process.wait(PATIENCE_S) == -9, died
    held = EventDelivery.objects.get(subscriber="filed", entity_id=poison.pk, due_at__isnull=False)
    assert (held.event.seq, held.attempts) == (3, 1), "the first death was in a batch, not counted"
    assert {one for one in filed(file) if one[1] == well.pk} == {("deal", well.pk, 1), ("deal", well.pk, 2)}

    with relaying(file):
        until(lambda: all_delivered("filed"), "everything is delivered")
    assert in_order(filed(file))


def test_one_process_at_a_time_delivers_and_the_next_takes_over_a_killed_one(
    committed_db: Database, nobody: None, tmp_path: Path
) -> None:
    first_file, second_file = tmp_path / "first", tmp_path / "second"
    deal = quoted()
    with relaying(first_file, "hang", 1) as first:
        until(lambda: filed(first_file), "the first has the event in hand")
        with relaying(second_file):
            move(deal)
            first.send_signal(signal.SIGSTOP)  # it neither ends nor lets go
            until(lambda: refused() == _ERRANDS, "the second was refused every errand")
            assert filed(second_file) == [], "what the first has in hand is nobody else's"
            first.kill()
            until(lambda: all_delivered("filed"), "the second has taken over")
    assert filed(first_file) == [("deal", deal.pk, 1)]
    assert filed(second_file) == [("deal", deal.pk, 1), ("deal", deal.pk, 2)]


def refused() -> int:
    """How many connections did nothing since they asked for an errand's lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and query like 'select pg_try_advisory_lock%%' and state = 'idle'"
        )
        return int(cursor.fetchone()[0])


def test_a_hanging_subscriber_holds_up_nobody_else(committed_db: Database, nobody: None) -> None:
    hangs, good = Recorder("hangs"), Recorder("good")
    release, hanging = threading.Event(), threading.Event()

    def hang(_event: Event) -> bool:
        hanging.set()
        return not release.wait(PATIENCE_S)

    hangs.fails = hang
    deal = quoted()
    with Relay():
        assert hanging.wait(PATIENCE_S)
        move(deal, 3)
        until(lambda: all_delivered("good"), "the other one has everything")
        assert good.seqs(deal.pk) == [1, 2, 3, 4]
        assert hangs.took == []
        release.set()
        until(lambda: all_delivered("hangs"), "and it, once it goes on")


def test_it_goes_on_after_its_connections_were_cut(committed_db: Database, recorder: Recorder) -> None:
    deal = quoted()
    with Relay():
        until(lambda: all_delivered("recorder"))
        with connection.cursor() as cursor:
            cursor.execute(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            assert cursor.fetchone()[0] >= 2
        move(deal)
        until(lambda: all_delivered("recorder"), "it has connected again")
    assert recorder.seqs(deal.pk) == [1, 2]


def test_two_relays_in_one_process_share_nothing_twice(committed_db: Database, recorder: Recorder) -> None:
    deal = quoted()
    with Relay(), Relay():
        move(deal, 30)
        until(lambda: all_delivered("recorder"))
    assert recorder.seqs(deal.pk) == list(range(1, 32))


def test_the_end_of_a_relay_gives_its_locks_back(committed_db: Database, recorder: Recorder) -> None:
    move(quoted(), 3)
    with Relay():
        until(lambda: all_delivered("recorder"))
        assert errands_held() == 2, "publishing, and the one subscriber"
    until(lambda: errands_held() == 0, "the locks are free")


def errands_held() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "select count(*) from pg_locks join pg_database d on d.oid = database"
            " where locktype = 'advisory' and d.datname = current_database()"
        )
        return int(cursor.fetchone()[0])
