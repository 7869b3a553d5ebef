"""The monitor and the page of one operation: who is waited for, what happens next, never a secret."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from tasks_app import clock
from tasks_app.operations import admin as operations_admin
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.models import SETTLED, Operation
from tasks_app.sellers.models import Seller
from tests.ui.pages import STAFF, ClientOf, list_of, page_of, read, stranger
from tests.ui.seed import Agency

MONITOR = list_of(Operation)
HOUR = timedelta(hours=1)


def purchase(agency: Agency, deal: str) -> Operation:
    return Operation.objects.get(subject_id=agency.deals[deal].pk, task_type="create_media_buy")


@pytest.mark.parametrize("role", STAFF)
def test_monitor_and_pages_render_for_every_role_with_few_queries(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any, role: str
) -> None:
    client = client_of(role)
    views = [MONITOR, *(f"{MONITOR}?view={v}" for v in ("person", "overdue", "settled"))]
    for address in (*views, *(page_of(o) for o in Operation.objects.all()[:6])):
        with django_assert_max_num_queries(25):
            assert client.get(address).status_code == 200, address


def test_another_team_sees_nothing(agency: Agency) -> None:
    client = stranger()
    assert "OP-2026" not in read(client, MONITOR)
    assert client.get(page_of(purchase(agency, "lindqvist-cobalt"))).status_code in (302, 404)


def test_the_monitor_says_what_is_waited_for_and_how_long(agency: Agency, client_of: ClientOf) -> None:
    page = read(client_of("Ad Ops"), MONITOR)
    assert "2 open with 2 sellers" in page
    # The seeded days end a moment ago, however long that moment is.
    row = r"Lindqvist Cold Brew Cobalt Bay TV Submitted 19 h [1-5]\d m of 24 h Webhook, or poll"
    assert re.search(row, page)
    assert "Quill Audio Input required" in page
    assert "reply, submitted," in page


def test_an_overdue_one_stands_first_with_what_can_be_done(agency: Agency, client_of: ClientOf) -> None:
    operation = purchase(agency, "lindqvist-quill")
    _overdue(operation)
    page = read(client_of("Approver"), MONITOR)
    assert page.index(operation.reference) < page.index(purchase(agency, "lindqvist-cobalt").reference)
    assert f"{operation.reference} is overdue: what can be done" in page
    assert "Stop waiting" in page
    assert "Keep waiting" in page
    assert "of 24 h" in page


def test_poll_now_makes_it_due_for_those_who_may(agency: Agency, client_of: ClientOf) -> None:
    operation = purchase(agency, "lindqvist-cobalt")
    later = clock.now() + HOUR
    Operation.objects.filter(pk=operation.pk).update(next_poll_at=later)
    answer = client_of("Ad Ops").post(page_of(operation))
    assert answer.status_code == 302
    operation.refresh_from_db()
    assert operation.next_poll_at is not None
    assert operation.next_poll_at <= clock.now()


@pytest.mark.parametrize("role", [role for role in STAFF if role not in ("Ad Ops", "Administrator")])
def test_poll_now_is_refused_to_others_and_changes_nothing(
    agency: Agency, client_of: ClientOf, role: str
) -> None:
    operation = purchase(agency, "lindqvist-cobalt")
    later = clock.now() + HOUR
    Operation.objects.filter(pk=operation.pk).update(next_poll_at=later)
    client = client_of(role)
    assert "Poll now" not in read(client, page_of(operation))
    assert client.post(page_of(operation)).status_code == 403
    operation.refresh_from_db()
    assert operation.next_poll_at == later


def test_poll_now_needs_the_forms_token(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Ad Ops", enforce_csrf_checks=True)
    assert client.post(page_of(purchase(agency, "lindqvist-cobalt"))).status_code == 403


def test_poll_now_of_a_settled_one_says_so(agency: Agency, client_of: ClientOf) -> None:
    operation = purchase(agency, "lindqvist-norrland")
    answer = client_of("Ad Ops").post(page_of(operation), {"back": "monitor"}, follow=True)
    assert "there is nothing to poll" in answer.content.decode()


def test_no_page_shows_a_secret(agency: Agency, client_of: ClientOf) -> None:
    Seller.objects.update(token="seller-token-5f1c", webhook_secret="hook-secret-9a7b")
    client: Client = client_of("Administrator")
    for operation in Operation.objects.select_related("seller"):
        body = client.get(page_of(operation)).content.decode()
        secrets = (operation.webhook_token, "seller-token-5f1c", "hook-secret-9a7b")
        assert not [secret for secret in secrets if secret and secret in body]
    body = client.get(f"{MONITOR}?view=settled").content.decode()
    assert "seller-token-5f1c" not in body


def test_the_page_names_every_identity_and_shows_what_was_asked(agency: Agency, client_of: ClientOf) -> None:
    operation = purchase(agency, "lindqvist-cobalt")
    page = read(client_of("Auditor"), page_of(operation))
    for identity in (operation.pk, operation.idempotency_key, operation.task_id, operation.purpose):
        assert str(identity) in page
    assert '"budget": 164000' in page
    assert "With the sales desk of Cobalt Bay TV." in page
    assert "Hashes 1 to 3 verified just now" in page


def test_pages_show_each_settled_one_once_and_end(
    agency: Agency, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations_admin, "_PAGE", 2)
    client, shown, address = client_of("Buyer"), [], "?view=settled"
    while address:
        data = client.get(f"{MONITOR}{address}").context_data
        shown += [row.operation for row in data["rows"]]
        assert len(data["rows"]) <= 2
        address = data["more"]
    settled = Operation.objects.filter(status__in=SETTLED)
    assert (len(shown), set(shown)) == (settled.count(), set(settled))
    assert settled.count() > 4, "three pages at least"


@pytest.mark.parametrize("number", ["", "0", "-3", "x", "1.5", "%00", "9" * 30, "2", "100", "999"])
def test_a_page_number_from_outside_is_the_first_page_or_one_that_is_there(
    agency: Agency, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    """What is no number is none; what is too large is the last that is ever shown, empty here."""
    monkeypatch.setattr(operations_admin, "_PAGE", 2)
    client, lists = client_of("Buyer"), f"{MONITOR}?view=settled"
    first, second, asked = (
        [row.operation for row in client.get(address).context_data["rows"]]
        for address in (lists, f"{lists}&page=2", f"{lists}&page={number}")
    )
    assert len(first) == len(second) == 2
    assert asked == {"2": second, "100": [], "999": []}.get(number, first)


def test_filters_narrow_by_seller_and_task(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Buyer")
    page = read(client, f"{MONITOR}?seller=quill")
    assert purchase(agency, "lindqvist-quill").reference in page
    assert purchase(agency, "lindqvist-cobalt").reference not in page
    for nothing in ("task=get_signals", "task=%00", "seller=%27%3B--"):
        assert "Nothing is out with sellers" in read(client, f"{MONITOR}?{nothing}")


def _overdue(operation: Operation) -> None:
    Operation.objects.filter(pk=operation.pk).update(deadline_at=clock.now() - HOUR)
    assert time_out_due(limit=10) == 1
