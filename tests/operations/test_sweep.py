"""The sweep itself: one at a time, a pass that ends, and trouble that stays where it is."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connection

from tasks_app import stopping
from tasks_app.operations import publish, sweep
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.sweep import Swept, sweep_for
from tasks_app.session_locks import session_lock_holder
from tests.adcp.raw_server import Request, serve
from tests.database import Database
from tests.factories import make_seller
from tests.operations import sweeping
from tests.operations.making import TASK, ask, fresh, leased_until, stand
from tests.operations.sweeping import answering, calls
from tests.support import PATIENCE_S

DONE = {"status": "completed", "media_buy_id": "mb-1", "packages": []}


def slice_(seconds: float = 0.5) -> tuple[Swept, list[str]]:
    """A turn of the sweep loop in this thread, and whether it handed over."""
    handed: list[str] = []
    swept = async_to_sync(sweep_for)(seconds=seconds, handover=lambda: handed.append("next"))
    return swept, handed


@pytest.fixture
def quick(settings: Any) -> None:
    settings.SWEEP_TICK_S = 0.05


def test_one_sweep_loop_at_a_time(committed_db: Database, quick: None) -> None:
    ask()
    with psycopg.connect(committed_db.urls.app, autocommit=True) as other:
        other.execute("select pg_advisory_lock(%s)", [sweep._LOCK])
        swept, handed = slice_()

    assert (swept.calls, handed) == (0, [])
    assert Operation.objects.get().status == S.REQUESTED
    assert slice_()[1] == ["next"], "a holder that ended has given it back"
    assert slice_()[1] == ["next"], "and so have we"


def test_a_lost_connection_costs_a_tick(committed_db: Database, quick: None, monkeypatch: Any) -> None:
    """The purchase that was asked for just before is made, in the same slice."""
    asked: list[Operation] = []
    made = threading.Event()

    def cut() -> int:
        if not asked:
            asked.append(ask(seller=make_seller(url=f"{server.url}/mcp")))
            cut_off()
        if fresh(asked[0]).status == S.COMPLETED:
            made.set()
        return 0

    monkeypatch.setattr(sweep, "_chores", {"cut": cut})
    monkeypatch.setattr(stopping, "asked", made.is_set)
    with serve(answering(DONE)) as server:
        swept, handed = slice_(PATIENCE_S)

    assert (made.is_set(), swept.sent, handed) == (True, 1, ["next"])


def cut_off() -> None:
    """This thread's connection, as by a database that goes down."""
    with suppress(OperationalError), connection.cursor() as cursor:
        cursor.execute("select pg_terminate_backend(pg_backend_pid())")


def test_whose_connection_was_lost_sweeps_on_alone(
    committed_db: Database, quick: None, monkeypatch: Any
) -> None:
    swept_alone: list[bool] = []

    def tick() -> int:
        swept_alone.append(sweep.sweep_runs())
        if len(swept_alone) == 1:
            cut_off()
        return 0

    monkeypatch.setattr(sweep, "_chores", {"tick": tick})
    monkeypatch.setattr(stopping, "asked", lambda: len(swept_alone) == 3)

    assert slice_(PATIENCE_S)[1] == ["next"]
    assert swept_alone == [True, True, True]


def test_whose_connection_was_lost_leaves_the_sweep_to_whoever_has_it_by_then(
    committed_db: Database, quick: None, monkeypatch: Any
) -> None:
    """Beside each other they would take the workers from everything else, one more with each outage."""
    ticks: list[int] = []

    def tick() -> int:
        ticks.append(1)
        cut_off()
        other.execute("select pg_advisory_lock(%s)", [sweep._LOCK])
        return 0

    monkeypatch.setattr(sweep, "_chores", {"tick": tick})
    monkeypatch.setattr(stopping, "asked", lambda: len(ticks) == 3)
    with psycopg.connect(committed_db.urls.app, autocommit=True) as other:
        _, handed = slice_(PATIENCE_S)

    assert (len(ticks), handed) == (1, [])


