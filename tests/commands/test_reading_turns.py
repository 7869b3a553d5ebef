"""Readings of the mirror and of reconciliation: in the seller's slots and breaker, like every other call."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from orders.mirror import mirror_read_now, mirrors_refresh_due, mirrors_wake
from orders.models import DealMirror
from tasks_app import clock
from tasks_app.adcp import client
from tasks_app.adcp.types import Endpoint, Seen, WireError
from tasks_app.operations.breaker import breaker_record
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.lease import CallLease
from tasks_app.operations.reading import reading_line_to
from tasks_app.people.actors import SYSTEM
from tasks_app.reconciliation.runs import run_ask, run_perform
from tasks_app.sellers.models import Seller
from tasks_app.sellers.selectors import seller_breaker
from tests.commands.reconciling import lists, pending, verdicts
from tests.commands.running import call, started
from tests.commands.test_reconcile_mirror import mirrorer, statuses, tells
from tests.ending import line_of
from tests.factories import make_seller
from tests.fake_seller.driver import FakeSeller
from tests.operations.making import ask, give_back
from tests.orders.live import booked
from tests.support import PATIENCE_S, until

pytestmark = pytest.mark.deep


@pytest.fixture(autouse=True)
def _lasting(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds a place keeps it, here and in another process, however busy the machine."""
    settings.OPERATION_LEASE_S = 3600
    monkeypatch.setenv("FLIGHTDECK_OPERATION_LEASE_S", "3600")


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def silence(seller: Seller, times: int = 5) -> None:
    """So many calls without an answer: five leave a seller alone."""
    seen = Seen(kind="no_answer", error=WireError(code="X_FLIGHTDECK_NO_ANSWER", message="silence"))
    for _ in range(times):
        breaker_record(seller_id=seller.pk, seen=seen)


def test_a_reading_waits_for_the_slot_and_is_next(faulty: FakeSeller, seller: Seller) -> None:
    mirror_read_now(deal=booked(seller))
    tells(faulty, "active", "mb-1")
    out = ask(seller=seller)
    assert claim_one(operation_id=out.pk) is not None

    with mirrorer() as process:
        begin(process)
        until(lambda: CallLease.objects.count() == 2, "the reading queues")
        assert faulty.requests("get_media_buys") == [], "the only slot is taken"
        give_back(out.pk)
        assert claim_sends(limit=5) == [], "the reading was there first"
        assert line_of(process.stdout) == "1\n"

    assert statuses() == {"mb-1": "delivering"}
    assert not CallLease.objects.exists()
    assert [one.operation_id for one in claim_sends(limit=1)] == [out.pk]


def test_a_killed_reconcile_returns_its_slot(faulty: FakeSeller, seller: Seller) -> None:
    pending(seller, "task-1")
    waits = ask(seller=seller)
    faulty.fault("list_tasks", "hang", 1, seconds=60)
    with started("reconcile"):
        until(lambda: faulty.requests("list_tasks"), "the seller is being asked")
        assert claim_sends(limit=5) == [], "its call has the slot"

    assert claim_sends(limit=5) == []
    ends = CallLease.objects.get().until
    with clock.injected(lambda: ends + timedelta(seconds=1)):
        assert [one.operation_id for one in claim_sends(limit=1)] == [waits.pk]


def test_a_seller_left_alone_is_not_read_until_it_is_probed(faulty: FakeSeller, seller: Seller) -> None:
    mirror_read_now(deal=booked(seller))
    tells(faulty, "active", "mb-1")
    silence(seller)

    assert (mirrors_wake(), mirrors_refresh_due()) == (0, 0)
    assert faulty.requests("get_media_buys") == []
    assert DealMirror.objects.get().failures == 0, "nobody asked"

    probe = seller_breaker(seller).next_probe_at
    with clock.injected(lambda: probe + timedelta(seconds=1)):
        assert mirrors_refresh_due() == 1
    assert (statuses(), seller_breaker(seller).state) == ({"mb-1": "delivering"}, "closed")


