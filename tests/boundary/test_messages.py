"""Messages to sellers: commanded in a transaction, sent once by the bus."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.commands.messages import Message, MessageRefusedError, message_send
from tasks_app.commands.models import Command, OutgoingMessage
from tasks_app.commands.questions import gates_ask_again
from tasks_app.commands.services import IdempotencyKeyConflictError
from tests.boundary.conftest import answered, stopped
from tests.database import Database
from tests.events.parts import relay
from tests.factories import make_team
from tests.notifications.post_office import PostOffice, mailing

LETTER = Message(to="desk@norrland.example", subject="What became of\nOP-1?", body="Please tell us.")


@pytest.fixture
def office(committed_db: Database, settings: Any) -> Iterator[PostOffice]:
    """A database that commits, and a mail server of our own."""
    with mailing(settings) as server:
        yield server


def send(key: str = "letter:1", message: Message = LETTER) -> Command:
    return message_send(key=key, message=message, actor="system", team=make_team())


def test_a_message_is_sent_once_however_often_it_is_asked_for(office: PostOffice) -> None:
    send()
    send()
    relay()
    relay()
    assert office.recipients == ["desk@norrland.example"]
    sent = office.taken[0][1]
    assert sent["Subject"] == "What became of OP-1?"
    assert "Please tell us." in str(sent.get_payload())
    assert OutgoingMessage.objects.get().sent_at is not None
    with pytest.raises(IdempotencyKeyConflictError):
        send(message=Message(to=LETTER.to, subject="Else", body="Else"))


def test_the_kill_switch_holds_it_back(office: PostOffice) -> None:
    stopped()
    send()
    relay()
    assert office.recipients == []
    stopped(on=False)
    gates_ask_again()
    relay()
    assert office.recipients == ["desk@norrland.example"]


def test_the_kill_switch_holds_back_what_was_commanded_before_and_has_not_left(office: PostOffice) -> None:
    send()
    stopped()
    relay()
    assert office.recipients == []
    stopped(on=False)
    relay()
    relay()
    assert office.recipients == ["desk@norrland.example"]


def test_what_people_let_pass_while_it_is_on_leaves(office: PostOffice) -> None:
    stopped()
    send()
    while Approval.objects.filter(kind="kill_switch", status="open").exists():
        answered("approve")
    relay()
    assert office.recipients == ["desk@norrland.example"]


def test_a_later_turn_of_its_teams_own_switch_holds_what_people_let_pass(office: PostOffice) -> None:
    stopped()
    send()
    while Approval.objects.filter(kind="kill_switch", status="open").exists():
        answered("approve")
    stopped(team=make_team())
    relay()
    assert office.recipients == []
    stopped(team=make_team(), on=False)
    relay()
    assert len(office.recipients) == 1


def test_the_latest_turn_holds_it_whatever_the_hosts_clocks_say(office: PostOffice) -> None:
    """It was commanded on a host whose clock is ahead."""
    ahead = clock.now() + timedelta(seconds=5)
    with clock.injected(lambda: ahead):
        send()
    stopped()
    relay()
    assert office.recipients == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value"),
    [("to", ""), ("to", "nobody"), ("to", "a@b.example\nBcc: c@d.example"), ("subject", " "), ("body", "")],
)
def test_what_cannot_be_sent_is_refused_and_nothing_is_kept(field: str, value: str) -> None:
    with pytest.raises(MessageRefusedError):
        send(message=Message(**{**vars(LETTER), field: value}))
    assert not Command.objects.exists()
