"""Runs of reconciliation: asked for by start, schedule and people; one at a time; killed ones are lost."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import connection
from django_q.models import OrmQ

from config.processes import ProcessGroup
from tasks_app import clock
from tasks_app.lifecycle.transitions import transition
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.notifications.models import Notification
from tasks_app.operations import placeholders
from tasks_app.operations.models import Operation
from tasks_app.operations.sweep import sweep_once
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tasks_app.reconciliation.retention import reports_prune
from tasks_app.reconciliation.runs import _LOCK, run_ask, runs_wake, runs_work
from tasks_app.sellers.models import Account, Seller
from tasks_app.session_locks import session_locked
from tests.commands.reconciling import lists, pending, sent, task, task_at, verdicts
from tests.commands.running import call, ended, run, started
from tests.factories import make_account, make_advertiser, make_team, make_user
from tests.fake_seller.driver import FakeSeller
from tests.jobs.cluster import Worker
from tests.support import until

State = ReconciliationRun.State


def test_an_orphan_is_observed_to_its_end(faulty: FakeSeller, seller: Seller) -> None:
    make_user("Ad Ops", name="omar")
    account = make_account(make_advertiser(), seller)
    account.reference = {"account_id": "fake-fake-buyer.example"}  # the one it is bought for
    account.save()
    Seller.objects.filter(pk=seller.pk).update(timing={"deadline_create_media_buy_s": 7200})
    task_id = task_at(faulty, seller)
    lists(faulty, task(task_id, "working", "create_media_buy"))

    first = call("reconcile", "--json")
    (found,) = first.json["sellers"][0]["tasks"]
    placeholder = Operation.objects.get(task_id=task_id)

    assert (found["verdict"], first.code, first.json["unattended"]) == ("orphaned", 1, 0)
    assert found["handled"] == f"observed as {placeholder.reference}"
    assert (placeholder.task_type, placeholder.status) == ("unknown", "working")
    assert placeholder.deadline_at is not None
    assert placeholder.deadline_at - placeholder.created_at == timedelta(hours=2), "the seller’s own deadline"
    assert (placeholder.team, placeholder.account) == (account.advertiser.team, account)
    assert verify_entity("operation", placeholder.pk).ok

    async_to_sync(sweep_once)()
    placeholder.refresh_from_db()

    assert placeholder.status == "completed"
    assert placeholder.result is not None
    again = ReconciliationRun.objects.get(state=State.ASKED)
    assert (again.trigger, again.only) == ("orphan", seller), "whose media buy it was is asked for at once"
    assert call("reconcile", "--json").json["counts"]["orphaned"] == 0
    assert verify_entity("operation", placeholder.pk).ok


def test_a_task_listed_for_every_account_is_nobodys_for_certain(faulty: FakeSeller, seller: Seller) -> None:
    make_account(make_advertiser(), seller)
    Account.objects.create(
        advertiser=make_advertiser("Tamarack Outdoor", team=make_team("Elsewhere")),
        seller=seller,
        reference={"account_id": "acc-2"},
    )
    lists(faulty, task("whose"))

    call("reconcile")

    assert Operation.objects.get(task_id="whose").team is None


def test_the_sellers_echo_binds_a_call_whose_answer_was_lost(faulty: FakeSeller, seller: Seller) -> None:
    out = sent(seller)
    lists(faulty, {**task("task-9", "working"), "context": {"operation_id": str(out.pk)}})

    ran = call("reconcile", "--json")

    out.refresh_from_db()
    assert verdicts(ran) == {"task-9": "unanswered"}
    assert (out.task_id, out.status) == ("task-9", "submitted")
    assert out.observations.get(channel="reconcile").outcome == "applied"


def test_a_task_id_that_no_column_holds_is_a_persons(faulty: FakeSeller, seller: Seller) -> None:
    make_user("Ad Ops", name="omar")
    lists(faulty, task("x" * 300), task("x" * 301))

    ran = call("reconcile", "--json")

    assert (ran.code, ran.json["differ"], ran.json["unattended"]) == (1, 2, 0)
    assert not Operation.objects.exists()
    assert ReconciliationFinding.objects.filter(resolved_at__isnull=True).count() == 2
    assert {found["waits_on"] for found in ran.json["sellers"][0]["tasks"]} == {"omar"}


def test_a_task_id_with_a_nul_holds_up_nothing(faulty: FakeSeller, seller: Seller) -> None:
    make_user("Ad Ops", name="omar")
    lists(faulty, {**task("a\0b"), "message": "\0"}, task("orphan"))

    ran = call("reconcile", "--json")

    assert (ran.code, ran.json["differ"]) == (1, 2)
    assert set(Operation.objects.values_list("task_id", flat=True)) == {"a\ufffdb", "orphan"}


def test_so_many_tasks_that_nobody_knows_are_observed_at_a_time(
    faulty: FakeSeller, seller: Seller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are a person's, until one has ended."""
    monkeypatch.setattr(placeholders, "_MOST_OBSERVED", 2)
    make_user("Ad Ops", name="omar")
    lists(faulty, *(task(f"flood-{number}") for number in range(5)))

    assert call("reconcile", "--json").code == 1
    assert Operation.objects.count() == 2
    assert ReconciliationFinding.objects.filter(resolved_at__isnull=True).count() == 3
    first = Operation.objects.order_by("id")[0]
    transition(first, "failed", actor="system", changes={"settled_at": clock.now()})
    call("reconcile", "--json")
    assert Operation.objects.count() == 3


