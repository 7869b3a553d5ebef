"""The same end of a task is the same in every channel and on either transport; another one is another.

AdCP L3/async-identity-and-convergence, "Terminal identity and equivalence", through the parsers that read
real sellers.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.canonical import canonical_digest
from tasks_app.operations import publish
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tests.factories import make_account, make_advertiser, make_seller
from tests.operations.making import TASK, fresh, leased_until, see, stand, unknown
from tests.operations.wire import WAYS, arrive, as_floats, deliver, mcp, poll_seen, webhook_body

pytestmark = pytest.mark.django_db

ERROR = {"code": "PRODUCT_UNAVAILABLE", "message": "Sold out.", "recovery": "terminal", "issues": [1]}
BOUGHT = {
    "media_buy_id": "mb-1",
    "media_buy_status": "pending_creatives",
    "revision": 1,
    "total_budget": 5000.5,
    "confirmed_at": "2026-09-01T10:00:00Z",
    "packages": [{"package_id": "p-1", "budget": 5000, "context": {"line": 7}}],
}
ENDS: dict[str, Any] = {
    "completed": BOUGHT,
    "failed": {"errors": [ERROR]},
    "rejected": {"reason": "No such thing.", "errors": [ERROR]},
    "canceled": None,
}
OTHERS: dict[str, Any] = {
    "completed": {**BOUGHT, "packages": [{**BOUGHT["packages"][0], "budget": 5001}]},  # type: ignore[index]
    "failed": {"errors": [{**ERROR, "message": "Not today."}]},
    "rejected": {"reason": "Another reason.", "errors": [ERROR]},
    "canceled": {"errors": [ERROR]},
}


@pytest.mark.parametrize("status", ENDS)
@pytest.mark.parametrize("first", WAYS)
def test_the_same_end_is_a_duplicate_and_another_a_conflict_whichever_way_came_first(
    first: str, status: str
) -> None:
    operation = stand(S.WORKING)

    assert arrive(first, operation, status, ENDS[status]).outcome == "applied"
    assert {way: arrive(way, operation, status, ENDS[status]).outcome for way in WAYS} == dict.fromkeys(
        WAYS, "duplicate"
    )
    assert fresh(operation).settled_by == first.split()[0]

    # What contradicts is kept whole, and changes nothing.
    before = Operation.objects.filter(pk=operation.pk).values().get()

    for way in WAYS:
        told = arrive(way, operation, status, OTHERS[status])
        assert (told.outcome, told.partial) == ("conflict", False), way
        assert "5001" in str(told.body) or status != "completed"
    assert Operation.objects.filter(pk=operation.pk).values().get() == before


def test_numbers_are_equal_by_value() -> None:
    assert canonical_digest(BOUGHT) == canonical_digest(as_floats(BOUGHT))
    assert canonical_digest({"a": 2**70, "b": 1.0}) == canonical_digest({"b": 1, "a": 2**70})
    assert canonical_digest({"a": 2**70}) != canonical_digest({"a": 2**70 + 1})
    assert canonical_digest({"a": 1}) != canonical_digest({"a": True})


@pytest.mark.parametrize("way", WAYS)
def test_a_media_buys_status_in_the_tasks_place_is_the_same_value(way: str) -> None:
    """A 3.0 seller's answer names it `status`, its webhook `media_buy_status`."""
    operation = stand(S.WORKING)
    see(operation, mcp({**BOUGHT, "media_buy_status": None, "status": "pending_creatives"}))
    assert fresh(operation).status == S.COMPLETED

    told = arrive(way, operation, "completed", BOUGHT).outcome

    assert told == "conflict", "null is told, and is a value"
    other = stand(S.WORKING, task_id="task-2")
    without = {key: value for key, value in BOUGHT.items() if key != "media_buy_status"}
    see(other, mcp({**without, "status": "pending_creatives"}))
    assert arrive(way, other, "completed", BOUGHT).outcome == "duplicate"


@pytest.mark.parametrize(
    "result",
    [
        {"errors": [ERROR]},
        {"adcp_error": {key: value for key, value in ERROR.items() if key != "issues"}},
        {"error": ERROR},
        {"errors": [ERROR], "adcp_error": ERROR},
    ],
)
def test_a_fatal_error_is_the_same_wherever_it_stands(result: dict[str, Any]) -> None:
    plain = {key: value for key, value in ERROR.items() if key != "issues"}
    operation = stand(S.WORKING)
    known = [plain] if list(result) == ["adcp_error"] else [ERROR]
    arrive("poll mcp", operation, "failed", {"errors": known})

    assert arrive("webhook", operation, "failed", result).outcome == "duplicate"
    assert fresh(operation).error["code"] == "PRODUCT_UNAVAILABLE"


def test_an_error_alone_in_a_webhooks_result_is_kept_as_the_error() -> None:
    operation = stand(S.WORKING)

    arrive("webhook", operation, "failed", {"error": ERROR})

    assert (fresh(operation).status, fresh(operation).error["code"]) == (S.FAILED, "PRODUCT_UNAVAILABLE")
    assert publish.publish(operation_id=operation.pk) is True


