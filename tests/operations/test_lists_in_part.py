"""What a seller was not asked for, or told of in part, ends nothing: only what was looked for can be gone."""

from __future__ import annotations

from typing import Any

import pytest

from orders.models import Deal, UnclaimedBuy
from orders.reconcile import media_buy_settle, media_buys_reconcile
from tasks_app import clock
from tasks_app.adcp.optional import OPTIONAL
from tasks_app.adcp.tasks import told_beside
from tasks_app.adcp.types import WireError
from tasks_app.operations.comparison import Finding, Reader, Reading, Verdict
from tasks_app.operations.line import UnreadableError
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pages import pages_read
from tasks_app.operations.reconcile import tasks_reconcile
from tasks_app.reconciliation.findings import reading_record
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tasks_app.sellers.models import Account, Seller
from tests.adcp.raw_server import serve
from tests.factories import make_account, make_advertiser, make_seller
from tests.operations.making import stand
from tests.operations.sweeping import shop
from tests.operations.test_narrow_lists import LISTS, listed, pages, refused
from tests.orders import late
from tests.orders.live import booked

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
Told = dict[str, Any]
DOWN = {"code": "SERVICE_UNAVAILABLE", "message": "half of the shards are down"}
UNKNOWN = {"code": "MEDIA_BUY_NOT_FOUND", "message": "no"}
ERRORS: dict[str, list[Any]] = {"an error": [DOWN], "words": ["half of the shards are down"]}


def recorded(reading: Reading, kind: str = "media_buy") -> Reading:
    run, _ = ReconciliationRun.objects.get_or_create(trigger="hand", asked_by="system")
    reader = Reader(kind=kind, read=media_buys_reconcile, settle=lambda _seller, _finding: None)
    if kind == "media_buy":
        reader = Reader(kind=kind, read=media_buys_reconcile, settle=media_buy_settle)
    reading_record(run=run, reader=reader, reading=reading)
    return reading


def read(seller: Seller) -> Reading:
    (reading,) = media_buys_reconcile([Seller.objects.get(pk=seller.pk)], 20)
    return recorded(reading)


def bought_unknown(url: str) -> tuple[Seller, Deal, Account]:
    """A purchase that was given up and runs at its seller all the same."""
    seller = make_seller(url=url)
    deal, operation = late.booking(seller)
    late.give_up(operation)
    return seller, deal, Account.objects.get(pk=deal.account_id)


def another_account(seller: Seller) -> None:
    account = make_account(make_advertiser("Another"), seller)
    Account.objects.filter(pk=account.pk).update(reference={"account_id": "another"})


def running(deal: Deal) -> Told:
    return {"media_buy_id": "mb-7", "status": "pending_start", "context": {"deal_id": str(deal.pk)}}


@pytest.mark.parametrize("accounts", [1, 2])
@pytest.mark.parametrize("errors", ERRORS)
def test_what_a_list_holds_beside_an_error_is_found(errors: str, accounts: int) -> None:
    """Money is spent on it; what the same list may lack is asked for by its id, and ends nothing."""

    def buys(asked: Told) -> Told:
        if asked.get("media_buy_ids"):
            return {"status": "completed", "media_buys": []}
        return {"status": "completed", "media_buys": told, "errors": ERRORS[errors]}

    told: list[Told] = []
    with serve(shop(get_media_buys=buys)) as server:
        seller, deal, account = bought_unknown(f"{server.url}/mcp")
        gone = booked(seller, media_buy_id="mb-gone", account=account)
        if accounts == 2:
            another_account(seller)
        told.append(running(deal))
        reading = read(seller)

    assert (reading.complete, reading.unread) == (False, "")
    assert UnclaimedBuy.objects.filter(deal=deal, closed_at=None).exists()
    found = ReconciliationFinding.objects.filter(resolved_at=None).values_list("verdict", "theirs")
    assert list(found) == [("missing", gone.media_buy_id)]


def test_a_seller_that_refuses_one_account_and_lists_another_in_part_is_read() -> None:
    def buys(asked: Told) -> Told:
        if asked["account"] != account.reference:
            return refused(message="this account was rejected")
        return {"status": "completed", "media_buys": told, "errors": [DOWN]}

    told: list[Told] = []
    with serve(shop(get_media_buys=buys)) as server:
        seller, deal, account = bought_unknown(f"{server.url}/mcp")
        another_account(seller)
        told.append(running(deal))
        reading = read(seller)
    assert [finding.verdict for finding in reading.findings] == [Verdict.BOUGHT_UNKNOWN]
    assert len(reading.unnamed) == 2


