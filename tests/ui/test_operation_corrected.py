"""The operation's page where its seller refused it and says that it can be corrected."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from tasks_app.lifecycle.names import link_to
from tasks_app.operations.models import Operation
from tests.factories import make_user
from tests.orders.refusing import corrected, refused

pytestmark = pytest.mark.django_db


def _signed_in(role: str) -> Client:
    client = Client()
    backend = "tasks_app.people.holders.RoleBackend"
    client.force_login(make_user(role, is_staff=True), backend=backend)
    return client


def test_the_page_shows_what_the_seller_said_and_takes_the_correction() -> None:
    _, operation = refused()
    client = _signed_in("Ad Ops")
    address = link_to(Operation, operation.pk)
    page = client.get(address).content.decode()
    assert "Raise it to 12,000." in page
    assert "Correct and ask anew" in page
    form = {"act": "correct", "reason": "As they say", "sure": "on"}
    refusal = client.post(address, {**form, "arguments": "{]"})
    assert refusal.status_code == 409
    assert "{]" in refusal.content.decode(), "what was written is kept"
    done = client.post(address, {**form, "arguments": json.dumps(corrected(operation))})
    assert done.status_code == 302
    new = Operation.objects.latest("id")
    assert new.reference in client.get(address).content.decode()
    reader = _signed_in("Finance")
    assert "Correct and ask anew" not in reader.get(address).content.decode()
    assert reader.post(address, {**form, "arguments": "{}"}).status_code == 403
