"""What a retried job finds of those before it: one rule for steps, items of a fan-out and nested jobs.

What was done is found along the whole chain of retries: `Step.lineage` names each step's first. Its result is
taken over where it was had of equal inputs, and nobody wants it done anew since (`Step.anew`); what is below
a step that is done anew is so too. What was commanded is found either way, by its key (`Run.purpose`): one
that commands something else in the place of what stands is refused (`IdempotencyKeyConflictError`). A new
item of a fan-out runs in the place of the one that it is equal to, else of one that commanded something and
is in the list no more.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from tasks_app import clock
from tasks_app.commands.models import Command
from tasks_app.commands.services import command_stands
from tasks_app.jobs import events
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.models import StepStatus as S
from tasks_app.lifecycle.transitions import transition
from tasks_app.people.actors import SYSTEM

Place = tuple[str, int]  # what an item is for, and the how manieth of its equals it is
_COLUMNS = ("fan_out_id", "item_index", "item", "lineage", "status", "outputs", "skipped", "job__reference")
_KEYS = 100  # looked for in one query


@dataclass(frozen=True, kw_only=True)
class NestedBefore:
    """The job that ran for a step before; `equal`: its result, or what is done of it, is this step's too."""

    job: Job
    equal: bool


def command_key(step_id: uuid.UUID, what: str = "") -> str:
    """The key of what a step commands; without `what`, that with which all of them begin."""
    return f"step:{step_id}:{what}"


def steps_before(step: Step) -> QuerySet[Step]:
    """The steps in whose place this one runs, the latest first."""
    if step.lineage is None:
        return Step.objects.none()
    chain = Q(pk=step.lineage) | Q(lineage=step.lineage)
    return Step.objects.filter(chain).exclude(pk=step.pk).order_by("-pk")


def adopt(job: Job, step: Step, done: Step) -> None:
    """Complete a step of a retried job with what its predecessor in the chain of retries put out, in the
    caller's commit."""
    why = f"Adopted from {done.job.reference}"
    transition(step, S.QUEUED, actor=SYSTEM, reason=why)
    transition(step, S.EXECUTING, actor=SYSTEM, reason=why)
    changes = {"outputs": done.outputs, "skipped": done.skipped, "ended_at": clock.now()}
    transition(step, S.COMPLETED, actor=SYSTEM, reason=why, changes=changes)
    events.record(
        job,
        "step.adopted",
        step=step,
        payload={"from": str(done.pk), "outputs": done.outputs, "skipped": done.skipped},
    )


def items_tied(whole: Step, items: Sequence[Step]) -> list[tuple[Step, Step]]:
    """Tie new items of a fan-out to those before them in whose place they run, before they are inserted;
    answers those that were done, each with the one to adopt."""
    chain = list(steps_before(whole).only("id", "anew"))
    equal, before = _results(whole, chain), _items_of(chain)
    found = _equal_ones(items, before)
    for item, earlier in _changed_ones(items, before, found):
        item.lineage, item.anew = _first(earlier), True
    done = []
    for item, earlier in found:
        item.lineage = _first(earlier)
        item.anew = earlier.fan_out_id not in equal
        if not item.anew and earlier.status == S.COMPLETED:
            done.append((item, earlier))
    return done


def nested_before(step: Step, inputs: dict[str, Any]) -> NestedBefore | None:
    """The latest job that ran for a step in whose place this one runs."""
    chain = list(steps_before(step).only("id", "anew"))
    job = Job.objects.filter(parent_step__in=chain).order_by("-pk").first()
    if job is None:
        return None
    equal = job.parent_step_id in _results(step, chain) and _text(job.inputs) == _text(inputs)
    return NestedBefore(job=job, equal=equal)


def _results(step: Step, chain: Sequence[Step]) -> frozenset[Any]:
    """Of the steps before, those whose results are this one's too: back to the last that was done anew."""
    found: list[Any] = []
    for after, before in zip([step, *chain], chain, strict=False):
        if after.anew:
            break
        found.append(before.pk)
    return frozenset(found)


