"""Deliveries in the admin: what gave up, for whom it is to see, and the button that tries it again."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from orders.models import Deal
from tasks_app.events.models import EventDelivery
from tests.events.parts import Recorder, move, quoted, relay
from tests.factories import make_team, make_user
from tests.ui.pages import list_of, page_of, read

LIST = list_of(EventDelivery)
MAY_SEE = ("Ad Ops", "Auditor", "Administrator")
MAY_RETRY = ("Ad Ops", "Administrator")


def client_of(role: str, *, team: str = "", **options: bool) -> Client:
    user = make_user(role, team=make_team(team) if team else None)
    user.is_staff = True
    user.save()
    client = Client(**options)  # type: ignore[arg-type]
    client.force_login(user, backend="tasks_app.people.holders.RoleBackend")
    return client


@pytest.fixture
def deal(db: None, recorder: Recorder, settings: Any) -> Deal:
    """A deal whose first event gave up and whose two later ones wait; another's is retried."""
    made, other = quoted(), quoted("Other")
    move(made, 2)
    recorder.fails = lambda event: event.entity_type == "deal"
    settings.EVENT_ATTEMPTS = 1
    relay()
    EventDelivery.objects.filter(entity_id=other.pk).delete()
    settings.EVENT_ATTEMPTS = 12
    move(other)
    relay()
    return made


@pytest.mark.parametrize("role", MAY_SEE)
def test_list_and_page_say_what_gave_up_and_why(
    deal: Deal, role: str, django_assert_max_num_queries: Any
) -> None:
    client = client_of(role)
    with django_assert_max_num_queries(25):
        page = read(client, LIST)
    assert "Deliveries that gave up" in page
    assert "deal.quoted, 1" in page
    assert "Gave up" in page
    assert "ConnectionError: the other side is away" in page
    assert "deal.negotiating, 2" not in page
    assert "deal.negotiating, 2" in read(client, f"{LIST}?view=behind")
    assert "deal.negotiating, 2" in read(client, f"{LIST}?view=retrying")
    gave_up = EventDelivery.objects.get(gave_up_at__isnull=False)
    with django_assert_max_num_queries(25):
        page = read(client, page_of(gave_up))
    assert "deal.quoted to recorder Gave up" in page
    assert "2 later events of the same entity wait behind it" in page
    assert deal.reference in page
    assert ("Retry" in page) is (role in MAY_RETRY)


@pytest.mark.parametrize("role", MAY_RETRY)
def test_retry_tries_it_again_and_the_rest_follows(deal: Deal, recorder: Recorder, role: str) -> None:
    gave_up = EventDelivery.objects.get(gave_up_at__isnull=False)
    recorder.fails = lambda _event: False
    answer = client_of(role).post(page_of(gave_up), follow=True)
    assert "is tried again now" in answer.content.decode()
    relay()
    assert recorder.seqs(deal.pk) == [1, 2, 3]


@pytest.mark.parametrize("role", ["Auditor", "Buyer", "Approver", "Finance"])
def test_retry_is_refused_to_others_and_changes_nothing(deal: Deal, role: str) -> None:
    gave_up = EventDelivery.objects.filter(gave_up_at__isnull=False)
    before = gave_up.values().get()
    assert client_of(role).post(page_of(gave_up.get())).status_code == 403
    assert gave_up.values().get() == before


def test_retry_needs_the_forms_token_and_a_post(deal: Deal) -> None:
    gave_up = EventDelivery.objects.get(gave_up_at__isnull=False)
    assert client_of("Ad Ops", enforce_csrf_checks=True).post(page_of(gave_up)).status_code == 403
    client_of("Administrator").get(f"{page_of(gave_up)}?retry=1")
    assert EventDelivery.objects.get(pk=gave_up.pk).gave_up_at is not None


def test_retry_of_what_has_not_given_up_says_so(deal: Deal) -> None:
    behind = EventDelivery.objects.filter(due_at=None, gave_up_at=None).order_by("position")[0]
    answer = client_of("Ad Ops").post(page_of(behind), follow=True)
    assert "has not given up" in answer.content.decode()
    assert EventDelivery.objects.get(pk=behind.pk).due_at is None


def test_another_team_sees_and_retries_nothing(deal: Deal) -> None:
    client = client_of("Administrator", team="Elsewhere")
    assert "deal.quoted" not in read(client, LIST)
    gave_up = EventDelivery.objects.get(gave_up_at__isnull=False)
    assert client.get(page_of(gave_up)).status_code in (302, 404)
    client.post(page_of(gave_up))
    assert EventDelivery.objects.get(pk=gave_up.pk).gave_up_at is not None


@pytest.mark.parametrize("role", ["Buyer", "Approver", "Finance"])
def test_without_the_right_the_list_is_not_there(deal: Deal, role: str) -> None:
    assert client_of(role).get(LIST).status_code == 403


@pytest.mark.parametrize("query", ["view=nonsense", "q=%00", "p=x", "o=9"])
def test_parameters_from_outside_are_harmless(deal: Deal, query: str) -> None:
    assert client_of("Ad Ops").get(f"{LIST}?{query}", follow=True).status_code == 200


def test_nobody_adds_changes_or_deletes_one(deal: Deal) -> None:
    client = client_of("Administrator")
    gave_up = EventDelivery.objects.get(gave_up_at__isnull=False)
    assert client.get(f"{LIST}add/").status_code == 403
    assert client.post(f"{LIST}{gave_up.pk}/delete/", {"post": "yes"}).status_code == 403
    assert EventDelivery.objects.filter(pk=gave_up.pk).exists()
