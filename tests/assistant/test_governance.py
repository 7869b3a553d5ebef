"""Modes, rights, rates and violations: what no text and no model can get around."""

from __future__ import annotations

import pytest
from pydantic import Field

from orders.models import Deal
from tasks_app.assistant.errors import LOCKED, AssistantRefusedError
from tasks_app.assistant.governance import current_mode, set_mode
from tasks_app.assistant.models import AssistantToolCall, AssistantTurn
from tasks_app.assistant.services import ask
from tasks_app.assistant.tools import registry
from tasks_app.assistant.tools.registry import Arguments, Confirmed, Link, Tool, ToolAnswer, ToolRefusedError
from tasks_app.assistant.types import Channel, Mode, TaskState
from tasks_app.notifications.models import Notification
from tasks_app.people.roles import DECIDE, USE_ASSISTANT
from tests.assistant.fakes import ScriptedModel, calls, converse, text
from tests.factories import make_deal, make_team, make_user

pytestmark = pytest.mark.django_db


class Nothing(Arguments):
    number: int = Field(default=1, ge=1)


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch):
    """Offer a tool for one test."""
    monkeypatch.setattr(registry, "_tools", dict(registry._tools))

    def register(run, **fields) -> None:
        defaults = {"name": "probe", "description": "", "arguments": Nothing, "right": USE_ASSISTANT}
        registry.tool_register(Tool(**{**defaults, **fields}, run=run))

    return register


def probe(user, model=None) -> tuple[AssistantTurn, AssistantToolCall]:
    turn = converse(user, "How are we?", model=model or ScriptedModel(calls("probe"), text("Done.")))
    return turn, AssistantToolCall.objects.filter(turn=turn).latest("id")


def test_a_mode_is_set_by_an_administrator_with_a_reason_and_the_stricter_one_holds() -> None:
    admin = make_user("Administrator")
    session = ask(user=make_user("Buyer"), question="Hm?", channel=Channel.API).session
    assert current_mode(session.pk) == Mode.NORMAL
    set_mode(mode="read_only", reason="A trial", user=admin)
    set_mode(mode="normal", reason="Trusted", user=admin, session_id=session.pk)
    assert current_mode(session.pk) == Mode.READ_ONLY
    set_mode(mode="lockdown", reason="Odd answers", user=admin, session_id=session.pk)
    assert (current_mode(session.pk), current_mode(None)) == (Mode.LOCKDOWN, Mode.READ_ONLY)
    for wrong in ({"user": make_user("Buyer")}, {"reason": " "}, {"mode": "off"}):
        with pytest.raises(AssistantRefusedError):
            set_mode(**{"mode": "normal", "reason": "So", "user": admin, **wrong})


def test_lockdown_ends_open_turns_and_lets_nobody_ask(inline: None) -> None:
    user = make_user("Buyer")
    waiting = ask(user=user, question="Hm?", channel=Channel.API)
    set_mode(mode="lockdown", reason="An incident", user=make_user("Administrator"))
    waiting.refresh_from_db()
    assert (waiting.status, waiting.error) == (TaskState.FAILED, LOCKED)
    with pytest.raises(AssistantRefusedError):
        ask(user=user, question="Hm?", channel=Channel.API)


def test_read_only_offers_and_runs_no_tool_that_proposes(inline: None, offer) -> None:
    offer(lambda user, _: ToolAnswer(summary="Proposed"), confirm=lambda user, _: Confirmed())
    user = make_user("Buyer")
    set_mode(mode="read_only", reason="A trial", user=make_user("Administrator"))
    model = ScriptedModel(calls("probe"), text("Done."))
    _, call = probe(user, model)
    assert "probe" not in model.requests[0][2]
    assert (call.refused, call.error) == (True, "The assistant may only read at the moment.")


def test_a_tool_beyond_the_users_rights_is_not_offered_refused_and_the_mode_stays(
    inline: None, offer
) -> None:
    offer(lambda user, _: ToolAnswer(summary="Approved!"), right=DECIDE)
    model = ScriptedModel(calls("probe"), text("Done."))
    turn, call = probe(make_user("Buyer"), model)
    assert "probe" not in model.requests[0][2]
    assert call.refused
    assert call.result is None
    assert (turn.status, current_mode(turn.session_id)) == (TaskState.COMPLETED, Mode.NORMAL)


def test_a_tool_that_writes_locks_the_session_and_operators_are_told(inline: None, offer) -> None:
    deal = make_deal()

    def write(user, _) -> ToolAnswer:
        Deal.objects.filter(pk=deal.pk).update(differences=[])
        return ToolAnswer(summary="Written")

    offer(write)
    turn, call = probe(make_user("Buyer"))
    assert (turn.status, turn.error) == (TaskState.FAILED, LOCKED)
    assert current_mode(turn.session_id) == Mode.LOCKDOWN
    assert current_mode(None) == Mode.NORMAL, "other sessions go on"
    assert "tried to write" in call.error
    assert Notification.objects.filter(kind="assistant", level="alarm").count() == 1


def test_an_object_outside_the_users_scope_locks_the_session(inline: None, offer) -> None:
    deal = make_deal()
    link = Link(kind="deal", id=deal.pk, label=deal.reference, url="/")
    offer(lambda user, _: ToolAnswer(summary=deal.reference, links=[link]))
    turn, call = probe(make_user("Buyer", team=make_team("Elsewhere")))
    assert current_mode(turn.session_id) == Mode.LOCKDOWN
    assert deal.reference not in f"{turn.reply} {turn.messages} {call.result} {call.error}"


def test_a_tool_that_fails_is_reported_and_the_turn_goes_on_without_it(inline: None, offer) -> None:
    def fail(user, arguments) -> ToolAnswer:
        if arguments.number == 1:
            raise RuntimeError("password of the database")
        raise ToolRefusedError("There is no such deal.")

    offer(fail)
    user = make_user("Buyer")
    turn, call = probe(user)
    assert turn.reply == "Done."
    assert call.error.startswith("The data could not be read.")
    assert "password" not in f"{turn.messages}"
    _, call = probe(user, ScriptedModel(calls("probe", number=2), text("Done.")))
    assert (call.error, call.refused) == ("There is no such deal.", False)


def test_wrong_arguments_unknown_tools_and_too_many_calls_are_refused(inline: None, offer) -> None:
    offer(lambda user, _: ToolAnswer(summary="So"), per_minute=2)
    user = make_user("Buyer")
    _, call = probe(user, ScriptedModel(calls("probe", number="many", other=1), text("Done.")))
    assert call.refused
    assert "number" in call.error
    _, call = probe(user, ScriptedModel(calls("delete_everything"), text("Done.")))
    assert call.refused
    probe(user)
    _, call = probe(user)
    assert call.refused
    assert "within a minute" in call.error


def test_every_tool_is_described_and_refuses_unknown_arguments() -> None:
    for tool in registry.all_tools():
        spec = tool.spec()
        assert spec.description.endswith("."), spec.name
        assert spec.parameters["additionalProperties"] is False, spec.name
