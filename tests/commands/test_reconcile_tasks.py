"""reconcile, tasks: what a seller and we know of each other, told without changing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from orders.models import Deal
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.models import Observation, Operation
from tasks_app.sellers.models import Account, Seller
from tests.commands.reconciling import booking, lists, pending, sent, task, task_at, told, verdicts
from tests.commands.running import call, ended, run, started
from tests.factories import make_account, make_advertiser, make_seller
from tests.fake_seller.driver import FakeSeller
from tests.support import until


def test_nothing_open_is_in_step(seller: Seller) -> None:
    ran = call("reconcile")

    assert ran.code == 0
    assert "Nothing is open at any seller." in ran.out


def test_pending_on_both_sides_is_in_step(faulty: FakeSeller, seller: Seller) -> None:
    pending(seller, "task-1")
    lists(faulty, task("task-1", "working"))

    ran = call("reconcile", "--json")

    assert ran.code == 0
    assert verdicts(ran) == {"task-1": "in_step"}
    assert faulty.requests("get_task_status") == []
    (asked,) = faulty.requests("list_tasks")
    assert set(asked["arguments"]["filters"]["statuses"]) == {
        "submitted", "working", "input-required", "auth-required",
    }  # fmt: skip


def test_orphaned_missing_and_behind(faulty: FakeSeller, seller: Seller) -> None:
    lost, late = pending(seller, "lost-at-the-seller"), pending(seller, "ended-there")
    lists(
        faulty,
        task("nobody-knows", "input-required"),
        task("ended-there", "completed"),
        task("old", "failed"),
    )

    ran = run("reconcile", "--json")

    assert ran.code == 1
    assert verdicts(ran) == {
        "nobody-knows": "orphaned", "lost-at-the-seller": "missing", "ended-there": "behind",
    }  # fmt: skip
    assert {found["here"] for found in ran.json["sellers"][0]["tasks"]} == {
        "",
        lost.reference,
        late.reference,
    }
    assert "3 differ" in ran.err


def test_what_is_not_listed_is_asked_for_before_it_is_called_missing(
    faulty: FakeSeller, seller: Seller
) -> None:
    task_id = task_at(faulty, seller)
    pending(seller, task_id)
    lists(faulty)
    faulty.fault("get_task_status", "merge", answer={"status": "working", "result": None})

    working, finished = call("reconcile", "--json"), call("reconcile", "--json")

    assert (working.code, verdicts(working)) == (0, {task_id: "in_step"})
    assert (finished.code, verdicts(finished)) == (1, {task_id: "behind"})
    assert [asked["arguments"]["task_id"] for asked in faulty.requests("get_task_status")] == [task_id] * 2


def test_the_answer_to_a_call_may_still_come(faulty: FakeSeller, seller: Seller) -> None:
    out = sent(seller)
    lists(faulty, task("whose", "submitted", out.task_type), task("other", "submitted", "create_media_buy"))

    ran = call("reconcile", "--json")

    assert verdicts(ran) == {"whose": "unanswered", "other": "orphaned"}
    assert out.reference in ran.json["sellers"][0]["tasks"][1]["note"]


def test_ended_here_and_open_there(faulty: FakeSeller, seller: Seller) -> None:
    told(pending(seller, "task-1"), "failed", task_id="task-1")
    lists(faulty, task("task-1", "working"))

    ran = call("reconcile", "--json")

    assert (ran.code, verdicts(ran)) == (1, {"task-1": "ahead"})


def test_every_page_and_every_account_is_read(faulty: FakeSeller, seller: Seller) -> None:
    first = make_account(make_advertiser(), seller)
    second = Account.objects.create(
        advertiser=make_advertiser("Tamarack Outdoor"), seller=seller, reference={"account_id": "acc-2"}
    )
    more = {"pagination": {"has_more": True, "cursor": "page-2"}}
    faulty.fault("list_tasks", "merge", answer={"tasks": [task("a")], **more})
    faulty.fault("list_tasks", "merge", answer={"tasks": [task("b")]})
    faulty.fault("list_tasks", "merge", answer={"tasks": [task("c")]})

    ran = call("reconcile", "--json")

    assert verdicts(ran) == {"a": "orphaned", "b": "orphaned", "c": "orphaned"}
    asked = [
        (r["arguments"]["account"], r["arguments"]["pagination"].get("cursor"))
        for r in faulty.requests("list_tasks")
    ]
    assert asked == [(first.reference, None), (first.reference, "page-2"), (second.reference, None)]


@pytest.mark.parametrize(
    ("kind", "parameters", "said"),
    [
        ("http", {"status": 500}, "HTTP 500"),
        ("html", {}, "list_tasks"),
        ("truncated", {}, "list_tasks"),
        ("huge", {}, "large"),
        ("unauthorized", {}, "does not accept our token"),
        ("error", {"code": "SERVICE_UNAVAILABLE", "message": "closed on Sundays"}, "closed on Sundays"),
        ("merge", {"answer": {"tasks": "none"}}, "holds no list"),
        ("merge", {"answer": {"pagination": {"has_more": True, "cursor": "c"}}}, "in a circle"),
        ("merge", {"answer": {"pagination": {"has_more": True}}}, "not where it goes on"),
    ],
)
def test_a_seller_that_cannot_be_read_is_told_and_the_others_are_still_listed(
    faulty: FakeSeller, seller: Seller, tmp_path: Path, kind: str, parameters: dict[str, Any], said: str
) -> None:
    pending(seller, "task-1")
    faulty.fault("list_tasks", kind, 0, **parameters)
    with FakeSeller(tmp_path) as well:
        other = make_seller("Well", url=well.url, token=well.token)
        pending(other, "task-2")
        lists(well, task("task-2"))

        ran = call("reconcile", "--json")

    assert ran.code == 2
    assert "Could not be read: Faulty." in ran.err
    unread, read = ran.json["sellers"]
    assert said in unread["unread"][0]
    assert unread["tasks"] == []
    assert [found["verdict"] for found in read["tasks"]] == ["in_step"]


def test_a_question_that_is_not_answered_is_no_missing_task(faulty: FakeSeller, seller: Seller) -> None:
    pending(seller, "task-1")
    lists(faulty)
    faulty.fault("get_task_status", "error", code="SERVICE_UNAVAILABLE", message="closed on Sundays")

    ran = call("reconcile", "--json")

    assert ran.code == 2
    assert "closed on Sundays" in ran.json["sellers"][0]["unread"][0]


def test_a_seller_that_lists_no_tasks_is_asked_for_each(faulty: FakeSeller, seller: Seller) -> None:
    Seller.objects.update(tools=["create_media_buy", "update_media_buy", "get_media_buys", "get_task_status"])
    pending(seller, "gone")

    ran = call("reconcile", "--json")

    assert verdicts(ran) == {"gone": "missing"}
    assert any("lists no tasks" in note for note in ran.json["sellers"][0]["notes"])


def test_it_asks_and_changes_nothing_at_the_seller(faulty: FakeSeller, seller: Seller) -> None:
    pending(seller, "ended-there")
    booking(seller)
    lists(faulty, task("ended-there", "completed"), task("orphan"))

    call("reconcile")

    assert {asked["tool"] for asked in faulty.requests()} == {"list_tasks", "get_media_buys"}


def test_what_is_in_step_is_left_alone(faulty: FakeSeller, seller: Seller) -> None:
    pending(seller, "task-1")
    booking(seller)
    lists(faulty, task("task-1", "working"))
    before = snapshot()

    call("reconcile")

    assert snapshot() == before


def test_no_transaction_is_open_while_a_seller_is_waited_for(faulty: FakeSeller, seller: Seller) -> None:
    pending(seller, "task-1")
    faulty.fault("list_tasks", "hang")

    with started("reconcile", "--json") as process:
        until(lambda: faulty.requests("list_tasks"), "the seller is being asked")
        states = sessions()
        faulty.release()
        code = ended(process).code

    assert code == 1
    assert set(states) == {"idle"}


def test_a_sellers_words_cannot_steer_the_terminal(faulty: FakeSeller, seller: Seller) -> None:
    lists(faulty, task("\x1b[2Jorphan", "\x1b]0;pwned\x07"))

    ran = call("reconcile")

    assert ran.code == 1
    assert "orphan" in ran.out
    assert "\x1b" not in ran.out


def test_one_seller_by_name(faulty: FakeSeller, seller: Seller) -> None:
    make_seller("Down")

    assert call("reconcile").code == 2
    for name in ("faulty", "Faulty"):
        assert call("reconcile", "--seller", name).code == 0
    unknown = call("reconcile", "--seller", "nobody", "--json")
    assert unknown.code == 2
    assert "Known: down, faulty" in unknown.json["error"]


def test_a_seller_that_is_switched_off_is_left_alone_unless_named(seller: Seller) -> None:
    Seller.objects.update(active=False)

    assert call("reconcile", "--json").json["sellers"] == []
    assert len(call("reconcile", "--seller", "faulty", "--json").json["sellers"]) == 1


def snapshot() -> list[Any]:
    """Every row that a comparison could be tempted to touch."""
    return [
        list(model.objects.order_by("pk").values())
        for model in (Operation, Observation, Deal, Seller, AuditEntry)
    ]


def sessions() -> list[str]:
    """What each other connection to the test's database does."""
    query = (
        "select state from pg_stat_activity "
        "where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"
    )
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [state for (state,) in cursor.fetchall()]
