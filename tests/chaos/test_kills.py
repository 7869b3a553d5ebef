"""Who is killed in a chaos run: everybody as often, in the seed's order, while purchases are being made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bench.chaos.kills import KINDS, Killer
from bench.chaos.stage import Stage


def killer(home: Path, seed: int) -> Killer:
    stage = Stage(home, seed=seed, operations=100)
    return Killer(stage, seed=seed, operations=100, rounds=2)


def test_everybody_is_killed_as_often_while_purchases_are_made(tmp_path: Path) -> None:
    planned = killer(tmp_path, 1).planned
    assert Counter(kind for _, kind in planned) == Counter(dict.fromkeys(KINDS, 2))
    moments = [done for done, _ in planned]
    assert moments == sorted(moments)
    assert 0 < moments[0] <= moments[-1] < 90


def test_the_seed_decides_the_order(tmp_path: Path) -> None:
    assert killer(tmp_path, 1).planned == killer(tmp_path, 1).planned
    assert killer(tmp_path, 1).planned != killer(tmp_path, 2).planned


def test_nobody_is_killed_before_the_first_purchases_are_done(tmp_path: Path) -> None:
    waiting = killer(tmp_path, 1)
    assert waiting.step(0) == ""
    assert not waiting.over
    assert waiting.kills.total() == 0
