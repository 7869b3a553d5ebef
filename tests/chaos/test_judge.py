"""The judge of a chaos run accepts sound purchases and names what is wrong with the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from orders.models import Deal
from tasks_app.jobs.models import JobStatus
from tasks_app.operations.models import Operation
from tests.chaos.buyer import budget
from tests.chaos.judge import Purchase, summarize, verdict
from tests.chaos.plan import Scenario
from tests.unsaved import unsaved

SCENARIO = Scenario(number=1, kind="a test", seller="quiet", script={})
REFUSED = replace(SCENARIO, script={"end": "rejected"})
ONCE = {"deal booked": 1, "operation settled": 1}
GOOD_RUN = {"differences": 0, "kills": 3, "held": 10, "seed": 1}


def purchase(deal: str = "booked", operation: str = "completed", **fields: Any) -> Purchase:
    """Return a sound purchase, except for what the arguments change."""
    settled_at = datetime(2026, 11, 20, tzinfo=UTC)
    is_settled = operation in ("completed", "failed", "rejected")
    sound = Purchase(
        scenario=SCENARIO,
        deals=[unsaved(Deal, status=deal, media_buy_id="mb-1" if deal == "booked" else "")],
        operations=[unsaved(Operation, status=operation, published_at=settled_at if is_settled else None)],
        job_status=JobStatus.COMPLETED if is_settled else JobStatus.PROCESSING,
        bought=["mb-1"],
        confirmed=budget(SCENARIO),
        times=ONCE,
    )
    return replace(sound, **fields)


SOUND = [
    purchase(),
    purchase("failed", "rejected", bought=[], scenario=REFUSED),
    purchase("booking", "timed_out", person="overdue"),
    purchase("failed", "rejected", person="conflict"),
]
BROKEN = {
    "2 buys at the seller": purchase(bought=["mb-1", "mb-2"]),
    "2 operations": purchase(operations=[unsaved(Operation), unsaved(Operation)], person="somebody"),
    "neither settled nor with a person": purchase("booking", "submitted"),
    "the deal has mb-1, the seller []": purchase(bought=[]),
    "the deal has mb-1, the seller ['mb-2']": purchase(bought=["mb-2"]),
    "failed here, and bought at the seller": purchase("failed", "failed"),
    "failed here, and the seller would have sold": purchase("failed", "failed", bought=[]),
    "not bought, and the deal is booking": purchase("booking", "rejected", bought=[]),
    "bought, and the deal is failed": purchase("failed"),
    "1000 confirmed, 1001 approved": purchase(confirmed=1000),
    "deal booked 2 times": purchase(times={**ONCE, "deal booked": 2}),
    "operation settled 0 times": purchase(times={**ONCE, "operation settled": 0}),
}
BAD_RUNS = {
    "1 broken": (BROKEN["neither settled nor with a person"], {}),
    "1 differences": (purchase(), {"differences": 1}),
    "21 of 200 wait on people": (purchase(person="overdue"), {}),
    "only 2 kills": (purchase(), {"kills": 2}),
    "the kill switch held only 9": (purchase(), {"held": 9}),
    "verify_audit fails": (purchase(), {"trail_is_sound": False}),
}


def judge(*found: Purchase, trail_is_sound: bool = True, **counts: int) -> list[str]:
    return verdict(summarize(found, **GOOD_RUN | counts), trail_is_sound=trail_is_sound)


def test_a_sound_run_is_accepted() -> None:
    assert [list(one.problems()) for one in SOUND] == [[], [], [], []]
    assert judge(*SOUND, *[purchase()] * 200) == []


def test_each_broken_purchase_and_run_is_named() -> None:
    for problem, found in BROKEN.items():
        assert problem in list(found.problems())
    for condition, (found, differs) in BAD_RUNS.items():
        waiting = 21 if found.person else 1
        assert judge(*[purchase()] * (200 - waiting), *[found] * waiting, **differs) == [condition]
