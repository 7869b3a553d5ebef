"""A seller that refuses in plain words is not sent the same again, and people read its words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.adcp.envelopes import seen_mcp
from tasks_app.notifications.models import Notification
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.publish import publish
from tasks_app.operations.resend import resend_is_safe
from tests.factories import make_seller
from tests.operations.making import ask, fresh, see, silent

pytestmark = pytest.mark.django_db


def refused(text: str) -> Any:
    return seen_mcp({"isError": True, "content": [{"type": "text", "text": text}]})


def out(task: str = "create_media_buy") -> Operation:
    operation = ask(task)
    claim_one(operation_id=operation.pk)
    return operation


def test_a_purchase_refused_for_its_arguments_ends_and_people_read_why() -> None:
    operation = out()
    see(operation, refused("Input validation error: 'brand' is a required property"))
    ended = fresh(operation)
    assert (ended.status, ended.send_at) == (S.FAILED, None)
    publish(operation_id=operation.pk)
    told = Notification.objects.get(kind="correction_wanted")
    assert "'brand' is a required property" in told.body


@pytest.mark.usefixtures("still")
def test_a_purchase_refused_for_credentials_waits_for_others() -> None:
    operation = out()
    see(operation, refused("Authentication required: provide x-adcp-auth header"))
    waits = fresh(operation)
    assert waits.status == S.AUTH_REQUIRED
    assert waits.message == "Authentication required: provide x-adcp-auth header"
    assert waits.send_at is not None
    assert waits.send_at > clock.now() + timedelta(seconds=30), "not every few seconds"


@pytest.mark.parametrize("text", ["Invalid token", "Invalid arguments for tool get_products: account"])
def test_a_read_ends_with_the_sellers_words(text: str) -> None:
    operation = out("get_products")
    see(operation, refused(text))
    ended = fresh(operation)
    assert (ended.status, ended.send_at) == (S.FAILED, None)
    publish(operation_id=operation.pk)
    assert text in Notification.objects.get(kind="correction_wanted").body


@pytest.mark.parametrize(
    "text",
    [
        "order 123 created; line item failed: 403 PERMISSION DENIED by ad server",
        "order 9001 saved, then: 1 validation error for LineItemRequest",
    ],
)
def test_words_about_a_purchase_that_is_half_made_neither_end_it_nor_let_it_be_made_again(text: str) -> None:
    """The seller recognises no key: the same bytes would buy twice."""
    make_seller(idempotency_ttl_s=None, idempotency_risk_accepted_by="admin")
    operation = out()
    see(operation, refused(text))
    left = fresh(operation)
    assert (left.status, left.settled_at) == (S.CALLING_ADCP, None)
    assert not resend_is_safe(left)


def test_what_may_have_been_bought_before_is_a_persons() -> None:
    """The first call went unanswered: words about the second say nothing of the first."""
    operation = out()
    see(operation, silent())
    Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
    claim_one(operation_id=operation.pk)
    see(operation, refused("Input validation error: 'brand' is a required property"))
    left = fresh(operation)
    assert (left.status, left.send_at) == (S.CALLING_ADCP, None)
    assert left.deadline_at is not None
    assert left.deadline_at <= clock.now()
