"""What the explanation and the page of an operation say may happen, against trying it: its deadline, a
worker, and those who steer it, on every ground it may stand on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Q
from django.test import Client
from django.urls import reverse

from orders.presenters import operation_note
from orders.services import deal_book
from orders.waits import operation_wait
from tasks_app import clock
from tasks_app.approvals.kinds import kind_of
from tasks_app.approvals.models import Approval
from tasks_app.approvals.waiting import waiting_for
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.desk.explain import Explanation, explain
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.answer_stages import answers_of
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_one, claim_polls, claim_sends
from tasks_app.operations.lookup import asked_with, is_told_by_webhook
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.overdue import overdue_ask, wait_on
from tasks_app.operations.presenters import operation_next
from tasks_app.operations.resend import may_have_acted
from tasks_app.operations.steer_forms import steering_data
from tasks_app.operations.steering import (
    SteeringRefusedError,
    operation_poll,
    operation_resend,
    operation_stop,
)
from tasks_app.operations.telling import _asks
from tasks_app.people.roles import ROLES, STEER_OPERATION
from tasks_app.sellers.models import Seller
from tests.boundary.conftest import answered
from tests.factories import approve_deal, make_deal, make_seller, make_user
from tests.operations.making import TASK, answer, fresh, give_back, leased_until, see, silent, stand
from tests.operations.pausing import release
from tests.orders.asking import asked
from tests.support import undone
from tests.ui.pages import page_of, read

pytestmark = pytest.mark.django_db
_BACKEND = "tasks_app.people.holders.RoleBackend"


def _unsent() -> Operation:
    """A purchase that is to be sent next."""
    deal = make_deal()
    approve_deal(deal)
    return deal_book(deal=deal)


def _stopped() -> Operation:
    operation = _unsent()
    kill_switch_set(on=True, reason="A drill", actor="system")
    return operation


def _at_gate(what: str) -> Operation:
    asked(what, make_user("Administrator"))
    return Operation.objects.get(task_type="create_media_buy")


def _turned_away(*, stopped: bool = False, gate: bool = False) -> Operation:
    """A purchase whose seller wants other credentials; due to be sent again, or taken off the way since."""
    operation = _unsent()
    assert claim_one(operation_id=operation.pk) is not None
    see(operation, answer("auth-required"))
    if stopped:
        kill_switch_set(on=True, reason="A drill", actor="system")
    if gate:
        Seller.objects.update(active=False)
        Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
        assert claim_sends(limit=10) == []
    return operation


def _waited_on_at_a_gate() -> Operation:
    """Turned away until it was overdue; people wait on, and a gate has closed since."""
    operation = fresh(_turned_away())
    overdue = {"overdue_at": clock.now(), "overdue_told_at": clock.now(), "send_at": None}
    transition(operation, S.TIMED_OUT, actor="system", changes=overdue)
    wait_on(fresh(operation), actor="system", reason="They said soon", send_again=True)
    Seller.objects.update(active=False)
    assert claim_sends(limit=10) == []
    return operation


def _waited_on(operation: Operation) -> Operation:
    """Overdue; people wait on, and have the same sent again."""
    overdue = {"overdue_at": clock.now(), "overdue_told_at": clock.now(), "send_at": None}
    transition(operation, S.TIMED_OUT, actor="system", changes=overdue)
    wait_on(fresh(operation), actor="system", reason="They said soon", send_again=True)
    return operation


def _then_stopped(operation: Operation) -> Operation:
    kill_switch_set(on=True, reason="A drill", actor="system")
    return operation


def _told_of_by(*tools: str, **columns: Any) -> Operation:
    """With a seller that lists these tools beside those of buying."""
    seller = make_seller(tools=["get_products", "create_media_buy", *tools])
    return stand(S.SUBMITTED, seller=seller, next_poll_at=clock.now() + timedelta(minutes=1), **columns)


def _told_by_webhook(*tools: str) -> Operation:
    operation = _told_of_by(*tools)
    Seller.objects.update(webhook_mode=Seller.WebhookMode.HMAC)
    return operation


def _gate_then_stopped() -> Operation:
    operation = _at_gate("a purchase at a gate")
    kill_switch_set(on=True, reason="A drill", actor="system")
    return operation


def _overdue_untold() -> Operation:
    return stand(S.TIMED_OUT, seller=make_seller(tools=["get_products", "create_media_buy"]))


_ASKS_US = re.compile("asks you|[Yy]ou(r)? answer|Answer the seller|credentials")
_ASKED = re.compile("people decide|is asked$")


def _paused(
    task: str = "create_media_buy",
    *,
    good_for: timedelta = timedelta(days=9),
    status: str = S.INPUT_REQUIRED,
    **columns: Any,
) -> Operation:
    """Its seller asks, over a transport that can be continued."""
    operation = stand(status, task, deadline_at=clock.now() + timedelta(days=1), **columns)
    Seller.objects.filter(pk=operation.seller_id).update(protocol="a2a")
    Continuation.objects.create(
        operation=operation,
        generation=1,
        kind="input",
        descriptor=json.dumps({"task_id": "t", "context_id": "c"}),
        asked="Which markets?",
        expires_at=clock.now() + good_for,
    )
    return operation


def _answered(task: str = "create_media_buy", *, status: str = S.INPUT_REQUIRED, **columns: Any) -> Operation:
    """Its question is answered; what changes something waits for somebody else to release that."""
    operation = _paused(task, status=status, **columns)
    operation_answer(operation_id=operation.pk, generation=1, user=make_user("Ad Ops"), text="Sweden.")
    return operation


def _released(*, stopped: bool = False, status: str = S.INPUT_REQUIRED) -> Operation:
    """The answer is let go; `stopped`: held at the kill switch at once."""
    operation = _answered(status=status)
    if stopped:
        kill_switch_set(on=True, reason="A drill", actor="system")
    release()
    return operation


def _answer_stopped() -> Operation:
    """The kill switch is turned once the answer is let go, and nobody has come by since."""
    operation = _released()
    kill_switch_set(on=True, reason="A drill", actor="system")
    return operation


def _answer_found_stopped() -> Operation:
    operation = _answer_stopped()
    assert claim_sends(limit=10) == []
    return operation


def _answer_asked_while_stopped() -> Operation:
    operation = _answered()
    kill_switch_set(on=True, reason="A drill", actor="system")
    return operation


def _answer_of_a_seller_that(**columns: Any) -> Operation:
    operation = _released()
    Seller.objects.update(**columns)
    return operation


def _answer_left(operation: Operation, *, out: bool = False) -> Operation:
    """The answer has left; `out`: its call is out still, else that was lost."""
    assert len(claim_sends(limit=10)) == 1
    if not out:
        give_back(operation.pk)
    return operation


def _answer_waited_on() -> Operation:
    """Overdue while its answer was to be sent; people wait on."""
    operation = _overdue_with_an_answer()
    wait_on(fresh(operation), actor="system", reason="They said soon", send_again=True)
    return operation


def _overdue_with_an_answer() -> Operation:
    operation = fresh(_released())
    overdue = {"overdue_at": clock.now(), "overdue_told_at": clock.now(), "send_at": None}
    transition(operation, S.TIMED_OUT, actor="system", changes=overdue)
    return operation


def _answer_of_another_protocol() -> Operation:
    operation = _answer_of_a_seller_that(protocol="mcp")
    assert claim_sends(limit=10) == []
    return operation


def _asks_again() -> Operation:
    operation = _released()
    see(operation, answer("input-required", task_id=TASK), "poll")
    return operation


def _answer_lost() -> Operation:
    operation = _answer_left(_released(), out=True)
    see(operation, silent())
    return operation


def _asks_anew() -> Operation:
    operation = _answer_lost()
    for status in ("working", "input-required"):
        see(operation, answer(status, task_id=TASK), "poll")
    return operation


def _let_past() -> Operation:
    operation = _released(stopped=True)
    answered("approve")
    return operation


def _read_answered_while_stopped() -> Operation:
    operation = _then_stopped(_paused("get_products"))
    operation_answer(operation_id=operation.pk, generation=1, user=make_user("Ad Ops"), text="Sweden.")
    return operation


_ANSWERS: dict[str, Callable[[], Operation]] = {
    "its answer is with people": _answered,
    "its answer is with people, stopped": _answer_asked_while_stopped,
    "its answer is to be sent": _released,
    "its answer is to be sent, stopped": _answer_stopped,
    "its answer is to be sent, its seller off": lambda: _answer_of_a_seller_that(active=False),
    "its answer is to be sent, its seller replays no key": lambda: _answer_of_a_seller_that(
        idempotency_ttl_s=None
    ),
    "its answer is at the switch": lambda: _released(stopped=True),
    "its answer was found at the switch": _answer_found_stopped,
    "its answer has left": lambda: _answer_left(_released()),
    "its answer is out": lambda: _answer_left(_released(), out=True),
    "a read whose answer is to be sent": lambda: _answered("get_products"),
    "a read whose answer has left": lambda: _answer_left(_answered("get_products")),
    "credentials were given, with people": lambda: _answered(status=S.AUTH_REQUIRED),
    "credentials were given, to be sent": lambda: _released(status=S.AUTH_REQUIRED),
    "credentials were given, at the switch": lambda: _released(status=S.AUTH_REQUIRED, stopped=True),
    "credentials were given, left": lambda: _answer_left(_released(status=S.AUTH_REQUIRED)),
    "waited on, its answer to be sent": _answer_waited_on,
    "overdue, its answer not sent": _overdue_with_an_answer,
    "its answer is to be sent, and its seller says again that it asks": _asks_again,
    "its answer was lost": _answer_lost,
    "its answer was lost, and its seller asks anew": _asks_anew,
    "its answer was let past the switch": _let_past,
    "its answer was given, and its seller speaks MCP now": _answer_of_another_protocol,
    "a read that was answered while all is stopped": _read_answered_while_stopped,
    "waited on, its question open": lambda: _waited_on(fresh(_paused())),
    "credentials were told of in words, and it is sent again": lambda: _answered(
        status=S.AUTH_REQUIRED, task_id="", send_at=clock.now()
    ),
}
_GROUNDS: dict[str, Callable[[], Operation]] = {
    **_ANSWERS,
    "its question can be answered": _paused,
    "its question is too old to be answered": lambda: _paused(good_for=-timedelta(minutes=1)),
    "a read whose question can be answered": lambda: _paused("get_products"),
    "to be sent": _unsent,
    "to be sent, stopped": _stopped,
    "at a gate, stopped before it was sent": lambda: _at_gate("a purchase that is stopped"),
    "at a gate after one try": lambda: _at_gate("a purchase at a gate"),
    "at a gate after one try, stopped": _gate_then_stopped,
    "its call is lost": lambda: stand(S.CALLING_ADCP, send_at=clock.now()),
    "it is looked up": lambda: stand(S.CALLING_ADCP, send_at=None, next_poll_at=clock.now()),
    "its call is lost, stopped": lambda: _then_stopped(stand(S.CALLING_ADCP, send_at=clock.now())),
    "waited on, to be sent again": lambda: _waited_on(fresh(_turned_away())),
    "waited on, to be sent again, stopped": lambda: _then_stopped(_waited_on(fresh(_turned_away()))),
    "its call is out, stopped": lambda: _then_stopped(
        stand(S.CALLING_ADCP, send_at=clock.now(), out_until=clock.now() + timedelta(hours=1))
    ),
    "its seller asks, and the same is sent again": lambda: stand(S.INPUT_REQUIRED, send_at=clock.now()),
    "its seller asks, and the same is stopped": lambda: _then_stopped(
        stand(S.INPUT_REQUIRED, send_at=clock.now())
    ),
    "sent again by hand": lambda: stand(S.SUBMITTED, send_at=clock.now()),
    "sent again by hand, stopped": lambda: _then_stopped(stand(S.SUBMITTED, send_at=clock.now())),
    "waited on, its answer lost": lambda: _waited_on(fresh(_answer_left(_released()))),
    "its call is out": lambda: stand(S.CALLING_ADCP, out_until=clock.now() + timedelta(hours=1)),
    "turned away": _turned_away,
    "turned away, stopped": lambda: _turned_away(stopped=True),
    "at a gate, turned away": lambda: _turned_away(gate=True),
    "at a gate, turned away, stopped": lambda: _turned_away(stopped=True, gate=True),
    "at a gate, waited on": _waited_on_at_a_gate,
    "its seller tells of no task": _told_of_by,
    "its seller has a tool of another name": lambda: _told_of_by("get_task"),
    "its seller tells by webhook": lambda: _told_by_webhook("get_task_status"),
    "its seller tells by webhook alone": _told_by_webhook,
    "its task has no name": lambda: _told_of_by("list_tasks", task_id=""),
    "its task has no name and cannot be looked for": lambda: _told_of_by(task_id=""),
    "overdue, its seller tells of no task": _overdue_untold,
    "a read whose call is lost": lambda: stand(S.CALLING_ADCP, "get_products", send_at=clock.now()),
    **{
        f"a read that is {status}": lambda s=status: stand(s, "get_products")  # type: ignore[misc]
        for status in (S.SUBMITTED, S.WORKING, S.INPUT_REQUIRED, S.AUTH_REQUIRED, S.TIMED_OUT)
    },
    **{
        status: lambda s=status: stand(s)  # type: ignore[misc]
        for status in (S.SUBMITTED, S.WORKING, S.INPUT_REQUIRED, S.AUTH_REQUIRED, S.TIMED_OUT, S.COMPLETED)
    },
}


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
    is_new = one is not None and one.dispatched_at is not None and operation.status_since > one.dispatched_at
    return None if is_new else one


def _is_answered(operation: Operation) -> bool:
    return _given(operation) is not None


def _is_lost(operation: Operation) -> bool:
    given = _given(operation)
    return given is not None and bool(given.note)


def _is_shut(operation: Operation) -> bool:
    seller = operation.seller
    return not seller.active or (operation.is_mutation and seller.idempotency_ttl_s is None)


def its_question_is_said_to_be_answered_where_it_can_be(operation: Operation) -> None:
    if operation.status != S.INPUT_REQUIRED:
        return
    user, given = make_user("Ad Ops"), {"operation_id": operation.pk, "generation": 1, "text": "Sweden."}
    answers = _tried(lambda: operation_answer(user=user, **given))
    expected = (answers, not answers and not _is_answered(operation))
    said = " ".join(one.does for one in _told(operation).who)
    assert ("answer the seller" in said, "write to the seller" in said) == expected, said
    told = " ".join(_asks(operation, clock.now()).sentences)
    assert ("our answer to" in told, "a letter of ours" in told) == expected, told
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
    people = Approval.objects.filter(status="open").exists() or not given
    people = people or _is_lost(operation) or (_is_shut(operation) and operation.send_at is not None)
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
    acts = _is_lost(operation) or (_is_shut(operation) and operation.send_at is not None)
    title = "Ask whether our answer arrived" if _is_lost(operation) else "Let our answer be sent"
    assert [row.title for row in rows if row.kind == operation.status] == ([title] if acts else [])


def the_same_is_not_sent_beside_an_answer(operation: Operation) -> None:
    user, given = make_user("Ad Ops"), _given(operation)
    if given is not None and given.released_at is not None and given.dispatched_at is None:
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
    assert waits == (leaves or (stopped and "Our answer, given" in page))


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
    what_its_page_says_of_waiting_is_what_happens_next,
)


@pytest.mark.parametrize("ground", _GROUNDS)
def test_what_is_said_of_it_is_so(ground: str) -> None:
    operation = _GROUNDS[ground]()
    for is_so in _SAID:
        with undone():
            is_so(fresh(operation))


@pytest.mark.parametrize("ground", ["at a gate after one try", "at a gate after one try, stopped"])
def test_what_may_have_reached_its_seller_is_said_so(ground: str) -> None:
    operation = fresh(_GROUNDS[ground]())
    told = _told(operation).waiting_for
    assert (may_have_acted(operation), "has not taken it so far" in told) == (False, True), told
    Operation.objects.filter(pk=operation.pk).update(attempts=2)  # one of them without a word
    operation = fresh(operation)
    told = _told(operation).waiting_for
    assert (may_have_acted(operation), "has not taken it so far" in told) == (True, False), told


@pytest.mark.parametrize("ground", [one for one in _GROUNDS if one.startswith("at a gate")])
def test_the_question_at_its_gate_is_named(ground: str) -> None:
    operation = fresh(_GROUNDS[ground]())
    question = Approval.objects.get(status="open")
    told = _told(operation)
    assert any(question.reference in one.does for one in told.who), told.who
    assert operation_next(operation).glyph == "person"
