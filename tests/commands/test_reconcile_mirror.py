"""Media buys read again from real sellers: what is due, many at once, once by whoever reads, past faults."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from orders.mirror import mirror_read_now, mirrors_refresh_due, mirrors_wake
from orders.models import Deal, DealMirror
from tasks_app import clock
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.notifications.models import Notification
from tasks_app.sellers.models import Account, Seller
from tests.commands.running import ROOT
from tests.database import Database
from tests.elapsing import elapsing
from tests.ending import line_of
from tests.factories import make_advertiser, make_seller, make_team
from tests.fake_seller.driver import FakeSeller
from tests.orders.live import booked
from tests.support import locks_awaited, until

IDS = ("mb-1", "mb-2", "mb-3")


def due(*deals: Deal) -> None:
    for deal in deals:
        mirror_read_now(deal=deal)


def tells(faulty: FakeSeller, status: str, *ids: str, times: int = 0, **more: Any) -> None:
    """What the seller says of media buys from now on."""
    buys = [{"media_buy_id": named, "status": status, "revision": 2, **more} for named in ids]
    faulty.fault("get_media_buys", "merge", times, answer={"media_buys": buys})


def statuses() -> dict[str, str]:
    return dict(Deal.objects.values_list("media_buy_id", "status"))


@contextmanager
def mirrorer(**env: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is ready to read what is due."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "tests.commands.mirrorer"]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **env}, stdin=pipe, stdout=pipe, text=True
    )
    try:
        assert line_of(process.stdout) == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_one_question_for_all_of_an_account(faulty: FakeSeller, seller: Seller) -> None:
    deals = [booked(seller, media_buy_id=named) for named in IDS]
    tells(faulty, "active", *IDS)
    due(*deals)

    assert mirrors_refresh_due() == 3

    assert statuses() == dict.fromkeys(IDS, "delivering")
    (asked,) = faulty.requests("get_media_buys")
    assert sorted(asked["arguments"]["media_buy_ids"]) == sorted(IDS)
    assert asked["arguments"]["account"] == {"account_id": "acc-faulty"}
    assert len(asked["arguments"]["status_filter"]) == 7


def test_accounts_are_asked_apart(faulty: FakeSeller, seller: Seller) -> None:
    one, other = booked(seller, media_buy_id="mb-1"), booked(seller, media_buy_id="mb-2")
    account = Account.objects.create(
        advertiser=make_advertiser("Tamarack Outdoor"), seller=seller, reference={"account_id": "acc-2"}
    )
    Deal.objects.filter(pk=other.pk).update(account=account)
    due(one, other)

    mirrors_refresh_due()

    asked = [r["arguments"] for r in faulty.requests("get_media_buys")]
    assert sorted((a["account"]["account_id"], a["media_buy_ids"]) for a in asked) == [
        ("acc-2", ["mb-2"]),
        ("acc-faulty", ["mb-1"]),
    ]


def owned(seller: Seller, media_buy_id: str, *, team: str, advertiser: str) -> Deal:
    """A live deal of theirs with a seller that has no accounts."""
    deal = booked(seller, media_buy_id=media_buy_id)
    owner = make_advertiser(advertiser, team=make_team(team))
    Deal.objects.filter(pk=deal.pk).update(account=None, advertiser=owner, team=owner.team)
    return deal


def test_what_a_seller_says_of_one_advertisers_buys_is_on_no_page_of_anothers(
    faulty: FakeSeller, seller: Seller
) -> None:
    """Without accounts too: a question, and so the words that refuse it, names one owner's media buys."""
    one = owned(seller, "mb-1", team="Halden & Marsh", advertiser="Lindqvist Coffee")
    two = owned(seller, "mb-2", team="Another house", advertiser="Lindqvist Coffee")
    three = owned(seller, "mb-3", team="Halden & Marsh", advertiser="Tamarack Outdoor")
    faulty.fault("get_media_buys", "error", 1, code="INVALID_REQUEST", message="mb-1 is locked by acme")
    tells(faulty, "active", "mb-2", "mb-3")
    due(one, two, three)

    mirrors_refresh_due()

    asked = [question["arguments"]["media_buy_ids"] for question in faulty.requests("get_media_buys")]
    assert asked == [["mb-1"], ["mb-2"], ["mb-3"]]
    unread = dict(DealMirror.objects.values_list("deal__media_buy_id", "unread"))
    assert "mb-1 is locked by acme" in unread.pop("mb-1")
    assert unread == {"mb-2": "", "mb-3": ""}
    assert statuses() == {"mb-1": "booked", "mb-2": "delivering", "mb-3": "delivering"}


