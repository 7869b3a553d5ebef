"""The end of an operation is told once, in one commit with its effects."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from tasks_app import clock
from tasks_app.operations import publish
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tests.database import Database
from tests.operations.making import fresh, stand
from tests.support import PATIENCE_S, joined


def test_two_at_once_publish_once(committed_db: Database, monkeypatch: Any) -> None:
    operation = stand(S.COMPLETED)
    told: list[Operation] = []
    inside, others_tried = threading.Event(), threading.Event()

    def listener(ended: Operation) -> None:
        told.append(ended)
        inside.set()
        assert others_tried.wait(PATIENCE_S)

    monkeypatch.setattr(publish, "_listeners", [listener])
    answers: list[bool] = []
    owner = threading.Thread(target=_in_thread, args=(operation, answers))
    owner.start()
    assert inside.wait(PATIENCE_S)

    assert publish.publish(operation_id=operation.pk) is False, "somebody is at it: nobody waits"
    others_tried.set()
    joined(owner)

    assert (answers, told) == ([True], [operation])
    assert publish.publish(operation_id=operation.pk) is False
    assert fresh(operation).published_at is not None


@pytest.mark.usefixtures("still")
def test_a_listener_that_fails_leaves_all_its_effects_to_the_next_sweep(
    committed_db: Database, monkeypatch: Any
) -> None:
    first, second = stand(S.COMPLETED), stand(S.FAILED, task_id="task-2")
    broken = True

    def listener(ended: Operation) -> None:
        Operation.objects.filter(pk=ended.pk).update(message="told")
        if broken and ended == first:
            raise RuntimeError("not now")

    monkeypatch.setattr(publish, "_listeners", [listener])

    assert publish.publish_due(limit=10) == 1
    assert (fresh(first).message, fresh(first).published_at) == ("", None)
    assert fresh(second).published_at is not None
    broken = False
    assert publish.publish_due(limit=10) == 0, "it was put back for a while"
    later = clock.now() + timedelta(seconds=5)
    with clock.injected(lambda: later):
        assert publish.publish_due(limit=10) == 1
    assert fresh(first).message == "told"


@pytest.mark.django_db
@pytest.mark.parametrize("status", [S.REQUESTED, S.CALLING_ADCP, S.SUBMITTED, S.TIMED_OUT])
def test_what_has_not_ended_is_not_published(status: str) -> None:
    operation = stand(status)

    assert publish.publish(operation_id=operation.pk) is False
    assert publish.publish_due(limit=10) == 0


def _in_thread(operation: Operation, answers: list[bool]) -> None:
    try:
        answers.append(publish.publish(operation_id=operation.pk))
    finally:
        connection.close()
