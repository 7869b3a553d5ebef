"""What happened to a job, event by event, in plain words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from tasks_app.desk import text
from tasks_app.desk.items import plural
from tasks_app.jobs.looks import step_name
from tasks_app.jobs.models import WorkflowEvent
from tasks_app.jobs.selectors import JobRows
from tasks_app.jobs.shown import shown
from tasks_app.jobs.waits import WaitType, wait_type

_NOTE = 300


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line: a glyph, what happened, to which step (empty: to the job), when, and what qualifies it.
    `kind` and `id` are the event's own."""

    id: int
    kind: str
    glyph: str
    what: str
    step: str
    key: str
    at: datetime
    note: str = ""


def timeline(events: list[WorkflowEvent], rows: JobRows) -> list[Line]:
    """The events as lines, in their order."""
    names = {str(step.pk): step_name(step, rows) for step in rows.steps}
    titles = {spec["id"]: spec.get("title") or spec["id"] for spec in rows.job.plan["steps"]}
    return [_line(event, names, titles) for event in events]


def _line(event: WorkflowEvent, names: Mapping[str, str], titles: Mapping[str, str]) -> Line:
    told, payload = event.correlation, shown(event.payload)
    glyph, words = _KINDS.get(event.type, ("waiting", _unknown(event.type)))
    what, note = words(payload, told)
    key = str(told.get("step", ""))
    name = names.get(str(told.get("step_id", ""))) or titles.get(key.partition("[")[0], key)
    reason = str(payload.get("reason", ""))
    return Line(
        id=event.pk,
        kind=event.type,
        glyph=glyph,
        what=what,
        step=name,
        key=key,
        at=event.at,
        note=text_cut(note or reason),
    )


def text_cut(said: str) -> str:
    """As much of a text as a line takes."""
    return said if len(said) <= _NOTE else f"{said[:_NOTE]}…"


Words = Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[str, str]]


def _plain(what: str) -> Words:
    return lambda payload, told: (what, str(payload.get("error", "")))


def _unknown(kind: str) -> Words:
    return _plain(kind.rpartition(".")[2].replace("_", " ").capitalize())


def _planned(payload: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, str]:
    return f"Planned, {plural(len(payload.get('steps', ())), 'step')}", ""


def _started(_: Mapping[str, Any], told: Mapping[str, Any]) -> tuple[str, str]:
    again = str(told.get("attempt", "1"))
    return "A worker began it" if again == "1" else f"A worker began it, run {again}", ""


def _expanded(payload: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, str]:
    return f"Became {plural(int(payload.get('items', 0)), 'step')} in parallel", ""


def _completed(payload: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, str]:
    return ("Skipped", str(payload.get("reason", ""))) if payload.get("skipped") else ("Done", "")


def _waiting(payload: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, str]:
    kind = wait_type(payload)
    if kind == WaitType.BACK_OFF:
        return f"Failed, is tried again (failure {payload.get('failures', 1)})", str(payload.get("error", ""))
    if kind == WaitType.TIME:
        return f"Waits until {text.moment(parse_datetime(str(payload.get('until', ''))))}", ""
    if kind == WaitType.APPROVALS:
        return f"Waits for {plural(len(payload.get('ids', ())), 'decision')}", ""
    if kind == WaitType.EVENT:
        return f"Waits for the event {payload.get('name', '')}", ""
    said: dict[str, str] = {
        WaitType.OPERATION: "a seller’s answer",
        WaitType.ACCOUNT: "an account",
        WaitType.JOB: "a nested job",
    }
    return f"Waits for {said.get(kind, kind)}", ""


def _event(payload: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, str]:
    return f"The event {payload.get('name', '')} came", str(payload.get("correlation", ""))


def _prioritised(payload: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, str]:
    return f"Priority {payload.get('from')} → {payload.get('to')}", ""


def _succeeded(payload: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[str, str]:
    return f"Succeeded after {plural(int(payload.get('failures', 1)), 'failure')}", ""


_KINDS: dict[str, tuple[str, Words]] = {
    "job.planned": ("waiting", _planned),
    "job.preview": ("person", _plain("Partial results are there")),
    "job.completed": ("done", _plain("The job is done")),
    "job.failed": ("failed", _plain("The job failed")),
    "job.cancelled": ("stopped", _plain("The job was cancelled")),
    "job.expired": ("overdue", _plain("The job ran out of time")),
    "step.queued": ("waiting", _plain("Ready for a worker")),
    "step.started": ("running", _started),
    "step.resumed": ("running", _plain("Went on: what it waited for has come")),
    "step.waiting": ("seller", _waiting),
    "step.expanded": ("running", _expanded),
    "step.completed": ("done", _completed),
    "step.failed": ("failed", _plain("Failed for good")),
    "step.abandoned": ("stopped", _plain("Not needed: what it depends on failed")),
    "step.adopted": ("done", _plain("Taken over from the job it retries")),
    "step.taken_over": ("overdue", _plain("Its worker was gone; another took over")),
    "step.late_result": ("differs", _plain("A result came too late and was set aside")),
    "step.recovered": ("overdue", _plain("A lost wake-up was made up for")),
    "step.skipped": ("stopped", _plain("Was skipped by a person")),
    "step.event": ("done", _event),
    "step.input": ("person", _plain("Was given by hand what it waited for")),
    "job.priority": ("waiting", _prioritised),
    "retry_succeeded": ("done", _succeeded),
    "retry_state_terminal": ("differs", _plain("Failed after it had ended; not tried again")),
}
