"""The plan of a chaos run: the seed decides it, and it holds the trouble that it should."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.chaos.plan import SELLERS, SHARES, TELLING, plan


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
    for kind, (share, _) in SHARES.items():
        assert abs(counts[kind] - share * operations / 1000) <= 1, kind
    assert sum(script.parked for script in scripts) <= 0.06 * operations
    assert {script.seller for script in scripts} == set(SELLERS)


def test_trouble_with_webhooks_befalls_sellers_that_send_them() -> None:
    for script in plan(seed=5, operations=2000):
        if script.told != "once" or script.post:
            assert script.seller in TELLING, script
