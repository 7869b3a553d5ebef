"""What waits for credentials goes on when a person renews them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tasks_app import clock
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.models import User
from tasks_app.sellers.services import SellerChange, seller_change
from tests.adcp.raw_server import serve
from tests.factories import make_user
from tests.operations.making import answer as told
from tests.operations.making import ask, fresh, see, stand
from tests.operations.pausing import SECRET_TASK, answering, done, paused, paused_purchase
from tests.operations.sweeping import sweep

pytestmark = pytest.mark.django_db


@pytest.fixture
def ops() -> User:
    return make_user("Ad Ops")


def test_new_credentials_answer_a_pause_that_asked_for_them(ops: User) -> None:
    with serve(answering(paused("Log in.", state="AUTH_REQUIRED"), done())) as server:
        operation = paused_purchase(server, token="old")
        assert operation.status == S.AUTH_REQUIRED
        _renew(operation, ops)
        sweep()

        first, second = [r for r in server.requests if r.rpc_method == "SendMessage"]
        assert second.json["params"]["message"]["taskId"] == SECRET_TASK
        assert (first.headers["authorization"], second.headers["authorization"]) == (
            "Bearer old",
            "Bearer new-token",
        )
    assert fresh(operation).status == S.COMPLETED


def test_new_credentials_make_a_task_due_to_be_looked_at(ops: User) -> None:
    operation = stand(S.AUTH_REQUIRED, next_poll_at=clock.now() + timedelta(hours=1))
    _renew(operation, ops)
    due = fresh(operation).next_poll_at
    assert due is not None
    assert due <= clock.now()


def test_new_credentials_send_a_refused_call_again_at_once(ops: User) -> None:
    operation = ask()
    claim_one(operation_id=operation.pk)
    see(operation, told("auth-required"))
    later = fresh(operation).send_at
    _renew(operation, ops)
    due = fresh(operation).send_at
    assert later is not None
    assert due is not None
    assert due <= clock.now() < later


def _renew(operation: Operation, user: User) -> None:
    seller = operation.seller
    names = ("name", "slots", "active", "jwks_url", "allow_private")
    change = SellerChange(**{name: getattr(seller, name) for name in names}, token="new-token")
    assert seller_change(seller=seller, change=change, actor=user) == ["token"]
