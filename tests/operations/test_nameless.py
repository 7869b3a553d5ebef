"""What a seller says it has, and names no task for: it is looked up by our context, soon and again, and
neither sent once more nor put to people before it is overdue. What a purchase's answer leaves undecided is
read back first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.adcp.envelopes import seen_a2a, seen_mcp
from tasks_app.adcp.types import Seen
from tasks_app.operations.models import Channel
from tasks_app.operations.models import OperationStatus as S
from tests.adcp.raw_server import serve
from tests.factories import make_seller
from tests.operations.making import fresh, see, stand
from tests.operations.sweeping import shop, sweep, tools
from tests.operations.test_lookup import NO_BUYS, NO_TASKS

pytestmark = pytest.mark.django_db


def _native(state: str) -> Seen:
    status = {"state": f"TASK_STATE_{state.upper()}", "message": {"parts": [{"text": "on it"}]}}
    return seen_a2a({"task": {"id": "a2a-1", "contextId": "c-1", "status": status}})


def _mcp(word: str) -> Seen:
    return seen_mcp({"structuredContent": {"status": word, "message": "on it"}})


# How soon, at most: as a task in that status is polled, with the share that spreads looks (seller settings).
SOON = {"submitted": 60, "working": 5}
SPREAD = 1.1


@pytest.mark.parametrize("transport", [_native, _mcp])
@pytest.mark.parametrize("word", SOON)
@pytest.mark.parametrize("task", ["create_media_buy", "update_media_buy", "get_products"])
@pytest.mark.parametrize("webhooks", ["none", "hmac"])
def test_what_the_seller_has_without_a_task_is_looked_up(
    task: str, word: str, transport: Any, webhooks: str, settings: Any
) -> None:
    """However it tells of its tasks: no webhook can name one that nobody here knows."""
    settings.POLL_SCALE = 1.0
    now = clock.now()
    with clock.injected(lambda: now):
        operation = stand(S.CALLING_ADCP, task, seller=make_seller(webhook_mode=webhooks))
        see(operation, transport(word))
    operation = fresh(operation)
    assert operation.status == word
    soon = timedelta(seconds=SOON[word])
    assert now + soon <= operation.next_poll_at <= now + soon * SPREAD
    assert operation.send_at is None


def test_it_is_found_by_our_context() -> None:
    def listed(_asked: dict[str, Any]) -> dict[str, Any]:
        task = {"task_id": 17, "task_type": "create_media_buy", "status": "submitted"}
        return {**NO_TASKS, "tasks": [{**task, "context": {"operation_id": str(operation.pk)}}]}

    status = {"task_id": 17, "task_type": "create_media_buy", "status": "submitted"}
    with serve(shop(list_tasks=listed, get_task_status=status)) as server:
        operation = stand(S.CALLING_ADCP, seller=make_seller(url=f"{server.url}/mcp"))
        see(operation, _mcp("submitted"))
        type(operation).objects.filter(pk=operation.pk).update(next_poll_at=clock.now())
        sweep()
    assert (fresh(operation).status, fresh(operation).task_id) == (S.SUBMITTED, "17")


@pytest.mark.usefixtures("still")
def test_what_the_seller_does_not_show_yet_is_waited_for() -> None:
    with serve(shop(list_tasks=NO_TASKS, get_media_buys=NO_BUYS)) as server:
        operation = stand(S.CALLING_ADCP, seller=make_seller(url=f"{server.url}/mcp"))
        see(operation, _mcp("submitted"))
        deadline = fresh(operation).deadline_at
        for _ in range(3):
            type(operation).objects.filter(pk=operation.pk).update(next_poll_at=clock.now())
            sweep()
        operation = fresh(operation)
        assert "create_media_buy" not in tools(server)
    assert (operation.status, operation.send_at, operation.deadline_at) == (S.SUBMITTED, None, deadline)
    assert operation.next_poll_at > clock.now()


def test_a_purchase_answered_canceled_with_a_buy_is_read_back() -> None:
    def bought(_asked: dict[str, Any]) -> dict[str, Any]:
        context = {"operation_id": str(operation.pk)}
        return {**NO_BUYS, "media_buys": [{"media_buy_id": "mb-1", "status": "active", "context": context}]}

    with serve(shop(list_tasks=NO_TASKS, get_media_buys=bought)) as server:
        operation = stand(S.CALLING_ADCP, seller=make_seller(url=f"{server.url}/mcp"))
        told = {"structuredContent": {"status": "canceled", "media_buy_id": "mb-1", "packages": []}}
        see(operation, seen_mcp(told, task_type="create_media_buy"))
        assert fresh(operation).status == S.CALLING_ADCP
        sweep()
    operation = fresh(operation)
    assert (operation.status, operation.settled_by) == (S.COMPLETED, Channel.RECONCILE)