def test_a_lock_that_our_own_lost_connection_still_holds_is_nobody_elses(
    committed_db: Database, quick: None, monkeypatch: Any
) -> None:
    """The database learns later than we that a connection is gone, and is told: whoever sweeps next would
    find the lock taken for as long."""
    lost: list[Any] = []
    ours: list[bool] = []  # whether the lock is on the connection that the sweep works with

    def tick() -> int:
        assert connection.connection is not None
        ours.append(session_lock_holder(sweep._LOCK) == connection.connection.info.backend_pid)
        if len(ours) == 1:
            lost.append(connection.connection)
            connection.connection = None
        return 0

    monkeypatch.setattr(sweep, "_chores", {"tick": tick})
    monkeypatch.setattr(stopping, "asked", lambda: len(ours) > 1 and ours[-1])
    _, handed = slice_(PATIENCE_S)
    lost[0].close()

    assert (ours[:2], ours[-1], handed) == ([True, False], True, ["next"])


def test_a_database_that_is_away_at_the_end_still_hands_over(
    committed_db: Database, quick: None, monkeypatch: Any
) -> None:
    def away() -> int:
        cut_off()
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(sweep, "_chores", {"away": away})

    assert slice_(0.2)[1] == ["next"]


def test_an_outage_while_the_last_calls_are_waited_for_costs_none_of_them(
    committed_db: Database, quick: None, settings: Any, monkeypatch: Any
) -> None:
    """It went away as the next turn was asked for, and once more as the calls that are out were kept."""
    settings.OPERATION_LEASE_S = 0.3  # renewed every tenth of a second
    handed, cut, answer = threading.Event(), threading.Event(), threading.Event()
    renew = sweep.leases_renew

    def hand_over() -> None:
        handed.set()
        cut_off()
        raise OperationalError("the connection is lost")

    def renewed(leases: Any) -> None:
        if handed.is_set() and not cut.is_set():
            cut.set()
            cut_off()
        renew(leases)
        if cut.is_set():
            answer.set()

    def late(_request: Request) -> dict[str, Any]:
        assert answer.wait(PATIENCE_S)
        return DONE

    monkeypatch.setattr(sweep, "leases_renew", renewed)
    with serve(answering(late)) as server:
        operation = ask(seller=make_seller(url=f"{server.url}/mcp"))
        async_to_sync(sweep_for)(seconds=0.5, handover=hand_over)
        assert len(calls(server)) == 1

    assert (cut.is_set(), fresh(operation).status) == (True, S.COMPLETED)


@pytest.mark.parametrize("limit", ["CALL_TIMEOUT_S", "WORKING_TIMEOUT_S", "RECONCILE_LIMIT_S"])
def test_last_calls_have_their_whole_limit(settings: Any, limit: str) -> None:
    """A purchase that its seller holds open would be cut, sent again, and cut again, for ever."""
    setattr(settings, limit, 700)
    waited = sweep.last_calls_s()
    assert waited > 700
    assert sweep.turn_limit_s() > sweep.TURN_S + waited


def test_a_turn_is_long_beside_its_last_calls() -> None:
    """While they are waited for, two workers are held."""
    assert 5 * sweep.last_calls_s() < sweep.TURN_S


def test_a_turn_outlasts_the_longest_last_calls_that_may_be_set(settings: Any) -> None:
    settings.WORKING_TIMEOUT_S = 1750
    assert sweep.last_calls_s() < sweep.TURN_S


def test_a_call_that_outlives_its_turn_is_made_once(committed_db: Database, quick: None) -> None:
    handed = threading.Event()
    looked: list[bool] = []

    def late(_request: Request) -> dict[str, Any]:
        assert handed.wait(PATIENCE_S)
        return DONE

    with serve(answering(late)) as server:
        operation = ask(seller=make_seller(url=f"{server.url}/mcp"))
        turn = sweep_for(seconds=0.3, handover=handed.set, alive=lambda: not looked.append(handed.is_set()))
        asyncio.run(turn)
        assert len(calls(server)) == 1

    assert (fresh(operation).status, fresh(operation).attempts) == (S.COMPLETED, 1)
    assert {*looked} == {False, True}, "it says that it is alive, also while it waits for its last calls"


