"""The sellers of a chaos run keep honest books, whatever happens to the wire."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.chaos.plan import SHARE, Script
from bench.chaos.seller.books import Books
from bench.chaos.seller.post import Post
from bench.chaos.seller.shop import RefusalError, Shop
from bench.chaos.seller.signing import Signer
from bench.chaos.seller.traffic import Traffic

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


def most_at_once(books: Books) -> int:
    return int(books.rows("select max(out) as n from traffic")[0]["n"])


def test_the_most_calls_at_once_stand_in_the_books_and_outlive_the_process(tmp_path: Path) -> None:
    books = Books(tmp_path / "books.db")
    pairs = [socket.socketpair() for _ in range(3)]
    with ExitStack() as calls:
        for _, seller in pairs:
            calls.enter_context(Traffic(books).call(seller, looks=False))
        assert most_at_once(books) == 1, "each is of a seller's process of its own"
    traffic = Traffic(books)
    with traffic.call(pairs[0][1], looks=True), traffic.call(pairs[1][1], looks=False):
        pass
    with traffic.call(pairs[2][1], looks=False):
        pass
    assert most_at_once(Books(tmp_path / "books.db")) == 2


def test_a_call_whose_buyer_has_hung_up_is_out_no_longer(books: Books) -> None:
    traffic = Traffic(books)
    pairs = [socket.socketpair() for _ in range(3)]
    with ExitStack() as calls:
        for buyer, seller in pairs:
            calls.enter_context(traffic.call(seller, looks=False))
            buyer.close()
    assert most_at_once(books) == 1


def test_many_looks_are_counted_by_the_process_that_makes_them(books: Books) -> None:
    """All are this one's."""
    traffic = Traffic(books)
    with socket.create_server(("127.0.0.1", 0)) as seller, ExitStack() as calls:
        for _ in range(SHARE + 2):
            calls.enter_context(socket.create_connection(seller.getsockname()))
            connection = calls.enter_context(seller.accept()[0])
            calls.enter_context(traffic.call(connection, looks=True))
    most = books.rows("select max(looking) as looking, max(of_one) as of_one from traffic")[0]
    assert tuple(most) == (SHARE + 2, SHARE + 2)


def test_what_is_not_taken_yet_is_sent_again_when_the_seller_hurries(shop: Shop, books: Books) -> None:
    shop.answer("create_media_buy", order(SLOW, "key-1"))
    shop.finish_due()
    with books.changing() as db:
        db.execute("update posts set due_at = case id when 1 then null else ? end", (time.time() + 60,))

    Post(books, Signer("harbour")).hurry()

    due = [row["id"] for row in books.rows("select id from posts where due_at <= ?", time.time())]
    assert due == [2], "the first has been taken"
