"""Webhooks taken per second, verified and durably bound, beside a minimal Django view.

Both run under uvicorn, one process each, on one embedded PostgreSQL (fsync and synchronous_commit on).
Sixteen connections send completions of purchases that wait, each a purchase of its own. Ours checks the
signature and our token, reads the body strictly, finds the purchase, binds the key to the canonical digest
and keeps the body in one commit; the reference checks the HMAC and inserts. Three interleaved rounds; then
ours at half of what it reached, each delivery counted from when it was due; then RFC 9421. Ours applies some
meanwhile, a tenth of a thread's time as it is delivered; how fast one worker applies the rest is measured
last and printed beside. Read the ratio. Part of `make bench-operations`; alone:
`python -m bench.operations_webhooks`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from itertools import islice

from bench import webhook_load, webhook_stage
from bench.webhook_load import Target
from bench.webhook_stage import Stage
from config.supervisor import BASE_DIR

ROUNDS = 3
SLICES = 6
SECONDS = 0.5
_FASTEST = 3000  # a second: so many requests are made beforehand
_HALF_LOAD_S = 3.0
Figures = dict[str, list[float]]
# Applies what was received, as the workers' sweep does.
_APPLY = """
import json, time, django
django.setup()
from tasks_app.webhooks.early import received_apply_due
began, applied = time.perf_counter(), 0
while time.perf_counter() < began + 5 and (more := received_apply_due()):
    applied += more
print(json.dumps(applied / (time.perf_counter() - began)))
"""


def webhooks(figures: Figures | None = None, *, rounds: int = ROUNDS) -> dict[str, float]:
    """Run it all; answers webhook_ratio, webhook_p99_ms, webhook_9421_per_s and webhook_applied_per_s, the
    medians of the rounds. `figures` takes what each round measured."""
    figures = {} if figures is None else figures
    flat_out = int(_FASTEST * SLICES * SECONDS)
    half_load = int(_FASTEST * _HALF_LOAD_S / 2)
    with webhook_stage.opened(count=rounds * (flat_out + half_load), signed=rounds * _FASTEST) as on:
        _say(f"== {on.server}; {os.cpu_count()} cores, Python {sys.version.split()[0]}")
        purchases, signed = iter(on.targets["bench"]), iter(on.targets["bench-signed"])
        for number in range(rounds):
            _round(number, on, list(islice(purchases, flat_out)), figures)
            _half_load(number, on, list(islice(purchases, half_load)), figures)
            _signed(number, on, list(islice(signed, _FASTEST)), figures)
        _add(figures, "webhook_applied_per_s", _applied(on.env))
    keys = ("webhook_ratio", "webhook_p99_ms", "webhook_9421_per_s", "webhook_applied_per_s")
    return {key: round(statistics.median(figures[key]), 2) for key in keys}


def _round(number: int, on: Stage, purchases: Sequence[Target], figures: Figures) -> None:
    """Short slices in turn: what else the machine does meets both alike."""
    urls = {"ours": on.ours, "reference": on.reference}
    done = {name: [0.0, 0.0] for name in urls}
    # A purchase is the reference's too: it only inserts.
    made = {
        name: iter([webhook_load.with_hmac(url, webhook_load.body_for(one)) for one in purchases])
        for name, url in urls.items()
    }
    for turn in range(SLICES):
        for name in ("ours", "reference") if (turn + number) % 2 else ("reference", "ours"):
            told = webhook_load.flat_out(urls[name], made[name], SECONDS)
            done[name][0] += told.done
            done[name][1] += told.seconds
    for name, (count, seconds) in done.items():
        _add(figures, f"{name}_per_s", count / seconds, number)
    _add(figures, "webhook_ratio", figures["ours_per_s"][-1] / figures["reference_per_s"][-1], number)


def _half_load(number: int, on: Stage, purchases: Sequence[Target], figures: Figures) -> None:
    rate = figures["ours_per_s"][-1] / 2
    wanted = purchases[: int(rate * _HALF_LOAD_S)]
    made = [webhook_load.with_hmac(on.ours, webhook_load.body_for(one)) for one in wanted]
    cuts = statistics.quantiles(webhook_load.at_rate(on.ours, made, rate).milliseconds, n=100)
    _add(figures, "webhook_p50_ms", cuts[49], number)
    _add(figures, "webhook_p99_ms", cuts[98], number)


def _signed(number: int, on: Stage, purchases: Sequence[Target], figures: Figures) -> None:
    made = [webhook_load.with_rfc9421(on.signed, webhook_load.body_for(one), on.key) for one in purchases]
    # One alone: while a seller is asked for its keys, the others are told to come again.
    webhook_load.at_rate(on.signed, made[:1], 1.0)
    told = webhook_load.flat_out(on.signed, iter(made[1:]), 1.0)
    _add(figures, "webhook_9421_per_s", told.done / told.seconds, number)


def _applied(env: dict[str, str]) -> float:
    command = [sys.executable, "-c", _APPLY]
    env = {**env, "DJANGO_SETTINGS_MODULE": "config.settings"}
    done = subprocess.run(command, check=True, cwd=BASE_DIR, env=env, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout))


def _add(figures: Figures, name: str, value: float, number: int | None = None) -> None:
    figures.setdefault(name, []).append(value)
    _say(f"   {f'round {number + 1}: ' if number is not None else ''}{name:<24}{value:>10,.2f}")


def main() -> int:
    figures: Figures = {}
    summary = webhooks(figures)
    print(f"\n{'':<24}{'min':>12}{'median':>12}{'max':>12}")
    for name, values in figures.items():
        told = (min(values), statistics.median(values), max(values))
        print(f"{name:<24}" + "".join(f"{value:>12,.2f}" for value in told))
    print(json.dumps(summary))
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