def test_nobody_who_may_act_means_unattended(faulty: FakeSeller, seller: Seller) -> None:
    pending(seller, "gone")
    lists(faulty)

    assert call("reconcile", "--json").json["unattended"] == 1
    make_user("Ad Ops")
    assert call("reconcile", "--json").json["unattended"] == 0


def test_two_at_once_make_one_placeholder(faulty: FakeSeller, seller: Seller) -> None:
    make_user("Ad Ops")
    lists(faulty, task("orphan"))
    faulty.fault("list_tasks", "hang", 1, seconds=1)

    with ExitStack() as at_work:
        processes = [at_work.enter_context(started("reconcile", "--json")) for _ in range(3)]
        codes = [ended(process).code for process in processes]

    assert sorted(codes) == [0, 0, 1], "the first finds it, the others find it observed"
    assert Operation.objects.filter(task_id="orphan").count() == 1
    assert Notification.objects.filter(kind="reconciliation").count() == 1
    assert set(ReconciliationRun.objects.values_list("state", flat=True)) == {State.ENDED}


def test_a_killed_run_is_lost_and_the_next_begins_at_once(faulty: FakeSeller, seller: Seller) -> None:
    lists(faulty, task("orphan"))
    faulty.fault("get_media_buys", "hang", 1, seconds=60)
    make_account(make_advertiser(), seller)
    with started("reconcile"):
        until(lambda: faulty.requests("get_media_buys"), "the seller is being asked")
    until(lambda: not session_locked(_LOCK), "the database knows that it was killed")
    ran = run("reconcile", "--json")

    assert ran.json["counts"]["orphaned"] == 1
    assert list(ReconciliationRun.objects.order_by("id").values_list("state", flat=True)) == [
        State.LOST,
        State.ENDED,
    ]
    assert Operation.objects.filter(task_id="orphan").count() == 1


def test_a_slow_seller_is_not_read_and_delays_only_itself(
    faulty: FakeSeller, seller: Seller, settings: object
) -> None:
    settings.RECONCILE_LIMIT_S = 1  # type: ignore[attr-defined]
    pending(seller, "task-1")
    faulty.fault("list_tasks", "hang", 0, seconds=20)
    run = run_ask(trigger="schedule", actor="system")

    runs_work()

    run.refresh_from_db()
    assert run.state == State.ENDED
    assert [one["ours"] for one in run.report[0]["unread"]] == ["its answers took longer than 0.5 s"]
    assert run.report[0]["tasks"] == []


def test_what_was_not_read_is_not_called_over(faulty: FakeSeller, seller: Seller) -> None:
    pending(seller, "gone")
    lists(faulty)
    call("reconcile")
    faulty.fault("list_tasks", "http", 1)

    call("reconcile")
    assert ReconciliationFinding.objects.get().is_open

    faulty.fault("get_task_status", "merge", answer={"task_id": "gone", "status": "working"})
    faulty.clear()
    lists(faulty, task("gone", "working"))
    call("reconcile")
    assert ReconciliationFinding.objects.get().resolution == "gone"


