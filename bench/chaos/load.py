"""What the run put on the product, and whether one seller's trouble stayed its own: counted in the sellers'
books and in our own rows, never by how long something took.

- No seller has more calls in flight than its slots, and of one sweep's calls none has more than its share.
- While the flooded seller has half of its share or more, others' calls begin. How many of a batch are out at
  once, the machine decides: where it stands still for seconds the first is answered before the last leaves.
- A seller that says "in a second" is not asked again sooner than our own floor.
- While a seller's keys hang, its webhooks are answered 503 at once, but the one that asks for the keys; other
  sellers' webhooks are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from bench.chaos.drive import purchases
from bench.chaos.judge import seller_rows
from bench.chaos.plan import CROWDED, FLOODED, SHARE, SIGNED, SLOTS, TELLING, Script
from tasks_app.operations.models import Channel, Observation, Operation
from tasks_app.sellers.timing import NUMBERS

# What is answered so asks to come again in a second (bench.chaos.seller.wire).
_IN_A_SECOND = ("IDEMPOTENCY_IN_FLIGHT", "SERVICE_UNAVAILABLE")
MUCH = SHARE // 2  # of a share, that it counts as used
_FLOOR = timedelta(seconds=NUMBERS["repeat_floor_s"].default)
_SLACK = timedelta(seconds=0.5)  # between an answer and its record
_TAKEN, _LATER = ("200", "202"), "503"


class Moment(NamedTuple):
    """A call of a seller begins or ends: how many are out then, how many of them look at a task, and how many
    of these are of one process."""

    at: float
    begun: bool
    out: int
    looking: int
    of_one: int


class Span(NamedTuple):
    """From when to when something went on at a seller, and what came of it."""

    began: float
    ended: float
    told: str = ""

    def holds(self, moment: float) -> bool:
        return self.began <= moment <= self.ended


class Attempt(NamedTuple):
    """A call that was made for a purchase, and the seller's error."""

    operation: object
    began: datetime
    answered: datetime
    error: str


@dataclass(frozen=True, kw_only=True)
class Load:
    """`held`: purchases that the kill switch held when a day had passed. `at_once`: the most calls that each
    seller had in flight. `share`: the most looks at the flooded seller's tasks that one process had out;
    `beside`: others' calls that began while many were out. `repeats`: calls made
    again because the seller said so, `too_soon` of them sooner than our floor. While keys hung: `told_later`
    of their seller's webhooks were told to come again meanwhile, `kept_waiting` were not, and of other
    sellers' `taken` were taken."""

    held: int
    at_once: Mapping[str, int]
    share: int
    beside: int
    repeats: int
    too_soon: int
    told_later: int
    kept_waiting: int
    taken: int

    def problems(self, scripts: Sequence[Script]) -> Iterator[str]:
        """What must not be, in words; and what these purchases should have put to the test, and did not."""
        for name, calls in self.at_once.items():
            if calls > SLOTS[name]:
                yield f"{name} had {calls} calls at once, and takes {SLOTS[name]}"
        if _of(scripts, CROWDED) > SLOTS[CROWDED] > self.at_once[CROWDED]:
            yield f"{CROWDED} was never full: its slots were not tested"
        if self.share > SHARE:
            yield f"{FLOODED} had {self.share} of one sweep's calls, and its share is {SHARE}"
        if _of(scripts, FLOODED) > SHARE and self.share < MUCH:
            yield f"{FLOODED} never had much of its share: it was not tested"
        if _of(scripts, FLOODED) > SHARE and not self.beside:
            yield f"nobody else was called while {FLOODED} had much of its share"
        if self.too_soon:
            yield f"{self.too_soon} of {self.repeats} calls were made again sooner than {_FLOOR}"
        if any("in_flight" in (*script.call, script.always) for script in scripts) and not self.repeats:
            yield "no call was made again because its seller said so"
        if any("unknown_key" in script.post for script in scripts):
            yield from self._of_keys()

    def _of_keys(self) -> Iterator[str]:
        if self.told_later <= self.kept_waiting:
            told = f"{self.told_later} webhooks were told to come again"
            yield f"{told} while keys hung, {self.kept_waiting} waited for them"
        if not self.taken:
            yield "no other seller's webhook was taken while keys hung"


