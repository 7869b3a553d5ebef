"""Asking the assistant, and stopping it."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.db.models import Max

from tasks_app import clock
from tasks_app.assistant.errors import (
    LOCKED,
    AssistantRefusedError,
    NotPermittedError,
    UnknownSessionError,
)
from tasks_app.assistant.governance import current_mode
from tasks_app.assistant.models import AssistantSession, AssistantTurn
from tasks_app.assistant.sessions import SessionManager
from tasks_app.assistant.types import Channel, Mode, TaskState
from tasks_app.desk.explain import NotExplainedError, explain_row
from tasks_app.lifecycle.transitions import create, transition
from tasks_app.people.actors import actor_ensure
from tasks_app.people.models import User
from tasks_app.people.roles import USE_ASSISTANT
from tasks_app.people.scope import scope_of
from tasks_app.storable import is_storable

LONGEST_QUESTION = 4000
MOST_WAITING = 5  # turns of one session
_TITLE = 80


@transaction.atomic
def ask(
    *,
    user: User,
    question: str,
    channel: Channel,
    session_id: uuid.UUID | None = None,
    opened: tuple[str, uuid.UUID] | None = None,
) -> AssistantTurn:
    """Store a question as a turn; the assistant's process answers it.

    Args:
        user: The person, whose rights hold.
        question: 1 to 4,000 characters.
        channel: Where the question comes from.
        session_id: The conversation that it continues; a new one if None. An archived one is restored.
        opened: Kind and id of the object on the person's page; ignored if the person may not see it.

    Raises:
        UnknownSessionError: There is no such conversation of this person.
        NotPermittedError: The person may not use the assistant.
        AssistantRefusedError: No question, a locked assistant, or too many turns that wait.
    """
    _check_user(user)
    text = question.strip()
    if not text or len(text) > LONGEST_QUESTION or not is_storable(text):
        raise AssistantRefusedError(f"Ask a question of 1 to {LONGEST_QUESTION:,} characters.")
    session = _session(user, channel, session_id)
    if current_mode(session.pk) == Mode.LOCKDOWN:
        raise AssistantRefusedError(f"{LOCKED}.")
    if session.turns.filter(ended_at__isnull=True).count() >= MOST_WAITING:
        raise AssistantRefusedError(f"{MOST_WAITING} questions wait in this conversation already.")
    number = (session.turns.aggregate(last=Max("number"))["last"] or 0) + 1
    turn = AssistantTurn(
        session=session,
        number=number,
        question=text,
        opened=_opened(user, opened),
        teams=_teams(user, session),
        trace_id=uuid.uuid4().hex,
    )
    create(turn, actor=actor_ensure(user=user), reason="Asked the assistant")
    title = session.title or " ".join(text.split())[:_TITLE]
    AssistantSession.objects.filter(pk=session.pk).update(
        title=title, last_active_at=clock.now(), archived_at=None
    )
    return turn


@transaction.atomic
def stop(*, user: User, turn_id: uuid.UUID, reason: str = "") -> AssistantTurn:
    """Stop a turn of the person's own. A result that comes later is recorded as stale.

    Raises:
        AssistantRefusedError: There is no such turn, or it has ended.
    """
    _check_user(user)
    turn = (
        AssistantTurn.objects.select_for_update(no_key=True, of=("self",))
        .filter(pk=turn_id, session__user=user)
        .first()
    )
    if turn is None:
        raise AssistantRefusedError("There is no such question of yours.")
    if turn.is_terminal:
        raise AssistantRefusedError("It has ended already.")
    transition(
        turn,
        TaskState.CANCELLED,
        actor=actor_ensure(user=user),
        reason=reason.strip() or "Stopped by the person who asked",
        changes={"ended_at": clock.now()},
        rights=(USE_ASSISTANT,),
    )
    AssistantTurn.objects.filter(pk=turn.pk).update(lease_holder=None, lease_until=None)
    return turn


def _check_user(user: User) -> None:
    if not user.is_active or user.is_service or not user.has_perm(USE_ASSISTANT):
        raise NotPermittedError("You have no right to use the assistant.")


def _session(user: User, channel: Channel, session_id: uuid.UUID | None) -> AssistantSession:
    """Return the session, locked, so that turns are numbered one after the other."""
    session_id = session_id or SessionManager(user).create_session(channel=channel)
    found = AssistantSession.objects.select_for_update(no_key=True).filter(pk=session_id, user=user).first()
    if found is None:
        raise UnknownSessionError("There is no such conversation of yours.")
    return found


def _teams(user: User, session: AssistantSession) -> list[str]:
    """Return the ids of the asker's teams, now and in the earlier turns that the answer may quote.

    A superuser sees every team's rows: the list is empty, and only superusers see the turn.
    """
    if user.is_superuser:
        return []
    scope = scope_of(user)
    earlier = {team for teams in session.turns.values_list("teams", flat=True) for team in teams}
    return sorted({*map(str, scope.whole | scope.limited), *earlier})


def _opened(user: User, opened: tuple[str, uuid.UUID] | None) -> dict[str, str] | None:
    """Return the open object as it is stored with the turn; None if the person may not see it."""
    if opened is None:
        return None
    kind, pk = opened
    try:
        explanation = explain_row(kind, pk, user)
    except NotExplainedError:
        return None
    return {"kind": kind, "id": str(pk), "reference": explanation.reference or explanation.title}