def _items_of(chain: Sequence[Step]) -> dict[Place, Step]:
    """The items of fan-outs by what they are for, of equals the latest."""
    rows = Step.objects.filter(fan_out__in=chain).order_by("item_index")
    of: dict[Any, list[Step]] = {}
    for row in rows.select_related("job").only(*_COLUMNS):
        of.setdefault(row.fan_out_id, []).append(row)
    found: dict[Place, Step] = {}
    for one in reversed(chain):
        items = of.get(one.pk, [])
        found.update(zip(_places(item.item for item in items), items, strict=True))
    return found


def _equal_ones(items: Sequence[Step], before: Mapping[Place, Step]) -> list[tuple[Step, Step]]:
    """The items that were there before, each with the latest that it is equal to. Of several in whose place
    one ran after the other it is the one whose command stands; the others are new."""
    claims: dict[uuid.UUID, list[tuple[Step, Step]]] = {}
    for place, item in zip(_places(item.item for item in items), items, strict=True):
        if place in before:
            claims.setdefault(_first(before[place]), []).append((item, before[place]))
    stands = _standing([first for first, pairs in claims.items() if len(pairs) > 1])
    return [
        max(pairs, key=lambda pair: ((first, _text(pair[0].item)) in stands, pair[1].pk))
        for first, pairs in claims.items()
    ]


def _changed_ones(
    items: Sequence[Step], before: Mapping[Place, Step], found: Sequence[tuple[Step, Step]]
) -> list[tuple[Step, Step]]:
    """The items that are new, as far as there are earlier ones that commanded something which stands, and are
    in the list no more: each with one of those, where it can be that of the same index."""
    same = {item.pk for item, _ in found}
    new = [item for item in items if item.pk not in same]
    left = {_first(earlier): earlier for earlier in before.values()} if new else {}
    for _, earlier in found:
        left.pop(_first(earlier), None)
    stands = {first for first, _ in _standing(left)}
    gone = [earlier for first, earlier in left.items() if first in stands]
    by_index = {earlier.item_index: earlier for earlier in gone}
    pairs = [(item, by_index.pop(item.item_index)) for item in new if item.item_index in by_index]
    tied = {step.pk for pair in pairs for step in pair}
    others = ([one for one in these if one.pk not in tied] for these in (new, gone))
    return [*pairs, *zip(*others, strict=False)]


def _standing(firsts: Collection[uuid.UUID]) -> set[tuple[uuid.UUID, str]]:
    """Of the chains of items that begin with these: where a command stands, of an item or of a job nested in
    it, the first item and what the one was for that commanded."""
    chains = Step.objects.filter(Q(pk__in=firsts) | Q(lineage__in=firsts)).only("id", "lineage", "item")
    of = {step.pk: (_first(step), _text(step.item)) for step in chains} if firsts else {}
    found = set()
    while of:
        found |= {of[pk] for pk in _commanding(list(of))}
        below = Step.objects.filter(job__parent_step__in=of)
        of = {pk: of[parent] for pk, parent in below.values_list("pk", "job__parent_step")}
    return found


def _commanding(step_ids: Sequence[uuid.UUID]) -> Iterator[uuid.UUID]:
    """Of these steps those that had a command whose effect stands."""
    for start in range(0, len(step_ids), _KEYS):
        wanted = Q(pk__in=[])
        for pk in step_ids[start : start + _KEYS]:
            wanted |= Q(key__startswith=command_key(pk))
        for command in Command.objects.filter(wanted):
            if command_stands(command):
                yield uuid.UUID(command.key.split(":")[1])


def _first(step: Step) -> uuid.UUID:
    """The first of the chain of steps, each of which ran in the place of the one before."""
    return step.lineage or step.pk


def _places(values: Iterable[Any]) -> list[Place]:
    """Each value as text, and the how manieth of its equals it is."""
    seen: Counter[str] = Counter()
    places = []
    for text in map(_text, values):
        places.append((text, seen[text]))
        seen[text] += 1
    return places


def _text(value: Any) -> str:
    """What tells JSON values apart; 1, 1.0 and true are three."""
    return json.dumps(value, sort_keys=True)
