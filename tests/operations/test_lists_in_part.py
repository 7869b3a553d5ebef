"""What a seller was not asked for, or told of in part, ends nothing: only what was looked for can be gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from orders.left_there import left_there
from orders.models import Deal
from orders.reconcile import media_buy_settle, media_buys_reconcile
from tasks_app import clock
from tasks_app.adcp.optional import OPTIONAL
from tasks_app.operations.comparison import Finding, Reader, Reading, Verdict
from tasks_app.operations.line import UnreadableError
from tasks_app.operations.lookup import look_up, lookup_of
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pages import pages_read
from tasks_app.operations.reconcile import tasks_reconcile
from tasks_app.reconciliation.findings import reading_record
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tasks_app.sellers.models import Account, Seller
from tests.adcp.raw_server import serve
from tests.factories import make_seller
from tests.operations.making import see, silent, stand
from tests.operations.sweeping import shop
from tests.operations.test_narrow_lists import LISTS, listed, pages, refused
from tests.orders import late

pytestmark = pytest.mark.django_db
Told = dict[str, Any]
DOWN = {"code": "SERVICE_UNAVAILABLE", "message": "half of the shards are down"}
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


def _no_list(seller: Seller) -> None:
    Seller.objects.filter(pk=seller.pk).update(tools=["create_media_buy", "get_products"])


def _no_reference(seller: Seller) -> None:
    Account.objects.filter(seller=seller).update(reference={})


NOT_ASKED: dict[str, Callable[[Seller], None]] = {
    "lists no media buys": _no_list,
    "no account by its reference": _no_reference,
}


def bought_unknown(url: str) -> tuple[Seller, Deal, Account]:
    """A purchase that was given up and runs at its seller all the same."""
    seller = make_seller(url=url)
    deal, operation = late.booking(seller)
    late.give_up(operation)
    return seller, deal, Account.objects.get(pk=deal.account_id)


def running(deal: Deal) -> Told:
    return {"media_buy_id": "mb-7", "status": "pending_start", "context": {"deal_id": str(deal.pk)}}


@pytest.mark.parametrize("ground", NOT_ASKED)
def test_a_buy_stays_found_where_its_seller_is_not_asked_any_more(ground: str) -> None:
    shown: list[Told] = []
    with serve(shop(get_media_buys=lambda _asked: {"status": "completed", "media_buys": shown})) as server:
        seller, deal, account = bought_unknown(f"{server.url}/mcp")
        shown.append(running(deal))
        read(seller)
        assert left_there(account, [deal.pk]) == {deal.pk}
        NOT_ASKED[ground](seller)
        reading = read(seller)

    assert not reading.complete
    assert reading.notes
    assert ReconciliationFinding.objects.filter(resolved_at=None).count() == 1
    assert left_there(account, [deal.pk]) == {deal.pk}, "its purchase-order number stays taken"


@pytest.mark.parametrize("errors", ERRORS)
def test_a_buy_stays_found_where_its_list_came_with_an_error(errors: str) -> None:
    told: Told = {"status": "completed"}
    with serve(shop(get_media_buys=lambda _asked: told)) as server:
        seller, deal, account = bought_unknown(f"{server.url}/mcp")
        told["media_buys"] = [running(deal)]
        assert read(seller).complete
        told |= {"media_buys": [], "errors": ERRORS[errors]}
        reading = read(seller)

    assert "half of the shards are down" in reading.unread
    assert left_there(account, [deal.pk]) == {deal.pk}


@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize(("tool", "listed_as"), [("get_media_buys", "media_buys"), ("list_tasks", "tasks")])
def test_nothing_is_looked_up_in_vain_by_a_list_that_came_with_an_error(
    tool: str, listed_as: str, errors: str
) -> None:
    told = {"status": "completed", listed_as: [], "errors": ERRORS[errors]}
    with serve(shop(**{tool: told})) as server:
        seller = make_seller(url=f"{server.url}/mcp", tools=["create_media_buy", tool])
        operation = stand(S.CALLING_ADCP, seller=seller, subject_type="deal")
        see(operation, silent())
        seen = asyncio.run(look_up(lookup_of(operation)))
    assert (seen.kind, seen.raw_status) == ("no_answer", None)
    assert "half of the shards are down" in (seen.message or "")


BY_ID: dict[str, tuple[Told, bool]] = {
    "found, and another not": ({"media_buys": [{"media_buy_id": "mb-7"}], "errors": [DOWN]}, True),
    "not there": ({"media_buys": [], "errors": [{"code": "MEDIA_BUY_NOT_FOUND", "message": "no"}]}, True),
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
