"""What is bounded whoever wishes otherwise: what a body costs that is made to be dear, and how long a stream
goes on whose login has ended.

One web process as it is delivered, on a private embedded PostgreSQL (fsync and synchronous_commit on).

- A seller delivers webhooks in which sixteen of what it repeats as our secrets stand in each other's places,
  and in turn others of the same shape and as many bytes in which nothing is a secret, each about a purchase
  of its own. `hostile_body_ratio`: the median time of the answer to 1,500 such bytes, to the others'. Beside
  it the same of a million.
- `hostile_growth`: the processor time that hiding takes for a byte of a million, to that of a sixteenth of
  them. Linear is 1; were each looked at again for each it would be 16.
- Twelve people each watch a deal and are deactivated one after the other. `stream_end_ratio`: the longest
  time from a deactivation to the end of its stream, to the five seconds that docs/operating.md promises.

Source: docs/security.md, docs/operating.md. Part of `make bench-operations`; alone:
`python -m bench.bounds` (ROUNDS=1 for a look, half a minute).
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from bench import flood_load, ratios, web_stage, webhook_load
from bench.sellers import account_made, seller_made
from bench.web_stage import Stage
from bench.webhook_load import Target
from config.supervisor import BASE_DIR
from tasks_app.adcp.hygiene import clean

if TYPE_CHECKING:
    from tasks_app.people.models import User

ROUNDS = 3
ENDS_WITHIN_S = 5.0
_SMALL, _LARGE = 1_500, 1_000_000  # bytes; a webhook's body may have 2 ** 20
_PAIRS = {_SMALL: 40, _LARGE: 3}  # deliveries of each kind in a round
_GROWN = 16
_TURNS = 5
_WATCHERS, _APART_S = 12, 0.37  # no multiple of the looks, a second apart
_LIMIT_S = 60.0
HOSTILE, ORDINARY = "push_notification_config", "push_notification_wanted"  # as long
_RING = "abcdefghijklmnop"
Figures = dict[str, list[float]]


def bounds(figures: Figures | None = None, *, rounds: int = ROUNDS) -> dict[str, float]:
    """Run it; answers hostile_body_ratio and hostile_growth, the medians of the rounds, and stream_end_ratio,
    the longest of all. `figures` takes what each round measured."""
    figures = {} if figures is None else figures
    with web_stage.opened("bench-bounds", purchases=1 + 2 * rounds * sum(_PAIRS.values())) as on:
        _say(f"== {on.words}; {os.cpu_count()} cores, Python {sys.version.split()[0]}")
        _delivered(on, [_delivery(on, next(on.targets), "")])
        for number in range(rounds):
            _bodies(number, on, figures)
            _add(figures, "hostile_growth", _growth(), number)
            _streams(number, on, figures)
    return {
        "hostile_body_ratio": round(statistics.median(figures["hostile_body_ratio"]), 2),
        "hostile_growth": round(statistics.median(figures["hostile_growth"]), 2),
        "stream_end_ratio": round(max(figures["stream_end_s"]) / ENDS_WITHIN_S, 2),
    }


def of_size(size: int, field: str = HOSTILE) -> list[Any]:
    """A JSON value of `size` bytes: sixteen registrations, under `field`, with what could be our secrets, and
    a text in which one of them begins at each character."""
    secrets = [_RING[turned:] + _RING[:turned] for turned in range(len(_RING))]
    registered = [{field: {"token": secret}} for secret in secrets]
    left = size - len(_written([*registered, ""]))
    return [*registered, (_RING * (left // len(_RING) + 1))[:left]]


def _written(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _bodies(number: int, on: Stage, figures: Figures) -> None:
    for size, pairs in _PAIRS.items():
        kinds = {"hostile": of_size(size), "ordinary": of_size(size, ORDINARY)}
        told = islice(on.targets, 2 * pairs)
        turns = zip(told, list(kinds.values()) * pairs, strict=True)
        taken = _delivered(on, (_delivery(on, one, ext) for one, ext in turns))
        for first, kind in enumerate(kinds):
            _add(figures, f"{kind}_{size}_p50_ms", statistics.median(taken[first::2]), number)
        ratio = statistics.median(taken[::2]) / statistics.median(taken[1::2])
        _add(figures, "hostile_body_ratio" if size == _SMALL else f"hostile_{size}_ratio", ratio, number)


def _delivery(on: Stage, target: Target, ext: object) -> bytes:
    return webhook_load.with_hmac(on.webhooks, webhook_load.body_for(target, ext=ext))


def _delivered(on: Stage, deliveries: Iterator[bytes] | Sequence[bytes]) -> list[float]:
    """The milliseconds of each, made just before it is sent."""
    return asyncio.run(flood_load.one_by_one(on.url, deliveries, pause_s=0.0, seconds=_LIMIT_S))


def _growth() -> float:
    """The least time of a few turns each, as near to the work itself as a machine shows."""
    spent: dict[int, list[float]] = {_LARGE: [], _LARGE // _GROWN: []}
    for _ in range(_TURNS):
        for size, times in spent.items():
            body, began = of_size(size), time.process_time()
            clean(body)
            times.append((time.process_time() - began) / size)
    large, small = (min(times) for times in spent.values())
    return large / small


def _streams(number: int, on: Stage, figures: Figures) -> None:
    command = [sys.executable, "-m", "bench.bounds", "streams", on.url, str(number)]
    done = subprocess.run(command, check=True, cwd=BASE_DIR, env=on.env, stdout=subprocess.PIPE, text=True)
    took: list[float] = json.loads(done.stdout)
    _add(figures, "stream_end_p50_s", statistics.median(took), number)
    _add(figures, "stream_end_s", max(took), number)


def watched_to_the_end(url: str, number: int) -> list[float]:
    """In a process of the product's: seconds from each watcher's deactivation to the end of their stream."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    from django.urls import reverse

    path = reverse("admin:deal_changes", args=[_deal_made(number)])
    people = [web_stage.signed_in(f"watcher-{number}-{one}") for one in range(_WATCHERS)]
    return asyncio.run(_watched(url, path, people))