def load(books: Mapping[str, Path], *, held: int) -> Load:
    """From the sellers' books and our rows."""
    traffic = {name: _traffic(path) for name, path in books.items()}
    others = [moment for name in books if name != FLOODED for moment in traffic[name]]
    webhooks = {name: _spans(books[name], "webhook") for name in TELLING}
    hung = _spans(books[SIGNED], "keys")
    told_later, kept_waiting = waiters(hung, webhooks.pop(SIGNED))
    elsewhere = [webhook for of_one in webhooks.values() for webhook in of_one]
    repeats, too_soon = paces(_attempts())
    return Load(
        held=held,
        at_once={name: max((moment.out for moment in of_one), default=0) for name, of_one in traffic.items()},
        share=max((moment.of_one for moment in traffic[FLOODED]), default=0),
        beside=beside(traffic[FLOODED], others),
        repeats=repeats,
        too_soon=too_soon,
        told_later=told_later,
        kept_waiting=kept_waiting,
        taken=taken(hung, elsewhere),
    )


def beside(flooded: Sequence[Moment], others: Iterable[Moment]) -> int:
    """How many calls of others began while the flooded seller had half of its share or more."""
    full = [Span(now.at, then.at) for now, then in pairwise(flooded) if now.looking >= MUCH]
    begun = (moment.at for moment in others if moment.begun)
    return sum(any(span.holds(at) for span in full) for at in begun)


def paces(attempts: Sequence[Attempt]) -> tuple[int, int]:
    """Of the calls that were made again because the seller said so: how many, and how many too soon.
    `attempts`: in their order, those of one purchase together."""
    again = [
        after.began - before.answered
        for before, after in pairwise(attempts)
        if before.operation == after.operation and before.error in _IN_A_SECOND
    ]
    return len(again), sum(wait < _FLOOR - _SLACK for wait in again)


def waiters(hung: Sequence[Span], webhooks: Sequence[Span]) -> tuple[int, int]:
    """Of a seller's own webhooks that came while its keys hung: how many were told meanwhile to come again,
    and how many were not answered before, but the one each time that asks for the keys."""
    told, kept = 0, 0
    for hang in hung:
        came = [webhook for webhook in webhooks if hang.holds(webhook.began)]
        told += sum(webhook.told == _LATER and hang.holds(webhook.ended) for webhook in came)
        kept += max(0, sum(not hang.holds(webhook.ended) for webhook in came) - 1)
    return told, kept


def taken(hung: Sequence[Span], webhooks: Iterable[Span]) -> int:
    """How many webhooks came and were taken while another seller's keys hung."""
    took = (webhook for webhook in webhooks if webhook.told in _TAKEN)
    return sum(any(hang.holds(one.began) and hang.holds(one.ended) for hang in hung) for one in took)


def _traffic(path: Path) -> list[Moment]:
    rows = seller_rows(path, "select at, begun, out, looking, of_one from traffic order by id")
    return [Moment(*row) for row in rows]


def _spans(path: Path, what: str) -> list[Span]:
    rows = seller_rows(path, "select began, ended, told from spans where what = ? order by id", what)
    return [Span(*row) for row in rows]


def _attempts() -> list[Attempt]:
    """The purchases' calls, by our own rows; those whose answer nobody was left to see are not among them."""
    mine = Operation.objects.filter(purchases()).values("pk")
    seen = (
        Observation.objects.filter(operation__in=mine, channel=Channel.REPLY, duration_ms__isnull=False)
        .order_by("operation_id", "id")
        .values_list("operation_id", "at", "duration_ms", "error_code")
    )
    return [Attempt(pk, at - timedelta(milliseconds=took or 0), at, error) for pk, at, took, error in seen]


def _of(scripts: Sequence[Script], seller: str) -> int:
    return sum(script.seller == seller for script in scripts)
