"""SIGKILL at each point of a booking: it ends booked, bought once, its effects once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from config.processes import ProcessGroup
from tasks_app.jobs.models import Job, StepStatus
from tasks_app.operations.models import OperationStatus as S
from tests.database import Database
from tests.fake_seller.driver import FakeSeller
from tests.jobs.cluster import Worker, leases_over
from tests.races.bookings import LEASES, Booking, booking
from tests.races.conftest import effects
from tests.races.life import Life
from tests.rounds import sample_cases
from tests.support import transactions_over, until

# Where it dies; where the purchase then stands, whether its end was published; how often the seller is asked.
POINTS = [
    ("before_send", S.CALLING_ADCP, False, 1),
    ("before_observe", S.CALLING_ADCP, False, 2),
    ("in_observe", S.CALLING_ADCP, False, 2),
    ("before_publish", S.COMPLETED, False, 1),
    ("in_publish", S.COMPLETED, False, 1),
    ("before_wake", S.COMPLETED, True, 1),
]


@pytest.fixture
def well(tmp_path: Path) -> Iterator[FakeSeller]:
    with FakeSeller(tmp_path) as seller:
        yield seller


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[FakeSeller]:
    with FakeSeller(tmp_path, mode="submitted") as seller:
        yield seller


def lives_on(sale: Booking) -> None:
    """Another worker's process takes over what the killed one had in hand, by itself, once its leases are
    over."""
    transactions_over()
    leases_over()
    with Life("work", sale.job.pk, env=LEASES) as next_life:
        assert next_life.done()


@pytest.mark.parametrize(
    ("point", "stands", "published", "asked"),
    [pytest.param(*p, id=p[0]) for p in sample_cases(POINTS, most=3)],
)
def test_killed_at(
    committed_db: Database, well: FakeSeller, point: str, stands: str, published: bool, asked: int
) -> None:
    sale = booking(well)

    with Life("work", sale.job.pk, until=point, env=LEASES) as life:
        assert life.killed()
    purchase = sale.purchase
    assert (purchase.status, purchase.published_at is not None) == (stands, published)
    assert effects(purchase) == published
    lives_on(sale)

    assert sale.asked() == asked
    assert effects(sale.settled_once()) == 1


def test_killed_while_the_seller_has_the_request(committed_db: Database, well: FakeSeller) -> None:
    """After the send: the seller books, and its answer reaches nobody."""
    sale = booking(well)
    well.fault("create_media_buy", "hang", seconds=120)

    with Life("work", sale.job.pk, env=LEASES) as life:
        until(lambda: well.books(), "the seller has booked")
        life.kill()
    assert sale.purchase.status == S.CALLING_ADCP
    lives_on(sale)

    assert sale.asked() == 2
    assert effects(sale.settled_once()) == 1


@pytest.mark.parametrize("point", ["before_observe_poll", "before_publish", "in_publish"])
def test_killed_when_a_poll_brought_the_end(committed_db: Database, slow: FakeSeller, point: str) -> None:
    sale = booking(slow)

    with Life("work", sale.job.pk, until=point, env=LEASES) as life:
        assert life.killed()
    assert sale.purchase.status == (S.SUBMITTED if point == "before_observe_poll" else S.COMPLETED)
    lives_on(sale)

    assert sale.asked() == 1
    assert sale.settled_once().settled_by == "poll"
    assert effects(sale.purchase) == 1


def test_a_wake_up_lost_to_a_kill_is_made_up_for_by_a_worker(
    committed_db: Database, processes: ProcessGroup, well: FakeSeller
) -> None:
    """The step sleeps in the database, published over; nothing is in the queue for it."""
    sale = booking(well)
    with Life("work", sale.job.pk, until="before_wake", env=LEASES) as life:
        assert life.killed()
    assert sale.job.steps.get(key="buy").status == StepStatus.AWAITING_TOOL

    Worker(processes)

    until(lambda: Job.objects.get(pk=sale.job.pk).status == "COMPLETED", "the job is completed")
    assert effects(sale.settled_once()) == 1