def test_a_turn_that_is_of_no_more_use_ends_and_its_calls_do_not(committed_db: Database, quick: None) -> None:
    """As where the relay beside it hangs: somebody else begins both anew."""
    handed = threading.Event()

    def late(_request: Request) -> dict[str, Any]:
        assert handed.wait(PATIENCE_S)
        return DONE

    with serve(answering(late)) as server:
        operation = ask(seller=make_seller(url=f"{server.url}/mcp"))
        turn = sweep_for(seconds=PATIENCE_S, handover=handed.set, alive=lambda: not server.requests)
        asyncio.run(turn)
        assert len(calls(server)) == 1

    assert (fresh(operation).status, fresh(operation).attempts) == (S.COMPLETED, 1)


def test_last_calls_are_handed_back_when_their_limit_is_over(
    committed_db: Database, quick: None, monkeypatch: Any
) -> None:
    monkeypatch.setattr(sweep, "last_calls_s", lambda: 0.2)
    over = threading.Event()

    def late(_request: Request) -> dict[str, Any]:
        assert over.wait(PATIENCE_S)
        return DONE

    with serve(answering(late)) as server:
        operation = ask(seller=make_seller(url=f"{server.url}/mcp"))
        slice_(0.3)
        assert (fresh(operation).status, leased_until(operation)) == (S.CALLING_ADCP, None)
        over.set()


@pytest.mark.django_db
@pytest.mark.parametrize("error", [ValueError, OperationalError], ids=["any", "locked_for_too_long"])
def test_one_chore_that_fails_stops_no_other(monkeypatch: Any, error: type[Exception]) -> None:
    def bad() -> int:
        raise error("no")

    monkeypatch.setattr(sweep, "_chores", {"bad": bad, "good": lambda: 1})

    counts = sweeping.sweep().as_dict()
    assert counts["bad"] == 0
    assert counts["good"] >= 1


@pytest.mark.django_db
def test_a_pass_ends_though_the_seller_keeps_us_busy(settings: Any) -> None:
    settings.POLL_SCALE = 1e-9
    with serve(answering({"task_id": TASK, "task_type": "create_media_buy", "status": "working"})) as server:
        operation = stand(S.SUBMITTED, next_poll_at=ask().created_at)
        operation.seller.url = f"{server.url}/mcp"
        operation.seller.save()
        Operation.objects.exclude(pk=operation.pk).update(send_at=None)
        swept = sweeping.sweep()

    assert swept.polled == 1
    assert fresh(operation).status == S.WORKING


@pytest.mark.django_db
def test_what_a_call_settles_is_published_in_the_same_pass(monkeypatch: Any) -> None:
    told: list[Operation] = []
    monkeypatch.setattr(publish, "_listeners", [told.append])
    with serve(answering(DONE)) as server:
        operation = ask(seller=make_seller(url=f"{server.url}/mcp"))
        sweeping.sweep()

    assert told == [operation]


def test_what_is_due_by_itself_is_looked_after() -> None:
    """By name: one that nobody registers is noticed nowhere else."""
    assert set(sweep._chores) == {
        *(
            "woken",
            "lanes_told",
            "schedules_woken",
            "received_woken",
            "reconciliation_woken",
            "mirrors_woken",
            "changes_unproved",
            "sellers_reading_woken",
            "steps_woken",
            "events_handed",
        ),
        *(
            "approvals_counted",
            "expired_approvals",
            "approvals_escalated",
            "approvals_told",
            "approvals_reminded",
        ),
        *(
            "decided_together",
            "gates_opened",
            "credentials_used",
            *("assistant_proposals_continued", "assistant_sessions_archived", "assistant_turns_cleared"),
            "accounts_read",
            "expired_jobs",
            "nested_jobs_ended",
        ),
        *("webhooks_judged", "webhooks_unverified", "early_applied", "deliveries_forgotten"),
        *(
            "nonces_forgotten",
            "tallies_forgotten",
            "troubles_forgotten",
            "outside_events_forgotten",
            "notifications_forgotten",
        ),
        *("events_pruned", "reports_pruned", "security_log_pruned", "sessions_pruned", "sign_ins_forgotten"),
    }