async def _watched(url: str, path: str, people: Sequence[tuple[User, str]]) -> list[float]:
    streams = [await _stream(url, path, session) for _, session in people]
    ended = [asyncio.create_task(_end(reader)) for reader, _ in streams]
    gone = []
    for person, _ in people:
        await asyncio.sleep(_APART_S)
        gone.append(await asyncio.to_thread(_deactivated, person))
    async with asyncio.timeout(_LIMIT_S):
        took = [at - since for at, since in zip(await asyncio.gather(*ended), gone, strict=True)]
    for _, writer in streams:
        writer.close()
    if min(took) < 0:
        raise SystemExit("a stream ended before its login did")
    return took


async def _stream(url: str, path: str, session: str) -> flood_load.Connection:
    reader, writer = await flood_load.connect(url)
    writer.write(flood_load.get(url + path, Cookie=f"sessionid={session}", Accept="text/event-stream"))
    head = await reader.readuntil(b"\r\n\r\n")
    if b"text/event-stream" not in head:
        raise SystemExit(f"no stream came: {head[:60]!r}")
    return reader, writer


async def _end(stream: asyncio.StreamReader) -> float:
    """When its last chunk has come, or its connection has ended."""
    with suppress(asyncio.IncompleteReadError):
        await stream.readuntil(b"0\r\n\r\n")
    return time.monotonic()


def _deactivated(person: User) -> float:
    """When it began."""
    from tasks_app.people.actors import SYSTEM
    from tasks_app.people.rights import rights_recorded

    began = time.monotonic()
    person.is_active = False
    with rights_recorded(person, by=SYSTEM):
        person.save()
    return began


def _deal_made(number: int) -> object:
    from orders.models import Deal
    from tasks_app import clock
    from tasks_app.lifecycle.transitions import create_many
    from tasks_app.people.models import Advertiser, Team

    team = Team.objects.get_or_create(name=web_stage.TEAM)[0]
    advertiser = Advertiser.objects.create(team=team, name=f"Bench {number}", brand_domain="bench.example")
    seller = seller_made(name=f"Bench {number}", slug=f"bench-{number}")
    deal = Deal(
        reference=f"BENCH-{number}",
        team=team,
        advertiser=advertiser,
        seller=seller,
        account=account_made(advertiser, seller, f"bench-{number}"),
        requested_by="system",
        currency="USD",
        start_at=clock.now(),
        end_at=clock.now() + timedelta(days=28),
        zone="UTC",
    )
    create_many([deal], actor="system", reason="A bench")
    return deal.pk


def _add(figures: Figures, name: str, value: float, number: int) -> None:
    figures.setdefault(name, []).append(value)
    _say(f"   round {number + 1}: {name:<28}{value:>10,.2f}")


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["streams"]:
        print(json.dumps(watched_to_the_end(arguments[1], int(arguments[2]))))
        return 0
    summary = bounds(rounds=int(os.environ.get("ROUNDS") or ROUNDS))
    print(json.dumps(summary))
    return int(bool(ratios.broken(summary)))


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
