"""What people are told of a purchase: awaited what, from whom, since when, how long; which media buy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orders.services import deal_book
from tasks_app import clock
from tasks_app.adcp.envelopes import seen_mcp
from tasks_app.adcp.types import WireError
from tasks_app.approvals.models import Approval
from tasks_app.desk.explain import explain
from tasks_app.desk.text import SPACE
from tasks_app.events.bus import Event
from tasks_app.lifecycle.models import OutboxEvent
from tasks_app.lifecycle.transitions import transition
from tasks_app.notifications.models import Notification
from tasks_app.notifications.moments import render_moments
from tasks_app.notifications.selectors import notifications_of
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.services import operation_withdraw
from tasks_app.operations.steering import operation_settle
from tasks_app.operations.telling import operation_tell
from tasks_app.people.actors import actor_key
from tests.clocks import Clock
from tests.factories import approve_deal, make_deal, make_seller, make_team, make_user
from tests.operations.making import answer, ask, fresh, hours, see, stand

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
AT_NOON, NEXT_NOON = f"Wed{SPACE}18{SPACE}Nov, 12:00 UTC", f"Thu{SPACE}19{SPACE}Nov, 12:00 UTC"


@pytest.fixture(autouse=True)
def time(still: Clock) -> Clock:
    still.now = NOON
    return still


def tell(operation: Operation, *, latest: bool = True) -> None:
    """Hand over the operation's events, or the latest alone, as the bus does."""
    rows = list(OutboxEvent.objects.filter(entity_id=operation.pk).order_by("seq"))
    for row in rows[-1:] if latest else rows:
        if row.payload["to"] not in (S.REQUESTED, S.CALLING_ADCP):
            operation_tell(
                Event(
                    type=row.type,
                    entity_type=row.entity_type,
                    entity_id=row.entity_id,
                    seq=row.seq,
                    payload=row.payload,
                    at=clock.now(),
                    position=row.pk,
                )
            )


def told(operation: Operation) -> Notification:
    tell(operation)
    return Notification.objects.latest("pk")


def lines(note: Notification) -> list[str]:
    return render_moments(note.body, "UTC").split("\n")


def test_submitted_says_what_is_awaited_from_whom_since_when_and_no_invented_time() -> None:
    operation = stand(S.SUBMITTED, message="With the sales desk.")
    note = told(operation)
    what = f"create_media_buy ({operation.reference})"
    assert note.title == f"Waiting for Norrland Digital: {what}"
    assert lines(note) == [
        f"Flightdeck waits for the answer of Norrland Digital to {what}, since {AT_NOON}.",
        "No estimate yet: no answer so far, 5 are needed.",
        f"Overdue {NEXT_NOON}; then a person is asked.",
        "Norrland Digital says: With the sales desk.",
    ]
    assert (note.level, note.team, note.kind) == ("info", make_team(), "operation_submitted")
    assert (note.subject_type, note.subject_id) == ("operation", operation.pk)


def test_with_enough_answers_it_says_how_long_they_took(time: Clock) -> None:
    for number, took in enumerate((1, 2, 3, 4, 10)):
        time.now = NOON - timedelta(days=2)
        done = stand(S.SUBMITTED, task_id=f"t-{number}")
        time.now += hours(took)
        see(done, answer("completed", task_id=f"t-{number}"), "poll")
    time.now = NOON
    note = told(stand(S.SUBMITTED))
    expected = f"3{SPACE}h{SPACE}00{SPACE}m, nine in ten within 7{SPACE}h{SPACE}36{SPACE}m."
    assert lines(note)[1] == f"Half of its last 5 answers came within {expected}"


def test_a_deal_is_named_with_what_it_is_part_of() -> None:
    deal = make_deal()
    approve_deal(deal)
    operation = deal_book(deal=deal)
    transition(operation, S.CALLING_ADCP, actor="system", changes={"sent_at": clock.now()})
    see(operation, answer("submitted", task_id="t-1"))
    note = told(operation)
    assert note.title.startswith(f"Waiting for Norrland Digital: create_media_buy for {deal.reference}")


def test_working() -> None:
    operation = stand(S.WORKING)
    note = told(operation)
    what = f"create_media_buy ({operation.reference})"
    assert note.title == f"Norrland Digital is working on {what}"
    assert (
        lines(note)[0] == f"Flightdeck waits for the result of {what} from Norrland Digital, since {AT_NOON}."
    )


def test_a_question_is_told_with_its_words() -> None:
    operation = stand(S.INPUT_REQUIRED, message="Do you waive\ncompetitive   separation?")
    note = told(operation)
    assert note.title == f"Norrland Digital asks about create_media_buy ({operation.reference})"
    assert lines(note) == [
        f"Norrland Digital asks us a question; Halden & Marsh must write to the seller. Asked {AT_NOON}.",
        "Norrland Digital says: Do you waive competitive separation?",
        f"Overdue {NEXT_NOON}; then a person is asked.",
    ]
    assert note.level == "warning"


