"""Calls that fail: what is sent again, what fails, and what is nobody's but a person's."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tasks_app import clock
from tasks_app.adcp.errors import recovery_for
from tasks_app.adcp.types import Seen, WireError
from tasks_app.notifications.models import Notification
from tasks_app.operations.account_refusals import STATES
from tasks_app.operations.corrections import operation_correct, tell_correction
from tasks_app.operations.models import READS, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.publish import publish
from tasks_app.operations.steered import SteeringRefusedError
from tests.factories import make_account, make_advertiser, make_seller, make_user
from tests.operations.making import (
    answer,
    crashed,
    failed,
    fresh,
    garbled,
    not_sent,
    see,
    silent,
    stand,
    unknown,
)

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("seen", [silent(), garbled(), crashed(), unknown("approved")])
def test_a_purchase_of_unknown_outcome_is_never_failed(seen: Seen) -> None:
    operation = stand(S.CALLING_ADCP)

    for attempt in range(1, 12):
        Operation.objects.filter(pk=operation.pk).update(attempts=attempt)
        assert see(operation, seen if attempt == 1 else not_sent()).outcome == "indeterminate"

    operation = fresh(operation)
    assert operation.status == S.CALLING_ADCP
    assert operation.send_at > clock.now()
    assert operation.message


def test_a_purchase_whose_first_worker_was_killed_is_not_failed_either() -> None:
    operation = stand(S.CALLING_ADCP)

    for attempt in range(2, 7):  # what became of attempt 1 nobody saw
        Operation.objects.filter(pk=operation.pk).update(attempts=attempt)
        see(operation, not_sent())

    assert fresh(operation).status == S.CALLING_ADCP


@pytest.mark.parametrize("task_type", ["create_media_buy", "get_products"])
def test_what_never_left_fails_after_three_attempts(task_type: str) -> None:
    operation = stand(S.CALLING_ADCP, task_type)

    statuses = _attempts(operation, not_sent(), 3)

    operation = fresh(operation)
    assert statuses == [S.CALLING_ADCP, S.CALLING_ADCP, S.FAILED]
    assert operation.error["code"] == "X_FLIGHTDECK_NOT_SENT"
    assert operation.message == "X_FLIGHTDECK_NOT_SENT: connection refused"


@pytest.mark.parametrize(
    "seen", [silent(), garbled(), not_sent(), unknown(), failed("RATE_LIMITED", "transient")]
)
def test_a_read_fails_after_three_attempts(seen: Seen) -> None:
    operation = stand(S.CALLING_ADCP, "get_products")

    assert _attempts(operation, seen, 3)[-1] == S.FAILED
    assert fresh(operation).message


def test_a_key_in_flight_is_waited_for_as_long_as_the_seller_says() -> None:
    operation, now = stand(S.CALLING_ADCP), clock.now()
    busy = failed("IDEMPOTENCY_IN_FLIGHT", "transient", retry_after=30.0)

    with clock.injected(lambda: now):
        assert set(_attempts(operation, busy, 6)) == {S.CALLING_ADCP}
    assert timedelta(seconds=25) < fresh(operation).send_at - now <= timedelta(seconds=30)


@pytest.mark.parametrize("code", ["IDEMPOTENCY_EXPIRED", "IDEMPOTENCY_CONFLICT"])
def test_a_lost_key_after_an_unknown_outcome_goes_to_a_person(code: str) -> None:
    operation = stand(S.CALLING_ADCP)
    see(operation, silent())
    Operation.objects.filter(pk=operation.pk).update(attempts=2)

    assert see(operation, failed(code, "correctable")).outcome == "indeterminate"

    operation = fresh(operation)
    assert (operation.status, operation.send_at) == (S.CALLING_ADCP, None)
    assert operation.deadline_at <= clock.now()
    assert code in operation.message


def test_a_refused_key_of_a_first_attempt_is_a_plain_failure() -> None:
    operation = stand(S.CALLING_ADCP)

    see(operation, failed("IDEMPOTENCY_CONFLICT", "correctable"))
    assert fresh(operation).status == S.FAILED


def test_what_the_seller_wants_corrected_goes_to_people_with_field_and_words() -> None:
    operation = stand(S.CALLING_ADCP)
    error = WireError(
        code="X_SELLER_BAD_GEO",  # unknown to the standard: its own recovery says what it is
        message="geo_metros is unknown",
        recovery="correctable",
        field="packages[0].targeting_overlay.geo_metros",
        suggestion="use geo_countries",
    )

    see(operation, answer("failed", error=error))
    publish(operation_id=operation.pk)
    tell_correction(fresh(operation))

    assert (fresh(operation).status, fresh(operation).attempts) == (S.FAILED, 1), "never sent again as it is"
    note = Notification.objects.get(kind="correction_wanted")
    assert (note.team, note.subject_id) == (operation.team, operation.pk)
    assert "packages[0].targeting_overlay.geo_metros" in note.title
    for words in ("geo_metros is unknown", "use geo_countries", "X_SELLER_BAD_GEO"):
        assert words in note.body


@pytest.mark.parametrize("code", ["X_SELLER_BAD_GEO", *sorted(STATES)])
@pytest.mark.parametrize("task", ["sync_accounts", *sorted(READS)])
def test_of_what_nobody_can_correct_people_read_where_it_comes_from(task: str, code: str) -> None:
    """Purchases and changes: tests/orders/test_correction_told.py."""
    seller = make_seller(tools=[task])
    operation = stand(S.CALLING_ADCP, task, seller=seller, account=make_account(make_advertiser(), seller))
    see(operation, answer("failed", error=WireError(code=code, message="No.", recovery="correctable")))
    publish(operation_id=operation.pk)
    body = Notification.objects.get(kind="correction_wanted").body
    assert "what else is asked is put right where it came from." in body
    assert "anew" not in body
    with pytest.raises(SteeringRefusedError, match="Only a purchase or a change is corrected"):
        operation_correct(
            operation_id=operation.pk,
            user=make_user("Administrator"),
            arguments={"x": 1},
            reason="As it says",
        )


@pytest.mark.parametrize(
    ("code", "given", "recovery"),
    [
        ("RATE_LIMITED", None, "transient"),
        ("X_VENDOR_BUSY", "transient", "transient"),
        ("X_VENDOR_BUSY", None, "terminal"),
        ("X_VENDOR_BUSY", "whenever", "terminal"),
        ("PRODUCT_NOT_FOUND", None, "correctable"),
    ],
)
def test_a_code_nobody_knows_is_as_its_recovery_says(code: str, given: str | None, recovery: str) -> None:
    assert recovery_for(code, given) == recovery


def test_an_unknown_code_called_transient_is_tried_so_often_and_no_more() -> None:
    operation = stand(S.CALLING_ADCP)

    statuses = _attempts(operation, failed("X_VENDOR_BUSY", "transient"), 3)
    assert statuses == [S.CALLING_ADCP, S.CALLING_ADCP, S.FAILED]
    assert not Notification.objects.filter(kind="correction_wanted").exists()


def test_a_replayed_answer_is_read_again_at_once() -> None:
    """It is as old as the first one: what holds now the seller says when it is asked."""
    operation = stand(S.CALLING_ADCP)

    see(operation, answer("submitted", task_id="t-1", replayed=True))

    assert fresh(operation).status == S.SUBMITTED
    assert fresh(operation).next_poll_at <= clock.now()


@pytest.mark.usefixtures("still")
def test_a_purchase_without_credentials_waits_and_is_sent_again() -> None:
    operation = stand(S.CALLING_ADCP)
    refused = answer("auth-required", error=failed("AUTH_INVALID").error, message="not our token")

    see(operation, refused)
    first = fresh(operation)
    Operation.objects.filter(pk=operation.pk).update(attempts=2)
    assert see(operation, refused).outcome == "duplicate"
    second = fresh(operation)

    assert (first.status, first.message) == (S.AUTH_REQUIRED, "not our token")
    assert clock.now() < first.send_at < second.send_at
    assert _attempts(operation, not_sent(), 1) == [S.AUTH_REQUIRED], "a refusal is no failed attempt"
    assert see(operation, answer("completed")).outcome == "applied"


def test_a_read_without_credentials_fails_at_once() -> None:
    operation = stand(S.CALLING_ADCP, "get_products")

    see(operation, answer("auth-required", error=failed("AUTH_INVALID").error))
    assert fresh(operation).status == S.FAILED


def _attempts(operation: Operation, seen: Seen, times: int) -> list[str]:
    statuses = []
    for attempt in range(1, times + 1):
        Operation.objects.filter(pk=operation.pk).update(attempts=attempt)
        see(operation, seen)
        statuses.append(fresh(operation).status)
    return statuses
