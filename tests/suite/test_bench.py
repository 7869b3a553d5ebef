"""The benches' bounds tell good ratios from bad ones."""

from __future__ import annotations

from bench.figures import broken, table


def test_a_ratio_out_of_bounds_is_named() -> None:
    told = {
        "ratio_1": 0.99,
        "fsm_log_ratio_1": 2.0,
        "poll_overhead": 1.51,
        "webhook_ratio": 0.7,
        "polls_per_s": 1,
    }
    assert broken(told) == ["ratio_1", "poll_overhead"]
    assert table(told).count("BROKEN") == 2
