"""Whatever may be taken of a contradiction does what it says; whatever would do nothing is not offered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from orders.models import Deal
from orders.questions import DIFFERENT
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import choice_words, take_refusal
from tasks_app.operations.converge import observe
from tasks_app.operations.models import Operation
from tests.orders.doors import wanted
from tests.orders.late import decide, fresh
from tests.orders.live import booked, first_line, packages, says, standing
from tests.support import undone

pytestmark = [pytest.mark.deep, pytest.mark.django_db]

STATES = (
    "booked",
    "delivering",
    "makegood_pending",
    "partially_canceled",
    "completed",
    "cancelled",
    "failed",
)
# What was asked, what it came to first, and how a record of it names its packages.
TASKS: dict[str, tuple[dict[str, Any] | None, str]] = {
    "purchase": (None, "packages"),
    "change": ({"packages": [{"package_id": "pkg-1", "budget": 9000}]}, "affected_packages"),
    "change, older words": ({"packages": [{"package_id": "pkg-1", "budget": 9000}]}, "packages"),
    "cancellation": ({"canceled": True}, "affected_packages"),
}
# What comes second: its status, the media buy it names, and whether it states terms.
SECONDS: dict[str, tuple[str, str, bool]] = {
    "other terms": ("completed", "mb-1", True),
    "no terms": ("completed", "mb-1", False),
    "another buy": ("completed", "mb-2", True),
    "nameless": ("completed", "", True),
    "refused": ("rejected", "", False),
}


def put(deal: Deal, state: str) -> Deal:
    """The deal where it is wanted, as its seller's word leads it there."""
    if state == "completed":
        with clock.injected(lambda: deal.end_at):
            return says(deal, state, revision=5, final=True)
    if state == "cancelled":
        return says(deal, "canceled", revision=5, final=True)
    if state == "failed":
        return says(standing(deal, "makegood_pending"), "rejected", revision=5)
    return standing(deal, state)


def contradicted(deal: Deal, task: str, second: str) -> None:
    asked, named = TASKS[task]
    status, buy, states_terms = SECONDS[second]
    if asked is None:
        operation = Operation.objects.get(task_type="create_media_buy")
    else:
        operation = wanted(deal, **asked)
        told = {"media_buy_id": "mb-1", "media_buy_status": "active", named: packages(deal, budget=9000.0)}
        heard(operation, "rejected" if task == "cancellation" else "completed", told)
    told = {"media_buy_status": "active", **({"media_buy_id": buy} if buy else {})}
    if states_terms:
        told[named] = packages(deal, budget=50_000.0)
    heard(operation, status, told if status == "completed" else None)


def heard(operation: Operation, status: str, payload: dict[str, Any] | None) -> None:
    task = Operation.objects.get(pk=operation.pk).task_id or None
    seen = Seen(kind="answer", status=status, raw_status=status, payload=payload, task_id=task)
    observe(operation_id=operation.pk, seen=seen, channel="webhook")


LIVE = {"booked", "delivering", "makegood_pending", "partially_canceled"}
# Where each is offered; what is not named is offered nowhere.
OFFERED: dict[tuple[str, str], set[str]] = {
    ("purchase", "other terms"): {*LIVE, "completed"},
    ("change", "other terms"): {*LIVE, "completed"},
    ("change, older words", "other terms"): {*LIVE, "completed"},
    ("purchase", "no terms"): LIVE,
    ("change", "no terms"): LIVE,
    ("change, older words", "no terms"): LIVE,
    ("purchase", "refused"): LIVE,
    ("purchase", "another buy"): set(STATES),
}


@pytest.mark.parametrize("second", SECONDS)
@pytest.mark.parametrize("task", TASKS)
def test_what_may_be_taken_does_what_it_says(task: str, second: str) -> None:
    deal = booked()
    contradicted(deal, task, second)
    for state in STATES:
        with undone(), told(f"the deal is {state}"):
            _is_taken(deal, state, task, second)


@contextmanager
def told(case: str) -> Iterator[None]:
    """What fails meanwhile says of which case."""
    try:
        yield
    except BaseException as raised:
        raised.add_note(case)
        raise


def _is_taken(deal: Deal, state: str, task: str, second: str) -> None:
    deal, conflict = put(fresh(deal), state), Conflict.objects.get()
    was = said_of(deal)
    later = (deal.end_at if state == "completed" else clock.now()) + timedelta(minutes=10)
    Approval.objects.update(due_at=later + timedelta(days=1))
    with clock.injected(lambda: later):
        why_not, says_it_does = take_refusal(conflict), choice_words(conflict)[1]
        assert bool(why_not) != bool(says_it_does)
        assert (not why_not) == (state in OFFERED.get((task, second), set()))
        if why_not:
            with pytest.raises(DecisionRefusedError, match=re.escape(why_not)):
                decide("conflict", "reject")
            assert said_of(deal) == was
            return
        decide("conflict", "reject")
    assert Conflict.objects.get().resolution == "taken"
    assert_done(deal, says_it_does, second)


def said_of(deal: Deal) -> tuple[Any, ...]:
    deal = fresh(deal)
    return deal.status, deal.differs, first_line(deal).confirmed_budget, Deal.objects.count()


def assert_done(deal: Deal, says_it_does: str, second: str) -> None:
    now = fresh(deal)
    if "takes over what came second" in says_it_does:
        if second == "other terms":
            assert (now.differs, first_line(now).confirmed_budget) == (True, 50_000)
            assert Approval.objects.get(kind=DIFFERENT, status="open").amount == 50_000
        assert now.status not in ("cancelled", "failed")
    elif "is kept as a new deal" in says_it_does:
        assert Deal.objects.get(follows=deal).media_buy_id == "mb-2"
        cancelled = Operation.objects.filter(task_type="update_media_buy", request__canceled=True)
        assert cancelled.exists() == ("is cancelled at the seller" in says_it_does)
    else:
        assert f"becomes {now.status}" in says_it_does
