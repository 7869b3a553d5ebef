"""What a seller does not take, or does not have: asked once, remembered, and never the others’ trouble."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from orders.models import Deal
from orders.reconcile import media_buys_reconcile
from tasks_app import clock
from tasks_app.adcp import client, mcp
from tasks_app.adcp.optional import Lesson, lesson
from tasks_app.adcp.types import Endpoint, Seen, WireError
from tasks_app.operations.comparison import Verdict
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.reads import read_ensure
from tasks_app.operations.reconcile import tasks_reconcile
from tasks_app.sellers.models import Account, Seller
from tests.adcp.raw_server import RawServer, serve
from tests.factories import make_account, make_advertiser, make_seller, make_team
from tests.operations.making import fresh, stand
from tests.operations.sweeping import arguments, calls, shop, sweep, tools
from tests.orders.live import booked
from tests.support import PATIENCE_S

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
Told = dict[str, Any]
NO_BUYS: Told = {"status": "completed", "media_buys": [], "pagination": {"has_more": False}}


def refused(message: str, code: str = "INVALID_REQUEST", **more: Any) -> Told:
    return {"status": "failed", "errors": [{"code": code, "message": message, **more}]}


def read(seller: Seller, number: int, **asked: Any) -> Operation:
    account = Account.objects.get(seller=seller)
    operation = read_ensure(
        purpose=f"read:{number}",
        task_type="get_media_buys",
        seller=seller,
        arguments={"media_buy_ids": ["mb-1"], **asked},
        actor="system",
        team=make_team(),
        account=account,
    )
    sweep()
    return fresh(operation)


def asked_with(server: RawServer, name: str) -> list[bool]:
    """Whether each question had the argument."""
    return [name in arguments(request) for request in calls(server)]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("account", refused("account is resolved from your credentials. Omit account.")),
        ("account", refused("Omit account", code="ACCOUNT_NOT_FOUND")),
        ("status_filter", refused("not taken", field="status_filter")),
        ("adcp_version", refused("Unexpected keyword argument: adcp_version", code="X_PYDANTIC")),
        ("adcp_major_version", refused("x", code="FIELD_NOT_PERMITTED", field="adcp_major_version")),
    ],
)
def test_an_optional_argument_that_is_refused_is_dropped_once_and_for_all(name: str, told: Told) -> None:
    with serve(shop(get_media_buys=lambda asked: told if name in asked else NO_BUYS)) as server:
        seller = make_seller(url=f"{server.url}/mcp")
        account = make_account(make_advertiser(), seller)
        more = {"account": account.reference, "status_filter": ["active"]}
        first = read(seller, 1, **more)
        second = read(Seller.objects.get(), 2, **more)

        assert (first.status, second.status) == (S.COMPLETED, S.COMPLETED)
        assert asked_with(server, name) == [True, False, False]
        assert all(asked_with(server, "media_buy_ids")), "what is asked for is never dropped"
    assert Seller.objects.get().quirks == [f"omit get_media_buys {name}"]


@pytest.mark.parametrize(("wrong", "tries"), [(["account"], 2), (["account", "status_filter"], 2)])
def test_each_try_has_the_whole_limit_and_none_begins_after_it(
    settings: Any, monkeypatch: Any, wrong: list[str], tries: int
) -> None:
    """What a slow refusal teaches would be forgotten with a try that is cut, and asked again, for ever. Who
    refuses one argument after the other, slowly, would hold its slot for as long."""
    settings.CALL_TIMEOUT_S = PATIENCE_S
    passed, limits, really = [0.0], [], mcp.call_tool

    async def tried(endpoint: Endpoint, *what: Any, **more: Any) -> Seen:
        limits.append(endpoint.timeout_s)
        return await really(endpoint, *what, **more)

    def slowly(asked: Told) -> Told:
        passed[0] += 0.7 * PATIENCE_S
        name = next((name for name in wrong if name in asked), None)
        return refused("not taken", field=name) if name else NO_BUYS

    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: passed[0]))
    monkeypatch.setattr(mcp, "call_tool", tried)
    with serve(shop(get_media_buys=slowly)) as server:
        seller = make_seller(url=f"{server.url}/mcp")
        account = make_account(make_advertiser(), seller)
        operation = read(seller, 1, account=account.reference, status_filter=["active"])

    assert limits == [PATIENCE_S] * tries
    assert (operation.status == S.COMPLETED) is (len(wrong) < tries)
    assert Seller.objects.get().quirks == [
        f"omit get_media_buys {name}" for name in wrong if len(wrong) < tries
    ]


@pytest.mark.parametrize("omitted", [False, True])
def test_an_argument_that_is_wanted_is_added(omitted: bool) -> None:
    def answer(asked: Told) -> Told:
        return NO_BUYS if "account" in asked else refused("account is required")

    with serve(shop(get_media_buys=answer)) as server:
        quirks = ["omit get_media_buys account"] if omitted else []
        seller = make_seller(url=f"{server.url}/mcp", quirks=quirks)
        account = make_account(make_advertiser(), seller)
        more = {"account": account.reference} if omitted else {}
        assert read(seller, 1, **more).status == S.COMPLETED
        assert read(Seller.objects.get(), 2, **more).status == S.COMPLETED
        assert asked_with(server, "account") == [False, True, True]
    assert Seller.objects.get().quirks == ["send get_media_buys account"]


def test_a_seller_that_refuses_both_is_not_asked_in_a_circle() -> None:
    def answer(asked: Told) -> Told:
        return refused("Omit account") if "account" in asked else refused("account is required")

    with serve(shop(get_media_buys=answer)) as server:
        seller = make_seller(url=f"{server.url}/mcp")
        account = make_account(make_advertiser(), seller)
        assert read(seller, 1, account=account.reference).status == S.FAILED
        assert asked_with(server, "account") == [True, False]
    assert Seller.objects.get().quirks == []


@pytest.mark.parametrize(("setting", "named"), [("always", True), ("never", False)])
def test_what_a_person_has_set_wins_over_what_was_learned(setting: str, named: bool) -> None:
    told = refused("Omit account") if named else refused("account is required")
    with serve(shop(get_media_buys=told)) as server:
        quirk = f"{'omit' if named else 'send'} get_media_buys account"
        seller = make_seller(url=f"{server.url}/mcp", account_in_reads=setting, quirks=[quirk])
        account = make_account(make_advertiser(), seller)
        assert read(seller, 1, account=account.reference).status == S.FAILED
        assert asked_with(server, "account") == [named]
    assert Seller.objects.get().quirks == [quirk]


@pytest.mark.parametrize(
    ("tool", "sent", "error"),
    [
        ("get_media_buys", {"media_buy_ids": []}, WireError(code="INVALID_REQUEST", field="media_buy_ids")),
        ("get_products", {"filters": {}}, WireError(code="INVALID_REQUEST", message="omit filters")),
        ("create_media_buy", {"account": {}}, WireError(code="INVALID_REQUEST", message="omit account")),
        ("get_media_buys", {"account": {}}, WireError(code="ACCOUNT_SUSPENDED", message="account suspended")),
        (
            "get_media_buys",
            {"account": {}},
            WireError(code="INVALID_REQUEST", message="the account is rejected", field="account"),
        ),
        (
            "get_media_buys",
            {"account": {}},
            WireError(code="RATE_LIMITED", message="omit account", recovery="transient"),
        ),
    ],
)
def test_what_is_asked_for_and_what_is_bought_is_never_changed(
    tool: str, sent: Told, error: WireError
) -> None:
    assert lesson(tool, sent, sent, Seen(kind="answer", status="failed", error=error), ()) is None


@pytest.mark.parametrize("tool", ["create_media_buy", "update_media_buy", "sync_accounts"])
def test_a_change_that_is_refused_for_an_argument_is_sent_once_as_it_was(tool: str) -> None:
    with serve(shop(**{tool: refused("Omit account")})) as server:
        endpoint = make_seller(url=f"{server.url}/mcp").endpoint(timeout_s=PATIENCE_S)
        sent = {"account": {"account_id": "a-1"}, "context": {"x": "y"}}
        seen = asyncio.run(client.call(endpoint, tool, sent))
        assert [arguments(request).keys() >= sent.keys() for request in calls(server)] == [True]
    assert (seen.status, seen.learned) == ("failed", frozenset())


def test_the_newest_lesson_names_tool_and_argument() -> None:
    error = WireError(code="X_FLIGHTDECK_TOOL_ERROR", message="unexpected argument 'include_result'")
    seen = Seen(kind="answer", status="failed", error=error)
    taught = lesson("get_task", {"task_id": "t", "include_result": True}, {}, seen, ())
    assert taught == Lesson(verb="omit", tool="get_task", argument="include_result")


def two_accounts(server: RawServer) -> Seller:
    """A good account, with a booked deal in it, and one that the seller has rejected since."""
    deal = booked(make_seller(url=f"{server.url}/mcp"))
    other = make_account(make_advertiser("Other Brand"), deal.seller)
    Account.objects.filter(pk=other.pk).update(reference={"account_id": "acc-rejected"}, status="rejected")
    return deal.seller


def test_a_rejected_account_leaves_the_sellers_media_buys_readable() -> None:
    buy = {"media_buy_id": "mb-1", "status": "pending_start", "revision": 1}

    def answer(asked: Told) -> Told:
        if asked["account"]["account_id"] == "acc-rejected":
            return refused("this account was rejected", code="ACCOUNT_NOT_FOUND")
        return {**NO_BUYS, "media_buys": [buy]}

    with serve(shop(get_media_buys=answer)) as server:
        (reading,) = media_buys_reconcile([two_accounts(server)], 20)

    assert (reading.unread, reading.complete) == ("", False)
    assert [(f.theirs, f.verdict) for f in reading.findings] == [("mb-1", Verdict.IN_STEP)]
    ((note, team),) = reading.unnamed
    assert "acc-rejected" in note
    assert "this account was rejected" in note
    assert team == Account.objects.get(status="rejected").advertiser.team_id


def test_a_deal_in_an_account_that_is_refused_is_not_reported_missing() -> None:
    with serve(shop(get_media_buys=refused("rejected", code="ACCOUNT_NOT_FOUND"))) as server:
        (reading,) = media_buys_reconcile([two_accounts(server)], 20)
    assert not reading.findings
    assert Deal.objects.get().status == "booked"


def test_a_deal_whose_account_alone_is_refused_is_not_reported_missing_either() -> None:
    """The others are read to their end, and it is in none of them."""

    def answer(asked: Told) -> Told:
        told_of = asked.get("account", {}).get("account_id")
        return NO_BUYS if told_of == "acc-rejected" else refused("rejected", code="ACCOUNT_NOT_FOUND")

    with serve(shop(get_media_buys=answer)) as server:
        (reading,) = media_buys_reconcile([two_accounts(server)], 20)
    assert (reading.unread, reading.findings, reading.complete) == ("", [], False)


def test_what_a_reading_finds_out_is_remembered_too() -> None:
    def answer(asked: Told) -> Told:
        return refused("Omit account") if "account" in asked else NO_BUYS

    with serve(shop(get_media_buys=answer)) as server:
        seller = make_seller(url=f"{server.url}/mcp")
        make_account(make_advertiser(), seller)
        media_buys_reconcile([seller], 20)
        media_buys_reconcile([Seller.objects.get()], 20)
        assert asked_with(server, "account") == [True, False, False]
    assert Seller.objects.get().quirks == ["omit get_media_buys account"]


def test_a_rejected_account_leaves_the_sellers_tasks_readable() -> None:
    def listed(asked: Told) -> Told:
        if asked.get("account") == {"account_id": "acc-rejected"}:
            return refused("this account was rejected", code="ACCOUNT_NOT_FOUND")
        task = {"task_id": "task-1", "task_type": "create_media_buy", "status": "submitted"}
        return {"status": "completed", "tasks": [task], "pagination": {"has_more": False}}

    with serve(shop(list_tasks=listed)) as server:
        seller = two_accounts(server)
        stand(S.SUBMITTED, seller=seller)
        (reading,) = tasks_reconcile([seller], 20)

    assert (reading.unread, [f.verdict for f in reading.findings]) == ("", [Verdict.IN_STEP])
    ((note, team),) = reading.unnamed
    assert "acc-rejected" in note
    assert team == Account.objects.get(status="rejected").advertiser.team_id


def due(operation: Operation) -> None:
    Operation.objects.filter(pk=operation.pk).update(next_poll_at=clock.now() - timedelta(seconds=1))


def test_a_task_is_asked_for_by_the_name_that_the_seller_has() -> None:
    def answer(asked: Told) -> Told:
        if "include_result" in asked:
            return refused("unexpected keyword argument 'include_result'")
        return {"task_id": "task-1", "status": "working"}

    with serve(shop(get_task=answer)) as server:
        operation = stand(
            S.SUBMITTED, seller=make_seller(url=f"{server.url}/mcp", tools=["get_task", "create_media_buy"])
        )
        due(operation)
        sweep()
        assert tools(server) == ["get_task", "get_task"]
    assert fresh(operation).status == S.WORKING
    assert Seller.objects.get().quirks == ["omit get_task include_result"]


@pytest.mark.usefixtures("still")
def test_a_tool_that_the_seller_does_not_have_is_not_called() -> None:
    with serve(shop()) as server:
        seller = make_seller(url=f"{server.url}/mcp", tools=["create_media_buy", "get_media_buys"])
        operation = stand(S.SUBMITTED, seller=seller)
        due(operation)
        sweep()
        sweep()
        (reading,) = tasks_reconcile([seller], 20)
        assert tools(server) == []

    operation = fresh(operation)
    assert (operation.status, operation.observations.filter(channel="poll").count()) == (S.SUBMITTED, 0)
    assert operation.next_poll_at is not None, "its list of tools may be read anew"
    assert operation.next_poll_at > clock.now()
    assert "cannot be asked about a single task" in reading.notes


@pytest.mark.parametrize("listed", [True, False])
def test_a_status_of_the_sellers_own_is_kept_observed_and_never_in_step(listed: bool) -> None:
    task = {"task_id": "task-1", "task_type": "create_media_buy", "status": "approved"}
    tasks = {"status": "completed", "tasks": [task] if listed else [], "pagination": {"has_more": False}}
    with serve(shop(list_tasks=tasks, get_task_status=task)) as server:
        seller = make_seller(url=f"{server.url}/mcp")
        operation = stand(S.SUBMITTED, seller=seller)
        due(operation)
        sweep()
        assert fresh(operation).status == S.SUBMITTED
        assert fresh(operation).next_poll_at is not None
        (reading,) = tasks_reconcile([seller], 20)

    (found,) = reading.findings
    assert (found.verdict, found.status_there, found.differs) == (Verdict.UNCLEAR, "approved", True)
    assert json.dumps(found.as_dict())
