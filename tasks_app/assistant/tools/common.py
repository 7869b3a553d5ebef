"""Tools about anything with a reference: its state, its history, the user's queue, recent events."""

from __future__ import annotations

import uuid
from datetime import date, datetime

from pydantic import Field

from tasks_app import clock, days
from tasks_app.approvals.queue import approvals_asked, others_asked
from tasks_app.assistant.tools.answer_text import moment_with_zone, sentences
from tasks_app.assistant.tools.facts import MOST_ROWS, rows_not_shown
from tasks_app.assistant.tools.objects import links_to
from tasks_app.assistant.tools.registry import (
    Arguments,
    Link,
    NoArguments,
    Table,
    Tool,
    ToolAnswer,
    ToolRefusedError,
)
from tasks_app.desk import text
from tasks_app.desk.explain import Explanation, NotExplainedError, explain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.presenters import move_words
from tasks_app.lifecycle.selectors import entries_of, entries_visible
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User
from tasks_app.people.roles import USE_ASSISTANT


class ObjectArguments(Arguments):
    """Arguments of a question about one object."""

    reference: str = Field(
        description="A reference (DEAL-2026-000123), an id, or a seller's short name", max_length=80
    )


class SinceArguments(Arguments):
    """Arguments of a question about the time since a day."""

    since: date = Field(description="The first day, as YYYY-MM-DD")


def _explained(user: User, reference: str) -> Explanation:
    try:
        return explain(reference, user)
    except NotExplainedError as error:
        raise ToolRefusedError(str(error)) from None


def _link(explanation: Explanation) -> Link:
    label = explanation.reference or explanation.title
    return Link(kind=explanation.entity, id=uuid.UUID(explanation.id), label=label, url=explanation.link)


def _name(explanation: Explanation) -> str:
    return f"{explanation.label} {explanation.reference or explanation.title}"


def _explain(user: User, arguments: ObjectArguments) -> ToolAnswer:
    explanation = _explained(user, arguments.reference)
    since = f" since {moment_with_zone(explanation.since)}" if explanation.since else ""
    due = f" The deadline is {moment_with_zone(explanation.deadline)}." if explanation.deadline else ""
    who = "; ".join(f"{one.who}: {one.does}" for one in explanation.who) or "nobody, because it has ended"
    return ToolAnswer(
        summary=(
            f"{_name(explanation)} is in the state “{explanation.state_word}”{since}. "
            f"{explanation.waiting_for}{due}\n"
            f"Who can move it: {who}.\nIf nobody does: {explanation.otherwise}"
        ),
        links=[_link(explanation)],
        data={"state": explanation.state, "title": explanation.title, "deadline": explanation.deadline},
    )


def _history(user: User, arguments: ObjectArguments) -> ToolAnswer:
    explanation = _explained(user, arguments.reference)
    entries = entries_of(explanation.entity, uuid.UUID(explanation.id))
    if not entries:
        return ToolAnswer(
            summary=f"{_name(explanation)} keeps no history of its own.", links=[_link(explanation)]
        )
    names = actor_names({entry.actor for entry in entries})
    last = entries[-1]
    return ToolAnswer(
        summary=(
            f"{names[last.actor]} changed {_name(explanation)} last, {moment_with_zone(last.at)}: "
            f"{move_words(last)}. "
            f"Reason: {last.reason}"
        ),
        table=_entries_table(entries[-MOST_ROWS:], names),
        links=[_link(explanation)],
    )


def _queue(user: User, arguments: NoArguments) -> ToolAnswer:
    approvals = approvals_asked({"view": "mine"}, user)
    others = others_asked({"view": "mine"}, user, limit=MOST_ROWS)
    first = list(approvals.order_by("due_at")[:MOST_ROWS])
    total = approvals.count() + len(others)
    if not total:
        return ToolAnswer(summary="Nothing waits for you.")
    waiting: list[tuple[datetime | None, str, str]] = [
        (one.due_at, one.reference, one.title) for one in first
    ]
    waiting += [(one.due_at, one.reference, one.title) for one in others]
    rows = sorted(waiting, key=lambda row: (row[0] is None, row[0] or clock.LATEST))
    next_due = rows[0][0]
    return ToolAnswer(
        summary=sentences(
            f"{total} {'thing waits' if total == 1 else 'things wait'} for you.",
            f"The first deadline is {moment_with_zone(next_due)}." if next_due else "",
            rows_not_shown(total),
        ),
        table=Table(
            columns=("Reference", "What", "Until"),
            rows=[(reference, title, text.moment(due)) for due, reference, title in rows[:MOST_ROWS]],
        ),
        links=links_to("approval", first, user),
    )


def _events(user: User, arguments: SinceArguments) -> ToolAnswer:
    since = days.start_of(arguments.since)
    if since > clock.now():
        raise ToolRefusedError("That day has not come yet.")
    found = entries_visible(user).filter(at__gte=since).exclude(entity_type="assistant_turn")
    entries = list(found.order_by("-id")[: MOST_ROWS + 1])
    if not entries:
        return ToolAnswer(summary=f"Nothing has happened since {text.day(since)}.")
    names = actor_names({entry.actor for entry in entries})
    more = f"More than {MOST_ROWS} changes" if len(entries) > MOST_ROWS else f"{len(entries)} changes"
    return ToolAnswer(
        summary=f"{more} since {text.day(since)}, the newest first.",
        table=_entries_table(entries[:MOST_ROWS], names, with_object=True),
    )


def _entries_table(entries: list[AuditEntry], names: dict[str, str], *, with_object: bool = False) -> Table:
    columns = ("When", *(("What",) if with_object else ()), "Who", "Change", "Reason")
    return Table(
        columns=columns,
        rows=[
            (
                text.moment(entry.at),
                *((entry.entity_type,) if with_object else ()),
                names[entry.actor],
                move_words(entry),
                entry.reason[:200],
            )
            for entry in entries
        ],
    )


COMMON_TOOLS = (
    Tool(
        name="explain_object",
        description="The state of a campaign, deal, approval, operation, job, seller or account: what it "
        "waits for, who can move it, and what happens if nobody does.",
        arguments=ObjectArguments,
        right=USE_ASSISTANT,
        run=_explain,
    ),
    Tool(
        name="object_history",
        description="Who changed an object, when and why: its audit trail, newest last.",
        arguments=ObjectArguments,
        right="tasks_app.view_auditentry",
        run=_history,
    ),
    Tool(
        name="my_queue",
        description="What waits for the user: approvals to decide and other work, by deadline.",
        arguments=NoArguments,
        right=USE_ASSISTANT,
        run=_queue,
    ),
    Tool(
        name="recent_events",
        description="Every change since a day in the user's teams, newest first.",
        arguments=SinceArguments,
        right="tasks_app.view_auditentry",
        run=_events,
    ),
)
