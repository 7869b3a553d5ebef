"""What PostgreSQL itself refuses is told as every refusal is: a 409, a message in the admin, exit code 2.

Provoked as it would come about: the database knows one edge less than the code, as when code is rolled out
before its migration.
"""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from django.contrib.messages import get_messages
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse

from orders.models import Deal
from orders.questions import ask_deal
from tasks_app.approvals.models import Approval, Decision
from tasks_app.lifecycle.refusals import DatabaseRefusedError, refusal_of
from tasks_app.people.models import Team, User
from tests.api.conftest import client_of
from tests.commands.running import call
from tests.database import Database, TestServer
from tests.factories import make_deal, make_user

WHY = "no declared edge from quoted to accepted"


@pytest.fixture
def asked(committed_db: Database, database_server: TestServer) -> Approval:
    """A question whose yes the database will refuse."""
    approval = ask_deal(make_deal())
    with database_server.connect_admin(committed_db.name) as admin:
        admin.execute("delete from tasks_app_lifecycleedge where entity = 'deal' and to_status = 'accepted'")
    return approval


@pytest.fixture
def approver(asked: Approval) -> User:
    user = make_user("Approver")
    user.is_staff = True
    user.save()
    return user


def untouched(approval: Approval) -> bool:
    approval.refresh_from_db()
    deal = Deal.objects.get(pk=approval.subject_id)
    return (approval.status, deal.status, Decision.objects.count()) == ("open", "quoted", 0)


def test_in_the_api_it_is_a_conflict_that_names_what_is_allowed(asked: Approval, approver: User) -> None:
    said = {"verdict": "approve", "comment": "Go.", "evidence_digest": asked.evidence_digest}

    answer: Any = client_of(approver).post(f"/api/v1/approvals/{asked.pk}/decide/", said, format="json")

    assert (answer.status_code, answer["Content-Type"]) == (409, "application/problem+json")
    told = answer.json()
    assert (told["entity"], told["id"], told["status_now"]) == ("deal", str(asked.subject_id), "quoted")
    assert (told["why"], told["title"]) == (WHY, f"The database refused deal {asked.subject_id}: {WHY}")
    assert set(told["allowed"]) == {"negotiating", "accepted", "failed", "cancelled", "expired"}
    assert untouched(asked)


def test_in_the_admin_it_is_a_message(asked: Approval, approver: User) -> None:
    client, page = Client(), reverse("admin:tasks_app_approval_change", args=[asked.pk])
    client.force_login(approver, backend="tasks_app.people.holders.RoleBackend")

    answer = client.post(page, {"decision": "approve", "comment": "", "digest": asked.evidence_digest})

    assert (answer.status_code, answer["Location"]) == (302, page)
    (said,) = [str(message) for message in get_messages(answer.wsgi_request)]
    reference = Deal.objects.get(pk=asked.subject_id).reference
    assert said.startswith(
        f"{reference} was not moved from quoted to accepted: {WHY}. Possible from quoted: "
    )
    assert untouched(asked)


def test_in_a_command_it_is_a_refusal(asked: Approval, approver: User) -> None:
    said = ("--digest", asked.evidence_digest, "--json")
    ran = call("decide", asked.reference, "approve", "--as", approver.username, *said)
    assert ran.code == 2
    assert WHY in json.loads(ran.out)["error"]
    assert untouched(asked)


REFUSED = {
    "at the commit": (
        "update orders_deal set version = 2",
        "audited",
        "quoted",
        "quoted",
    ),
    "a version": ("update orders_deal set version = 7", "version", "quoted", "quoted"),
    "a birth": (
        "insert into orders_deal select (jsonb_populate_record(d, jsonb_build_object('id', gen_random_uuid(),"
        " 'status', 'booked', 'reference', 'X'))).* from orders_deal d",
        "born",
        "",
        "booked",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_says_which_rule_and_what_was_tried(committed_db: Database, what: str) -> None:
    make_deal()
    statement, rule, frm, to = REFUSED[what]
    with pytest.raises(DatabaseError) as raised, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    refused = refusal_of(raised.value)
    assert isinstance(refused, DatabaseRefusedError)
    assert (refused.rule, refused.entity) == (f"fd_{rule}", "deal")
    assert (refused.from_status, refused.to_status) == (frm, to)
    assert bool(refused.allowed) is bool(frm)
    assert str(raised.value.__cause__.diag.message_primary).endswith(refused.why)  # type: ignore[union-attr]


def test_an_entry_without_reason_or_actor_is_told_too(committed_db: Database) -> None:
    deal = make_deal()
    move = "select fd_move_deal(%s, 'quoted', 'accepted', 1, %s, %s, '{}', null, '', null)"
    for actor, reason, why in (("system", "", "has no reason"), ("root", "x", "names no actor")):
        with pytest.raises(IntegrityError) as raised, connection.cursor() as cursor:
            cursor.execute(move, [deal.pk, actor, reason])
        refused = refusal_of(raised.value)
        assert refused is not None
        assert why in str(refused)


def test_every_other_error_of_the_database_stays_what_it_is(committed_db: Database) -> None:
    team = Team.objects.create(name="Twice")
    with pytest.raises(IntegrityError) as twice:
        Team.objects.create(pk=team.pk, name="Twice again")
    with pytest.raises(DatabaseError) as denied, connection.cursor() as cursor:
        cursor.execute("delete from tasks_app_auditentry")
    with pytest.raises(DatabaseError) as wrong, connection.cursor() as cursor:
        cursor.execute("select nothing")
    for error in (
        twice.value,
        denied.value,
        wrong.value,
        RuntimeError("x"),
        psycopg.OperationalError("gone"),
    ):
        assert refusal_of(error) is None
