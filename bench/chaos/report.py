"""What the run tells: a table by kind of trouble, the trail of whatever is broken, and one line of JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.chaos.judge import Purchase, names_of, seller_rows
from bench.chaos.load import Load
from bench.chaos.plan import CROWDED
from tasks_app.operations.models import Operation

MOST_WITH_PEOPLE = 0.10
FEWEST_KILLS = 3
_FEWEST_HELD = 10
_TRAILS, _FEW = 20, 5
_TOLD_OF_LOAD = ("share", "beside", "repeats", "too_soon", "told_later", "kept_waiting", "taken")


def fewest_held(operations: int) -> int:
    """So many purchases of a run the kill switch holds at least: ten, in a very short run its twentieth."""
    return min(_FEWEST_HELD, operations // 20)


def summary(
    found: Sequence[Purchase],
    rows: Sequence[Mapping[str, str]],
    kills: Counter[str],
    load: Load,
    *,
    seed: int,
) -> dict[str, Any]:
    """The last line."""
    return {
        "operations": len(found),
        "bought": sum(len(purchase.bought) for purchase in found),
        "settled": sum(purchase.settled and not purchase.person for purchase in found),
        "waiting_on_person": sum(bool(purchase.person) for purchase in found),
        "bought_twice": sum(len(purchase.bought) > 1 for purchase in found),
        "lost": sum(purchase.lost for purchase in found),
        "given_up": sum(purchase.given_up for purchase in found),
        "differences": len(rows),
        "kills": kills.total(),
        "held": load.held,
        "crowd_at_once": load.at_once[CROWDED],
        **{name: getattr(load, name) for name in _TOLD_OF_LOAD},
        "seed": seed,
    }


def broken(told: Mapping[str, Any], found: Sequence[Purchase], load: Load, *, trail_holds: bool) -> list[str]:
    """Every invariant that does not hold, in words."""
    wrong = [
        f"{told[name]} {name}" for name in ("bought_twice", "lost", "given_up", "differences") if told[name]
    ]
    unsound = sum(bool(purchase.problems()) for purchase in found)
    if unsound:
        wrong.append(f"{unsound} purchases are not as they must be")
    if told["waiting_on_person"] > MOST_WITH_PEOPLE * told["operations"]:
        wrong.append(f"{told['waiting_on_person']} of {told['operations']} are parked with people")
    if told["kills"] < FEWEST_KILLS:
        wrong.append(f"only {told['kills']} kills")
    if load.held < fewest_held(len(found)):
        wrong.append(f"the kill switch held only {load.held}: what it stops was not tested")
    wrong += load.problems([purchase.script for purchase in found])
    if not trail_holds:
        wrong.append("verify_audit: the trail does not hold")
    return wrong


def table(found: Sequence[Purchase]) -> Iterator[str]:
    """A line per kind of trouble, then who waits for whom."""
    yield _row("what befell it", *_COLUMNS)
    for kind in dict.fromkeys(purchase.script.kind for purchase in found):
        of_kind = [purchase for purchase in found if purchase.script.kind == kind]
        yield _row(kind, *(sum(map(count, of_kind)) for count in _COLUMNS.values()))
    waiting = Counter(purchase.person for purchase in found if purchase.person)
    yield "with people: " + (", ".join(f"{n} {words}" for words, n in waiting.most_common()) or "none")
    yield f"of these, without a reason in their script: {len(unplanned(found))}"


_COLUMNS: dict[str, Callable[[Purchase], int]] = {
    "purchases": lambda purchase: 1,
    "bought": lambda purchase: len(purchase.bought),
    "settled": lambda purchase: purchase.settled and not purchase.person,
    "person": lambda purchase: bool(purchase.person),
    "lost": lambda purchase: purchase.lost,
    "broken": lambda purchase: bool(purchase.problems()),
}


def _row(name: str, *cells: object) -> str:
    return f"{name:<26}" + "".join(f"{cell:>10}" for cell in cells)


def unplanned(found: Sequence[Purchase]) -> list[Purchase]:
    """With people although nothing in their script asks for it."""
    return [purchase for purchase in found if purchase.person and not purchase.script.parked]


def trails(
    found: Sequence[Purchase], rows: Sequence[Mapping[str, str]], books: Mapping[str, Path]
) -> Iterator[str]:
    """Each broken purchase with everything that was seen of it, here and at the seller; after them some that
    came to people unplanned."""
    named = {value for row in rows for value in row.values()}
    shown = [p for p in found if p.problems() or named.intersection(names_of(p))]
    for purchase in (*shown[:_TRAILS], *unplanned(found)[:_FEW]):
        yield from _trail(purchase, books[purchase.script.seller])
    if len(shown) > _TRAILS:
        yield f"… and {len(shown) - _TRAILS} more"


def _trail(purchase: Purchase, book: Path) -> Iterator[str]:
    script = purchase.script
    yield ""
    yield f"{script.product_id}: {'; '.join(purchase.problems()) or purchase.person or 'differs'}"
    yield f"  {script}"
    for deal in purchase.deals:
        held = f"{deal.reference} {deal.status} {deal.media_buy_id}".rstrip()
        yield f"  {held}, job {purchase.job_status}, {purchase.times}"
    lines = [line for operation in purchase.operations for line in _operation(operation)]
    lines += [
        (row["at"], f"seller: {row['what']}")
        for row in seller_rows(book, "select at, what from log where number = ?", script.number)
    ]
    for at, words in sorted(lines):
        yield f"  {datetime.fromtimestamp(at, UTC):%H:%M:%S.%f} {words}"


def _operation(operation: Operation) -> Iterator[tuple[float, str]]:
    shown = (
        "settled_by",
        "attempts",
        "polls",
        "task_id",
        "send_at",
        "next_poll_at",
        "published_at",
        "message",
    )
    fields = ", ".join(f"{name} {getattr(operation, name) or '—'}" for name in shown)
    yield operation.status_since.timestamp(), f"{operation.reference} {operation.status}: {fields}"
    for seen in operation.observations.order_by("id"):
        said = f"{seen.channel} {seen.kind} {seen.raw_status or seen.status}: {seen.outcome}"
        yield seen.at.timestamp(), f"{said} {seen.note}".rstrip()
