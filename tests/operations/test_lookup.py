"""A call whose answer never came: the seller is asked for it by our context before anything else is done."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.operations.lookup import look_up, lookup_of
from tasks_app.operations.models import Channel, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pulse import SweepPulse
from tests.adcp.raw_server import RawServer, serve
from tests.clocks import Clock
from tests.factories import make_seller
from tests.operations.making import fresh, hours, see, silent, stand
from tests.operations.sweeping import arguments, calls, shop, sweep, tools

pytestmark = pytest.mark.django_db
DEAL = uuid.uuid4()
Answer = Callable[[dict[str, Any]], dict[str, Any]]
NO_BUYS: dict[str, Any] = {"status": "completed", "media_buys": [], "pagination": {"has_more": False}}
NO_TASKS: dict[str, Any] = {"status": "completed", "tasks": [], "pagination": {"has_more": False}}


def unanswered(
    server: RawServer, still: Clock, *, ttl_s: int | None, after: timedelta, **told: Any
) -> Operation:
    """A purchase that was sent and never answered, so long ago."""
    fields = {"url": f"{server.url}/mcp", "idempotency_ttl_s": ttl_s, **told}
    if ttl_s is None:
        fields["idempotency_risk_accepted_by"] = "human:1"
    operation = stand(S.CALLING_ADCP, seller=make_seller(**fields), subject_type="deal", subject_id=DEAL)
    see(operation, silent())
    still.now += after
    return fresh(operation)


@pytest.mark.parametrize("by", ["operation_id", "deal_id"])
def test_a_media_buy_with_our_context_is_adopted(still: Clock, by: str) -> None:
    def bought(_asked: dict[str, Any]) -> dict[str, Any]:
        context = {"operation_id": str(operation.pk)} if by == "operation_id" else {"deal_id": str(DEAL)}
        buys = [
            {
                "media_buy_id": "mb-other",
                "context": {"operation_id": str(uuid.uuid4()), "deal_id": str(DEAL)},
            },
            {"media_buy_id": "mb-7", "media_buy_status": "active", "context": context, "packages": []},
        ]
        return {**NO_BUYS, "media_buys": buys}

    with serve(shop(list_tasks=NO_TASKS, get_media_buys=bought)) as server:
        operation = unanswered(server, still, ttl_s=86_400, after=hours(25))
        sweep()
        sweep()

    operation = fresh(operation)
    assert (operation.status, operation.settled_by) == (S.COMPLETED, Channel.RECONCILE)
    assert operation.result["media_buy_id"] == "mb-7"
    assert operation.overdue_at is None, "it was never overdue: it was done in time"
    assert "create_media_buy" not in tools(server), "nothing was bought again"
    assert not Approval.objects.exists()


def test_the_sellers_task_with_our_context_is_bound_and_watched(still: Clock) -> None:
    def listed(asked: dict[str, Any]) -> dict[str, Any]:
        assert asked["filters"]["task_type"] == "create_media_buy"
        task = {
            "task_id": "t-9",
            "task_type": "create_media_buy",
            "status": "submitted",
            "context": {"operation_id": str(operation.pk)},
        }
        return {**NO_TASKS, "tasks": [task]}

    status = {"task_id": "t-9", "task_type": "create_media_buy", "status": "submitted"}
    with serve(shop(list_tasks=listed, get_task_status=status)) as server:
        operation = unanswered(server, still, ttl_s=60, after=hours(2))
        sweep()
        sweep()

    operation = fresh(operation)
    assert (operation.status, operation.task_id) == (S.SUBMITTED, "t-9")
    assert operation.next_poll_at > clock.now()


def test_not_found_while_the_key_is_good_the_same_bytes_go_once_more_and_then_a_person(still: Clock) -> None:
    def lost(_asked: dict[str, Any]) -> dict[str, Any]:
        return {"adcp_error": {"code": "IDEMPOTENCY_IN_FLIGHT", "message": "busy", "recovery": "transient"}}

    known = shop(list_tasks=NO_TASKS, get_media_buys=NO_BUYS, create_media_buy=lost)
    with serve(known) as server:
        operation = unanswered(server, still, ttl_s=7 * 86_400, after=hours(25))
        Operation.objects.filter(pk=operation.pk).update(send_at=None)
        sweep()
        sweep()
        assert tools(server) == ["list_tasks", "get_media_buys", "create_media_buy"]
        sent = arguments(calls(server)[-1])
        assert sent["idempotency_key"] == operation.idempotency_key
        assert fresh(operation).status == S.CALLING_ADCP
        still.now = fresh(operation).deadline_at
        SweepPulse.objects.update(at=still.now)  # swept all the while, it was no outage
        Operation.objects.filter(pk=operation.pk).update(send_at=None)
        sweep()
        sweep()
        assert tools(server).count("create_media_buy") == 1

    assert fresh(operation).status == S.TIMED_OUT
    assert Approval.objects.get().subject_id == operation.pk


def test_a_list_that_never_ends_holds_nothing_up(still: Clock, settings: Any) -> None:
    """Each page comes soon enough, with another cursor: together they would take hours."""
    settings.RECONCILE_LIMIT_S = 0.5
    pages = count()

    def more(_asked: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.1)
        return {**NO_TASKS, "pagination": {"has_more": True, "cursor": f"c{next(pages)}"}}

    with serve(shop(list_tasks=more, get_media_buys=NO_BUYS)) as server:
        operation = unanswered(server, still, ttl_s=60, after=hours(2))
        assert asyncio.run(look_up(lookup_of(operation))).kind == "no_answer"
    assert next(pages) < 20


@pytest.mark.parametrize("ttl_s", [None, 3600])
def test_past_the_replay_window_nothing_is_sent_before_the_look_up_and_nothing_after(
    still: Clock, ttl_s: int | None
) -> None:
    with serve(shop(list_tasks=NO_TASKS, get_media_buys=NO_BUYS)) as server:
        operation = unanswered(server, still, ttl_s=ttl_s, after=hours(2))
        sweep()
        sweep()
        sweep()

    assert tools(server) == ["list_tasks", "get_media_buys"]
    operation = fresh(operation)
    assert operation.status == S.TIMED_OUT, "long before its deadline: nothing else can be done"
    assert "before buying again" in Approval.objects.get().evidence["last_message"]


@pytest.mark.parametrize(
    ("offered", "told"),
    [
        (["list_tasks", "get_media_buys"], "the seller shows no task and no media buy with our ids"),
        (["list_tasks"], "the seller shows no task with our ids"),
        (["get_media_buys"], "the seller shows no media buy with our ids"),
        ([], "the seller has no tool that would show it"),
    ],
    ids=["both", "tasks", "media buys", "neither"],
)
def test_people_are_told_what_was_searched_and_no_more(still: Clock, offered: list[str], told: str) -> None:
    with serve(shop(list_tasks=NO_TASKS, get_media_buys=NO_BUYS)) as server:
        operation = unanswered(
            server, still, ttl_s=3600, after=hours(2), tools=["create_media_buy", *offered]
        )
        for _ in range(3):
            sweep()

    assert tools(server) == offered
    assert fresh(operation).status == S.TIMED_OUT
    assert f"The outcome is unknown, and {told}: ask it" in Approval.objects.get().evidence["last_message"]


def test_a_seller_that_cannot_be_asked_is_asked_three_times_before_a_person_is(still: Clock) -> None:
    with serve(shop()) as server:
        operation = unanswered(server, still, ttl_s=3600, after=hours(2))
        for _ in range(6):
            sweep()
            still.now += timedelta(minutes=2)

    assert tools(server) == ["list_tasks"] * 3
    operation = fresh(operation)
    assert operation.status == S.TIMED_OUT
    assert "could not be asked" in operation.message


@pytest.mark.parametrize("cursor", [{}, {"cursor": None}, {"cursor": 100}], ids=["none", "null", "a number"])
@pytest.mark.parametrize("tool", ["list_tasks", "get_media_buys"])
def test_a_list_that_has_more_and_does_not_say_where_is_no_list(
    still: Clock, tool: str, cursor: dict[str, Any]
) -> None:
    """What it does not show may stand further on: nobody is told that the seller shows nothing."""
    lists = {"list_tasks": NO_TASKS, "get_media_buys": NO_BUYS}
    lists[tool] = {**lists[tool], "pagination": {"has_more": True, **cursor}}
    with serve(shop(**lists)) as server:
        operation = unanswered(server, still, ttl_s=3600, after=hours(2))
        for _ in range(6):
            sweep()
            still.now += timedelta(minutes=2)

    assert tools(server).count(tool) == 3
    operation = fresh(operation)
    assert operation.status == S.TIMED_OUT
    assert "could not be asked" in operation.message


def test_a_change_of_a_media_buy_is_not_taken_for_its_purchase(still: Clock) -> None:
    """The media buy carries the purchase's context: it says nothing of whether it was changed."""
    with serve(shop(list_tasks=NO_TASKS)) as server:
        seller = make_seller(url=f"{server.url}/mcp", idempotency_ttl_s=60)
        operation = stand(S.CALLING_ADCP, "update_media_buy", seller=seller)
        see(operation, silent())
        still.now += hours(13)
        sweep()
        sweep()

    assert tools(server) == ["list_tasks"]
    assert fresh(operation).status == S.TIMED_OUT


def test_a_call_that_is_out_at_its_deadline_is_waited_for(still: Clock) -> None:
    end = still.now + hours(25)
    operation = stand(S.CALLING_ADCP, out_until=end + timedelta(seconds=10), send_at=None)
    still.now = end

    sweep()

    assert (fresh(operation).status, fresh(operation).next_poll_at) == (S.CALLING_ADCP, None)