def test_a_task_still_behind_after_it_was_polled_is_a_persons(faulty: FakeSeller, seller: Seller) -> None:
    make_user("Ad Ops", name="omar")
    operation = pending(seller, "task-1")
    lists(faulty, task("task-1", "completed"))

    call("reconcile")
    operation.refresh_from_db()
    assert operation.next_poll_at is not None
    assert operation.next_poll_at <= clock.now()
    assert ReconciliationFinding.objects.get().resolution == "polled"

    later = clock.now() + timedelta(minutes=20)
    with clock.injected(lambda: later):
        ran = call("reconcile", "--json")

    (found,) = ran.json["sellers"][0]["tasks"]
    assert (found["handled"], found["waits_on"]) == ("", "omar")
    assert ReconciliationFinding.objects.filter(resolved_at__isnull=True).count() == 1


def test_the_schedule_asks_once_an_interval_and_wakes_one_worker(seller: Seller) -> None:
    assert [runs_wake() for _ in range(3)] == [1, 0, 0]
    assert ReconciliationRun.objects.get().trigger == "schedule"
    assert OrmQ.objects.count() == 1

    runs_work()
    assert runs_wake() == 0
    later = clock.now() + timedelta(seconds=settings.RECONCILE_EVERY_S + 1)
    with clock.injected(lambda: later):
        assert runs_wake() == 1
    assert ReconciliationRun.objects.count() == 2


def test_a_wake_up_that_was_lost_is_repeated(seller: Seller) -> None:
    runs_wake()
    OrmQ.objects.all().delete()
    later = clock.now() + timedelta(minutes=1)
    with clock.injected(lambda: later):
        assert runs_wake() == 1


def test_what_is_asked_for_twice_waits_once_and_covers_both(seller: Seller) -> None:
    one = run_ask(trigger="hand", actor="system", only=seller)
    same = run_ask(trigger="hand", actor="system", only=seller)
    assert (one.pk, same.only) == (same.pk, seller)
    assert run_ask(trigger="start", actor="system").only is None


def test_the_worker_cluster_compares_when_it_starts(
    faulty: FakeSeller, seller: Seller, processes: ProcessGroup
) -> None:
    lists(faulty, task("orphan"))

    Worker(processes).started()

    until(lambda: ReconciliationRun.objects.filter(trigger="start", state=State.ENDED).exists(), "it ran")
    until(lambda: Operation.objects.filter(task_id="orphan", polls__gte=1).exists(), "it is polled")


def test_old_reports_are_forgotten_and_what_waits_is_kept(faulty: FakeSeller, seller: Seller) -> None:
    pending(seller, "gone")
    lists(faulty, task("orphan"))
    for _ in range(3):
        call("reconcile")
    open_before = list(ReconciliationFinding.objects.filter(resolved_at__isnull=True))
    assert (len(open_before), reports_prune()) == (1, 0)

    later = clock.now() + settings.RECONCILE_KEEP + timedelta(days=1)
    with clock.injected(lambda: later):
        assert reports_prune() == 3

    assert ReconciliationRun.objects.count() == 1
    assert list(ReconciliationFinding.objects.all()) == open_before


def test_a_flood_of_tasks_is_taken_up_in_parts(
    faulty: FakeSeller, seller: Seller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placeholders, "_MOST_OBSERVED", 1000)
    lists(faulty, *(task(f"task-{number}") for number in range(230)))

    ran = call("reconcile", "--json")
    assert ran.json["counts"]["orphaned"] == 200
    assert "30 more tasks that nobody here knows" in ran.json["sellers"][0]["notes"][0]
    assert call("reconcile", "--json").json["counts"]["orphaned"] == 30
    assert Operation.objects.filter(task_type="unknown").count() == 230


@pytest.mark.usefixtures("seller")
def test_the_lock_is_given_back() -> None:
    call("reconcile")
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from pg_locks where locktype = 'advisory'")
        assert cursor.fetchone() == (0,)