def test_reconcile_leaves_it_alone_too(faulty: FakeSeller, seller: Seller) -> None:
    pending(seller, "task-1")
    lists(faulty)
    silence(seller)

    ran = call("reconcile", "--json")

    assert faulty.requests("list_tasks") == faulty.requests("get_media_buys") == []
    assert "left alone" in ran.json["sellers"][0]["unread"][0]
    assert verdicts(ran) == {}


@pytest.mark.parametrize("fault", ["drop", "html"])
def test_readings_that_fail_count_against_the_seller(faulty: FakeSeller, seller: Seller, fault: str) -> None:
    deal = booked(seller)
    silence(seller, 4)
    faulty.fault("get_media_buys", fault, 0)
    mirror_read_now(deal=deal)

    assert mirrors_refresh_due() == 1

    assert seller_breaker(seller).state == "open"
    assert DealMirror.objects.get().failures == 1


def test_a_seller_switched_off_is_not_read(faulty: FakeSeller, seller: Seller) -> None:
    mirror_read_now(deal=booked(seller))
    Seller.objects.update(active=False)

    assert (mirrors_wake(), mirrors_refresh_due()) == (0, 0)
    assert faulty.requests("get_media_buys") == []


BROKEN_OFF = "its connection broke off"


def by_the_mirror(bad: Seller, _well: Seller) -> None:
    assert mirrors_refresh_due() == 2
    assert statuses() == {"mb-1": "booked", "mb-2": "delivering"}
    kept = DealMirror.objects.get(deal__seller=bad)
    assert (kept.unread, kept.failures, kept.lease_until) == (BROKEN_OFF, 1, None)


def by_a_comparison(bad: Seller, well: Seller) -> None:
    """Of each kind of thing: tasks and media buys."""
    report = run_perform(run=run_ask(trigger="hand", actor=SYSTEM), limit_s=PATIENCE_S)
    read = {one.seller.pk: [reading.unread for reading, _ in one.kinds.values()] for one in report.sellers}
    assert read == {bad.pk: [BROKEN_OFF] * 2, well.pk: [""] * 2}
    assert report.run.error == ""


@pytest.mark.parametrize("read", [by_the_mirror, by_a_comparison], ids=lambda read: read.__name__)
def test_a_call_cancelled_from_within_stops_no_other_seller(
    faulty: FakeSeller,
    seller: Seller,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[Seller, Seller], None],
) -> None:
    """As by a connection that breaks off, while another seller is being asked."""
    real = client.call
    broken = asyncio.Event()

    async def call(endpoint: Endpoint, tool: str, arguments: Any, **more: Any) -> Seen:
        if endpoint.url == seller.url:
            broken.set()
            raise asyncio.CancelledError
        await asyncio.wait_for(broken.wait(), PATIENCE_S)
        return await real(endpoint, tool, arguments, **more)

    with FakeSeller(tmp_path) as answering:
        well = make_seller("Well", url=answering.url, token=answering.token)
        for one, media_buy_id in ((seller, "mb-1"), (well, "mb-2")):
            pending(one, f"task-{media_buy_id}")
            mirror_read_now(deal=booked(one, media_buy_id=media_buy_id))
        tells(answering, "active", "mb-2")
        lists(answering)
        monkeypatch.setattr(client, "call", call)
        read(seller, well)

    assert broken.is_set()
    assert not CallLease.objects.exists()


def test_who_cancels_a_reading_is_obeyed_and_its_place_is_free(
    seller: Seller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        out = asyncio.Event()

        async def call(*_: Any, **__: Any) -> Seen:
            out.set()
            await asyncio.sleep(PATIENCE_S)
            raise AssertionError("nobody answers")

        monkeypatch.setattr(client, "call", call)
        asking = asyncio.create_task(line.ask("get_media_buys", {}))
        await asyncio.wait_for(out.wait(), PATIENCE_S)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    line = reading_line_to(seller)
    async_to_sync(story)()
    assert not CallLease.objects.exists()
