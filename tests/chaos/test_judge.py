"""The judge of a chaos run finds what must not be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from bench.chaos.drive import BUDGET
from bench.chaos.judge import Purchase
from bench.chaos.load import Load
from bench.chaos.plan import FLOODED, SHARE, Script
from bench.chaos.report import broken, fewest_held, summary
from orders.models import Deal
from tasks_app.operations.models import Operation
from tests.unsaved import unsaved

SETTLED_AT = datetime(2026, 11, 20, tzinfo=UTC)
ONCE = {"deal booked": 1, "operation settled": 1, "step completed": 1}
BUY = {"media_buy_id": "mb-1"}


def purchase(deal: str = "booked", operation: str = "completed", **known: Any) -> Purchase:
    """A sound one, and what is told otherwise."""
    settled = SETTLED_AT if operation in ("completed", "failed", "rejected") else None
    sound = Purchase(
        script=Script(number=1, kind="a test", seller="quiet"),
        deals=[unsaved(Deal, status=deal, media_buy_id="mb-1" if deal == "booked" else "")],
        operations=[unsaved(Operation, status=operation, published_at=settled)],
        job_status="COMPLETED" if settled else "PROCESSING",
        bought=[BUY],
        confirmed=BUDGET + 1,
        times=ONCE,
    )
    return replace(sound, **known)


SOUND = {
    "bought and booked": purchase(),
    "refused": purchase(
        "failed",
        "rejected",
        bought=[],
        script=Script(number=1, kind="a test", seller="quiet", end="rejected"),
    ),
    "overdue, and a person is asked": purchase("booking", "timed_out", person="overdue, Maya"),
    "contradicted, and a person is asked": purchase("failed", "rejected", person="conflict"),
}
BROKEN = {
    "2 buys at the seller": purchase(bought=[BUY, BUY]),
    "2 operations": purchase(operations=[unsaved(Operation), unsaved(Operation)], person="somebody"),
    "neither settled nor with a person": purchase("booking", "submitted"),
    "completed here, and not bought at the seller": purchase(bought=[]),
    "failed here, and bought at the seller": purchase("failed", "failed"),
    "given up, and its seller would have booked it": purchase("failed", "failed", bought=[]),
    "not bought, and the deal is booking": purchase("booking", "rejected", bought=[]),
    "bought, and the deal is failed": purchase("failed"),
    "the deal holds mb-1, the seller mb-2": purchase(bought=[{"media_buy_id": "mb-2"}]),
    "1000 confirmed, 1001 approved": purchase(confirmed=BUDGET),
    "deal booked 2 times": purchase(times={**ONCE, "deal booked": 2}),
    "operation settled 0 times": purchase(times={**ONCE, "operation settled": 0}),
    "2 open questions about one contradiction": purchase(person="conflict", asked_at_once=2),
    "step completed 0 times": purchase(times={**ONCE, "step completed": 0}),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_is_found_so(name: str) -> None:
    assert SOUND[name].problems() == []


@pytest.mark.parametrize("problem", BROKEN)
def test_what_is_broken_is_named(problem: str) -> None:
    assert problem in BROKEN[problem].problems()


BORNE = Load(
    held=10,
    at_once={"throng": 2, "harbour": 16},
    share=SHARE,
    beside=5,
    repeats=4,
    too_soon=0,
    told_later=6,
    kept_waiting=2,
    taken=3,
)


def verdict(
    *found: Purchase, rows: int = 0, kills: int = 3, trail_holds: bool = True, **borne: Any
) -> list[str]:
    load = replace(BORNE, **borne)
    told = summary(found, [{"verdict": "orphaned"}] * rows, Counter(worker=kills), load, seed=1)
    return broken(told, found, load, trail_holds=trail_holds)


def scripted(seller: str = "quiet", **script: Any) -> Purchase:
    return purchase(script=Script(number=1, kind="a test", seller=seller, **script))


AGAIN, UNKNOWN = scripted(call=("drop", "in_flight")), scripted("signal", post=("unknown_key",))
FLOOD = [scripted(FLOODED)] * (SHARE + 1)


def test_a_run_is_good_when_nothing_is_broken() -> None:
    assert verdict(*SOUND.values(), *[purchase()] * 20, AGAIN, UNKNOWN, *FLOOD) == []
    assert verdict(*FLOOD, share=SHARE // 2) == []


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("1 bought_twice", verdict(purchase(bought=[BUY, BUY]))),
        ("1 lost", verdict(purchase("booking", "submitted"))),
        ("1 differences", verdict(purchase(), rows=1)),
        ("1 of 9 are parked", verdict(*[purchase()] * 8, purchase(person="Maya"))),
        ("only 2 kills", verdict(purchase(), kills=2)),
        ("the kill switch held only 9", verdict(*[purchase()] * 200, held=9)),
        ("throng had 3 calls at once, and takes 2", verdict(purchase(), at_once={"throng": 3})),
        ("harbour had 17 calls at once", verdict(purchase(), at_once={"throng": 2, "harbour": 17})),
        ("throng was never full", verdict(*[scripted("throng")] * 3, at_once={"throng": 1})),
        ("torrent had 15 of one sweep's calls", verdict(purchase(), share=15)),
        ("torrent never had much of its share", verdict(*FLOOD, share=SHARE // 2 - 1)),
        ("nobody else was called", verdict(*FLOOD, beside=0)),
        ("1 of 4 calls were made again sooner", verdict(purchase(), too_soon=1)),
        ("no call was made again", verdict(AGAIN, repeats=0)),
        ("2 webhooks were told to come again while keys hung, 2 waited", verdict(UNKNOWN, told_later=2)),
        ("no other seller's webhook was taken", verdict(UNKNOWN, taken=0)),
        ("the trail does not hold", verdict(purchase(), trail_holds=False)),
    ],
    ids=[
        "twice",
        "lost",
        "differs",
        "parked",
        "kills",
        "held",
        "crowd",
        "slots",
        "unfilled",
        "share",
        "no share",
        "starved",
        "too soon",
        "never again",
        "kept waiting",
        "held up",
        "trail",
    ],
)
def test_a_run_is_bad_for_each_of_its_reasons(words: str, wrong: list[str]) -> None:
    assert any(words in reason for reason in wrong), wrong


def test_a_run_of_two_hundred_holds_ten_and_a_very_short_one_need_not() -> None:
    assert [fewest_held(operations) for operations in (1, 20, 200, 2000)] == [0, 1, 10, 10]
