"""Taking one step, as a worker takes the next ones."""

from __future__ import annotations

from collections.abc import Sequence

from tasks_app.jobs.calls import Wanted
from tasks_app.jobs.claims import ALL, claim_steps
from tasks_app.jobs.models import Step


def claim_step(lanes: Sequence[str] = ALL) -> Step | None:
    """The next ready step of `lanes`, whose job runs from now on."""
    taken = claim_steps(Wanted(lanes=tuple(lanes)))
    return taken[0] if taken else None
