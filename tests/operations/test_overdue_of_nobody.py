"""An overdue operation of no team: asked of whoever may decide, kept in the queue until they have."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from tasks_app import clock
from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.models import Approval
from tasks_app.approvals.selectors import approvals_waiting_for
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.approvals.telling import approvals_tell
from tasks_app.events.bus import event_of
from tasks_app.lifecycle.models import OutboxEvent
from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import notifications_of
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.overdue import overdue_ask
from tasks_app.operations.selectors import operations_open
from tasks_app.operations.telling import operation_tell
from tasks_app.people.models import Team, User
from tests.factories import make_user
from tests.operations.making import fresh, stand

pytestmark = pytest.mark.django_db


@pytest.fixture
def approver() -> User:
    """Of some team; the operation is of none."""
    return make_user("Approver", team=Team.objects.create(name="Another team"), is_staff=True)


@pytest.fixture
def operation() -> Operation:
    """Known to the seller, of no team, its deadline past."""
    found = stand(S.SUBMITTED, team=None)
    Operation.objects.filter(pk=found.pk).update(deadline_at=clock.now())
    assert time_out_due(limit=5) == 1
    return fresh(found)


def decide(user: User, verdict: str) -> None:
    asked = Approval.objects.get(kind="overdue", status="open")
    approval_decide(approval_id=asked.pk, user=user, verdict=verdict, comment="So.")


def test_it_is_asked_of_whoever_may_decide_and_polled_on(operation: Operation, approver: User) -> None:
    asked = Approval.objects.get(kind="overdue")
    assert (asked.team, asked.subject_id, asked.requested_by) == (None, operation.pk, "system")
    assert asked in approvals_waiting_for(approver)
    assert deciders([asked])[asked.pk] == [approver]
    assert (operation.status, operation.settled_at) == (S.TIMED_OUT, None)
    assert operation.next_poll_at is not None
    assert operation in operations_open(make_user("Administrator", is_superuser=True))


def test_what_is_announced_is_what_is_asked(operation: Operation, approver: User) -> None:
    asked = Approval.objects.get(kind="overdue")
    row = OutboxEvent.objects.filter(entity_id=operation.pk).latest("seq")
    row.position = row.pk  # as if numbered
    operation_tell(event_of(row))
    note = Notification.objects.get(kind="operation_timed_out")
    said = f"An approver must decide: keep waiting or stop ({asked.reference})"
    assert note.body.startswith(said)
    approvals_tell()
    waits = Notification.objects.get(kind="approval_waits")
    assert (waits.team, waits.subject_id) == (None, asked.pk)
    assert waits in notifications_of(approver)
    assert waits not in notifications_of(make_user("Buyer"))


def test_its_page_and_the_queue_show_it(operation: Operation, approver: User) -> None:
    asked = Approval.objects.get(kind="overdue")
    client = Client()
    client.force_login(approver, backend="tasks_app.people.holders.RoleBackend")
    queue = client.get(reverse("admin:tasks_app_approval_changelist")).content.decode()
    assert str(asked.pk) in queue
    page = client.get(reverse("admin:tasks_app_approval_change", args=[asked.pk]))
    assert (page.status_code, b'name="decision"' in page.content) == (200, True)


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_it_waits_on_or_is_given_up_by_their_word(operation: Operation, approver: User, verdict: str) -> None:
    decide(approver, verdict)
    stored = fresh(operation)
    assert (stored.status, stored.settled_at is None) == (
        (S.SUBMITTED, True) if verdict == "approve" else (S.TIMED_OUT, False)
    )


def test_nobody_decided_is_asked_again(operation: Operation) -> None:
    first = Approval.objects.get(kind="overdue")
    with clock.injected(lambda: first.due_at):
        assert approvals_expire_due() == 1
    again = Approval.objects.get(kind="overdue", status="open")
    assert (again.pk != first.pk, again.team, fresh(operation).settled_at) == (True, None, None)


def test_who_asked_to_stop_does_not_decide_on_it_either(approver: User) -> None:
    operation = stand(S.TIMED_OUT, team=None)
    overdue_ask(operation, requested_by=approver, why="They closed the desk.")
    with pytest.raises(DecisionRefusedError, match="yourself"):
        decide(approver, "reject")
    assert fresh(operation).settled_at is None


def test_a_read_of_no_team_is_given_up(approver: User) -> None:
    operation = stand(S.TIMED_OUT, "get_products", team=None)
    overdue_ask(operation)
    assert fresh(operation).settled_at is not None
    assert not Approval.objects.exists()