# How a list may end before all of it was given.
CUT: dict[str, Told] = {
    "an error beside it": {"errors": [DOWN]},
    "its next page is refused": {"pagination": {"has_more": True, "cursor": "2"}},
    "more than are kept": {"media_buys": [{"media_buy_id": f"mb-{n}", "status": "active"} for n in range(9)]},
}


@pytest.mark.parametrize("cut", CUT)
def test_what_came_to_nothing_proves_nothing_where_another_may_be_lacking(
    monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """Not of the deal that is being bought: it may be bought under another name."""

    def buys(asked: Told) -> Told:
        if asked["account"] != account.reference:
            return {"status": "completed", "media_buys": []}
        if asked.get("pagination", {}).get("cursor"):
            return refused(message="this cursor has expired")
        listed = {"status": "completed", "media_buys": [running(deal) | {"status": "rejected"}]}
        more = CUT[cut] if is_cut else {}
        return listed | more | {"media_buys": [*listed["media_buys"], *more.get("media_buys", [])]}

    monkeypatch.setattr("orders.reconcile._MOST_KEPT", 5)
    is_cut = True
    with serve(shop(get_media_buys=buys)) as server:
        seller = make_seller(url=f"{server.url}/mcp")
        deal, _ = late.booking(seller)
        account = Account.objects.get(pk=deal.account_id)
        another_account(seller)
        read(seller)
        assert late.fresh(deal).status == "booking"
        is_cut = False
        read(seller)
    assert late.fresh(deal).status != "booking"


def test_what_is_in_step_again_is_over_although_its_seller_is_not_read_whole() -> None:
    told: Told = {"status": "completed", "media_buys": []}
    with serve(shop(get_media_buys=told)) as server:
        seller = make_seller(url=f"{server.url}/mcp")
        for named in ("mb-1", "mb-2"):
            booked(seller, media_buy_id=named)
        read(seller)
        assert ReconciliationFinding.objects.filter(resolved_at=None, verdict="missing").count() == 2
        told |= {"media_buys": [{"media_buy_id": "mb-1", "status": "active"}], "errors": [DOWN]}
        read(seller)
    assert ReconciliationFinding.objects.get(resolved_at=None).theirs == "mb-2"


@pytest.mark.parametrize("errors", [["a"] * 2_000_000, [""] * 2_000_000, [UNKNOWN] * 300_000])
def test_as_many_errors_as_an_answer_holds_cost_no_more_than_their_beginning(errors: list[Any]) -> None:
    said: list[object] = []

    def counts(error: WireError) -> bool:
        said.append(error)
        return error.code not in ("MEDIA_BUY_NOT_FOUND",)

    beside = told_beside({"errors": errors}, counts=counts)
    assert beside is not None, "nobody knows what the rest of them say"
    assert len(said) <= 100


BY_ID: dict[str, tuple[Told, bool]] = {
    "another found": ({"media_buys": [{"media_buy_id": "mb-2"}], "errors": [DOWN]}, False),
    "not there, and more": ({"media_buys": [], "errors": [UNKNOWN, DOWN]}, False),
    "not there, in words too": ({"media_buys": [], "errors": [UNKNOWN, DOWN["message"]]}, False),
    "found, and another not": ({"media_buys": [{"media_buy_id": "mb-7"}], "errors": [DOWN]}, True),
    "not there": ({"media_buys": [], "errors": [UNKNOWN]}, True),
    "no errors": ({"media_buys": []}, True),
    "nothing found": ({"media_buys": [], "errors": [DOWN]}, False),
}


@pytest.mark.parametrize("case", BY_ID)
def test_what_is_asked_for_by_its_id_is_gone_only_where_the_seller_says_so(case: str) -> None:
    told, is_read = BY_ID[case]
    with serve(shop(get_media_buys={"status": "completed", **told})) as server:
        seller = make_seller(url=f"{server.url}/mcp")
        asked = {"media_buy_ids": ["mb-7"]}
        if is_read:
            assert listed(seller, "get_media_buys", asked, "media_buys") == told["media_buys"]
        else:
            with pytest.raises(UnreadableError, match="half of the shards"):
                listed(seller, "get_media_buys", asked, "media_buys")


@pytest.mark.parametrize("errors", [[DOWN], []])
def test_pages_that_came_with_an_error_are_not_the_whole_list(errors: list[Told]) -> None:
    told = {"products": [{"product_id": "p"}], "errors": errors}
    page = Operation(status=S.COMPLETED, result=told, published_at=clock.now())

    def further(_cursor: str, _number: int) -> Operation:
        raise AssertionError("there is no other page")

    found = pages_read(page, further, member="products")
    assert found.items == [{"product_id": "p"}], "what it offers is offered"
    assert bool(found.unread) is bool(errors)


# What stands beside a seller's products, and whether there may be more of them.
BESIDE_PRODUCTS: dict[str, tuple[Told, bool]] = {
    "a warning": ({"errors": [{"code": "FILTER_IGNORED", "message": "channels were not looked at"}]}, False),
    "words": ({"errors": ["channels were not looked at"]}, False),
    "what passes": ({"errors": [{"code": "X", "message": "busy", "recovery": "transient"}]}, True),
    "not all searched": ({"incomplete": [{"scope": "products", "description": "two of five"}]}, True),
    "no forecasts": ({"incomplete": [{"scope": "forecast", "description": "none"}]}, False),
    "a shape of its own": ({"incomplete": {"scope": "products"}}, False),
}


@pytest.mark.parametrize("case", BESIDE_PRODUCTS)
def test_a_warning_beside_products_leaves_none_out(case: str) -> None:
    beside, is_lacking = BESIDE_PRODUCTS[case]
    told = {"products": [{"product_id": "p"}], **beside}
    page = Operation(status=S.COMPLETED, result=told, published_at=clock.now())
    found = pages_read(page, lambda _cursor, _number: page, member="products")
    assert bool(found.unread) is is_lacking
    page.result = {"products": [], "errors": beside.get("errors", [])}
    nothing = pages_read(page, lambda _cursor, _number: page, member="products")
    assert bool(nothing.unread) is bool(beside.get("errors")), "where it offers none, it says why"


def test_a_later_page_without_products_says_why_it_has_none() -> None:
    first = {"products": [{"product_id": "p"}], "pagination": {"has_more": True, "cursor": "2"}}
    error = {"code": "CURSOR_EXPIRED", "message": "ask again", "recovery": "terminal"}
    second = {"products": [], "errors": [error]}
    page, later = (
        Operation(status=S.COMPLETED, result=told, published_at=clock.now()) for told in (first, second)
    )
    found = pages_read(page, lambda _cursor, _number: later, member="products")
    assert (len(found.items), found.unread) == (1, "page 2 came with an error: ask again")


@pytest.mark.parametrize("tool", sorted(LISTS))
def test_a_list_whose_cursor_is_refused_is_not_read_from_its_beginning_again(tool: str) -> None:
    asked, name, _ = LISTS[tool]
    first = pages(tool, "nothing")

    def answer(arguments: Told) -> Told:
        if arguments.get("pagination", {}).get("cursor"):
            return refused(message="pagination: unknown cursor, omit it", field="pagination.cursor")
        return first(arguments | {"pagination": {"max_results": 2}})

    assert "pagination" in OPTIONAL[tool]
    with serve(shop(**{tool: answer})) as server:
        seller = make_seller(url=f"{server.url}/mcp", tools=[tool])
        with pytest.raises(UnreadableError, match="unknown cursor"):
            listed(seller, tool, asked, name)


# What is found of tasks, by the tool that would have shown it: what is gone when that is.
SHOWN_BY = {
    Verdict.ORPHANED: "list_tasks",
    Verdict.AHEAD: "list_tasks",
    Verdict.MISSING: "get_task_status",
    Verdict.BEHIND: "get_task_status",
    Verdict.UNCLEAR: "get_task_status",
}


@pytest.mark.parametrize("verdict", SHOWN_BY)
@pytest.mark.parametrize("asked", [False, True])
def test_what_is_found_of_a_task_ends_where_its_seller_was_asked_for_it(
    verdict: Verdict, asked: bool
) -> None:
    pending = SHOWN_BY[verdict] == "get_task_status"
    told = {
        "list_tasks": {"status": "completed", "tasks": []},
        "get_task_status": {"task_id": "t-1", "status": "working", "task_type": "create_media_buy"},
    }
    with serve(shop(**told)) as server:
        tools = ["create_media_buy", *(set(told) if asked else set(told) - {SHOWN_BY[verdict]})]
        seller = make_seller(url=f"{server.url}/mcp", tools=sorted(tools))
        if pending:
            stand(S.SUBMITTED, seller=seller, task_id="t-1")
        finding = Finding(verdict=verdict, theirs="t-1")
        recorded(Reading(seller=seller, findings=[finding]), "task")
        assert ReconciliationFinding.objects.filter(resolved_at=None).count() == 1
        (reading,) = tasks_reconcile([Seller.objects.get(pk=seller.pk)], 20)
        recorded(reading, "task")
    assert ReconciliationFinding.objects.filter(resolved_at=None).exists() is not asked
