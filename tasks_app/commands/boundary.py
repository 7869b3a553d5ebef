"""What the code that runs at this moment may do: only a step declared `command` has effects outside.

The worker says which action it runs (`acting`); outside of any action (a person's decision, the API, the
sweep) effects go through commands all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class ActionKind(StrEnum):
    """What running an action once more does."""

    PURE = "pure"  # nothing but its outputs: asks nobody, writes nothing
    IDEMPOTENT = "idempotent"  # writes rows of ours, or reads at a seller; finds what it made before
    COMMAND = "command"  # has effects outside, each a command under a key


class EffectRefusedError(Exception):
    """An action that is not declared for it asked for an effect outside, or a pure one for a read."""


@dataclass(frozen=True, kw_only=True)
class Acting:
    """The action that runs: its name and kind, whether it was tried before (by this step, or by the one that
    it retries), and `hold`, which keeps the attempt its step's until the caller's commit, and raises where it
    is no more."""

    action: str
    kind: ActionKind
    repeated: bool = False
    hold: Callable[[], None] | None = None


_acting: ContextVar[Acting | None] = ContextVar("acting", default=None)


@contextmanager
def acting(now: Acting) -> Iterator[None]:
    """What runs in this block is that action."""
    token = _acting.set(now)
    try:
        yield
    finally:
        _acting.reset(token)


def effect_allowed() -> None:
    """Raises EffectRefusedError inside an action that is no command."""
    now = _acting.get()
    if now is not None and now.kind != ActionKind.COMMAND:
        raise EffectRefusedError(f"{now.action} is declared {now.kind}: only a command has effects outside")


def effect_held() -> None:
    """Inside an action: a new effect is the attempt's that asks for it. Raises what `Acting.hold` does."""
    now = _acting.get()
    if now is not None and now.hold is not None:
        now.hold()


def read_allowed() -> None:
    """Raises EffectRefusedError inside a pure action."""
    now = _acting.get()
    if now is not None and now.kind == ActionKind.PURE:
        raise EffectRefusedError(f"{now.action} is declared {now.kind}: it asks nobody")


def is_repeated() -> bool:
    """Whether the action that runs was tried before."""
    now = _acting.get()
    return now is not None and now.repeated
