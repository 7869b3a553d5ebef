"""Somebody is asked about every media buy that a seller claims, one after the other, and of no flood."""

from __future__ import annotations

from typing import Any

import pytest

from orders.models import Deal
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.notifications.models import Notification
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import choice_words
from tasks_app.operations.converge import observe
from tasks_app.operations.models import Observation, Operation
from tests.orders.late import BUY, booking, bought, decide, ended, fresh, say

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
MOST = 20


def told(operation: Operation, status: str, payload: dict[str, Any] | None = None, **more: Any) -> None:
    assert say(operation, status, payload, channel="webhook", **more).outcome == "conflict"


def is_open() -> list[Conflict]:
    """What people are asked about now; each of them has its question."""
    found = list(Conflict.objects.filter(resolved_at__isnull=True))
    asked = Approval.objects.filter(kind="conflict", status="open").values_list("subject_id", flat=True)
    assert sorted(asked) == sorted(one.pk for one in found)
    return found


# How the purchase ended first, what opens the question, and what people answer to that.
FIRST: dict[str, tuple[str, str, str]] = {
    "booked, then refused, kept": ("completed", "rejected", "approve"),
    "booked, then refused, taken": ("completed", "rejected", "reject"),
    "failed, then refused": ("failed", "rejected", "approve"),
    "booked, then on other terms": ("completed", "completed", "approve"),
}


@pytest.mark.parametrize("verdict", ["approve", "reject"], ids=["kept", "taken"])
@pytest.mark.parametrize("how", FIRST)
def test_a_media_buy_that_only_a_counted_one_names_is_asked_about_next(how: str, verdict: str) -> None:
    first, second, answer = FIRST[how]
    deal, operation = booking()
    say(operation, first, bought(deal) if first == "completed" else None)
    told(operation, second, bought(deal, budget=1.0) if second == "completed" else None)
    told(operation, "completed", bought(deal, "mb-2"))
    (opened,) = is_open()
    assert opened.more == 1
    assert Notification.objects.filter(kind="conflict", body__contains="mb-2").count() == 1
    decide("conflict", answer)

    (next_one,) = is_open()
    assert next_one.second["value"]["media_buy_id"] == "mb-2"
    assert "mb-2" in choice_words(next_one)[0]
    decide("conflict", verdict)
    assert not is_open()
    if verdict == "reject":
        assert Deal.objects.get(follows=deal).media_buy_id == "mb-2"
    else:
        cancelled = Operation.objects.filter(task_type="update_media_buy", request__media_buy_id="mb-2")
        assert cancelled.count() == 1


def test_each_media_buy_is_asked_about_once() -> None:
    deal, operation = booking()
    say(operation, "completed", bought(deal))
    told(operation, "rejected")
    for budget in (1.0, 2.0):
        for named in ("mb-2", "mb-3", BUY):
            told(operation, "completed", bought(deal, named, budget=budget))

    asked = []
    while found := is_open():
        asked.append((found[0].second["value"] or {}).get("media_buy_id"))
        decide("conflict", "approve")
    assert asked == [None, "mb-2", "mb-3"]


def test_one_that_a_deal_holds_by_now_is_counted() -> None:
    deal, operation = booking()
    say(operation, "completed", bought(deal))
    other, bought_besides = booking(fresh(deal).seller)
    say(bought_besides, "completed", bought(other, "mb-2"))
    told(operation, "rejected")
    told(operation, "completed", bought(deal, "mb-2"))
    decide("conflict", "approve")
    assert not is_open()


def test_a_seller_that_claims_another_at_every_look_makes_no_flood() -> None:
    deal, operation = booking()
    say(operation, "completed", bought(deal))
    told(operation, "rejected")
    for number in range(MOST + 5):
        told(operation, "completed", bought(deal, f"mb-{number}"))

    assert len(is_open()) == 1
    assert Conflict.objects.count() == 1 + MOST
    assert Notification.objects.filter(kind="conflict").count() == 1 + MOST + 1, "the rest once"
    assert Observation.objects.filter(operation=operation, outcome="conflict").count() == 1 + MOST + 5


def test_one_that_renames_its_task_and_claims_one_media_buy_is_asked_about_it_once() -> None:
    deal, operation = booking()
    told(operation, "working", task_id="run-0")
    for number in range(1, 10):
        told(operation, "completed", bought(deal, "mb-2"), task_id=f"run-{number}")
    assert Conflict.objects.count() == 2
    decide("conflict", "approve")
    (next_one,) = is_open()
    assert next_one.second["task_id"] == "run-1"


def test_what_could_not_be_cancelled_waits_in_the_same_line() -> None:
    deal, operation = booking()
    say(operation, "completed", bought(deal))
    told(operation, "completed", bought(deal, "mb-2"))
    told(operation, "completed", bought(deal, "mb-3"))
    decide("conflict", "approve")  # mb-2 is to be cancelled; mb-3 is asked about
    refused = Operation.objects.get(task_type="update_media_buy", request__media_buy_id="mb-2")
    ended(refused, "rejected")
    (second,) = is_open()
    assert second.second["value"]["media_buy_id"] == "mb-3"
    decide("conflict", "approve")
    (again,) = is_open()
    assert (again.second["value"]["media_buy_id"], "was not cancelled" in again.note) == ("mb-2", True)


@pytest.mark.parametrize("word", ["completed", "TASK_STATE_COMPLETED", "active"])
def test_the_end_is_read_in_whichever_words_it_was_told(word: str) -> None:
    deal, operation = booking()
    say(operation, "rejected")
    seen = Seen(
        kind="answer",
        status="completed",
        raw_status=word,
        payload=bought(deal, "mb-2"),
        task_id=f"task-{operation.reference}",
    )
    observe(operation_id=operation.pk, seen=seen, channel="webhook")
    (opened,) = is_open()
    assert opened.second["status"] == "completed"
    decide("conflict", "reject")
    assert Deal.objects.get(follows=deal).media_buy_id == "mb-2"
