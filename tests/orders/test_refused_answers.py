"""A purchase that the seller refused books no deal, in whichever of AdCP's ways it says so; one that was made
books it under whichever name the buy's status stands."""

from __future__ import annotations

from typing import Any

import pytest

from orders.models import Deal, DealStatus
from orders.services import deal_book
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tests.adcp.raw_server import serve
from tests.adcp.scripted_seller import a2a_result, mcp_result, rpc, seller
from tests.factories import approve_deal, make_deal, make_seller
from tests.operations.making import fresh
from tests.operations.sweeping import sweep

pytestmark = pytest.mark.django_db
ERROR = {"code": "BUDGET_TOO_LOW", "message": "too low", "recovery": "correctable"}
BUY = {"media_buy_id": "mb-9", "packages": [], "revision": 1}
# What nobody can say: sent again under its key, until a person is asked. All others end.
UNSURE = {
    "isError beside data": ("mcp", {"isError": True, **mcp_result({"status": "completed", **BUY})}),
    "adcp_error without isError": ("mcp", mcp_result({"adcp_error": ERROR, "context": {"x": 1}})),
}
REFUSED = {
    "adcp_error in a completed A2A task": ("a2a", a2a_result({"adcp_error": ERROR})),
    "errors beside nulls": (
        "mcp",
        mcp_result({"media_buy_id": None, "packages": None, "errors": [ERROR]}),
    ),
    "completed with errors alone": ("mcp", mcp_result({"status": "completed", "errors": [ERROR]})),
    "the buy is rejected": (
        "mcp",
        mcp_result({"status": "completed", **BUY, "media_buy_status": "rejected"}),
    ),
    "failed, nested": ("mcp", mcp_result({"status": "failed", "payload": {"errors": [ERROR]}})),
}
BOUGHT = {
    "3.0": {**BUY, "status": "pending_start"},
    "3.1, both names": {**BUY, "status": "pending_start", "media_buy_status": "pending_start"},
    "3.1, named": {**BUY, "status": "active", "adcp_version": "3.1"},
    "3.2": {**BUY, "status": "completed", "media_buy_status": "active", "adcp_version": "3.2"},
}


def _booked(protocol: str, result: dict[str, Any]) -> tuple[Deal, Operation]:
    with serve(seller(lambda request: rpc(request, result=result))) as server:
        url = f"{server.url}/mcp" if protocol == "mcp" else server.url
        deal = make_deal(seller=make_seller(url=url, protocol=protocol))
        approve_deal(deal)
        operation = deal_book(deal=deal)
        sweep()
    publish(operation_id=operation.pk)
    deal.refresh_from_db()
    return deal, fresh(operation)


@pytest.mark.parametrize("case", UNSURE)
def test_a_call_that_failed_books_nothing(case: str) -> None:
    deal, operation = _booked(*UNSURE[case])
    assert (deal.status, deal.media_buy_id) == (DealStatus.BOOKING, "")
    assert operation.settled_at is None
    assert operation.send_at is not None


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_purchase_books_nothing(case: str) -> None:
    deal, operation = _booked(*REFUSED[case])
    assert deal.status not in (DealStatus.BOOKED, DealStatus.BOOKING)
    assert operation.settled_at is not None


@pytest.mark.parametrize("protocol", ["mcp", "a2a"])
@pytest.mark.parametrize("case", BOUGHT)
def test_a_purchase_is_booked_under_either_name_of_its_status(case: str, protocol: str) -> None:
    wrap = mcp_result if protocol == "mcp" else a2a_result
    deal, _ = _booked(protocol, wrap(BOUGHT[case]))
    assert (deal.status, deal.media_buy_id) == (DealStatus.BOOKED, "mb-9")
