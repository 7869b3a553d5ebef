"""The plan of a chaos run: the seed decides it, and it holds the trouble that it should."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest

from bench.chaos.plan import (
    CROWDED,
    FLOODED,
    SELLERS,
    SHARE,
    SHARES,
    SLOTS,
    TELLING,
    plan,
)


def test_a_seed_makes_the_same_plan_again_and_another_one_another() -> None:
    assert plan(seed=7, operations=200) == plan(seed=7, operations=200)
    assert plan(seed=7, operations=200) != plan(seed=8, operations=200)


@pytest.mark.parametrize("operations", [1, 50, 200, 2000])
def test_every_purchase_has_one_script(operations: int) -> None:
    scripts = plan(seed=1, operations=operations)
    assert [script.number for script in scripts] == list(range(1, operations + 1))


@pytest.mark.parametrize("operations", [200, 2000])
def test_every_trouble_occurs_at_its_share_and_few_must_come_to_people(operations: int) -> None:
    scripts = plan(seed=3, operations=operations)
    counts = Counter(script.kind for script in scripts)
    others = [script for script in scripts if script.seller != FLOODED]
    for kind, (share, _) in SHARES.items():
        assert abs(counts[kind] - share * len(others) / 1000) <= 1, kind
    assert sum(script.parked for script in scripts) <= 0.06 * operations
    assert {script.seller for script in scripts} == set(SELLERS)


def test_trouble_with_webhooks_befalls_sellers_that_send_them() -> None:
    for script in plan(seed=5, operations=2000):
        if script.told != "once" or script.post:
            assert script.seller in TELLING, script


@pytest.mark.parametrize("operations", [200, 2000])
def test_what_crowds_at_one_seller_comes_more_at_once_than_it_takes(operations: int) -> None:
    numbers = [script.number for script in plan(seed=4, operations=operations) if script.seller == CROWDED]
    assert abs(len(numbers) - 0.04 * operations) <= 0.04 * 30 + 1
    crowds = [[*one] for _, one in groupby(enumerate(numbers), key=lambda at: at[1] - at[0])]
    assert all(len(crowd) > SLOTS[CROWDED] for crowd in crowds)


@pytest.mark.parametrize("operations", [100, 200, 2000])
def test_one_seller_has_more_tasks_than_one_sweep_may_look_at_and_every_place_for_them(
    operations: int,
) -> None:
    scripts = plan(seed=4, operations=operations)
    flood = [script for script in scripts if script.seller == FLOODED]
    assert SHARE < len(flood) < SLOTS[FLOODED]
    assert scripts[: len(flood)] == flood
    assert all(script.first == "submitted" and script.poll for script in flood)
