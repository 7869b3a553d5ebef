"""A job's run, replayed from its WorkflowEvents alone (document 001, section 6.3.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks_app.jobs.models import STEP_ENDED, JobStatus, StepStatus, WorkflowEvent

J, S = JobStatus, StepStatus


@dataclass
class StepReplay:
    """A step as the events tell of it."""

    status: str = S.RECEIVED
    attempts: int = 0
    outputs: Any = None
    error: str = ""
    skipped: bool = False


@dataclass
class Replay:
    """A job as its events tell of it: `steps` by key, items of a fan-out as `key[0]`."""

    status: str = J.PENDING
    outputs: Any = None
    error: str = ""
    steps: dict[str, StepReplay] = field(default_factory=dict)


def replayed(events: Iterable[WorkflowEvent]) -> Replay:
    """What the events, in their order, come to. Types that move nothing (a retry decided, a result that came
    late) are passed over. Raises KeyError for a step that was never planned."""
    run = Replay()
    for event in events:
        if event.type in _JOB:
            _JOB[event.type](run, event.payload)
        elif event.type in _STEP:
            step = run.steps[event.correlation["step"]]
            step.attempts = max(step.attempts, int(event.correlation["attempt"]))
            _STEP[event.type](step, event.payload)
            if event.type == "step.expanded":
                items = range(event.payload["items"])
                run.steps |= {f"{event.correlation['step']}[{n}]": StepReplay() for n in items}
            if event.type in ("step.started", "step.taken_over") and run.status in (J.QUEUED, J.DISPATCHING):
                run.status = J.PROCESSING
    return run


def _planned(run: Replay, payload: Mapping[str, Any]) -> None:
    run.status = J.QUEUED
    run.steps = {key: StepReplay() for key in payload["steps"]}


def _previewed(run: Replay, _payload: Mapping[str, Any]) -> None:
    run.status = J.PREVIEW


def _ended(status: str) -> Callable[[Replay, Mapping[str, Any]], None]:
    def end(run: Replay, payload: Mapping[str, Any]) -> None:
        run.status, run.outputs, run.error = status, payload.get("outputs"), payload.get("error", "")
        for step in run.steps.values():
            if step.status not in STEP_ENDED:
                step.status = S.CANCELLED

    return end


def _to(status: str) -> Callable[[StepReplay, Mapping[str, Any]], None]:
    def move(step: StepReplay, _payload: Mapping[str, Any]) -> None:
        step.status = status

    return move


def _asleep(step: StepReplay, payload: Mapping[str, Any]) -> None:
    step.status = S.AWAITING_USER if payload.get("type") == "approvals" else S.AWAITING_TOOL


def _completed(step: StepReplay, payload: Mapping[str, Any]) -> None:
    step.status, step.outputs = S.COMPLETED, payload["outputs"]
    step.skipped = payload.get("skipped", False)


def _failed(step: StepReplay, payload: Mapping[str, Any]) -> None:
    step.status, step.error = S.FAILED, payload["error"]


_JOB: dict[str, Callable[[Replay, Mapping[str, Any]], None]] = {
    "job.planned": _planned,
    "job.preview": _previewed,
    **{f"job.{status.lower()}": _ended(status) for status in (J.COMPLETED, J.FAILED, J.CANCELLED, J.EXPIRED)},
}
_STEP: dict[str, Callable[[StepReplay, Mapping[str, Any]], None]] = {
    "step.queued": _to(S.QUEUED),
    "step.started": _to(S.EXECUTING),
    "step.resumed": _to(S.EXECUTING),
    "step.taken_over": _to(S.EXECUTING),
    "step.waiting": _asleep,
    "step.expanded": _to(S.AWAITING_TOOL),
    "step.completed": _completed,
    "step.adopted": _completed,
    "step.failed": _failed,
    "step.abandoned": _to(S.CANCELLED),
}
