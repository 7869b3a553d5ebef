"""Sessions: a person's own, listed, archived after a day, restored."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tasks_app.assistant.errors import AssistantRefusedError
from tasks_app.assistant.governance import current_mode
from tasks_app.assistant.services import ask
from tasks_app.assistant.sessions import SessionManager, archive_idle_sessions
from tasks_app.assistant.types import Channel, Mode
from tests.clocks import Clock
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def test_a_stricter_mode_from_the_start_needs_the_right_to_govern() -> None:
    pk = SessionManager(make_user("Administrator")).create_session(mode=Mode.READ_ONLY)
    assert current_mode(pk) == Mode.READ_ONLY
    with pytest.raises(AssistantRefusedError):
        SessionManager(make_user("Buyer")).create_session(mode=Mode.READ_ONLY)


def test_idle_sessions_are_archived_after_a_day_and_can_be_restored(still: Clock) -> None:
    user = make_user("Buyer")
    manager = SessionManager(user)
    idle, answered = manager.create_session(), ask(user=user, question="Hm?", channel=Channel.API).session_id
    still.now += timedelta(hours=25)
    fresh = manager.create_session()
    assert archive_idle_sessions() == 1, "one waits for an answer"
    assert {one.pk for one in manager.list_active_sessions()} == {answered, fresh}
    assert [one.pk for one in manager.list_archived_sessions()] == [idle]
    manager.restore_session(idle)
    assert archive_idle_sessions() == 0
    assert len(manager.list_active_sessions()) == 3
    still.now += timedelta(hours=25)
    archive_idle_sessions()
    ask(user=user, question="Still there?", channel=Channel.API, session_id=idle)
    assert idle in {one.pk for one in manager.list_active_sessions()}, "a question restores it"
