"""Rows that were put back in the admin: for operators, of rows they see, with the way to the row."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from orders.models import Deal
from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import notifications_of, subject_links
from tasks_app.people.models import User
from tasks_app.people.roles import ROLES
from tasks_app.sellers.models import Seller
from tasks_app.troubles.models import RowTrouble
from tasks_app.troubles.rows import TOLD_AFTER, put_back
from tests.factories import make_deal, make_seller, make_team, make_user
from tests.ui.pages import list_of, page_of, read

pytestmark = pytest.mark.django_db
LIST = list_of(RowTrouble)
OPERATORS = ("Ad Ops", "Administrator")
WHY = ValueError("an answer that nobody can read")


def client_of(person: User) -> Client:
    person.is_staff = True
    person.save()
    client = Client()
    client.force_login(person, backend="tasks_app.people.holders.RoleBackend")
    return client


@pytest.fixture
def deal() -> Deal:
    """A deal whose mirror could not be read three times, and its seller, who could not be once."""
    made = make_deal(seller=make_seller())
    for _ in range(TOLD_AFTER):
        put_back("mirrors_read", made.pk, WHY)
    put_back("sellers_read", made.seller_id, WHY)
    return made


@pytest.mark.parametrize("role", OPERATORS)
def test_operators_see_what_was_put_back_and_come_to_the_row(
    deal: Deal, role: str, django_assert_max_num_queries: Any
) -> None:
    client = client_of(make_user(role))
    with django_assert_max_num_queries(25):
        page = read(client, LIST)
    assert "Mirrors read" in page
    assert "Sellers read" in page
    assert "ValueError: an answer that nobody can read" in page
    told = read(client, f"{LIST}?view=told")
    assert "Mirrors read" in told
    assert str(deal.seller_id) not in told
    assert str(deal.pk) not in read(client, f"{LIST}?work=sellers_read")
    trouble = RowTrouble.objects.get(row=deal.pk)
    with django_assert_max_num_queries(25):
        answer = client.get(page_of(trouble))
    assert page_of(deal) in answer.content.decode()
    assert "failed 3 times" in read(client, page_of(trouble))
    assert client.post(page_of(trouble)).status_code == 405
    assert RowTrouble.objects.count() == 2


@pytest.mark.parametrize("role", sorted({*ROLES} - {*OPERATORS, "Integration"}))
def test_nobody_else_sees_them(deal: Deal, role: str) -> None:
    client = client_of(make_user(role))
    for address in (LIST, page_of(RowTrouble.objects.get(row=deal.pk))):
        assert client.get(address).status_code == 403


def test_an_operator_of_another_team_sees_only_what_is_no_teams(deal: Deal) -> None:
    client = client_of(make_user("Ad Ops", team=make_team("Others")))
    page = read(client, LIST)
    assert str(deal.pk) not in page
    assert str(deal.seller_id) in page
    assert client.get(page_of(RowTrouble.objects.get(row=deal.pk))).status_code == 302


def test_a_row_that_is_gone_and_one_of_no_kind_have_a_page_without_a_link() -> None:
    client = client_of(User.objects.create_superuser("root"))
    seller = make_seller()
    gone = seller.pk
    Seller.objects.filter(pk=gone).delete()
    for work in ("sellers_read", "decided_together", "a work of before"):
        put_back(work, gone, WHY)
    for trouble in RowTrouble.objects.all():
        assert str(gone) in read(client, page_of(trouble))


def test_what_operators_are_told_leads_to_the_page(deal: Deal) -> None:
    note = Notification.objects.get(kind="row_put_back")
    assert subject_links([note]) == {note.pk: page_of(RowTrouble.objects.get(row=deal.pk))}


def test_operators_of_another_team_hear_of_no_row_that_is_not_theirs(deal: Deal) -> None:
    """An error may quote the row."""
    heard = {
        name: notifications_of(make_user("Ad Ops", **whose)).filter(kind="row_put_back")
        for name, whose in {"own": {}, "other": {"team": make_team("Others")}}.items()
    }
    assert {name: found.count() for name, found in heard.items()} == {"own": 1, "other": 0}
    assert str(WHY) not in heard["own"].get().body
