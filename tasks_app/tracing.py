"""Which request, tenant and user a decision goes back to: bound once where work begins, read wherever one is
recorded (document 003: the runtime can be audited).

structlog's context variables hold it, so that log lines carry the same. Work that a request started and a
worker does later is given the request's id again (`caused_by`), beside the id of the task that does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import structlog

_LONGEST = 64  # of the columns that hold an id


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Who and what a decision goes back to: `request` is the first request's or task's id, `trace_id` the
    present one's, `team` a team's id, `user` an actor's key. Empty where there is none."""

    trace_id: str = ""
    request: str = ""
    team: str = ""
    user: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def trace_id() -> str:
    """The id that ties an entry to the request or task that caused it; empty outside both."""
    bound = structlog.contextvars.get_contextvars()
    return str(bound.get("request_id") or bound.get("trace_id") or "")[:_LONGEST]


def origin() -> str:
    """The id of the request that began all this; where none did, of the task."""
    bound = structlog.contextvars.get_contextvars()
    return str(bound.get("origin") or "")[:_LONGEST] or trace_id()


def trace(*, request: str = "", team: object = None, user: str = "") -> Trace:
    """The trace of a decision made now; what the decider knows, the rest as bound."""
    bound = structlog.contextvars.get_contextvars()
    return Trace(
        trace_id=trace_id(),
        request=request or origin(),
        team=str(team or bound.get("team") or ""),
        user=str(user or bound.get("user") or ""),
    )


@contextmanager
def caused_by(*, request: str, team: object, user: str) -> Iterator[None]:
    """What is decided in this block goes back to that request, team (its id) and user (an actor's key)."""
    bound = {"origin": request, "team": str(team or ""), "user": user}
    with structlog.contextvars.bound_contextvars(**{name: value for name, value in bound.items() if value}):
        yield
