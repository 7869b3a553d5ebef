"""One operation with a seller that misbehaves: a clear error, nothing lost, nothing bought twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.elapsing import elapsing
from tests.faults.conftest import Known, Passes, misbehaving
from tests.operations.making import ask, fresh
from tests.operations.sweeping import sweep

BUY: dict[str, Any] = {
    "account": {"account_id": "a-1"},
    "brand": {"domain": "lindqvist-coffee.com"},
    "start_time": "2030-01-01T00:00:00Z",
    "end_time": "2030-02-01T00:00:00Z",
    "packages": [{"product_id": "fake-display", "pricing_option_id": "fake-cpm", "budget": 5000}],
    "context": {"deal_id": "d-1"},
}
PRODUCTS = {"buying_mode": "brief", "brief": "coffee", "brand": {"domain": "lindqvist-coffee.com"}}


def buy(seller: Seller) -> Operation:
    return ask(seller=seller, arguments=BUY)


def sound(operation: Operation) -> Operation:
    assert verify_entity("operation", operation.pk).ok
    return fresh(operation)


# What the seller does to the first call, where the operation then stands, and what its message names.
ONCE = [
    ("http", {}, S.CALLING_ADCP, "HTTP 500"),
    ("html", {}, S.CALLING_ADCP, "GARBLED"),
    ("truncated", {}, S.CALLING_ADCP, "GARBLED"),
    ("huge", {}, S.CALLING_ADCP, "TOO_LARGE"),
    ("hang", {}, S.CALLING_ADCP, "NO_ANSWER"),
    ("drop", {}, S.CALLING_ADCP, "NO_ANSWER"),
    ("refuse", {}, S.CALLING_ADCP, "NO_ANSWER"),
    ("crash", {}, S.CALLING_ADCP, "NoneType"),
    ("in_flight", {}, S.CALLING_ADCP, "IDEMPOTENCY_IN_FLIGHT"),
    ("unauthorized", {}, S.AUTH_REQUIRED, "does not accept our token"),
    ("status", {"status": "requires_approval"}, S.SUBMITTED, "requires_approval"),
    (
        "error",
        {"code": "SERVICE_UNAVAILABLE", "recovery": "transient"},
        S.CALLING_ADCP,
        "SERVICE_UNAVAILABLE",
    ),
]


@pytest.mark.parametrize(("kind", "params", "stands", "names"), ONCE, ids=[once[0] for once in ONCE])
def test_a_purchase_is_made_once_however_the_first_answer_fails(
    known: Callable[..., Known], passes: Passes, kind: str, params: dict[str, Any], stands: str, names: str
) -> None:
    shop, seller = known()
    operation = buy(seller)
    with misbehaving(shop, "create_media_buy", kind, **params):
        passes()
    first = sound(operation)
    passes.until_settled(operation)
    last = sound(operation)

    assert first.status == stands
    assert names in first.message
    assert last.status == S.COMPLETED
    booked = shop.books()
    assert [buy["media_buy_id"] for buy in booked] == [last.result["media_buy_id"]]
    sent = [call["arguments"] for call in shop.requests("create_media_buy")]
    assert sent == [sent[0]] * len(sent)
    assert len(sent) == (1 if kind == "status" else 2)


def test_a_purchase_the_seller_refuses_fails_with_its_words(
    known: Callable[..., Known], passes: Passes
) -> None:
    shop, seller = known()
    operation = buy(seller)
    shop.fault("create_media_buy", "error", code="PRODUCT_UNAVAILABLE", message="Sold out.", times=0)

    assert passes.until_settled(operation) == 1

    operation = sound(operation)
    assert (operation.status, operation.message) == (S.FAILED, "Sold out.")
    assert operation.error["code"] == "PRODUCT_UNAVAILABLE"
    assert shop.books() == []


def test_a_purchase_whose_outcome_stays_unknown_is_never_failed(
    known: Callable[..., Known], passes: Passes
) -> None:
    shop, seller = known()
    operation = buy(seller)
    shop.fault("create_media_buy", "drop", times=5)

    passes(5)
    assert sound(operation).status == S.CALLING_ADCP
    passes.until_settled(operation)

    assert sound(operation).status == S.COMPLETED
    assert len(shop.books()) == 1


def test_a_seller_that_is_down_loses_nothing_when_it_comes_back(
    known: Callable[..., Known], passes: Passes
) -> None:
    shop, seller = known()
    operation = buy(seller)
    shop.kill()
    passes()
    assert "NOT_SENT" in sound(operation).message
    shop.start()

    assert passes.until_settled(operation) == 1
    assert sound(operation).status == S.COMPLETED
    assert len(shop.books()) == 1


def test_a_seller_that_stays_down_fails_what_was_never_sent(
    known: Callable[..., Known], passes: Passes
) -> None:
    shop, seller = known()
    operations = [buy(seller), ask("get_products", seller=seller, arguments=PRODUCTS)]
    shop.kill()

    for operation in operations:
        passes.until_settled(operation)

    for operation in map(sound, operations):
        assert (operation.status, operation.attempts) == (S.FAILED, 3)
        assert operation.error["code"] == "X_FLIGHTDECK_NOT_SENT"
        assert operation.message


def test_a_seller_that_goes_down_after_booking_has_booked(
    known: Callable[..., Known], passes: Passes
) -> None:
    shop, seller = known()
    operation = buy(seller)
    shop.fault("create_media_buy", "drop")
    passes()
    shop.kill()
    passes(4)
    assert sound(operation).status == S.CALLING_ADCP, "it may have bought: three refusals prove nothing"
    shop.start()
    passes.until_settled(operation)

    assert sound(operation).status == S.COMPLETED
    assert len(shop.books()) == 1


READ_FAULTS = [
    ("http", {}, "HTTP_ERROR"),
    ("html", {}, "GARBLED"),
    ("truncated", {}, "GARBLED"),
    ("huge", {}, "TOO_LARGE"),
    ("hang", {}, "NO_ANSWER"),
    ("drop", {}, "NO_ANSWER"),
    ("error", {"code": "RATE_LIMITED", "recovery": "transient"}, "RATE_LIMITED"),
]


@pytest.mark.parametrize(("kind", "params", "code"), READ_FAULTS, ids=[fault[0] for fault in READ_FAULTS])
def test_a_read_is_tried_three_times(
    known: Callable[..., Known], passes: Passes, kind: str, params: dict[str, Any], code: str
) -> None:
    shop, seller = known()
    operation = ask("get_products", seller=seller, arguments=PRODUCTS)

    with misbehaving(shop, "get_products", kind, times=3, **params):
        passes.until_settled(operation)

    operation = sound(operation)
    assert (operation.status, len(shop.requests("get_products"))) == (S.FAILED, 3)
    assert code in operation.error["code"]
    assert operation.message


def test_a_read_with_a_strange_status_or_a_bad_token_says_so(
    known: Callable[..., Known], passes: Passes
) -> None:
    shop, seller = known()
    shop.fault("get_products", "status", status="approved", times=0)
    strange = ask("get_products", seller=seller, arguments=PRODUCTS)
    passes.until_settled(strange)
    shop.clear()
    shop.fault("get_products", "unauthorized")
    refused = ask("get_products", seller=seller, arguments=PRODUCTS)

    assert passes.until_settled(refused) == 1
    assert (sound(strange).status, sound(refused).status) == (S.FAILED, S.FAILED)
    assert "approved" in fresh(strange).message
    assert fresh(refused).error["code"] == "AUTH_INVALID"


POLL_FAULTS = [
    ("http", {}), ("html", {}), ("truncated", {}), ("huge", {}), ("hang", {}), ("drop", {}),
    ("unauthorized", {}), ("crash", {}), ("status", {"status": "requires_approval"}), ("new_task_id", {}),
    ("error", {"code": "REFERENCE_NOT_FOUND"}),
]  # fmt: skip


def test_polls_that_fail_in_every_way_lose_nothing(known: Callable[..., Known], passes: Passes) -> None:
    shop, seller = known(mode="submitted")
    operation = buy(seller)
    passes()
    task = fresh(operation).task_id

    for kind, params in POLL_FAULTS:
        with misbehaving(shop, "get_task_status", kind, **params):
            passes()
        after = sound(operation)
        assert (after.status, after.task_id) == (S.SUBMITTED, task), kind
        assert after.observations.latest("id").note, kind
    passes.until_settled(operation)

    operation = sound(operation)
    assert (operation.status, operation.settled_by, operation.task_id) == (S.COMPLETED, "poll", task)
    assert operation.observations.get(outcome="conflict").note.startswith(f"task_id changed from {task}")
    assert len(shop.requests("create_media_buy")) == len(shop.books()) == 1


def test_a_task_id_that_changes_between_two_answers_is_never_followed(
    known: Callable[..., Known], passes: Passes
) -> None:
    shop, seller = known(mode="submitted")
    operation = buy(seller)
    passes()
    task = fresh(operation).task_id
    shop.fault("get_task_status", "new_task_id", times=3)

    passes(3)
    assert (sound(operation).status, sound(operation).task_id) == (S.SUBMITTED, task)
    assert {call["arguments"]["task_id"] for call in shop.requests("get_task_status")} == {task}


def test_one_sellers_hanging_delays_no_other(known: Callable[..., Known]) -> None:
    slow, slow_seller = known("Slow")
    _, quick_seller = known("Quick")
    slow.fault("create_media_buy", "hang")
    waiting, operation = buy(slow_seller), buy(quick_seller)

    def asked_in_vain_and_the_other_settled() -> int:
        return bool(slow.requests("create_media_buy")) and fresh(operation).status == S.COMPLETED

    with elapsing(asked_in_vain_and_the_other_settled):
        sweep()

    assert sound(waiting).status == S.CALLING_ADCP
    assert sound(operation).status == S.COMPLETED
    assert fresh(operation).settled_at < waiting.observations.get().at