def test_a_question_without_words_says_so() -> None:
    assert "Norrland Digital did not say what it asks." in told(stand(S.INPUT_REQUIRED)).body


def test_credentials_are_asked_of_operators_alone() -> None:
    operation = stand(S.AUTH_REQUIRED)
    note = told(operation)
    assert note.title == f"Norrland Digital wants credentials for create_media_buy ({operation.reference})"
    assert lines(note)[0] == f"Credentials for Norrland Digital are needed from Ad Ops, since {AT_NOON}."
    assert note in notifications_of(make_user("Ad Ops"))
    assert note not in notifications_of(make_user("Buyer"))


def test_overdue_names_the_question_to_people(time: Clock) -> None:
    operation = stand(S.SUBMITTED)
    time.now += hours(24)
    assert time_out_due(limit=10) == 1
    note = told(operation)
    question = Approval.objects.get(subject_id=operation.pk)
    assert (
        note.title == f"Overdue: Norrland Digital has not answered create_media_buy ({operation.reference})"
    )
    asked = f"Halden & Marsh must decide: keep waiting or stop ({question.reference})."
    assert lines(note) == [
        f"{asked} Overdue since {NEXT_NOON}.",
        f"Sent {AT_NOON}.",
        "No estimate yet: no answer so far, 5 are needed.",
        "The seller may still act; a late answer is still taken.",
    ]
    assert note.level == "warning"


def test_overdue_names_no_other_question_about_it(time: Clock) -> None:
    operation = stand(S.SUBMITTED)
    operation_settle(
        operation_id=operation.pk,
        user=make_user("Ad Ops"),
        end="failed",
        reason="Their letter says so.",
        evidence="Letter of 12 November, page 2",
    )
    time.now += hours(24)
    assert time_out_due(limit=10) == 1
    question = Approval.objects.get(kind="overdue", status="open")
    assert f"or stop ({question.reference})" in lines(told(operation))[0]


def test_approved_names_the_media_buy(time: Clock) -> None:
    operation = stand(S.SUBMITTED)
    time.now += hours(3)
    see(operation, answer("completed", task_id="task-1", payload={"media_buy_id": "nrl-58213"}), "webhook")
    note = told(operation)
    assert note.title == (
        f"Norrland Digital approved create_media_buy ({operation.reference}): media buy nrl-58213"
    )
    assert lines(note) == [
        f"Approved Wed{SPACE}18{SPACE}Nov, 15:00 UTC, 3{SPACE}h{SPACE}00{SPACE}m after it was sent, "
        "seen by webhook."
    ]
    assert note.level == "info"


def test_a_changed_media_buy_is_completed_not_approved() -> None:
    operation = stand(S.COMPLETED, "update_media_buy")
    assert told(operation).title == (
        f"Norrland Digital completed update_media_buy ({operation.reference}): media buy mb-1"
    )


@pytest.mark.parametrize("named", [None, "", 7, ["mb-1"], "m" * 256])
def test_a_result_that_names_no_media_buy_is_said_loudly(named: Any) -> None:
    operation = stand(S.SUBMITTED)
    see(operation, answer("completed", task_id="task-1", payload={"media_buy_id": named}), "poll")
    note = told(operation)
    assert note.title.endswith(": the seller named no media buy")
    assert note.level == "warning"


def test_late_is_said(time: Clock) -> None:
    operation = stand(S.SUBMITTED)
    time.now += hours(24)
    time_out_due(limit=10)
    see(operation, answer("completed", task_id="task-1"), "poll")
    note = told(operation)
    assert lines(note)[1] == "It came after its deadline: a person decides whether it is kept."
    assert note.level == "warning"


def test_rejected_gives_the_sellers_reason() -> None:
    operation = stand(S.SUBMITTED)
    error = WireError(code="BUDGET_TOO_LOW", message="At least 5,000.", field="packages[0].budget")
    see(operation, answer("rejected", task_id="task-1", error=error), "poll")
    note = told(operation)
    assert note.title == f"Norrland Digital rejected create_media_buy ({operation.reference})"
    assert lines(note)[1] == "BUDGET_TOO_LOW (packages[0].budget): At least 5,000."
    assert note.level == "warning"


def test_failed_and_canceled() -> None:
    failed = stand(S.FAILED, task_id="f")
    assert told(failed).title == f"create_media_buy ({failed.reference}) with Norrland Digital failed"
    assert "PRODUCT_UNAVAILABLE" in Notification.objects.latest("pk").body
    withdrawn = ask()
    operation_withdraw(operation=withdrawn, actor="system", reason="Too dear: ask for 12.00")
    note = told(withdrawn)
    assert note.title == f"create_media_buy ({withdrawn.reference}) with Norrland Digital was canceled"
    assert lines(note) == [f"Canceled {AT_NOON}; it was never sent.", "Too dear: ask for 12.00"]


