"""The sellers of a chaos run keep honest books, whatever happens to the wire."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from bench.chaos.plan import Script
from bench.chaos.seller.books import Books
from bench.chaos.seller.shop import RefusalError, Shop

AT_ONCE = Script(number=1, kind="at once", seller="harbour")
SLOW = Script(number=2, kind="slow", seller="harbour", first="submitted", pace_s=0.0, told="then_rejected")
ACCOUNT = {"account_id": "a-1"}


@pytest.fixture
def books(tmp_path: Path) -> Books:
    return Books(tmp_path / "books.db")


@pytest.fixture
def shop(books: Books) -> Shop:
    return Shop(books, {script.product_id: script for script in (AT_ONCE, SLOW)}, tells=True)


def order(script: Script, key: str, **more: Any) -> dict[str, Any]:
    return {
        "idempotency_key": key,
        "account": ACCOUNT,
        "start_time": "2030-01-01T00:00:00Z",
        "end_time": "2030-02-01T00:00:00Z",
        "packages": [{"product_id": script.product_id, "pricing_option_id": "cpm", "budget": 1001}],
        "context": {"deal_id": f"deal-{script.number}"},
        "push_notification_config": {"url": "http://127.0.0.1:9/", "operation_id": "o", "token": "t" * 16},
        **more,
    }


def test_a_key_buys_once_and_replays_its_answer(shop: Shop, books: Books) -> None:
    first = shop.answer("create_media_buy", order(AT_ONCE, "key-1"))
    again = shop.answer("create_media_buy", order(AT_ONCE, "key-1"))

    assert again == {**first, "replayed": True}
    with pytest.raises(RefusalError, match="another payload"):
        shop.answer("create_media_buy", order(AT_ONCE, "key-1", end_time="2030-03-01T00:00:00Z"))
    assert len(books.rows("select * from buys")) == 1


def test_another_key_buys_again_and_the_books_say_so(shop: Shop, books: Books) -> None:
    for key in ("key-1", "key-2"):
        shop.answer("create_media_buy", order(AT_ONCE, key))
    assert [row["deal_id"] for row in books.rows("select * from buys")] == ["deal-1", "deal-1"]


def test_a_task_is_bought_when_it_ends_and_announced_in_the_same_moment(shop: Shop, books: Books) -> None:
    task_id = shop.answer("create_media_buy", order(SLOW, "key-1"))["task_id"]
    assert not books.rows("select * from buys")

    shop.finish_due()
    shop.finish_due()

    told = shop.answer("get_task_status", {"task_id": task_id, "include_result": True})
    bought = books.rows("select * from buys")
    assert (told["status"], told["result"]["media_buy_id"]) == ("completed", bought[0]["media_buy_id"])
    assert len(bought) == 1
    assert len(books.rows("select * from posts")) == 2, "its end, and what contradicts it"


def test_lists_are_paged_and_narrowed(shop: Shop) -> None:
    for number in range(60):
        shop.answer("create_media_buy", order(AT_ONCE, f"key-{number}"))

    def page(**asked: Any) -> dict[str, Any]:
        return shop.answer(
            "get_media_buys", {"account": ACCOUNT, "status_filter": ["pending_start"], **asked}
        )

    first = page()
    second = page(pagination={"cursor": first["pagination"]["cursor"]})
    assert [len(first["media_buys"]), len(second["media_buys"])] == [50, 10]
    assert not second["pagination"]["has_more"]
    assert first["media_buys"][0]["context"] == {"deal_id": "deal-1"}
    assert page(account={"account_id": "a-2"})["media_buys"] == []
    assert shop.answer("get_media_buys", {"account": ACCOUNT})["media_buys"] == [], "active ones alone"


def test_books_outlive_their_process(tmp_path: Path) -> None:
    before = Books(tmp_path / "books.db")
    Shop(before, {SLOW.product_id: SLOW}, tells=True).answer("create_media_buy", order(SLOW, "key-1"))

    after = Books(tmp_path / "books.db")
    assert Shop(after, {SLOW.product_id: SLOW}, tells=True).finish_due() == 1
    assert len(after.rows("select * from buys where number = ?", SLOW.number)) == 1
    assert after.rows("select * from posts where due_at <= ?", time.time())


def test_tasks_are_listed_with_our_context_since_a_moment(shop: Shop) -> None:
    shop.answer("create_media_buy", order(SLOW, "key-1"))

    def listed(**filters: Any) -> list[dict[str, Any]]:
        return shop.answer("list_tasks", {"account": ACCOUNT, "filters": filters})["tasks"]

    assert [task["context"] for task in listed(statuses=["submitted"])] == [{"deal_id": "deal-2"}]
    assert len(listed(created_after="2020-01-01T00:00:00Z")) == 1
    assert listed(created_after="2090-01-01T00:00:00Z") == []
    assert listed(statuses=["working"]) == []