@pytest.mark.usefixtures("still")
def test_only_what_is_due_is_read_and_it_is_due_soon_then_hourly(faulty: FakeSeller, seller: Seller) -> None:
    deal = booked(seller)
    first = DealMirror.objects.get(pk=deal.pk).due_at
    assert first is not None
    assert timedelta(0) < first - clock.now() <= timedelta(minutes=1)
    assert (mirrors_wake(), mirrors_refresh_due()) == (0, 0)
    assert faulty.requests() == []

    tells(faulty, "pending_start", "mb-1")
    for minutes in (10, 60):  # it moved at the first reading: sooner again, then as usual
        due(deal)
        assert mirrors_wake() == 1
        mirrors_refresh_due()
        again = DealMirror.objects.get(pk=deal.pk).due_at
        assert again is not None
        assert timedelta(minutes=minutes - 1) < again - clock.now() <= timedelta(minutes=minutes)


def test_the_ends_of_the_flight_are_looked_at(faulty: FakeSeller, seller: Seller) -> None:
    start = clock.now() + timedelta(minutes=20)
    deal = booked(seller, start_at=start, end_at=start + timedelta(days=3))
    tells(faulty, "pending_start", "mb-1", times=0)
    for _ in range(2):
        due(deal)
        mirrors_refresh_due()
    later = clock.now() + timedelta(minutes=15)
    with clock.injected(lambda: later):
        due(deal)
        mirrors_refresh_due()
    assert DealMirror.objects.get(pk=deal.pk).due_at == start + timedelta(minutes=1)


def test_completed_and_final_at_a_seller_that_reports_delivery(faulty: FakeSeller, seller: Seller) -> None:
    Seller.objects.update(tools=[*seller.tools, "get_media_buy_delivery"])
    deal = booked(Seller.objects.get())
    tells(faulty, "completed", "mb-1")
    with clock.injected(lambda: deal.end_at):
        due(deal)
        mirrors_refresh_due()
    assert statuses() == {"mb-1": "delivering"}

    packages = [{"package_id": "p", "is_final": True}]
    rows = [{"media_buy_id": "mb-1", "by_package": packages}, {"media_buy_id": "mb-9", "is_final": True}]
    faulty.fault("get_media_buy_delivery", "merge", answer={"media_buy_deliveries": rows})
    with clock.injected(lambda: deal.end_at):
        due(deal)
        mirrors_refresh_due()

    assert statuses() == {"mb-1": "completed"}
    assert DealMirror.objects.get(pk=deal.pk).due_at is None
    assert verify_entity("deal", deal.pk).ok


@pytest.mark.usefixtures("still")
def test_one_unknown_id_does_not_hide_the_others(faulty: FakeSeller, seller: Seller) -> None:
    deals = [booked(seller, media_buy_id=named) for named in IDS]
    faulty.fault("get_media_buys", "error", 1, code="MEDIA_BUY_NOT_FOUND", message="mb-2?")
    tells(faulty, "active", "mb-1", "mb-3")
    due(*deals)

    mirrors_refresh_due()

    assert statuses() == {"mb-1": "delivering", "mb-2": "booked", "mb-3": "delivering"}
    kept = DealMirror.objects.get(deal__media_buy_id="mb-2")
    assert kept.unread == "The seller did not tell of it"
    assert kept.due_at is not None
    assert kept.due_at > clock.now()


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("http", {"status": 503}),
        ("html", {}),
        ("truncated", {}),
        ("drop", {}),
        ("unauthorized", {}),
        ("crash", {}),
        ("merge", {"answer": {"media_buys": "none"}}),
        ("merge", {"answer": {"media_buys": [None, 7, {"media_buy_id": ["mb-1"]}, {"status": "canceled"}]}}),
        ("merge", {"answer": {"media_buys": [], "pagination": {"has_more": True, "cursor": "c"}}}),
    ],
)
def test_an_answer_that_says_nothing_changes_nothing_and_is_shown(
    faulty: FakeSeller, seller: Seller, kind: str, parameters: dict[str, Any]
) -> None:
    deal = booked(seller)
    faulty.fault("get_media_buys", kind, 0, **parameters)
    due(deal)

    mirrors_refresh_due()
    due(deal)
    mirrors_refresh_due()

    kept = DealMirror.objects.get(pk=deal.pk)
    assert (statuses(), kept.failures, kept.lease_until) == ({"mb-1": "booked"}, 2, None)
    assert kept.unread
    assert kept.due_at is not None
    assert kept.due_at > clock.now()

    faulty.clear()
    tells(faulty, "active", "mb-1")
    due(deal)
    mirrors_refresh_due()
    kept.refresh_from_db()
    assert (statuses(), kept.failures, kept.unread) == ({"mb-1": "delivering"}, 0, "")


def test_what_nobody_asked_for_moves_nothing(faulty: FakeSeller, seller: Seller) -> None:
    asked, other = booked(seller, media_buy_id="mb-1"), booked(seller, media_buy_id="mb-2")
    tells(faulty, "canceled", "mb-2")
    due(asked)

    mirrors_refresh_due()

    other.refresh_from_db()
    assert other.status == "booked"