def test_an_account_that_was_opened_at_once_is_no_news() -> None:
    operation = stand(S.SUBMITTED, "sync_accounts", seller=make_seller(tools=["sync_accounts"]))
    see(operation, answer("completed", task_id="task-1", payload={"accounts": []}), "reply")
    tell(operation)
    assert not Notification.objects.exists()


def test_an_account_that_was_waited_for_is_told_without_a_media_buy() -> None:
    operation = stand(S.SUBMITTED, "sync_accounts", seller=make_seller(tools=["sync_accounts"]))
    see(operation, answer("completed", task_id="task-1", payload={"accounts": []}), "poll")
    note = told(operation)
    assert note.title == f"Norrland Digital completed sync_accounts ({operation.reference})"
    assert note.level == "info"


def test_reads_are_not_told_of() -> None:
    tell(stand(S.SUBMITTED, "get_products"))
    assert not Notification.objects.exists()


def test_delivered_twice_it_is_told_once() -> None:
    for status in (S.SUBMITTED, S.INPUT_REQUIRED, S.COMPLETED):
        operation = stand(status, task_id=f"t-{status}")
        tell(operation)
        tell(operation)
    assert Notification.objects.count() == 3


def test_to_and_fro_between_submitted_and_working_is_told_once_each() -> None:
    operation = stand(S.SUBMITTED)
    tell(operation)
    for status in ("working", "submitted", "working", "submitted"):
        see(operation, answer(status, task_id="task-1"), "poll")
        tell(operation)
    kinds = [note.kind for note in Notification.objects.order_by("pk")]
    assert kinds == ["operation_submitted", "operation_working"]


def test_two_questions_are_told_both() -> None:
    operation = stand(S.INPUT_REQUIRED)
    tell(operation)
    see(operation, answer("working", task_id="task-1"), "poll")
    see(operation, answer("input-required", task_id="task-1", message="And the start?"), "poll")
    tell(operation)
    assert Notification.objects.filter(kind="operation_input_required").count() == 2


@pytest.mark.parametrize(
    "body",
    [
        {"reason": "BUDGET_EXCEEDS_LIMIT"},
        {"errors": [{"code": "BUDGET_EXCEEDS_LIMIT", "message": "Is the budget right?"}]},
        {"message": "Approval needed", "result": {"errors": [{"code": "X", "message": "Is it right?"}]}},
    ],
)
def test_what_a_seller_asks_is_told_wherever_it_stands(body: dict[str, Any]) -> None:
    operation = stand(S.SUBMITTED)
    structured = {"status": "input-required", "task_id": "task-1", **body}
    see(operation, seen_mcp({"structuredContent": structured}, task_type="create_media_buy"), "poll")
    asked = body.get("reason") or body.get("result", body)["errors"][0]["message"]
    assert asked in told(operation).body
    assert asked in explain(operation.reference, make_user("Auditor")).waiting_for
    assert body.get("message", asked) in fresh(operation).message
    assert "{" not in fresh(operation).message


def test_what_it_has_left_again_is_not_told_late() -> None:
    operation = stand(S.SUBMITTED)
    see(operation, answer("completed", task_id="task-1"), "poll")
    tell(operation, latest=False)
    assert [note.kind for note in Notification.objects.all()] == ["operation_completed"]


def test_an_operation_of_no_team_is_the_operators() -> None:
    operation = ask(team=None)
    transition(operation, S.CALLING_ADCP, actor="system", changes={"sent_at": clock.now()})
    see(operation, answer("submitted", task_id="t-1"))
    note = told(fresh(operation))
    assert note.team is None
    assert note in notifications_of(make_user("Ad Ops"))


@pytest.mark.parametrize(
    ("status", "role", "hears"),
    [
        (S.FAILED, "Buyer", True),
        (S.REJECTED, "Buyer", True),
        (S.COMPLETED, "Buyer", True),
        (S.SUBMITTED, "Buyer", False),  # of what is awaited operators hear
        (S.FAILED, "Ad Ops", False),  # they are told already
    ],
)
def test_who_asked_for_what_has_no_team_hears_of_its_end(status: str, role: str, hears: bool) -> None:
    asker = make_user(role)
    operation = stand(status, team=None, requested_by=actor_key(asker))
    tell(operation)
    tell(operation)
    of_operators = Notification.objects.get(person=None)
    own = list(Notification.objects.filter(person=asker))
    assert [(note.kind, note.title, note.body) for note in own] == [
        ("asked_operation", of_operators.title, of_operators.body)
    ] * hears
    assert all(note in notifications_of(asker) for note in own)


def test_a_program_that_asked_is_told_nothing() -> None:
    asker = make_user("Buyer", is_service=True)
    tell(stand(S.FAILED, team=None, requested_by=actor_key(asker)))
    assert Notification.objects.get().person is None


def test_long_words_of_a_seller_are_cut() -> None:
    note = told(stand(S.SUBMITTED, message="x" * 2000))
    assert len(note.body) < 900
    assert note.body.endswith("…")
