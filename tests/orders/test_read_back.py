"""A booking whose seller named no media buy is found on whichever page of its list it stands."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orders.actions import read_back
from orders.models import Deal
from orders.questions import DIFFERENT
from tasks_app.approvals.models import Approval
from tasks_app.jobs.actions import Done, WaitForOperation
from tasks_app.operations import pages
from tasks_app.operations.models import Operation
from tests.orders.late import booking, bought, ended, fresh

pytestmark = pytest.mark.django_db


@pytest.fixture
def deal() -> Deal:
    """Booked, and its seller did not say which media buy it is."""
    deal, purchase = booking()
    told = bought(deal)
    del told["media_buy_id"]
    ended(purchase, "completed", told)
    return fresh(deal)


def ask(deal: Deal) -> Any:
    run = SimpleNamespace(inputs={"deal_id": str(deal.pk)}, purpose=lambda what: f"{deal.pk}:{what}")
    return read_back(run)  # type: ignore[arg-type]


def page(*buys: dict[str, Any], cursor: str = "") -> dict[str, Any]:
    told = {"has_more": bool(cursor), **({"cursor": cursor} if cursor else {})}
    return {"media_buys": list(buys), "pagination": told}


def answer(waiting: Any, told: dict[str, Any]) -> Operation:
    assert isinstance(waiting, WaitForOperation)
    reading = Operation.objects.get(pk=waiting.operation_id)
    ended(reading, "completed", told)
    return reading


def ours(deal: Deal, named: str = "mb-77", status: str = "active") -> dict[str, Any]:
    told = {**bought(deal, named), "status": status, "context": {"deal_id": str(deal.pk)}}
    del told["media_buy_status"]
    return told


OTHER = {"media_buy_id": "mb-1", "status": "active"}


def test_it_is_found_on_a_later_page(deal: Deal) -> None:
    answer(ask(deal), page(OTHER, cursor="two"))
    second = answer(ask(deal), page(ours(deal)))
    done = ask(deal)
    assert isinstance(done, Done)
    assert done.outputs["read"] is True
    assert second.request["pagination"] == {"cursor": "two"}
    assert fresh(deal).media_buy_id == "mb-77"
    assert Operation.objects.filter(task_type="get_media_buys").count() == 2


@pytest.mark.parametrize("dead", ["rejected", "canceled"])
@pytest.mark.parametrize("dead_first", [True, False])
def test_the_one_that_lives_is_what_was_bought(deal: Deal, dead: str, dead_first: bool) -> None:
    """However the seller orders its list, of which each stands on a page of its own."""
    two = [ours(deal, "mb-1", dead), ours(deal)]
    first, last = two if dead_first else two[::-1]
    answer(ask(deal), page(first, cursor="two"))
    answer(ask(deal), page(last))
    assert ask(deal).outputs["read"] is True
    assert (fresh(deal).media_buy_id, fresh(deal).media_buy_status) == ("mb-77", "active")


@pytest.mark.parametrize("told", [True, False], ids=["an error beside it", "whole"])
def test_one_that_came_to_nothing_is_taken_from_a_whole_list_alone(deal: Deal, told: bool) -> None:
    """Another may live that is not listed."""
    beside = {"errors": [{"code": "SERVICE_UNAVAILABLE", "message": "half of it"}]} if told else {}
    answer(ask(deal), page(ours(deal, "mb-1", "rejected")) | beside)
    done = ask(deal)
    assert done.outputs["read"] is not told
    assert ("half of it" in done.outputs["unread"]) is told
    assert (fresh(deal).media_buy_id == "mb-1") is not told


@pytest.mark.parametrize("pages_apart", [True, False])
def test_none_of_several_that_live_is_chosen(deal: Deal, pages_apart: bool) -> None:
    two = [ours(deal), ours(deal, "mb-78", "paused")]
    if pages_apart:
        answer(ask(deal), page(two[0], cursor="two"))
    answer(ask(deal), page(*(two[1:] if pages_apart else two)))
    done = ask(deal)
    assert done.outputs["read"] is False
    assert done.outputs["unread"].endswith("people say which it is: mb-77, mb-78")
    assert fresh(deal).media_buy_id == ""
    assert Approval.objects.filter(kind=DIFFERENT, subject_id=deal.pk, status="open").exists()


def test_one_that_came_to_nothing_counts_where_none_lives(deal: Deal) -> None:
    answer(ask(deal), page(ours(deal, "mb-1", "canceled"), ours(deal, "mb-1", "canceled")))
    assert ask(deal).outputs["read"] is True
    assert fresh(deal).status == "cancelled"


def test_a_whole_list_without_it_says_so(deal: Deal) -> None:
    answer(ask(deal), page(OTHER, cursor="two"))
    answer(ask(deal), page(OTHER))
    done = ask(deal)
    assert (done.outputs["read"], done.outputs["unread"]) == (False, "")


UNREAD = {
    "more pages than are read": ("three", "more than 2 pages"),
    "pages in a circle": ("two", "in a circle"),
}


@pytest.mark.parametrize("what", UNREAD)
def test_what_lies_beyond_is_said_and_not_guessed(
    deal: Deal, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_PAGES", 2)
    cursor, why = UNREAD[what]
    answer(ask(deal), page(OTHER, cursor="two"))
    answer(ask(deal), page(OTHER, cursor=cursor))
    done = ask(deal)
    assert done.outputs["read"] is False
    assert why in done.outputs["unread"]
    assert fresh(deal).media_buy_id == ""


def test_a_media_buy_that_has_its_id_is_asked_for_once(deal: Deal) -> None:
    Deal.objects.filter(pk=deal.pk).update(media_buy_id="mb-77")
    answer(ask(deal), page(OTHER, cursor="two"))
    done = ask(deal)
    assert done.outputs["read"] is False
    assert Operation.objects.filter(task_type="get_media_buys").count() == 1
