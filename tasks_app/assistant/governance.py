"""Modes of the assistant, and the checks before every tool. All of it is synchronous.

No text can change a mode: only an administrator (`set_mode`) or a critical violation (`lock_session`) does.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.db import transaction
from pydantic import ValidationError

from tasks_app import clock
from tasks_app.assistant.errors import (
    LOCKED,
    AssistantRefusedError,
    NotPermittedError,
    UnknownSessionError,
)
from tasks_app.assistant.models import (
    AssistantMode,
    AssistantSession,
    AssistantToolCall,
    AssistantTurn,
)
from tasks_app.assistant.tools.registry import Effect, Tool, tool_named
from tasks_app.assistant.turns import fail_turn
from tasks_app.assistant.types import Mode, ToolCall
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import notify
from tasks_app.people.actors import SYSTEM, actor_ensure
from tasks_app.people.models import User
from tasks_app.people.roles import GOVERN_ASSISTANT, STEER_OPERATION

_STRICTNESS = [Mode.NORMAL, Mode.READ_ONLY, Mode.LOCKDOWN]
_MINUTE = timedelta(minutes=1)
LONGEST_REASON = 400
_MOST_SHOWN = 50


class ToolNotAllowedError(Exception):
    """Governance refuses the call. The text is a sentence for the user and the model; the mode stays."""


def current_mode(session_id: uuid.UUID | None) -> Mode:
    """Return the mode that holds: the stricter one of all sessions' and this session's."""
    return max((_newest(None), _newest(session_id)), key=_STRICTNESS.index)


def restricted_sessions() -> list[AssistantMode]:
    """Return the settings of single sessions that hold and are stricter than normal, newest first."""
    newest = (
        AssistantMode.objects.filter(session__isnull=False)
        .order_by("session_id", "-id")
        .distinct("session_id")
    )
    holding = AssistantMode.objects.filter(pk__in=newest.values("pk")).exclude(mode=Mode.NORMAL)
    return list(holding.select_related("session__user")[:_MOST_SHOWN])


@transaction.atomic
def set_mode(*, mode: str, reason: str, user: User, session_id: uuid.UUID | None = None) -> AssistantMode:
    """Set the mode of all sessions, or of one; lockdown ends open turns. Raise AssistantRefusedError."""
    if not user.is_active or not user.has_perm(GOVERN_ASSISTANT):
        raise NotPermittedError("You have no right to set the assistant's mode.")
    if mode not in _STRICTNESS:
        raise AssistantRefusedError(f"A mode is one of {', '.join(_STRICTNESS)}.")
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise AssistantRefusedError(f"Give a reason of at most {LONGEST_REASON} characters.")
    if session_id is not None and not AssistantSession.objects.filter(pk=session_id).exists():
        raise UnknownSessionError("There is no such conversation.")
    return _store_mode(mode, reason.strip(), actor_ensure(user=user).key, session_id)


@transaction.atomic
def lock_session(*, session_id: uuid.UUID, reason: str) -> None:
    """Lock one session after a critical violation, and tell operators."""
    session = AssistantSession.objects.get(pk=session_id)
    _store_mode(Mode.LOCKDOWN, reason, SYSTEM, session_id)
    notify(
        kind="assistant",
        title="The assistant broke a rule: one conversation is locked",
        body=f"{reason} The conversation belongs to {session.user}.",
        level=Notification.Level.ALARM,
        right=STEER_OPERATION,
    )


def check_call(call: ToolCall, *, user: User, session_id: uuid.UUID) -> tuple[Tool[Any], Any]:
    """Return the tool of a call and its validated arguments. Raise ToolNotAllowedError.

    Reads the mode, the user's rights and the rate at this moment, whatever was offered before.
    """
    mode, tool = current_mode(session_id), tool_named(call.name)
    if mode == Mode.LOCKDOWN:
        raise ToolNotAllowedError("The assistant is locked.")
    if tool is None:
        raise ToolNotAllowedError(f"There is no tool {call.name[:60]!r}.")
    if not user.is_active or not user.has_perm(tool.right):
        raise ToolNotAllowedError(f"{user} has no right to use {tool.name}.")
    if tool.effect == Effect.PROPOSE and mode != Mode.NORMAL:
        raise ToolNotAllowedError("The assistant may only read at the moment.")
    since = clock.now() - _MINUTE
    recent = AssistantToolCall.objects.filter(tool=tool.name, at__gte=since, turn__session__user=user)
    if recent.count() > tool.per_minute:
        raise ToolNotAllowedError(f"{tool.name} was used {tool.per_minute} times within a minute: wait.")
    try:
        return tool, tool.arguments.model_validate(dict(call.arguments))
    except ValidationError as error:
        raise ToolNotAllowedError(_problems(error)) from None


def _store_mode(mode: str, reason: str, actor: str, session_id: uuid.UUID | None) -> AssistantMode:
    row = AssistantMode.objects.create(
        session_id=session_id, mode=mode, reason=reason, set_by=actor, at=clock.now()
    )
    if mode == Mode.LOCKDOWN:
        _abort_turns(session_id)
    return row


def _abort_turns(session_id: uuid.UUID | None) -> None:
    """End open turns as failed. Their runs find that the lease is gone and stop."""
    turns = AssistantTurn.objects.filter(ended_at__isnull=True)
    if session_id is not None:
        turns = turns.filter(session=session_id)
    for turn in turns.order_by("pk").select_for_update(no_key=True):
        fail_turn(turn, LOCKED)


def _newest(session_id: uuid.UUID | None) -> Mode:
    row = AssistantMode.objects.filter(session=session_id).order_by("-id").first()
    return Mode(row.mode) if row else Mode.NORMAL


def _problems(error: ValidationError) -> str:
    problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5]]
    return "The arguments are wrong. " + "; ".join(problems)
