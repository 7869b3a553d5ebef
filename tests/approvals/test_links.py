"""The link in a mail opens the page after login, once, for whom it was made; it decides nothing and proves
nothing to anybody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core import signing
from django.test import Client
from django.urls import reverse

from tasks_app import clock
from tasks_app.approvals.links import LinkRefusedError, link_open, link_token
from tasks_app.approvals.models import Approval
from tasks_app.approvals.records import LinkUse
from tasks_app.approvals.services import approval_decide
from tasks_app.approvals.telling import approvals_tell
from tasks_app.people.models import User
from tests.approvals.conftest import Desk
from tests.database import Database
from tests.events.parts import relay
from tests.factories import make_team, make_user
from tests.lifecycle.threads import at_once
from tests.notifications.post_office import PostOffice, mailing

pytestmark = pytest.mark.deep

db = pytest.mark.django_db
BACKEND = "tasks_app.people.holders.RoleBackend"
QUEUE = "/admin/tasks_app/approval/"


def page_of(approval: Approval) -> str:
    return reverse("admin:tasks_app_approval_change", args=[approval.pk])


def link_to(approval: Approval, user: User) -> str:
    return reverse("approval_link", args=[link_token(approval_id=approval.pk, user=user)])


def signed_in(user: User) -> Client:
    User.objects.filter(pk=user.pk).update(is_staff=True)
    client = Client()
    client.force_login(User.objects.get(pk=user.pk), backend=BACKEND)
    return client


def refused(code: str, token: str, user: User) -> None:
    with pytest.raises(LinkRefusedError) as error:
        link_open(token=token, user=user)
    assert error.value.code == code


@db
def test_it_opens_the_page_after_login_and_then_no_more(desk: Desk) -> None:
    user, approval = make_user("Approver"), desk.ask()
    link = link_to(approval, user)
    scanner = Client()
    for _ in range(3):
        answer = scanner.get(link)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/admin/login/?next=")
    assert not LinkUse.objects.exists(), "a scanner uses up nothing"

    client = signed_in(user)
    assert client.get(link)["Location"] == page_of(approval)
    assert client.get(link)["Location"] == QUEUE
    assert LinkUse.objects.get().user == user
    assert Approval.objects.get().status == "open"


@db
def test_it_takes_no_post_and_no_head(desk: Desk) -> None:
    user, approval = make_user("Approver"), desk.ask()
    client, link = signed_in(user), link_to(approval, user)
    assert client.post(link, {"decision": "approve"}).status_code == 405
    assert client.head(link).status_code == 405
    assert not LinkUse.objects.exists()


@db
def test_somebody_elses_is_of_no_use_and_stays_good(desk: Desk) -> None:
    ann, eve = make_user("Approver"), make_user("Administrator")
    approval = desk.ask()
    token = link_token(approval_id=approval.pk, user=ann)
    refused("not_yours", token, eve)
    assert link_open(token=token, user=ann) == approval.pk


@db
def test_it_ends(desk: Desk) -> None:
    user, approval = make_user("Approver"), desk.ask()
    token = link_token(approval_id=approval.pk, user=user)
    later = clock.now() + settings.APPROVAL_LINK * 2
    with clock.injected(lambda: later):
        refused("expired", token, user)
    assert link_open(token=token, user=user) == approval.pk


@db
def test_what_we_did_not_sign_for_this_opens_nothing(desk: Desk) -> None:
    user, approval = make_user("Approver"), desk.ask()
    token = link_token(approval_id=approval.pk, user=user)
    other_purpose = signing.dumps({"approval": str(approval.pk), "user": str(user.pk)}, salt="something else")
    for wrong in ("", "x", token[:-1], f"{token}x", token.swapcase(), other_purpose, "a" * 5000):
        refused("invalid", wrong, user)
    assert signed_in(user).get(f"/admin/approvals/open/{'a' * 900}/")["Location"] == QUEUE
    assert not LinkUse.objects.exists()


@db
def test_who_no_longer_sees_it_is_shown_nothing(desk: Desk) -> None:
    user, approval = make_user("Approver"), desk.ask()
    token = link_token(approval_id=approval.pk, user=user)
    user.teams.set([make_team("Elsewhere")])
    refused("gone", token, user)


def test_followed_twice_at_once_it_opens_once(committed_db: Database, desk: Desk) -> None:
    user, approval = make_user("Approver"), desk.ask()
    token = link_token(approval_id=approval.pk, user=user)
    results = at_once(*(lambda: link_open(token=token, user=user) for _ in range(4)))
    assert results.count(approval.pk) == 1
    assert {one.code for one in results if isinstance(one, LinkRefusedError)} == {"used"}


@pytest.fixture
def office(committed_db: Database, settings: Any) -> Iterator[PostOffice]:
    with mailing(settings) as server:
        yield server


def test_it_stands_in_the_mail_to_each_who_may_decide(office: PostOffice, desk: Desk) -> None:
    people = {name: make_user("Approver", name=name) for name in ("ann", "abe")}
    for name in people:
        User.objects.filter(username=name).update(
            email=f"{name}@example.com", mail_notifications=True, is_staff=True
        )
    approval = desk.ask()
    approvals_tell()
    relay()

    assert sorted(office.recipients) == ["abe@example.com", "ann@example.com"]
    for recipient, message in office.taken:
        body = message.get_payload(decode=True).decode()  # type: ignore[union-attr]
        (link,) = re.findall(r"/admin/approvals/open/[^\s]+", body)
        client = signed_in(people[recipient.partition("@")[0]])
        assert client.get(link)["Location"] == page_of(approval)
    assert LinkUse.objects.count() == 2

    approval_decide(approval_id=approval.pk, user=people["ann"], verdict="approve")
    abe = people["abe"]
    read = signed_in(abe).get(link_to(approval, abe))
    assert read["Location"] == page_of(approval), "to read how it ended"