@pytest.mark.parametrize("echoed", [None, "ours", "other"])
def test_our_context_is_the_envelopes_and_another_is_told(echoed: str | None) -> None:
    operation = stand(S.WORKING)
    arrive("poll mcp", operation, "completed", BOUGHT)
    contexts = {"ours": operation.request["context"], "other": {"deal_id": "another"}}
    result = BOUGHT if echoed is None else {**BOUGHT, "context": contexts[echoed]}

    told = deliver(operation, webhook_body(fresh(operation), "completed", result))

    assert told.outcome == ("conflict" if echoed == "other" else "duplicate")


# --- what cannot be about this operation ------------------------------------------------------------------


@pytest.mark.parametrize("before", [S.WORKING, S.COMPLETED])
@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ({"task_id": "task-of-another"}, "task_id changed"),
        ({"task_type": "update_media_buy"}, "tells of update_media_buy"),
        ({"context": {"operation_id": "0199aaaa-0000-7000-8000-000000000000"}}, "the context of another"),
    ],
)
def test_an_envelope_of_something_else_is_a_conflict(before: str, changed: dict[str, Any], note: str) -> None:
    operation = stand(before)
    status = operation.status

    told = deliver(operation, webhook_body(operation, "completed", BOUGHT, **changed))

    assert told.outcome == "conflict"
    assert note in told.note
    assert (fresh(operation).status, fresh(operation).task_id) == (status, TASK)
    assert fresh(operation).next_poll_at is None if before == S.COMPLETED else fresh(operation).next_poll_at


@pytest.mark.usefixtures("still")
def test_a_poll_of_another_task_type_is_a_conflict_and_polled_on() -> None:
    operation = stand(S.WORKING)
    seen = poll_seen(
        operation, "completed", BOUGHT, lambda body, about: mcp({**body, "task_type": "get_products"}, about)
    )

    assert see(operation, seen, "poll").outcome == "conflict"
    assert fresh(operation).status == S.WORKING
    assert fresh(operation).next_poll_at > clock.now()


def test_a_buy_on_another_account_is_a_persons() -> None:
    account = make_account(make_advertiser(), make_seller())
    operation = stand(S.CALLING_ADCP, account=account)
    elsewhere = {**BOUGHT, "account": {"account_id": "acc-of-somebody"}}

    told = see(operation, mcp({**elsewhere, "status": "completed"}))

    assert (told.outcome, told.note) == (
        "conflict",
        "tells of account acc-of-somebody, not acc-norrland-digital",
    )
    assert fresh(operation).status == S.CALLING_ADCP
    assert fresh(operation).deadline_at <= clock.now(), "a person is asked"
    assert fresh(operation).send_at is None


@pytest.mark.parametrize("way", ["poll", "webhook"])
@pytest.mark.parametrize(
    ("named", "outcome"), [("acc-of-somebody", "conflict"), ("acc-norrland-digital", "applied")]
)
def test_a_tasks_record_says_whose_it_is_too(way: str, named: str, outcome: str) -> None:
    operation = stand(S.WORKING, account=make_account(make_advertiser(), make_seller()))
    whose = {"account": {"account_id": named}}

    if way == "webhook":
        told = deliver(operation, webhook_body(operation, "completed", BOUGHT, **whose))
    else:
        seen = poll_seen(operation, "completed", BOUGHT, lambda body, about: mcp({**body, **whose}, about))
        told = see(operation, seen, "poll")

    assert told.outcome == outcome
    assert ("tells of account acc-of-somebody" in told.note) == (outcome == "conflict")


def test_older_news_still_names_the_task() -> None:
    """Else it was polled under no name at all."""
    operation = stand(S.AUTH_REQUIRED, task_id="", seller_news_at=clock.now())

    told = see(operation, mcp({"status": "working", "task_id": TASK, "timestamp": "2026-09-01T10:00:00Z"}))

    assert told.outcome == "stale"
    assert (fresh(operation).task_id, fresh(operation).status) == (TASK, S.AUTH_REQUIRED)
    assert fresh(operation).next_poll_at is not None


# --- ends without their result ----------------------------------------------------------------------------


def legacy_poll(operation: Operation, status: str, error: dict[str, Any] | None) -> Any:
    """A poll of 3.0: the status, at most a summary of the error, no result."""
    extra = {"error": error} if error else {}
    return see(
        operation,
        poll_seen(operation, status, None, lambda body, about: mcp({**body, **extra}, about)),
        "poll",
    )


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("way", ["poll mcp", "poll a2a", "webhook"])
def test_a_failure_told_by_its_summary_is_settled_and_waits_for_its_result(way: str) -> None:
    operation = stand(S.WORKING)

    first = legacy_poll(operation, "failed", ERROR)
    held = fresh(operation)

    assert (first.outcome, first.partial) == ("applied", True)
    assert (held.status, held.error["code"]) == (S.FAILED, "PRODUCT_UNAVAILABLE")
    assert held.next_poll_at > clock.now()
    assert publish.publish(operation_id=operation.pk) is False, "its result is asked for"
    assert publish.publish_due(limit=10) == 0
    whole = arrive(way, operation, "failed", {"errors": [{**ERROR, "message": "Sold out, all of it."}]})
    assert (whole.outcome, whole.partial) == ("applied", False)
    assert fresh(operation).error["message"] == "Sold out, all of it."
    assert fresh(operation).next_poll_at is None
    assert publish.publish(operation_id=operation.pk) is True
    assert publish.publish(operation_id=operation.pk) is False
    again = arrive(way, operation, "failed", {"errors": [{**ERROR, "message": "Sold out, all of it."}]})
    assert again.outcome == "duplicate"
    assert arrive(way, operation, "failed", {"errors": [ERROR]}).outcome == "conflict"


