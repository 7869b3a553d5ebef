"""Asking a seller for its keys, or its list of revoked ones, holds few of the threads that take webhooks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from tasks_app.sellers.models import Seller
from tasks_app.webhooks import keys, revocations
from tasks_app.webhooks.answer import LATER
from tests.database import Database
from tests.factories import make_seller
from tests.support import PATIENCE_S, until
from tests.webhooks.signing import payload, rfc
from tests.webhooks.taking import ADDRESS, take

pytestmark = pytest.mark.usefixtures("fresh_process")


@pytest.fixture
def end() -> threading.Event:
    return threading.Event()


@pytest.fixture
def hanging(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch, end: threading.Event
) -> Callable[[], int]:
    """Key servers that answer only when the test ends; answers how many are being asked."""
    asked = []

    async def fetch(*_args: Any, **_named: Any) -> Any:
        asked.append(1)
        end.wait(PATIENCE_S)
        raise keys.KeysError("it hung up")

    monkeypatch.setattr(keys, "fetch_jwks", fetch)
    monkeypatch.setattr(revocations, "fetch_revocations", fetch)
    return lambda: len(asked)


@pytest.fixture
def threads(end: threading.Event) -> Iterator[ThreadPoolExecutor]:
    """What is asked for in them ends before they do."""
    with ThreadPoolExecutor(settings.WEBHOOK_ASIDE_THREADS) as pool:
        yield pool
        end.set()


def signing(name: str) -> Seller:
    return make_seller(name, webhook_mode="rfc9421", jwks_url=f"http://127.0.0.1:9/{name}/jwks.json")


def send(seller: Seller, key_id: str = "k1") -> Any:
    body = payload(task_id="t")
    try:
        return take(seller, body, rfc(ADDRESS.format(seller.slug), body, key_id=key_id))
    finally:
        connection.close()


def test_one_thread_asks_a_seller_and_who_comes_meanwhile_comes_again(
    hanging: Callable[[], int], threads: ThreadPoolExecutor
) -> None:
    seller = signing("hangs")
    first = threads.submit(send, seller)
    until(lambda: hanging() == 1, "it is asked")

    assert [send(seller, f"x{n}") for n in range(20)] == [LATER] * 20

    assert (hanging(), first.done()) == (1, False)


def test_a_thread_is_always_left_however_many_sellers_hang(
    hanging: Callable[[], int], threads: ThreadPoolExecutor
) -> None:
    most = settings.WEBHOOK_ASIDE_THREADS - 1
    sellers = [signing(f"hangs{n}") for n in range(most + 5)]
    waiting = [threads.submit(send, seller) for seller in sellers[:most]]
    until(lambda: hanging() == most, "they are asked")

    assert [send(seller) for seller in sellers[most:]] == [LATER] * 5

    assert (hanging(), [one.done() for one in waiting]) == (most, [False] * most)


def test_lists_of_revoked_keys_are_asked_for_in_the_same_few_threads(
    hanging: Callable[[], int], threads: ThreadPoolExecutor
) -> None:
    seller = signing("hangs")
    first = threads.submit(revocations._ask, seller, None)
    until(lambda: hanging() == 1, "it is asked")

    with pytest.raises(keys.FetchBusyError):
        revocations.check_seller_key(seller, "k1")
    with pytest.raises(keys.FetchBusyError):
        revocations.check_seller_key(seller, "k1", may_fetch=False)

    assert not first.done()