def test_a_seller_that_tells_it_twice_is_believed_where_it_is_newest(
    faulty: FakeSeller, seller: Seller
) -> None:
    deal = booked(seller)
    answer = [
        {"media_buy_id": "mb-1", "status": "active", "revision": 4},
        {"media_buy_id": "mb-1", "status": "canceled", "revision": 3},
    ]
    faulty.fault("get_media_buys", "merge", 0, answer={"media_buys": answer})
    due(deal)
    mirrors_refresh_due()
    assert statuses() == {"mb-1": "delivering"}


def test_a_hanging_seller_delays_only_itself(faulty: FakeSeller, seller: Seller, tmp_path: Path) -> None:
    faulty.fault("get_media_buys", "hang", 0)

    def asked_in_vain_and_the_other_read() -> int:
        return bool(faulty.requests("get_media_buys")) and statuses()["mb-2"] == "delivering"

    with FakeSeller(tmp_path) as well:
        other = make_seller("Well", url=well.url, token=well.token)
        slow, quick = booked(seller, media_buy_id="mb-1"), booked(other, media_buy_id="mb-2")
        tells(well, "active", "mb-2")
        due(slow, quick)

        with elapsing(asked_in_vain_and_the_other_read):
            mirrors_refresh_due()

    assert statuses() == {"mb-1": "booked", "mb-2": "delivering"}
    assert "took longer than" in DealMirror.objects.get(pk=slow.pk).unread


def test_a_seller_that_is_away_is_asked_again(faulty: FakeSeller, seller: Seller) -> None:
    deal = booked(seller)
    faulty.kill()
    due(deal)
    mirrors_refresh_due()
    assert DealMirror.objects.get(pk=deal.pk).failures == 1

    faulty.start()
    tells(faulty, "active", "mb-1")
    later = clock.now() + timedelta(hours=1)
    with clock.injected(lambda: later):
        mirrors_refresh_due()
    assert statuses() == {"mb-1": "delivering"}


def test_two_processes_at_once_ask_for_each_deal_once(
    faulty: FakeSeller, seller: Seller, committed_db: Database
) -> None:
    """Both want the same rows in the same moment: neither can take one until both are waiting to."""
    deals = [booked(seller, media_buy_id=named) for named in IDS]
    tells(faulty, "canceled", *IDS)
    due(*deals)

    with mirrorer() as one, mirrorer() as other:
        with psycopg.connect(committed_db.urls.owner) as owner:
            owner.execute("lock table orders_dealmirror in exclusive mode")
            for process in (one, other):
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
            until(lambda: locks_awaited() == 2, "both are about to take what is due")
        read = [int(line_of(process.stdout)) for process in (one, other)]

    assert sorted(read) == [0, 3], "all are read by one of them"
    (asked,) = faulty.requests("get_media_buys")
    assert sorted(asked["arguments"]["media_buy_ids"]) == sorted(IDS)
    assert statuses() == dict.fromkeys(IDS, "cancelled")
    assert Notification.objects.filter(kind="deal_cancelled").count() == 3
    assert AuditEntry.objects.filter(entity_type="deal", to_status="cancelled").count() == 3


def test_killed_while_the_seller_is_asked_it_is_read_again(faulty: FakeSeller, seller: Seller) -> None:
    deal = booked(seller)
    faulty.fault("get_media_buys", "hang", 1, seconds=60)
    due(deal)
    with mirrorer() as process:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        until(lambda: faulty.requests("get_media_buys"), "the seller is being asked")
        assert no_transaction_is_open()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert mirrors_refresh_due() == 0, "what a killed process had is taken until its lease ends"
    tells(faulty, "active", "mb-1")

    later = clock.now() + timedelta(minutes=3)
    with clock.injected(lambda: later):
        assert mirrors_refresh_due() == 1

    assert statuses() == {"mb-1": "delivering"}


def test_a_pass_costs_what_is_due_not_what_exists(faulty: FakeSeller, seller: Seller) -> None:
    deals = [booked(seller, media_buy_id=f"mb-{number}") for number in range(6)]
    tells(faulty, "pending_start", *(deal.media_buy_id for deal in deals))
    due(*deals)
    mirrors_refresh_due()
    due(deals[0])

    with CaptureQueriesContext(
        connection,
    ) as one:
        mirrors_refresh_due()
    due(*deals)
    with CaptureQueriesContext(connection) as six:
        mirrors_refresh_due()

    # A savepoint, what was put back and how much of each seller is due among them.
    assert len(one) < 42
    # Among others what is asked about it, its changes in doubt, and what was shown of those on their way.
    assert len(six) - len(one) <= 5 * 14


def no_transaction_is_open() -> bool:
    query = (
        "select count(*) from pg_stat_activity where datname = current_database() "
        "and pid <> pg_backend_pid() and state like 'idle in transaction%'"
    )
    with connection.cursor() as cursor:
        cursor.execute(query)
        return bool(cursor.fetchone() == (0,))
