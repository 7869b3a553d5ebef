"""Kinds of questions to people: the upper storeys register what each answer does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from tasks_app.approvals.models import Approval

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
    subject's present version (None: it is gone): another than the one shown voids the question.
    `reopen` asks again after that. `effects` says in words what approve, reject and nothing will do.
    `amend` changes the subject's budgets (line number as shown, from 1, to amount; 0: without it) before it
    is asked about as changed and approved, answers whether anything changed, and raises DecisionRefusedError
    for what is outside the limits. None: the kind is approved whole or not at all.
    """

    name: str
    label: str
    apply: Callable[[Approval, Outcome], None]
    version: Callable[[Approval], int | None]
    reopen: Callable[[Approval], None]
    effects: dict[str, str]
    amend: Callable[[Approval, Mapping[int, Decimal]], bool] | None = None


_kinds: dict[str, Kind] = {}
_closed: list[Callable[[Approval], None]] = []


def kind_register(kind: Kind) -> None:
    """Make `kind` known. Raises ValueError for a name that is taken by another."""
    if _kinds.setdefault(kind.name, kind) != kind:
        raise ValueError(f"approval kind {kind.name} is registered already")


def kind_of(approval: Approval) -> Kind:
    """The kind of an approval. Raises KeyError when nobody registered it."""
    return _kinds[approval.kind]


def kind_labels() -> dict[str, str]:
    """Name to label, of every kind that is registered."""
    return {name: kind.label for name, kind in _kinds.items()}


def on_closed(listener: Callable[[Approval], None]) -> None:
    """Call `listener(approval)` in the commit that ends an approval, however it ends."""
    if listener not in _closed:
        _closed.append(listener)


def tell_closed(approval: Approval) -> None:
    """Tell the listeners."""
    for listener in _closed:
        listener(approval)
