"""Every kind of question, its row held by somebody else while its subject ends: the next sweep takes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import transaction

from orders.models import UNDECIDED
from tasks_app.approvals.models import Approval, QuestionReview
from tasks_app.approvals.subjects import questions_look_again
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.commands.services import command_pass
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.ordering import order_run
from tests.boundary.conftest import asked as asked_at_the_gate
from tests.boundary.conftest import purchase, stopped
from tests.database import Database
from tests.factories import make_user
from tests.orders.asking import ASKED, asked
from tests.orders.live import packages, says
from tests.orders.test_lifetimes import NOBODY, deal_of, expected, its_subject_ends, outcome

_HOLD = "select 1 from tasks_app_approval where id = %s for no key update"


@contextmanager
def held_elsewhere(database: Database, question: Approval) -> Iterator[None]:
    """Another process holds the question's row: it tells of it, claims it, or takes somebody off it."""
    with psycopg.connect(database.urls.app) as other:
        other.execute(_HOLD, [question.pk])
        yield
        other.rollback()


def sweep() -> None:
    questions_look_again()
    gates_ask_again()


@transaction.atomic
def ends(first: Approval) -> None:
    """A person who calls a deal off waits for who holds its question; the system does not."""
    deal = deal_of(first)
    if deal is not None and deal.status in UNDECIDED:
        transition(deal, "cancelled", actor="system", reason="It is not to be bought")
    else:
        its_subject_ends(first)


@pytest.mark.parametrize("what", ASKED)
def test_one_that_was_held_while_its_subject_ended_is_withdrawn(committed_db: Database, what: str) -> None:
    with transaction.atomic():
        first = asked(what, make_user("Administrator"))
    with held_elsewhere(committed_db, first):
        ends(first)
        sweep()
        assert Approval.objects.get(pk=first.pk).status == "open", "it is somebody else's at this moment"
    sweep()
    with transaction.atomic():
        assert outcome(first) == expected(what, first.kind, "it ends")
    assert not QuestionReview.objects.exists(), "what was looked at is not looked at again"


def test_a_gate_that_was_passed_meanwhile_is_nobodys(committed_db: Database) -> None:
    stopped()
    order_run(order=purchase(), actor="system")
    question = asked_at_the_gate()
    stopped(on=False)
    with held_elsewhere(committed_db, question):
        assert command_pass(command_id=question.subject_id, repeated=False)
    assert Command.objects.get().waiting_since is None
    assert gates_ask_again() == 0, "nothing waits there"
    assert questions_look_again() == 1
    assert outcome(question) == NOBODY
    assert AuditEntry.objects.filter(entity_id=question.pk).latest("seq").reason == "The gate is open again"


def test_a_departure_that_its_seller_took_back_meanwhile_is_nobodys(committed_db: Database) -> None:
    with transaction.atomic():
        first = asked("a deal booked differently", make_user("Administrator"))
    deal = deal_of(first)
    assert deal is not None
    with held_elsewhere(committed_db, first):
        says(deal, "pending_start", revision=2, packages=packages(deal))
    assert questions_look_again() == 1
    assert not Approval.objects.filter(status="open").exists()


def test_one_that_somebody_needs_after_all_stays(committed_db: Database) -> None:
    first = asked("a deal", make_user("Administrator"))
    QuestionReview.objects.create(approval=first, reason="Looked at")
    assert questions_look_again() == 0
    assert Approval.objects.get(pk=first.pk).status == "open"
    assert not QuestionReview.objects.exists()