def test_a_failure_that_never_gets_its_result_is_published_after_a_while() -> None:
    operation = stand(S.WORKING)
    legacy_poll(operation, "failed", ERROR)
    now, outcomes = clock.now(), []
    for minute in range(1, 7):
        with clock.injected(lambda minute=minute: now + timedelta(minutes=minute)):
            outcomes.append((legacy_poll(operation, "failed", ERROR).outcome, publish.publish_due(limit=10)))

    assert outcomes == [("duplicate", 0)] * 4 + [("duplicate", 1), ("duplicate", 0)]
    assert fresh(operation).next_poll_at is None
    assert fresh(operation).status == S.FAILED


def test_a_failure_without_result_after_the_whole_one_changes_nothing() -> None:
    operation = stand(S.WORKING)
    arrive("webhook", operation, "failed", {"errors": [ERROR, ERROR]})
    before = Operation.objects.filter(pk=operation.pk).values().get()

    assert legacy_poll(operation, "failed", ERROR).outcome == "indeterminate"
    assert legacy_poll(operation, "failed", {**ERROR, "code": "BUDGET_TOO_LOW"}).outcome == "conflict"
    assert legacy_poll(operation, "completed", None).outcome == "conflict"
    assert Operation.objects.filter(pk=operation.pk).values().get() == before


def test_another_end_than_that_of_the_summary_is_a_conflict() -> None:
    operation = stand(S.WORKING)
    legacy_poll(operation, "failed", ERROR)

    assert arrive("webhook", operation, "completed", BOUGHT).outcome == "conflict"
    assert arrive("webhook", operation, "failed", {"errors": [{**ERROR, "code": "NO"}]}).outcome == "conflict"
    assert fresh(operation).status == S.FAILED
    assert fresh(operation).next_poll_at is not None, "its own result is asked for still"


@pytest.mark.usefixtures("still")
def test_what_cannot_be_read_does_not_end_the_asking() -> None:
    operation = stand(S.WORKING)
    legacy_poll(operation, "completed", None)
    Operation.objects.update(next_poll_at=clock.now())
    CallLease.objects.create(id=operation.pk, seller=operation.seller, until=clock.now())

    assert see(operation, unknown(task_id=TASK), "poll").outcome == "stale"
    assert fresh(operation).next_poll_at > clock.now()
    assert leased_until(operation) is None
    assert arrive("poll mcp", operation, "completed", BOUGHT).outcome == "applied"
    assert fresh(operation).result["media_buy_id"] == "mb-1"


def test_a_buy_named_only_by_its_id_is_published_and_completed_later() -> None:
    """Some sellers tell a finished task's media buy only as an associated object."""
    operation = stand(S.WORKING)
    named = {"associated_objects": [{"type": "media_buy", "id": "mb-1"}]}

    see(
        operation,
        poll_seen(operation, "completed", None, lambda body, about: mcp({**body, **named}, about)),
        "poll",
    )
    assert publish.publish(operation_id=operation.pk) is True
    assert arrive("webhook", operation, "completed", {**BOUGHT, "media_buy_id": "mb-2"}).outcome == "conflict"
    assert arrive("webhook", operation, "completed", BOUGHT).outcome == "applied"
    assert fresh(operation).result["packages"] == BOUGHT["packages"]
    assert publish.publish(operation_id=operation.pk) is False, "once"


def test_a_summary_that_contradicts_its_own_result_settles_nothing() -> None:
    operation = stand(S.WORKING)
    result = {"errors": [{**ERROR, "code": "BUDGET_TOO_LOW"}]}
    seen = poll_seen(operation, "failed", result, lambda body, about: mcp({**body, "error": ERROR}, about))

    told = see(operation, seen, "poll")

    assert (told.outcome, fresh(operation).status) == ("indeterminate", S.WORKING)
    assert "PRODUCT_UNAVAILABLE contradicts its result's BUDGET_TOO_LOW" in told.note


def test_a_canceled_task_without_a_result_ends_at_once() -> None:
    operation = stand(S.WORKING)

    assert legacy_poll(operation, "canceled", None).outcome == "applied"
    assert publish.publish(operation_id=operation.pk) is True
    assert arrive("webhook", operation, "canceled", None).outcome == "duplicate"
