"""What the explanation and the page of an operation say may happen, against trying it: its deadline, a
worker, and those who steer it, on every ground it may stand on."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.db import transaction
from django.db.models import Q
from django.test import Client
from django.urls import reverse

from orders.presenters import operation_note
from orders.waits import operation_wait
from tasks_app import clock
from tasks_app.approvals.kinds import kind_of
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.approvals.waiting import waiting_for
from tasks_app.commands.gates import SELLER
from tasks_app.commands.kill_switch import kill_switch_set, stops
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.desk.explain import Explanation, explain
from tasks_app.jobs.awaited import awaited_by
from tasks_app.jobs.looks import step_look
from tasks_app.jobs.models import Job, Step, StepStatus
from tasks_app.jobs.selectors import JobRows
from tasks_app.jobs.waits import Wait, wait_of
from tasks_app.jobs.worker import drain
from tasks_app.operations.answer_stages import answers_of
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.continuation import NOT_KNOWN, Continuation
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_polls, claim_sends
from tasks_app.operations.lookup import asked_with, is_told_by_webhook
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.overdue import overdue_ask
from tasks_app.operations.pauses import answer_key
from tasks_app.operations.presenters import operation_next
from tasks_app.operations.resend import may_have_acted
from tasks_app.operations.steer_forms import steering_data
from tasks_app.operations.steering import (
    SETTLE,
    SteeringRefusedError,
    operation_poll,
    operation_resend,
    operation_stop,
)
from tasks_app.operations.telling import _asks
from tasks_app.people.roles import ROLES, STEER_OPERATION
from tests.factories import make_user
from tests.operations.grounds import GROUNDS
from tests.operations.making import fresh, give_back, leased_until
from tests.support import undone
from tests.ui.pages import page_of, read

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
_BACKEND = "tasks_app.people.holders.RoleBackend"


_ASKS_US = re.compile("asks you|[Yy]ou(r)? answer|Answer the seller|credentials")
_ASKED = re.compile("people decide|is asked$")


def _tried(act: Callable[[], object]) -> bool:
    """Whether it is not refused; everything is as before afterwards."""
    with transaction.atomic():
        try:
            act()
        except SteeringRefusedError:
            return False
        finally:
            transaction.set_rollback(True)
    return True


def _told(operation: Operation) -> Explanation:
    return explain(operation.reference, make_user("Administrator"))


def those_who_steer_it_can_what_is_said_and_nothing_else(operation: Operation) -> None:
    user = make_user(next(role for role, rights in ROLES.items() if STEER_OPERATION in rights))
    said = " ".join(one.does for one in _told(operation).who)
    polls = _tried(lambda: operation_poll(operation_id=operation.pk, user=user))
    stops = _tried(lambda: operation_stop(operation_id=operation.pk, user=user, reason="No answer"))
    paused = operation.status in (S.INPUT_REQUIRED, S.AUTH_REQUIRED)
    if not paused or _is_answered(operation):  # else what it waits for is named alone
        assert ("ask the seller now" in said, "stop waiting" in said) == (polls, stops)


def _given(operation: Operation) -> Continuation | None:
    """The answer that was given, where its seller has asked nothing since."""
    given = Continuation.objects.filter(operation=operation, answered_at__isnull=False, stale_at=None)
    one = given.filter(operation__seller__protocol="a2a").first()
    if one is None or one.dispatched_at is None:
        return one
    since = operation.observations.filter(outcome="applied", at__gt=one.dispatched_at)
    return None if since.filter(status__in=("submitted", "working")).exists() else one


def _is_answered(operation: Operation) -> bool:
    return _given(operation) is not None


def _is_lost(operation: Operation) -> bool:
    given = _given(operation)
    return given is not None and given.note == NOT_KNOWN


def _is_shut(operation: Operation) -> bool:
    """Whether our answer is to be sent, and nothing that it needs is open."""
    given = _given(operation)
    if given is None or given.released_at is None or given.dispatched_at or operation.send_at is None:
        return False
    seller, account = operation.seller, operation.account
    no_key = operation.is_mutation and seller.idempotency_ttl_s is None
    order = Command.objects.filter(key=operation.purpose).first()
    off = not seller.active and (order is None or SELLER not in order.overrides)
    return off or no_key or (account is not None and account.status != "active")


def its_question_is_said_to_be_answered_where_it_can_be(operation: Operation) -> None:
    if operation.status != S.INPUT_REQUIRED:
        return
    user, given = make_user("Ad Ops"), {"operation_id": operation.pk, "generation": 1, "text": "Sweden."}
    answers = _tried(lambda: operation_answer(user=user, **given))
    expected = (answers, not answers and not _is_answered(operation))
    said = " ".join(one.does for one in _told(operation).who)
    assert ("answer the seller" in said, "write to the seller" in said) == expected, said
    told = " ".join(_asks(operation, clock.now()).sentences)
    assert ("reply needed" in told, "must write to the seller" in told) == expected, told
    writes = expected[1] or _is_lost(operation)
    for row in waiting_for(user):
        assert ("Answer" in dict(row.answers), "Write" in dict(row.answers)) == (answers, writes)
    data = steering_data(operation, user)
    assert (data["answerable"], data["unanswerable"]) == expected


def nobody_is_said_to_give_an_answer_that_was_given(operation: Operation) -> None:
    if operation.status not in (S.INPUT_REQUIRED, S.AUTH_REQUIRED):
        return
    admin, client = make_user("Administrator", is_staff=True), Client()
    client.force_login(admin, backend=_BACKEND)
    said = [
        operation_next(operation).what,
        operation_wait(operation, admin).text,
        operation_note(operation),
        *(row.title for row in waiting_for(admin)),
    ]
    given = _is_answered(operation)
    asks = [one for one in said if _ASKS_US.search(one)]
    assert bool(asks) != given, said
    person = read(client, f"{reverse('admin:tasks_app_operation_changelist')}?view=person")
    people = Approval.objects.filter(status="open").exclude(kind=SETTLE).exists() or not given
    people = people or _is_lost(operation) or _is_shut(operation)
    assert (operation.reference in person) == people
    assert f"Waiting for a person {int(people)} " in person
    assert f"Waiting for sellers {int(not people)} " in person


def a_question_that_is_open_still_is_put_to_people(operation: Operation) -> None:
    """Also while people wait on for it."""
    user, given = make_user("Ad Ops"), {"operation_id": operation.pk, "generation": 1, "text": "Sweden."}
    if operation.status == S.SUBMITTED and _tried(lambda: operation_answer(user=user, **given)):
        assert "answer the seller" in " ".join(one.does for one in _told(operation).who)
        assert operation_next(operation).what == "Waits for your answer to the seller"


def who_gives_an_answer_that_was_given_is_in_the_queue_where_somebody_must_act(operation: Operation) -> None:
    if not _is_answered(operation) or operation.status not in (S.INPUT_REQUIRED, S.AUTH_REQUIRED):
        return
    rows = [row for row in waiting_for(make_user("Ad Ops")) if row.reference == operation.reference]
    acts = _is_lost(operation) or _is_shut(operation)
    acts = acts and not Approval.objects.filter(status="open", subject_id=operation.pk).exists()
    title = "Ask whether our answer arrived" if _is_lost(operation) else "Let our answer be sent"
    assert [row.title for row in rows if row.kind == operation.status] == ([title] if acts else [])


def the_same_is_not_sent_beside_an_answer(operation: Operation) -> None:
    user, given = make_user("Ad Ops"), _given(operation)
    if given is None or given.dispatched_at is not None:
        return
    if given.released_at is not None or Command.objects.filter(key=answer_key(given)).exists():
        assert not _tried(lambda: operation_resend(operation_id=operation.pk, user=user, reason="Now"))


def its_page_says_of_its_answer_what_becomes_of_it(operation: Operation) -> None:
    client = Client()
    client.force_login(make_user("Administrator", is_staff=True), backend=_BACKEND)
    page = read(client, page_of(operation))
    shown = bool(re.search("Our answer(, given| left [^;]+;)", page))
    assert shown == _is_answered(operation) or (shown and operation.status == S.SUBMITTED)
    Operation.objects.filter(pk=operation.pk, send_at__isnull=False).update(send_at=clock.now())
    stopped = operation_next(operation).stopped
    leaves = any(call.continuation for call in claim_sends(limit=10))
    assert ("does not leave" in page) == (_is_answered(operation) and operation.status == S.TIMED_OUT)
    waits = "waits to be sent." in page or "is held at a gate." in page
    assert waits == (leaves or (stopped and "Our answer, given" in page and not _is_shut(operation)))


def what_is_said_of_its_deadline_happens(operation: Operation) -> None:
    told = _told(operation).otherwise
    Operation.objects.filter(pk=operation.pk).update(deadline_at=clock.now())
    time_out_due(limit=10)
    after = fresh(operation)
    assert ("it fails" in told) == (after.status == "failed"), told
    looked_up = after.next_poll_at is not None and operation.next_poll_at is None
    assert ("the seller is asked whether it knows it" in told) == (
        operation.status == S.CALLING_ADCP and (looked_up or bool(leased_until(operation)))
    ), told
    assert ("it is overdue" in told) == (
        operation.is_mutation
        and after.status == S.TIMED_OUT
        and operation.status not in (S.TIMED_OUT, S.CALLING_ADCP)
    ), told


def people_are_said_to_be_asked_past_its_deadline_where_they_are(operation: Operation) -> None:
    told, page = _told(operation), operation_next(operation)
    waits = operation_wait(operation, make_user("Administrator")).otherwise
    Operation.objects.filter(pk=operation.pk).update(deadline_at=clock.now())
    time_out_due(limit=10)
    after = fresh(operation)
    gives_up = after.status == S.TIMED_OUT and after.settled_at is not None
    said = [f"{told.waiting_for} {told.otherwise}"]
    if operation.status in (*PENDING, S.TIMED_OUT):
        said += [page.otherwise, waits]
    assert {"given up" in one for one in said} == {gives_up}, said
    if operation.status == S.CALLING_ADCP and page.stopped:
        assert ("Overdue" in page.otherwise) == (after.next_poll_at is not None), page
    if operation.status in PENDING:
        asked = Approval.objects.filter(kind="overdue", status="open").exists()
        assert {bool(_ASKED.search(one)) for one in said} == {asked}, said


def it_is_said_to_be_asked_for_with_the_tool_that_is_called(operation: Operation) -> None:
    told, page = _told(operation), operation_next(operation)
    looked = Q(next_poll_at__isnull=False) | Q(status__in=(S.SUBMITTED, S.WORKING))
    Operation.objects.filter(looked, pk=operation.pk).update(next_poll_at=clock.now())
    give_back(operation.pk)  # by when it is looked at, the call that is out has ended
    calls = claim_polls(limit=10)
    tools = {call.lookup.list_tool if call.lookup else call.tool for call in calls} - {None}
    assert ("asked again" in told.waiting_for) <= bool(tools), told.waiting_for
    named = re.search(r"^(?:Poll|Look for it with) (\w+)", page.what)
    hooked = is_told_by_webhook(operation)
    assert {named[1]} == tools if named else ("poll" in page.what.lower()) == (hooked and bool(tools)), page
    for answers in [one.does for one in told.who if one.does.startswith("answers,")]:
        assert ("by webhook" in answers, "when it is asked" in answers) == (hooked, bool(tools)), answers
    listed = [words for one in waiting_for(make_user("Administrator")) for words in one.answers]
    if operation.status == S.TIMED_OUT:
        overdue_ask(operation)
    asked_too = [kind_of(one).effects for one in Approval.objects.filter(status="open")]
    said = f"{told.otherwise} {page.otherwise} {listed} {asked_too}"
    assert ("looked at now and then" in said) <= bool(asked_with(operation)), said


def it_is_said_to_be_sent_by_itself_where_it_is(operation: Operation) -> None:
    does = " ".join(one.does for one in _told(operation).who if one.who == "A worker")
    page = operation_next(operation)
    Operation.objects.filter(pk=operation.pk, send_at__isnull=False).update(send_at=clock.now())
    before = leased_until(operation)
    sent = bool(claim_sends(limit=10))
    out = before is not None and operation.status not in PENDING  # of what paused, the answer has left
    assert ("sends" in does) == (sent or out), does
    assert (page.what == "Waits for a decision") <= (not sent)
    assert (page.what in ("The call is out", "Is sent at once")) <= (sent or before is not None), page
    assert page.stopped <= (not sent)


def what_is_in_its_way_does_what_is_said(operation: Operation) -> None:
    """Of what is due: it waits on, ends, is put to people or is asked for at its seller."""
    told, page = _told(operation), operation_next(operation)
    does = " ".join(one.does for one in told.who if one.who == "A worker")
    said = {
        "ends": "ends it as soon as it comes up" in does,
        "asks": "asks people, before it leaves again" in does,
        "looks": "asks the seller whether it has it" in does,
    }
    paged = {
        "ends": page.what.startswith("Ends without being sent"),
        "asks": page.what.startswith("People are asked before it is sent"),
        "looks": page.what == "The seller is asked whether it knows it" and operation.send_at is not None,
    }
    paused = operation.status in (S.INPUT_REQUIRED, S.AUTH_REQUIRED)
    assert paged == said or paused, (page, does)
    if page.what.startswith(("Waits to be sent", "Ends without being sent", "People are asked before")):
        wait = operation_wait(operation, make_user("Administrator"))
        assert (wait.beside, "answers" in wait.text) == (page.when, False)
        assert page.when.lower() in told.waiting_for.lower()
    if operation.send_at is None or paused or page.stopped or leased_until(operation) is not None:
        return
    Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
    asked = Approval.objects.filter(status="open").count()
    sent = bool(claim_sends(limit=10))
    after = fresh(operation)
    happens = {
        "ends": after.settled_at is not None,
        "asks": Approval.objects.filter(status="open").count() > asked,
        "looks": not sent and after.send_at is None and after.next_poll_at is not None,
    }
    assert happens == said, (does, happens)


def what_comes_of_it_once_it_is_let_go_is_said(operation: Operation) -> None:
    """Of what people, a gate or the kill switch keep: they let it go, and it comes up."""
    told, page, answers = _told(operation), operation_next(operation), answers_of([operation])
    if answers.of(operation) is not None or not (page.stopped or page.what == "Waits for a decision"):
        return
    said = {
        f"{told.waiting_for} {' '.join(one.does for one in told.who)}",
        page.otherwise,
        operation_wait(operation, make_user("Administrator")).otherwise,
    }
    _let_go(operation)
    due = Operation.objects.filter(pk=operation.pk, send_at__isnull=False)
    due.update(send_at=clock.now())
    before = Approval.objects.filter(status="open").count()
    sent = bool(claim_sends(limit=10))
    after = fresh(operation)
    happens = {
        "it waits still": not sent and after.settled_at is None and after.send_at is not None,
        "it ends without being sent": after.settled_at is not None,
        "people are asked once more": Approval.objects.filter(status="open").count() > before,
        "its seller is asked whether it has it": not sent and after.next_poll_at is not None,
    }
    assert sum(happens.values()) == (not sent), happens
    for words in said:
        assert {one: one in words for one in happens} == happens, words


def a_step_that_waits_for_it_says_the_same(operation: Operation) -> None:
    if operation.settled_at is not None:
        return
    waiting_for = {"type": "operation", "id": str(operation.pk)}
    step = Step(status=StepStatus.AWAITING_TOOL, waiting_for=waiting_for, status_since=clock.now())
    wait = wait_of(step, awaited_by([step]))
    assert wait is not None
    page = operation_next(operation)
    rows = JobRows(
        job=Job(),
        steps=(step,),
        edges=(),
        operations={str(operation.pk): operation},
        answers=answers_of([operation]),
    )
    brief = step_look(step, rows).brief
    again = "" if operation.status == S.REQUESTED else " again"
    for what, words in _OF_A_STEP.items():
        if page.what.startswith(what) and operation.status not in (S.INPUT_REQUIRED, S.AUTH_REQUIRED):
            assert words.format(operation, again) in wait.words
    assert not brief.startswith("not sent") or brief.startswith(f"not sent{again}, ")
    if page.stopped:
        assert f"{operation.task_type} is not sent" in wait.words or "our answer is not sent" in wait.words
        once = re.search("once that is let go, (.*?: .*)$", page.otherwise.partition(". Overdue")[0])
        assert once is None or once[1] in wait.words
    if "is being sent" in wait.words:
        assert leased_until(operation) is not None or operation.send_at is not None
    _its_end_is_where_something_comes_of_it(operation, wait)


_OF_A_STEP = {
    "Waits to be sent": "{0.task_type} is not sent to {0.seller.name}{1} yet",
    "Ends without being sent": "{0.task_type} ends without being sent to {0.seller.name}{1}: ",
    "People are asked before it is sent": "before {0.task_type} is sent to {0.seller.name}{1}: ",
    "The seller is asked whether it knows it": "is asked whether it has",
    "Waits for a decision": "waits for a decision",
    "Is sent at once": "is to be sent to",
    "The call is out": "is being sent to",
}


def _its_end_is_where_something_comes_of_it(operation: Operation, wait: Wait) -> None:
    out = leased_until(operation) is not None or operation.next_poll_at is not None  # then it is late
    Operation.objects.filter(pk=operation.pk).update(deadline_at=clock.now())
    time_out_due(limit=10)
    after = fresh(operation)
    late = after.status != operation.status or (after.next_poll_at, after.send_at) != (
        operation.next_poll_at,
        operation.send_at,
    )
    over = operation.status == S.TIMED_OUT or operation.deadline_at is None
    assert over or (wait.until is not None) == (late or out), (wait, after.status)


def _let_go(operation: Operation) -> None:
    """The kill switch is let go, and people let it pass."""
    standing = stops().turns.get(None)
    if standing is not None and stops().everywhere is not None:
        by = make_user("Administrator")
        kill_switch_set(on=False, reason="It was a drill", actor=by, seen=str(standing.turn))
        gates_ask_again()
    for question in Approval.objects.filter(status="open"):
        for _ in range(question.quorum):
            by = make_user("Approver")
            approval_decide(approval_id=question.pk, user=by, verdict="approve", comment="So.")
    drain()  # what a step asked for, it asks for again


def _is_written_to(operation: Operation) -> bool:
    answers = answers_of([operation])
    return answers.of(operation) is None and not answers.may_be_given(operation)


def what_its_page_says_of_waiting_is_what_happens_next(operation: Operation) -> None:
    if operation.status in (S.INPUT_REQUIRED, S.AUTH_REQUIRED) and _is_written_to(operation):
        client = Client()
        client.force_login(make_user("Administrator", is_staff=True), backend=_BACKEND)
        page, then = read(client, page_of(operation)), operation_next(operation).otherwise
        assert f"Wait {' '.join(then.split())}." in page
        assert ("looked at meanwhile" in page) == bool(asked_with(operation))


_SAID = (
    its_question_is_said_to_be_answered_where_it_can_be,
    nobody_is_said_to_give_an_answer_that_was_given,
    its_page_says_of_its_answer_what_becomes_of_it,
    a_question_that_is_open_still_is_put_to_people,
    who_gives_an_answer_that_was_given_is_in_the_queue_where_somebody_must_act,
    the_same_is_not_sent_beside_an_answer,
    those_who_steer_it_can_what_is_said_and_nothing_else,
    what_is_said_of_its_deadline_happens,
    people_are_said_to_be_asked_past_its_deadline_where_they_are,
    it_is_said_to_be_asked_for_with_the_tool_that_is_called,
    it_is_said_to_be_sent_by_itself_where_it_is,
    what_is_in_its_way_does_what_is_said,
    what_comes_of_it_once_it_is_let_go_is_said,
    a_step_that_waits_for_it_says_the_same,
    what_its_page_says_of_waiting_is_what_happens_next,
)


@pytest.mark.parametrize("ground", GROUNDS)
def test_what_is_said_of_it_is_so(ground: str) -> None:
    operation = GROUNDS[ground]()
    for is_so in _SAID:
        with undone():
            is_so(fresh(operation))


@pytest.mark.parametrize("ground", ["at a gate after one try", "at a gate after one try, stopped"])
def test_what_may_have_reached_its_seller_is_said_so(ground: str) -> None:
    operation = fresh(GROUNDS[ground]())
    told = _told(operation).waiting_for
    assert (may_have_acted(operation), "has not taken it so far" in told) == (False, True), told
    Operation.objects.filter(pk=operation.pk).update(attempts=2)  # one of them without a word
    operation = fresh(operation)
    told = _told(operation).waiting_for
    assert (may_have_acted(operation), "has not taken it so far" in told) == (True, False), told


@pytest.mark.parametrize("ground", [one for one in GROUNDS if one.startswith("at a gate")])
def test_the_question_at_its_gate_is_named(ground: str) -> None:
    operation = fresh(GROUNDS[ground]())
    question = Approval.objects.get(status="open")
    told = _told(operation)
    assert any(question.reference in one.does for one in told.who), told.who
    assert operation_next(operation).glyph == "person"
