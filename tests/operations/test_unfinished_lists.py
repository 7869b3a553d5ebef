"""A seller's list is one only when its call completed: what is still to come, or came to nothing, does not
say that a purchase of ours is not there."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

from orders.reconcile import media_buys_reconcile
from tasks_app.adcp.tasks import listed_of
from tasks_app.adcp.types import TASK_STATUSES
from tasks_app.operations.lookup import look_up, lookup_of
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pages import listed_in
from tasks_app.operations.reconcile import tasks_reconcile
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import RawServer, serve
from tests.adcp.scripted_seller import mcp_result, rpc, seller
from tests.factories import make_seller
from tests.operations.making import stand
from tests.orders.live import booked

ROOT = Path(__file__).resolve().parents[2]
# What sellers list of what we bought, by the member that holds it.
_LISTS = {"media_buys", "tasks", "media_buy_deliveries"}
_NOT_YET = sorted(TASK_STATUSES - {"completed"})


def tells(word: str) -> RawServer:
    """A seller whose every list is told so, and empty."""
    told = {"status": word, "task_id": "t-9", "message": "Ask again later.", "media_buys": [], "tasks": []}
    return serve(seller(lambda request: rpc(request, result=mcp_result(told))))


@pytest.mark.parametrize("word", _NOT_YET)
def test_only_a_call_that_completed_lists_anything(word: str) -> None:
    assert listed_of(word, {"tasks": []}, "tasks") is None
    assert listed_of("completed", {"tasks": []}, "tasks") == []
    assert listed_of("completed", {"tasks": {}}, "tasks") is None
    assert listed_of("completed", None, "tasks") is None


@pytest.mark.django_db
@pytest.mark.parametrize("word", ["submitted", "auth-required", "failed", "canceled"])
def test_nothing_is_missing_by_a_list_that_is_none(word: str) -> None:
    with tells(word) as server:
        made = make_seller(url=f"{server.url}/mcp")
        booked(made)
        purchase = stand(S.CALLING_ADCP, seller=made)
        there = Seller.objects.get(pk=made.pk)
        readings = [*media_buys_reconcile([there], 20), *tasks_reconcile([there], 20)]
        seen = asyncio.run(look_up(lookup_of(purchase)))

    assert [reading.findings for reading in readings] == [[], []]
    assert all("Ask again later." in reading.unread for reading in readings)
    assert (seen.kind, seen.raw_status) == ("no_answer", None)


@pytest.mark.parametrize("status", list(S))
def test_an_operation_lists_what_it_completed_with(status: str) -> None:
    listed = {"products": [{"product_id": "p"}]}
    expected = listed["products"] if status == S.COMPLETED else []
    assert listed_in(Operation(status=status, result=listed), "products") == expected


def _reads_a_list(source: str) -> list[str]:
    """What takes a seller's list out of an answer by itself."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value in _LISTS
    ]


@pytest.mark.rule
def test_one_function_takes_lists_out_of_answers() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {read}"
        for top in ("tasks_app", "orders", "campaigns")
        for path in (ROOT / top).rglob("*.py")
        for read in _reads_a_list(path.read_text(encoding="utf-8"))
    }
    assert found == set()
    assert _reads_a_list('(seen.payload or {}).get("media_buys")')
