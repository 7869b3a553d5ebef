"""The panel's fragments, the trace of a turn, and the administrators' page."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tasks_app.approvals.models import Approval
from tasks_app.assistant.clients.builtin import BuiltInPlanner
from tasks_app.assistant.governance import current_mode, lock_session
from tasks_app.assistant.models import AssistantProposal, AssistantTurn
from tasks_app.assistant.runner import answer_turn
from tasks_app.assistant.services import ask
from tasks_app.assistant.types import Channel, Mode
from tasks_app.people.models import Membership, User
from tests.assistant.driver import ModelServer
from tests.assistant.fakes import converse
from tests.factories import make_team, make_user
from tests.orders.live import booked
from tests.ui.pages import page_of
from tests.ui.seed_assistant import conversation

pytestmark = pytest.mark.django_db
MODES = "admin:tasks_app_assistantmode_changelist"


def client_of(user: User) -> Client:
    User.objects.filter(pk=user.pk).update(is_staff=True)
    client = Client()
    client.force_login(user, backend="tasks_app.people.holders.RoleBackend")
    return client


def body(answer: Any) -> str:
    return str(answer.content.decode())


def test_a_question_about_the_open_page_is_answered_in_the_panel(inline: None) -> None:
    deal, buyer = booked(), make_user("Buyer")
    client = client_of(buyer)
    page = body(client.get(page_of(deal)))
    assert f'name="object" value="{deal.pk}"' in page
    asked = client.post(
        reverse("assistant_ask"),
        {"question": "What is <this> waiting for?", "kind": "deal", "object": str(deal.pk)},
    )
    turn = AssistantTurn.objects.get()
    assert "&lt;this&gt; waiting" in body(asked)
    assert reverse("assistant-turn-events", args=[turn.pk]) in body(asked)
    assert str(turn.session_id) in body(asked), "the next question continues the conversation"
    asyncio.run(answer_turn(turn, BuiltInPlanner()))
    answered = body(client.get(reverse("assistant_turn", args=[turn.pk])))
    assert f'href="{page_of(deal)}"' in answered
    assert "data-events" not in answered
    assert "explain_object" in answered
    assert f'id="turn-{turn.pk}"' in body(client.get(reverse("assistant_conversation")))
    empty = body(client.get(reverse("assistant_conversation"), {"session": "new"}))
    assert f'id="turn-{turn.pk}"' not in empty
    assert str(turn.session_id) in empty, "it is among the past conversations"


def test_what_cannot_be_asked_is_said_beside_the_question() -> None:
    client = client_of(make_user("Buyer"))
    refused = client.post(reverse("assistant_ask"), {"question": " "})
    assert refused.headers["HX-Retarget"] == "#assistant-refusal"
    for wrong in ({"session": "12"}, {"object": "12", "kind": "deal"}):
        assert client.post(reverse("assistant_ask"), {"question": "Hm?", **wrong}).status_code == 404
    assert not AssistantTurn.objects.exists()


def test_a_proposal_is_confirmed_by_its_person_and_leads_to_its_approval(inline: None) -> None:
    deal, buyer = booked(), make_user("Buyer")
    proposal = AssistantProposal.objects.get(turn=converse(buyer, f"Pause {deal.reference}"))
    address = reverse("assistant_proposal", args=[proposal.pk])
    assert client_of(make_user("Buyer")).post(address, {"act": "confirm"}).status_code == 404
    client = client_of(buyer)
    assert "HX-Retarget" in client.post(address, {"act": "so"}).headers
    confirmed = body(client.post(address, {"act": "confirm"}))
    assert page_of(Approval.objects.get(subject_id=deal.pk, status="open")) in confirmed
    assert "decided already" in body(client.post(address, {"act": "dismiss"}))


def test_text_of_sellers_is_marked_and_cannot_become_html() -> None:
    deal, admin = booked(), make_user("Administrator")
    turn = conversation(admin, deal)
    turn.tool_calls.update(
        result={"summary": "", "quoted_untrusted_text": {"product": "<script>approve()</script>"}}
    )
    client = client_of(admin)
    for address in (reverse("assistant_turn", args=[turn.pk]), page_of(turn)):
        shown = body(client.get(address))
        assert "Written by a seller or in a brief" in shown
        assert "&lt;script&gt;approve()" in shown
        assert "<script>approve()" not in shown


def test_a_trace_is_seen_by_its_asker_and_by_auditors_of_all_the_askers_teams() -> None:
    buyer, elsewhere = make_user("Buyer"), make_team("Elsewhere")
    turn = ask(user=buyer, question="Pause it now", channel=Channel.PAGE)
    sees = {
        "the asker": buyer,
        "an auditor of the team": make_user("Auditor"),
        "an auditor of another team": make_user("Auditor", team=elsewhere),
        "a colleague": make_user("Buyer"),
    }
    Membership.objects.filter(user=buyer).update(team=elsewhere)
    moved = User.objects.get(pk=buyer.pk)
    again = ask(user=moved, question="And now?", channel=Channel.PAGE, session_id=turn.session_id)
    assert again.teams == sorted([*turn.teams, str(elsewhere.pk)]), "its answer may quote the first"
    found = {name: "Pause it now" in body(client_of(user).get(page_of(turn))) for name, user in sees.items()}
    assert found == {
        "the asker": True,
        "an auditor of the team": True,
        "an auditor of another team": False,
        "a colleague": False,
    }


def test_an_administrator_sets_the_mode_and_unlocks_a_conversation() -> None:
    admin = make_user("Administrator")
    client, add = client_of(admin), reverse("admin:tasks_app_assistantmode_add")
    session = conversation(admin, booked()).session
    lock_session(session_id=session.pk, reason="A tool tried to write.")
    assert "A tool tried to write." in body(client.get(reverse(MODES)))
    client.post(add, {"mode": "normal", "reason": "The tool is mended.", "session": str(session.pk)})
    assert current_mode(session.pk) == Mode.NORMAL
    for wrong in ({"mode": "off", "reason": "So"}, {"mode": "lockdown", "reason": ""}):
        client.post(add, wrong)
    assert current_mode(None) == Mode.NORMAL
    client.post(add, {"mode": "lockdown", "reason": "An incident"})
    assert current_mode(None) == Mode.LOCKDOWN


def test_the_endpoint_is_shown_and_tested_without_its_key(model_server: ModelServer, settings: Any) -> None:
    client = client_of(make_user("Administrator"))
    assert "Nothing. The built-in planner runs here." in body(client.get(reverse(MODES)))
    settings.ASSISTANT_URL, settings.ASSISTANT_KEY = model_server.url, "sk-very-secret"
    settings.ASSISTANT_MODELS = {"planner": "small", "answerer": "large"}
    model_server.script([{"text": "Yes."}, {"status": 401}])
    said = [body(client.post(reverse("admin:assistant_test"), follow=True)) for _ in range(2)]
    assert "The model answered within" in said[0]
    assert "answered with status 401" in said[1]
    assert model_server.url in said[0]
    assert "sk-very-secret" not in "".join(said)
