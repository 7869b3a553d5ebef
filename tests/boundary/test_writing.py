"""Writing to a seller from an operation, and answers to sellers: commands like any other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tasks_app.commands.models import Command, OutgoingMessage
from tasks_app.commands.questions import gates_ask_again
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import answer_waits, continuation_current
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import RawServer, serve
from tests.boundary.conftest import answered, stopped
from tests.factories import make_user
from tests.operations.making import fresh, stand
from tests.operations.pausing import answering, done, messages, paused_purchase, release
from tests.operations.pausing import paused as pause
from tests.operations.sweeping import sweep
from tests.ui.pages import page_of

pytestmark = pytest.mark.django_db
LETTER = {"subject": "What became of OP-1?", "body": "Please tell us."}


def waiting(**seller: Any) -> Operation:
    operation = stand(S.SUBMITTED)
    Seller.objects.filter(pk=operation.seller_id).update(contact_email="desk@norrland.example", **seller)
    return operation


class TestWriting:
    """By API and page; once for the same words of a day."""

    def write(self, operation: Operation, role: str = "Ad Ops", **said: str) -> Any:
        client = APIClient()
        client.force_authenticate(make_user(role))
        return client.post(f"/api/v1/operations/{operation.pk}/write/", {**LETTER, **said}, format="json")

    def test_it_is_a_command_and_kept_beside_what_was_seen(self) -> None:
        operation = waiting()
        assert self.write(operation).status_code == 200
        assert self.write(operation).status_code == 200
        command = Command.objects.get()
        assert (command.kind, command.adapter, command.replays) == ("message_send", "mail", 1)
        assert OutgoingMessage.objects.get().to == "desk@norrland.example"
        assert operation.observations.filter(raw_status__startswith="wrote to").count() == 1

    def test_it_needs_a_right_and_an_address(self) -> None:
        operation = waiting()
        assert self.write(operation, "Buyer").status_code == 403
        Seller.objects.update(contact_email="")
        assert self.write(operation).status_code == 409
        assert not Command.objects.exists()

    def test_the_page_offers_the_letter_and_sends_it(self) -> None:
        operation, user = waiting(), make_user("Ad Ops")
        User.objects.filter(pk=user.pk).update(is_staff=True)
        client = Client()
        client.force_login(User.objects.get(pk=user.pk))
        assert "What became of create_media_buy" in client.get(page_of(operation)).content.decode()
        client.post(page_of(operation), {"act": "write", "sure": "on", **LETTER})
        assert OutgoingMessage.objects.get().body == "Please tell us."


class TestAnswers:
    """An answer to a seller's question is a command of its own."""

    @pytest.fixture
    def held(self) -> Iterator[tuple[RawServer, Operation]]:
        """A purchase that its seller paused; its answer was released by people, and is held at the gate."""
        with serve(answering(pause(), done())) as server:
            operation = paused_purchase(server)
            stopped()
            operation_answer(
                operation_id=operation.pk, generation=1, user=make_user("Ad Ops"), text="Sweden."
            )
            release()
            assert not answer_waits(operation)
            sweep()
            assert len(messages(server)) == 1, "the purchase alone"
            yield server, operation

    def test_it_waits_at_the_kill_switch_and_goes_when_it_is_off(
        self, held: tuple[RawServer, Operation]
    ) -> None:
        server, operation = held
        assert Command.objects.get(kind="answer_send").waiting_since is not None
        stopped(on=False)
        gates_ask_again()
        sweep()
        assert [part.get("text") for part in messages(server)[1]["parts"] if "text" in part] == ["Sweden."]
        assert fresh(operation).status == S.COMPLETED

    def test_one_that_is_refused_at_the_gate_may_be_given_anew(
        self, held: tuple[RawServer, Operation]
    ) -> None:
        server, operation = held
        answered("reject")
        stopped(on=False)
        current = continuation_current(operation)
        assert current is not None
        assert (current.answered_at, current.is_usable) == (None, True)
        operation_answer(operation_id=operation.pk, generation=1, user=make_user("Ad Ops"), text="Norway.")
        release()
        sweep()
        assert [part.get("text") for part in messages(server)[1]["parts"] if "text" in part] == ["Norway."]
