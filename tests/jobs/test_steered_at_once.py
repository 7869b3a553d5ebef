"""Two people, or a person and a worker, at the same step at the same moment: one of them has it."""

from __future__ import annotations

import threading
import uuid
from datetime import timedelta
from queue import SimpleQueue

from django.db import connection, transaction

from tasks_app import clock
from tasks_app.jobs.actions import WaitUntil
from tasks_app.jobs.endings import JobRefusedError
from tasks_app.jobs.models import Step, WorkflowEvent
from tasks_app.jobs.steering import step_skip
from tests.database import Database
from tests.factories import make_user
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, statuses
from tests.lifecycle.threads import at_once
from tests.rounds import rounds
from tests.support import joined, locks_awaited, until

ROUNDS = rounds(4, 10)


def test_of_two_who_skip_a_step_one_does(committed_db: Database, bench: Bench) -> None:
    bench.action("sleep", lambda run: WaitUntil(moment=clock.now() + timedelta(days=1)))
    bench.recipe({"id": "a", "action": "sleep"}, {"id": "b", "action": "sleep", "after": ["a"]})
    ops = make_user("Ad Ops")
    for _ in range(ROUNDS):
        job = bench.run()
        step = Step.objects.get(job=job, key="a")

        def skip(pk: uuid.UUID = step.pk) -> str:
            try:
                step_skip(step_id=pk, actor=ops, reason="by hand")
            except JobRefusedError:
                return "refused"
            return "skipped"

        assert sorted(at_once(skip, skip)) == ["refused", "skipped"]
        assert statuses(job) == {"a": "completed", "b": "queued"}
        assert WorkflowEvent.objects.filter(job=job, type="step.skipped").count() == 1
        step_skip(step_id=Step.objects.get(job=job, key="b").pk, actor=ops, reason="tidy")


def test_of_a_worker_and_a_person_one_has_the_step(committed_db: Database, bench: Bench) -> None:
    bench.recipe({"id": "a"})
    ops = make_user("Ad Ops")
    for _ in range(ROUNDS):
        job = bench.start()
        step = Step.objects.get(job=job)

        def skip(pk: uuid.UUID = step.pk) -> bool:
            try:
                step_skip(step_id=pk, actor=ops, reason="by hand")
            except JobRefusedError:
                return False
            return True

        def claim() -> bool:
            return claim_step() is not None

        skipped, claimed = at_once(skip, claim)
        step.refresh_from_db()
        assert (skipped, claimed) == (step.status == "completed", step.status == "executing")
        Step.objects.filter(pk=step.pk, status="executing").update(
            lease_until=clock.now() + timedelta(days=1)
        )


def test_what_a_worker_has_just_claimed_is_not_skipped_any_more(committed_db: Database, bench: Bench) -> None:
    bench.recipe({"id": "a"})
    ops, job = make_user("Ad Ops"), bench.start()
    step, refused = Step.objects.get(job=job), SimpleQueue[str]()

    def skip() -> None:
        try:
            step_skip(step_id=step.pk, actor=ops, reason="by hand")
        except JobRefusedError as error:
            refused.put(str(error))
        finally:
            connection.close()

    person = threading.Thread(target=skip)
    with transaction.atomic():
        assert claim_step() is not None
        person.start()
        until(lambda: locks_awaited() or not person.is_alive(), "the person comes to the step")
    joined(person)

    assert refused.get_nowait() == "A worker runs it now."
    assert statuses(job) == {"a": "executing"}


def test_what_a_person_is_skipping_is_claimed_by_no_worker(committed_db: Database, bench: Bench) -> None:
    bench.recipe({"id": "a"})
    ops, job = make_user("Ad Ops"), bench.start()
    with transaction.atomic():
        step_skip(step_id=Step.objects.get(job=job).pk, actor=ops, reason="by hand")
        assert at_once(claim_step) == [None]

    assert at_once(claim_step) == [None]
    assert statuses(job) == {"a": "completed"}
