"""What strangers cost: pages and webhooks while 100 anonymous senders send 200 requests a second.

On a private embedded PostgreSQL (fsync and synchronous_commit on) one web process is served as it is
delivered, with one more route that only answers 404 before Django. Somebody who is signed in opens one page
after the other and a seller delivers one webhook after the other; meanwhile the strangers, each with an
address of its own, send in turn

- `nothing`: to the route that answers 404, the reference;
- `pages`: the API's schema, the sign-in page, passwords, tokens and sessions of nobody's;
- `webhooks`: forged ones (HMAC, RFC 9421 without a key, and with a key's id that is the seller's but another
  key's signature), and some for sellers that there are not.

`flood_page_ratio` and `flood_webhook_ratio` are the 95th percentile under the worse of the last two to that
under the first, the median of the rounds: at most 2. Part of `make bench-operations`; alone:
`python -m bench.flood` (ROUNDS=1 for a look, a minute and a half).
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

from bench import flood_load, web_stage, webhook_load
from bench.web_stage import Stage
from config.supervisor import BASE_DIR

ROUNDS = 3
SLICES = 2
WANTED = 2.0
_SLICE_S, _WARM_S = 8.0, 3.0
_PAGE_PAUSE_S, _WEBHOOK_PAUSE_S = 0.1, 0.05
_PAGES = ("/admin/", "/admin/tasks_app/approval/", "/admin/orders/deal/", "/admin/tasks_app/seller/")
_KINDS = ("nothing", "pages", "webhooks")
_SERVED = "bench.flood_route:application"
Figures = dict[str, list[float]]


def flood(figures: Figures | None = None, *, rounds: int = ROUNDS) -> dict[str, float]:
    """Run it; answers flood_page_ratio and flood_webhook_ratio. `figures` takes what each round measured."""
    figures = {} if figures is None else figures
    count = 1 + int(rounds * SLICES * len(_KINDS) * _SLICE_S / _WEBHOOK_PAUSE_S)
    with web_stage.opened("bench-flood", purchases=count, app=_SERVED) as on:
        _say(f"== {on.words}; {os.cpu_count()} cores, Python {sys.version.split()[0]}")
        _warmed(on, 2.0)
        _delivered_once(on)
        for number in range(rounds):
            _round(number, on, figures)
    ratios = ("flood_page_ratio", "flood_webhook_ratio")
    return {name: round(statistics.median(figures[name]), 2) for name in ratios}


def _round(number: int, on: Stage, figures: Figures) -> None:
    taken: dict[str, dict[str, list[float]]] = {kind: {"page": [], "webhook": []} for kind in _KINDS}
    for turn in range(SLICES):
        for kind in _KINDS if turn % 2 else reversed(_KINDS):
            for what, times in _slice(on, kind).items():
                taken[kind][what] += times
    for what in ("page", "webhook"):
        p95 = {kind: _p95(taken[kind][what]) for kind in _KINDS}
        for kind, milliseconds in p95.items():
            _add(figures, f"{what}_{kind}_p95_ms", milliseconds, number)
        worst = max(p95["pages"], p95["webhooks"])
        _add(figures, f"flood_{what}_ratio", worst / p95["nothing"], number)


def _slice(on: Stage, kind: str) -> dict[str, list[float]]:
    command = [sys.executable, "-m", "bench.flood_load", on.url, kind, str(_WARM_S + _SLICE_S)]
    with subprocess.Popen(command, cwd=BASE_DIR, stdout=subprocess.PIPE, text=True) as strangers:
        try:
            _warmed(on, _WARM_S)
            taken = _both(on)
        finally:
            told = strangers.communicate(timeout=60)[0]
    p95 = ", ".join(f"{what} {_p95(times):,.0f} ms" for what, times in taken.items())
    _say(f"   {kind}: p95 {p95}; strangers were told {told.strip()}")
    return taken


def _both(on: Stage) -> dict[str, list[float]]:
    wanted = islice(on.targets, int(_SLICE_S / _WEBHOOK_PAUSE_S))
    deliveries = [webhook_load.with_hmac(on.webhooks, webhook_load.body_for(one)) for one in wanted]

    async def both() -> tuple[list[float], list[float]]:
        return await asyncio.gather(
            flood_load.one_by_one(on.url, _pages(on), pause_s=_PAGE_PAUSE_S, seconds=_SLICE_S),
            flood_load.one_by_one(on.url, deliveries, pause_s=_WEBHOOK_PAUSE_S, seconds=_SLICE_S),
        )

    return dict(zip(("page", "webhook"), asyncio.run(both()), strict=True))


def _delivered_once(on: Stage) -> None:
    """The seller's address is known for its own before strangers come, as of a seller that is bought from."""
    first = [webhook_load.with_hmac(on.webhooks, webhook_load.body_for(next(on.targets)))]
    asyncio.run(flood_load.one_by_one(on.url, first, pause_s=0.0, seconds=_WARM_S))


def _p95(milliseconds: Sequence[float]) -> float:
    return statistics.quantiles(milliseconds, n=20)[-1]


def _warmed(on: Stage, seconds: float) -> None:
    asyncio.run(flood_load.one_by_one(on.url, _pages(on), pause_s=_PAGE_PAUSE_S, seconds=seconds))


def _pages(on: Stage) -> Iterator[bytes]:
    """Without end, one after the other."""
    return cycle([flood_load.get(on.url + page, Cookie=f"sessionid={on.session}") for page in _PAGES])


def _add(figures: Figures, name: str, value: float, number: int) -> None:
    figures.setdefault(name, []).append(value)
    _say(f"   round {number + 1}: {name:<28}{value:>10,.2f}")


def main() -> int:
    summary = flood(rounds=int(os.environ.get("ROUNDS") or ROUNDS))
    print(json.dumps(summary))
    return int(max(summary.values()) > WANTED)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
