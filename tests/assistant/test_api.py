"""The assistant over the REST API."""

from __future__ import annotations

import asyncio

import pytest
from rest_framework.test import APIClient

from tasks_app.approvals.models import Approval
from tasks_app.assistant.clients.builtin import BuiltInPlanner
from tasks_app.assistant.governance import current_mode
from tasks_app.assistant.models import AssistantProposal, AssistantTurn
from tasks_app.assistant.runner import answer_turn
from tasks_app.assistant.types import Mode
from tasks_app.desk.live import HEADER
from tests.api.conftest import client_of
from tests.assistant.fakes import converse
from tests.factories import make_user
from tests.orders.live import booked

pytestmark = pytest.mark.django_db
ROOT = "/api/v1/assistant"


def begin(client: APIClient) -> str:
    """Begin a conversation; return the address of its turns."""
    return f"{ROOT}/sessions/{client.post(f'{ROOT}/sessions/').json()['id']}/turns/"


def test_a_question_is_stored_followed_and_answered(inline: None) -> None:
    deal, client = booked(), client_of(make_user("Buyer"))
    turns = begin(client)
    about = {"kind": "deal", "id": str(deal.pk)}
    asked = client.post(turns, {"question": "What is this waiting for?", "opened": about}, format="json")
    assert asked.status_code == 202
    turn = f"{ROOT}/turns/{asked.json()['turn_id']}/"
    stream = client.get(f"{turn}events/")
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    assert b'"status": "init"' in stream.content
    assert HEADER in stream.headers, "the connection stays open"
    asyncio.run(answer_turn(AssistantTurn.objects.get(), BuiltInPlanner()))
    stream = client.get(f"{turn}events/")
    assert b'"status": "completed"' in stream.content
    assert b"event: end" in stream.content
    assert HEADER not in stream.headers
    answered = client.get(turn).json()
    assert deal.reference in answered["reply"]
    assert [link["id"] for link in answered["links"]] == [str(deal.pk)]
    assert answered["steps"][2]["tool"] == "explain_object"
    session = client.get(turns.replace("turns/", "")).json()
    assert (session["turns"], session["archived_at"]) == ([answered], None)
    assert client.get(f"{ROOT}/sessions/?archived=true").json()["results"] == []
    assert client.post(f"{turn}stop/").status_code == 409


def test_a_turn_is_stopped(inline: None) -> None:
    client = client_of(make_user("Buyer"))
    asked = client.post(begin(client), {"question": "Hm?"}, format="json").json()
    stopped = client.post(f"{ROOT}/turns/{asked['turn_id']}/stop/", {"reason": "Wrong one"}, format="json")
    assert (stopped.status_code, stopped.json()["status"]) == (200, "cancelled")


def test_proposals_are_confirmed_or_dismissed_once(inline: None) -> None:
    deal, buyer = booked(), make_user("Buyer")
    client = client_of(buyer)
    for act, status in (("dismiss", None), ("confirm", "open")):
        turn = converse(buyer, f"Pause {deal.reference}")
        proposal = f"{ROOT}/proposals/{AssistantProposal.objects.get(turn=turn).pk}/"
        assert client.get(proposal).json()["approval"] is None
        approval = client.post(f"{proposal}{act}/").json()["approval"]
        assert status == (Approval.objects.get(reference=approval).status if approval else None)
        assert client.post(f"{proposal}confirm/").status_code == 409


def test_another_persons_conversation_is_not_found(inline: None) -> None:
    deal, other = booked(), client_of(make_user("Buyer"))
    turn = converse(make_user("Buyer"), f"Pause {deal.reference}")
    proposal = AssistantProposal.objects.get(turn=turn)
    addresses = {
        f"sessions/{turn.session_id}/": "get",
        f"sessions/{turn.session_id}/turns/": "post",
        f"sessions/{turn.session_id}/restore/": "post",
        f"turns/{turn.pk}/": "get",
        f"turns/{turn.pk}/events/": "get",
        f"turns/{turn.pk}/stop/": "post",
        f"proposals/{proposal.pk}/": "get",
        f"proposals/{proposal.pk}/confirm/": "post",
    }
    answers = {
        address: getattr(other, method)(f"{ROOT}/{address}").status_code
        for address, method in addresses.items()
    }
    assert answers == dict.fromkeys(addresses, 404)
    assert other.get(f"{ROOT}/sessions/").json()["results"] == []


def test_bad_input_is_refused_and_stores_nothing() -> None:
    client = client_of(make_user("Buyer"))
    turns = begin(client)
    for wrong in (
        {},
        {"question": ""},
        {"question": "x" * 4001},
        {"question": "Hm?", "mode": "normal"},
        {"question": "Hm?", "opened": {"kind": "deal", "id": "12"}},
    ):
        assert client.post(turns, wrong, format="json").status_code == 400, wrong
    assert not AssistantTurn.objects.exists()
    answers = [client.post(turns, {"question": "Hm?"}, format="json").status_code for _ in range(6)]
    assert answers == [202] * 5 + [409]
    assert client_of(make_user("Integration")).get(f"{ROOT}/sessions/").status_code == 403


def test_modes_are_set_by_administrators() -> None:
    admin, buyer = client_of(make_user("Administrator")), client_of(make_user("Buyer"))
    wanted = {"mode": "read_only", "reason": "A trial"}
    assert buyer.post(f"{ROOT}/modes/", wanted, format="json").status_code == 403
    for wrong in ({"mode": "off"}, {"reason": ""}, {"session": "12"}):
        assert admin.post(f"{ROOT}/modes/", {**wanted, **wrong}, format="json").status_code == 400, wrong
    assert admin.post(f"{ROOT}/modes/", wanted, format="json").status_code == 201
    assert current_mode(None) == Mode.READ_ONLY
    assert [row["reason"] for row in admin.get(f"{ROOT}/modes/").json()] == ["A trial"]
