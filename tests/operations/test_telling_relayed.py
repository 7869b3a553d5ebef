"""It is the relay that tells of operations: outside the transition, once, whatever is delivered twice."""

from __future__ import annotations

from django.db import transaction

from tasks_app.events.models import EventSubscription
from tasks_app.notifications.models import Notification
from tasks_app.operations.models import OperationStatus as S
from tests.database import Database
from tests.events.parts import relay
from tests.operations.making import answer, see, stand


def test_the_relay_tells_after_the_commit(committed_db: Database) -> None:
    relay()
    operation = stand(S.SUBMITTED)
    assert not Notification.objects.exists()
    relay()
    (note,) = Notification.objects.all()
    assert (note.kind, note.subject_id) == ("operation_submitted", operation.pk)


def test_what_was_rolled_back_is_not_told(committed_db: Database) -> None:
    relay()
    operation = stand(S.CALLING_ADCP)
    with transaction.atomic():
        see(operation, answer("submitted", task_id="t-1"))
        transaction.set_rollback(True)
    relay()
    assert not Notification.objects.exists()


def test_a_subscriber_that_begins_again_tells_nothing_twice(committed_db: Database) -> None:
    relay()
    operation = stand(S.SUBMITTED)
    relay()
    see(operation, answer("completed", task_id="task-1"), "poll")
    relay()
    told = Notification.objects.count()
    assert told == 2
    EventSubscription.objects.filter(pk="people").update(position=0)
    relay()
    assert Notification.objects.count() == told
