"""The judge of a chaos run finds what must not be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from bench.chaos.drive import BUDGET
from bench.chaos.judge import Purchase
from bench.chaos.plan import Script
from bench.chaos.report import broken, summary
from orders.models import Deal
from tasks_app.operations.models import Operation

ONCE = {"deal booked": 1, "operation settled": 1, "step completed": 1}
BUY = {"media_buy_id": "mb-1"}


def purchase(deal: str = "booked", operation: str = "completed", **known: Any) -> Purchase:
    """A sound one, and what is told otherwise."""
    settled = timezone.now() if operation in ("completed", "failed", "rejected") else None
    sound = Purchase(
        script=Script(number=1, kind="a test", seller="quiet"),
        deals=[Deal(status=deal, media_buy_id="mb-1" if deal == "booked" else "")],
        operations=[Operation(status=operation, published_at=settled)],
        job_status="COMPLETED" if settled else "PROCESSING",
        bought=[BUY],
        confirmed=BUDGET + 1,
        times=ONCE,
    )
    return replace(sound, **known)


SOUND = {
    "bought and booked": purchase(),
    "refused": purchase("failed", "rejected", bought=[]),
    "overdue, and a person is asked": purchase("booking", "timed_out", person="overdue, Maya"),
    "contradicted, and a person is asked": purchase("failed", "rejected", person="conflict"),
}
BROKEN = {
    "2 buys at the seller": purchase(bought=[BUY, BUY]),
    "2 operations": purchase(operations=[Operation(), Operation()], person="somebody"),
    "neither settled nor with a person": purchase("booking", "submitted"),
    "completed here, and not bought at the seller": purchase(bought=[]),
    "failed here, and bought at the seller": purchase("failed", "failed"),
    "not bought, and the deal is booking": purchase("booking", "rejected", bought=[]),
    "bought, and the deal is failed": purchase("failed"),
    "the deal holds mb-1, the seller mb-2": purchase(bought=[{"media_buy_id": "mb-2"}]),
    "1000 confirmed, 1001 approved": purchase(confirmed=BUDGET),
    "deal booked 2 times": purchase(times={**ONCE, "deal booked": 2}),
    "operation settled 0 times": purchase(times={**ONCE, "operation settled": 0}),
    "step completed 0 times": purchase(times={**ONCE, "step completed": 0}),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_is_found_so(name: str) -> None:
    assert SOUND[name].problems() == []


@pytest.mark.parametrize("problem", BROKEN)
def test_what_is_broken_is_named(problem: str) -> None:
    assert problem in BROKEN[problem].problems()


def verdict(*found: Purchase, rows: int = 0, kills: int = 3, trail_holds: bool = True) -> list[str]:
    told = summary(found, [{"verdict": "orphaned"}] * rows, Counter(worker=kills), seed=1)
    return broken(told, found, trail_holds=trail_holds)


def test_a_run_is_good_when_nothing_is_broken() -> None:
    assert verdict(*SOUND.values(), *[purchase()] * 20) == []


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("1 bought_twice", verdict(purchase(bought=[BUY, BUY]))),
        ("1 lost", verdict(purchase("booking", "submitted"))),
        ("1 differences", verdict(purchase(), rows=1)),
        ("1 of 9 are parked", verdict(*[purchase()] * 8, purchase(person="Maya"))),
        ("only 2 kills", verdict(purchase(), kills=2)),
        ("the trail does not hold", verdict(purchase(), trail_holds=False)),
    ],
    ids=["twice", "lost", "differs", "parked", "kills", "trail"],
)
def test_a_run_is_bad_for_each_of_its_reasons(words: str, wrong: list[str]) -> None:
    assert any(words in reason for reason in wrong), wrong
