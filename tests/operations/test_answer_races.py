"""The continuation rows of AdCP's race table (L3/async-identity-and-convergence), with real processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.lifecycle.transitions import transition
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import continuation_current
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import RawServer, Request, serve
from tests.database import Database
from tests.ending import line_of
from tests.factories import make_seller, make_user
from tests.operations.making import ask, fresh, observed
from tests.operations.mortal import lives
from tests.operations.pausing import (
    SECRET_CONTEXT,
    SECRET_TASK,
    Reply,
    answering,
    invocation,
    messages,
    paused,
    release,
)
from tests.operations.racing import race
from tests.operations.sweeping import sweep
from tests.operations.test_claims import begin, claimer
from tests.rounds import kill_points, rounds
from tests.support import PATIENCE_S

RACES = rounds(8, 20)


def b_after_a(request: Request) -> Reply:
    """Pause A for a new task, pause B for one that is continued."""
    continued = request.json["params"]["message"].get("taskId")
    return paused("B?") if continued else paused("A?")


@pytest.fixture
def quill(committed_db: Database) -> Iterator[RawServer]:
    with serve(answering(b_after_a)) as server:
        make_seller("Quill Audio", protocol="a2a", url=server.url, slots=50)
        yield server


def paused_here(user: User, approver: User, *, released: bool = True) -> Operation:
    """Pause A of an operation of its own, answered and released; no seller is asked for that."""
    operation = ask(seller=Seller.objects.get())
    sent = {"attempts": 1, "sent_at": clock.now(), "send_at": None}
    transition(operation, S.CALLING_ADCP, actor="system", changes=sent)
    identity = {"task_id": SECRET_TASK, "context_id": SECRET_CONTEXT}
    seen = Seen(kind="answer", status="input-required", message="A?", continuation=identity)
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    if released:
        operation_answer(operation_id=operation.pk, generation=1, user=user, text="to A")
        release(approver)
    return operation


def answers_to(server: RawServer, operation: Operation) -> int:
    """How often the seller was given an answer for this operation."""
    continued = [invocation(message) for message in messages(server) if message.get("taskId")]
    return sum(sent["context"]["operation_id"] == str(operation.pk) for sent in continued)


def test_killed_anywhere_between_a_and_b_the_answer_is_sent_once_and_b_is_found(quill: RawServer) -> None:
    """Pause A is resumed and produces pause B; crash after B is stored but before A points to B; crash after
    A points to B but before B reaches the caller."""
    user, approver = make_user("Ad Ops"), make_user("Approver")
    ends = Counter[str]()
    with lives("sweep") as die:
        for number in kill_points(every=2):
            operation = paused_here(user, approver)
            killed = die(number)
            check_generations(operation)
            assert answers_to(quill, operation) <= 1
            recover(operation)
            end = check_end(operation, user)
            # A person is told that it may have left; B is the seller's word that it arrived.
            assert answers_to(quill, operation) in ((1,) if end == "b" else (0, 1))
            ends[end] += 1
            Operation.objects.filter(pk=operation.pk).update(
                send_at=None, next_poll_at=None, deadline_at=None
            )
            if not killed:
                break
    assert number > 10, "it was not killed in the middle"
    assert set(ends) == {"b", "person"}, ends


def check_generations(operation: Operation) -> None:
    """One of them can be used; A is consumed only once B is there to be found."""
    pauses = {pause.generation: pause for pause in Continuation.objects.filter(operation=operation)}
    current = continuation_current(operation)
    assert current is not None
    assert current.generation == max(pauses)
    assert (2 in pauses) == (pauses[1].consumed_at is not None)


def recover(operation: Operation) -> None:
    """Another worker, once the lease has run out."""
    later = clock.now() + timedelta(hours=1)
    with clock.injected(lambda: later):
        sweep()
        sweep()


def check_end(operation: Operation, user: User) -> str:
    """Either B is current and A cannot be answered, or it is a person's, told that an answer had left."""
    current = continuation_current(operation)
    assert current is not None
    assert verify_entity("operation", operation.pk).ok
    if current.generation == 2:
        assert current.asked == "B?"
        with pytest.raises(SteeringRefusedError, match="pause 2 is current"):
            operation_answer(operation_id=operation.pk, generation=1, user=user, text="again")
        return "b"
    question = Approval.objects.get(kind="overdue", subject_id=operation.pk, status="open")
    assert "answer_left_at" in question.evidence
    assert fresh(operation).status == S.TIMED_OUT
    return "person"


def test_of_two_workers_one_dispatches_the_answer(quill: RawServer) -> None:
    """Stale or concurrent resume of A after B is current."""
    operation = paused_here(make_user("Ad Ops"), make_user("Approver"))
    with claimer("sweep") as first, claimer("sweep") as second:
        for process in (first, second):
            assert line_of(process.stdout) == "ready\n"
        for process in (first, second):
            begin(process)
        for process in (first, second):
            assert process.wait(PATIENCE_S) == 0
    assert answers_to(quill, operation) == 1
    assert [p.generation for p in operation.continuations.all() if p.is_usable] == [2]


def test_of_two_people_one_answers(quill: RawServer) -> None:
    people = [make_user("Ad Ops"), make_user("Ad Ops")]
    operations = [str(paused_here(people[0], people[0], released=False).pk) for _ in range(RACES)]
    told = race(*(("answer", [(pk, str(user.pk)) for pk in operations]) for user in people))
    for pair in zip(*told, strict=True):
        assert sorted(pair) == ["answered", "in_progress"]
    assert Approval.objects.filter(kind="answer", status="open").count() == RACES


def test_an_end_and_an_answer_at_the_same_moment(quill: RawServer) -> None:
    """Terminal callback vs. input or authorization resume."""
    user, approver = make_user("Ad Ops"), make_user("Approver")
    operations = [paused_here(user, approver) for _ in range(RACES)]
    Operation.objects.update(send_at=None)
    keys = [str(operation.pk) for operation in operations]

    claimed, settled = race(("due_and_claim", keys), ("settle", keys))

    assert settled == ["applied"] * RACES
    for operation, was_claimed in zip(operations, claimed, strict=True):
        stored, pause = fresh(operation), Continuation.objects.get(operation=operation)
        assert stored.status == S.COMPLETED
        assert pause.stale_at is not None
        assert (pause.dispatched_at is not None) == was_claimed
        if was_claimed:
            assert "on its way" in pause.note
    recover(operations[0])
    assert messages(quill) == [], "nothing leaves after the end"
