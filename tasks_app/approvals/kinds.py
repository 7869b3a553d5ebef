"""Kinds of questions to people: the upper storeys register what each answer does."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal

from tasks_app.approvals.models import Approval
from tasks_app.approvals.question import Question, is_as_shown


class EffectRefusedNowError(Exception):
    """What an answer would do cannot be done at this moment; the text says why. Nothing was done, and the
    question stays as it is."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What an answer does now, in words, and whether that is sent to a seller."""

    words: str
    sends: bool


Answer = Literal["approved", "rejected", "expired"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a question ended: by whose word (an actor key) and with which comment."""

    answer: Answer
    actor: str
    comment: str


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of question.

    `apply` has the answer's effect, rows only, in the commit of the last decision. `version` tells the
    subject's present version, the subject held still until the commit (None: nobody is needed, as it is gone,
    over, or decided by what happened), `asks` what would be asked about it now: another version
    than the one shown, or another question, voids it. `reopen` asks again after that. `effects` says in words
    what approve, reject and nothing will do, `effects_for` what of that is particular to one question, by
    its evidence, and `effects_now` what depends on how things stand when it is read, by the question's id: of
    all that a page shows at once.
    `amend` changes the subject's budgets (line number as shown, from 1, to amount; 0: without it) as an act
    of the actor given, before it is asked about as changed and approved; it answers whether anything
    changed, and raises DecisionRefusedError
    for what is outside the limits. None: the kind is approved whole or not at all.
    `sends`: the answers whose effect is sent to a seller, unless all that is sent is held at the time, or the
    evidence of one question says that nothing is (`sends_unless`).
    `apart`: it has a page of its own, and is left out of the queue, its counts and digests.
    `outlives_job`: it is about what a seller has or is told, no matter for which job: it stays when one ends
    that waits for its answer.
    `spends`: approving it spends what it asks for (spending.py).
    `set_off`: it is about what people ask for or set off, at first or again (people/setting_off.py): who did
    decides no more than who asked this.
    `wished`: its answer is the answer to what a person asked for. Any other is asked by the system about
    that, and who asked for it is told the question and, by `decided`, what an answer decides about it.
    """

    name: str
    label: str
    apply: Callable[[Approval, Outcome], None]
    version: Callable[[Approval], int | None]
    asks: Callable[[Approval], Question]
    reopen: Callable[[Approval], None]
    effects: dict[str, str]
    amend: Callable[[Approval, Mapping[int, Decimal], str], bool] | None = None
    effects_for: Callable[[Approval], dict[str, str]] | None = None
    effects_now: Callable[[Sequence[Approval]], Mapping[uuid.UUID, Mapping[str, Effect]]] | None = None
    sends: frozenset[str] = frozenset()
    sends_unless: Callable[[Mapping[str, Any]], bool] | None = None
    apart: bool = False
    outlives_job: bool = False
    spends: bool = False
    set_off: bool = True
    wished: bool = False
    decided: Mapping[str, str] = field(default_factory=dict)


class Fate(StrEnum):
    """What an open question comes to, by what its subject is now."""

    STANDS = "stands"  # it shows what would be shown now
    ANEW = "anew"  # something else would be shown: asked anew
    MOOT = "moot"  # nobody is needed any more: withdrawn


_kinds: dict[str, Kind] = {}
_closed: list[Callable[[Approval], None]] = []
# Reads once why what is sent is held now; answers that by a team's id, empty where it is not.
Held = Callable[[uuid.UUID | None], str]
_held: list[Callable[[], Held]] = []


def kind_register(kind: Kind) -> None:
    """Make `kind` known. Raises ValueError for a name that is taken by another."""
    if _kinds.setdefault(kind.name, kind) != kind:
        raise ValueError(f"approval kind {kind.name} is registered already")


def kind_of(approval: Approval) -> Kind:
    """The kind of an approval. Raises KeyError when nobody registered it."""
    return _kinds[approval.kind]


def sent_by(approval: Approval) -> frozenset[str]:
    """The answers to one question whose effect is sent to a seller. Raises KeyError when nobody registered
    its kind."""
    kind = kind_of(approval)
    sends_nothing = kind.sends_unless is not None and kind.sends_unless(approval.evidence)
    return frozenset() if sends_nothing else kind.sends


def decided_by(approval: Approval) -> Mapping[str, str]:
    """What each answer to one question decides about what somebody asked for; without those that are the
    answer to that. Raises KeyError when nobody registered its kind."""
    return kind_of(approval).decided


def fate_of(approval: Approval) -> Fate:
    """What an open question comes to now; what it is about is held still until the caller's commit."""
    kind = kind_of(approval)
    version = kind.version(approval)
    if version is None:
        return Fate.MOOT
    shown = version == approval.subject_version and is_as_shown(approval, kind.asks(approval))
    return Fate.STANDS if shown else Fate.ANEW


def kind_names() -> dict[str, str]:
    """Every known kind's name to its label, by label."""
    return {kind.name: kind.label for kind in sorted(_kinds.values(), key=lambda kind: kind.label)}


def kinds_apart() -> list[str]:
    """The kinds that are not in the queue."""
    return [kind.name for kind in _kinds.values() if kind.apart]


def kinds_that_spend() -> list[str]:
    """The kinds whose approval spends money."""
    return [kind.name for kind in _kinds.values() if kind.spends]


def kinds_set_off() -> list[str]:
    """The kinds on which who set off what they are about does not decide."""
    return [kind.name for kind in _kinds.values() if kind.set_off]


def held_register(read: Callable[[], Held]) -> None:
    """Let the room above say why what an answer sends would be held."""
    if read not in _held:
        _held.append(read)


def held_now() -> Held:
    """Why what is sent is held at this moment, by a team's id."""
    asked = [read() for read in _held]
    return lambda team_id: " ".join(said for one in asked if (said := one(team_id)))


@dataclass(frozen=True, kw_only=True)
class Now:
    """What the words about some questions depend on beside themselves: why what is `held` is, and their
    `effects` as things stand, by their ids."""

    held: Held
    effects: Mapping[uuid.UUID, Mapping[str, Effect]]


def now_about(approvals: Sequence[Approval]) -> Now:
    """How things stand at this moment about these questions; each kind reads its own at once."""
    effects: dict[uuid.UUID, Mapping[str, Effect]] = {}
    for name in dict.fromkeys(one.kind for one in approvals):
        kind = _kinds.get(name)
        if kind is not None and kind.effects_now is not None:
            effects |= kind.effects_now([one for one in approvals if one.kind == name])
    return Now(held=held_now() if approvals else lambda _team: "", effects=effects)


def on_closed(listener: Callable[[Approval], None]) -> None:
    """Call `listener(approval)` in the commit that ends an approval, however it ends."""
    if listener not in _closed:
        _closed.append(listener)


def tell_closed(approval: Approval) -> None:
    """Tell the listeners."""
    for listener in _closed:
        listener(approval)
