"""Why a command stands as it does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tasks_app.approvals.explain import Pending, question_about, question_answers
from tasks_app.commands.gates import gates_open
from tasks_app.commands.models import Command
from tasks_app.commands.selectors import commands_of
from tasks_app.desk.explain import NOBODY, Answers, Explainer, Mover, Standing, explainer_register, page_link

_STATES = {
    "waiting": ("At a gate", "person"),
    "refused": ("Refused", "stopped"),
    "executed": ("Executed", "done"),
    "recorded": ("Recorded", "waiting"),
}


def command_state(command: Command) -> str:
    """waiting (at a gate), refused, executed, or recorded (and not executed yet)."""
    if command.waiting_since is not None:
        return "waiting"
    if command.refused_at is not None:
        return "refused"
    return "executed" if command.executed_at is not None else "recorded"


def command_face(command: Command) -> tuple[str, str]:
    """Word and glyph of how it stands."""
    return _STATES[command_state(command)]


def command_since(command: Command) -> datetime:
    """Since when it stands so."""
    return command.waiting_since or command.refused_at or command.executed_at or command.at


def command_answers(
    *, state: str, why: str = "", question: Pending | None = None, opens: Sequence[Mover] = ()
) -> Answers:
    """The answers for every state of a command; `opens`: who opens the gates at which it waits. Raises
    KeyError for another."""
    if state == "waiting" and question:
        asked = question_answers(question)
        return Answers(
            waiting=asked.waiting,
            movers=(*asked.movers, *opens),
            otherwise="It waits and is asked about again; it goes on by itself when the gate opens.",
            deadline=asked.deadline,
        )
    return {
        "waiting": Answers(
            waiting="It waits for the gate in front of it to open.",
            movers=(*opens, Mover(who="The sweep", does="lets it go on when the gate is open")),
            otherwise="Nothing is done outside.",
        ),
        "refused": Answers(waiting=f"Nothing: it was refused. {why}".strip(), otherwise=NOBODY),
        "executed": Answers(
            waiting="Nothing: it was carried out once. What it made has a state of its own.",
            otherwise="The same command under the same key is answered with the recorded result.",
        ),
        "recorded": Answers(
            waiting="It waits to be carried out by whoever asked for it, in the same commit.",
            movers=(Mover(who="Whoever asked for it", does="asks again under the same key"),),
            otherwise="Nothing is done outside.",
        ),
    }[state]


def register() -> None:
    """Called when the application starts."""
    explainer_register(
        "command",
        Explainer(
            label="Command",
            model=Command,
            right="tasks_app.view_command",
            rows=lambda viewer: commands_of(viewer).defer(
                "payload", "seller__token", "seller__webhook_secret"
            ),
            answers=_answers,
            standing=_standing,
            title=lambda command: (
                f"{command.kind.replace('_', ' ').capitalize()} {command.seller or ''}".strip()
            ),
            link=page_link("tasks_app_command"),
        ),
    )


def _answers(command: Command) -> Answers:
    state = command_state(command)
    question = question_about([("command", command.pk)]) if state == "waiting" else None
    opens = gates_open(command) if state == "waiting" else ()
    return command_answers(state=state, why=command.refused_why, question=question, opens=opens)


def _standing(command: Command) -> Standing:
    state = command_state(command)
    word, glyph = _STATES[state]
    return Standing(
        status=state, word=word, glyph=glyph, since=command_since(command), team_id=command.team_id
    )
