"""One purchase is one mutation: what a deal holds is bought by one request, all of it or nothing."""

from __future__ import annotations

from pathlib import Path

from orders.models import DealStatus
from tasks_app.jobs.models import JobStatus
from tasks_app.operations.models import READS
from tests.database import Database
from tests.fake_seller.driver import FakeSeller
from tests.races.bookings import LEASES, booking
from tests.races.life import Life

LINES = 3


def test_a_refused_purchase_left_nothing_behind(committed_db: Database, tmp_path: Path) -> None:
    with FakeSeller(tmp_path) as seller:
        sale = booking(seller, lines=LINES)
        seller.fault(
            "create_media_buy", "error", code="PRODUCT_UNAVAILABLE", message="The third is sold out."
        )
        with Life("work", sale.job.pk, env=LEASES) as life:
            assert life.done()

        (asked,) = mutations(seller)
        assert (asked["tool"], len(asked["arguments"]["packages"])) == ("create_media_buy", LINES)
        assert seller.books() == []
        sale.deal.refresh_from_db()
        sale.job.refresh_from_db()
        assert (sale.deal.status, sale.job.status) == (DealStatus.FAILED, JobStatus.COMPLETED)


def test_a_purchase_is_one_request_with_every_line(committed_db: Database, tmp_path: Path) -> None:
    with FakeSeller(tmp_path) as seller:
        sale = booking(seller, lines=LINES)
        with Life("work", sale.job.pk, env=LEASES) as life:
            assert life.done()

        (asked,) = mutations(seller)
        assert (asked["tool"], len(asked["arguments"]["packages"])) == ("create_media_buy", LINES)
        assert sale.settled_once().result["media_buy_id"] == seller.books()[0]["media_buy_id"]


def mutations(seller: FakeSeller) -> list[dict[str, object]]:
    return [request for request in seller.requests() if request["tool"] not in READS]
