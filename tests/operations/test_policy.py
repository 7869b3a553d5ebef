"""When to look again, when to send again, when it is overdue: the numbers of document 000."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db.models import SmallIntegerField

from tasks_app.operations import policy
from tasks_app.operations.models import PENDING, READS, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.sellers.timing import timing_numbers


@pytest.fixture(autouse=True)
def _unscaled(settings: Any) -> None:
    settings.POLL_SCALE = 1.0


def interval(status: str, *, polls: int = 0, age_s: float = 0, webhook: bool = False) -> float:
    return policy.poll_interval(
        status=status, polls=polls, age_s=age_s, webhook=webhook, retry_after_s=None
    ).total_seconds()


@pytest.mark.parametrize(
    ("status", "polls", "age_s", "webhook", "seconds"),
    [
        # "Async Operation Handler": submitted every 60 s, working every 5 s for 24 polls (two minutes).
        (S.SUBMITTED, 0, 0, False, 60),
        (S.SUBMITTED, 1439, 86_340, False, 60),
        (S.WORKING, 0, 0, False, 5),
        (S.WORKING, 23, 115, False, 5),
        (S.WORKING, 24, 120, False, 60),
        (S.WORKING, 0, 0, True, 5),
        # "Webhook Support": a look after 2 min, until 10 min at our own pace, then as without a webhook.
        (S.SUBMITTED, 0, 0, True, 120),
        (S.SUBMITTED, 1, 120, True, 30),
        (S.SUBMITTED, 2, 150, True, 60),
        (S.SUBMITTED, 3, 210, True, 120),
        (S.SUBMITTED, 9, 599, True, 120),
        (S.SUBMITTED, 10, 600, True, 60),
        (S.WORKING, 24, 120, True, 120),
        # "Task Monitoring": 30 s, times 1.5, never above 5 min.
        (S.INPUT_REQUIRED, 0, 0, False, 30),
        (S.INPUT_REQUIRED, 1, 30, False, 45),
        (S.INPUT_REQUIRED, 2, 75, True, 67.5),
        (S.INPUT_REQUIRED, 6, 900, False, 300),
        (S.INPUT_REQUIRED, 10_000, 900, False, 300),
        (S.AUTH_REQUIRED, 0, 0, True, 30),
        (S.TIMED_OUT, 500, 90_000, True, 900),
    ],
)
def test_poll_intervals(status: str, polls: int, age_s: float, webhook: bool, seconds: float) -> None:
    assert interval(status, polls=polls, age_s=age_s, webhook=webhook) == seconds


def test_one_factor_shortens_every_interval_but_the_sellers_own(settings: Any) -> None:
    settings.POLL_SCALE = 0.01

    assert interval(S.SUBMITTED) == pytest.approx(0.6)
    assert interval(S.SUBMITTED, polls=1, age_s=7, webhook=True) == pytest.approx(0.6), "10 min are 6 s now"
    asked = policy.poll_interval(status=S.SUBMITTED, polls=0, age_s=0, webhook=False, retry_after_s=45.0)
    assert asked == timedelta(seconds=45)


def test_resends_back_off_to_a_minute_and_then_to_a_quarter_of_an_hour() -> None:
    waits = [policy.backoff(attempt).total_seconds() for attempt in range(1, 13)]

    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60, 512, 900, 900]
    assert policy.resend_delay(1, 90.0) == timedelta(seconds=90)


def test_waits_are_longer_by_up_to_the_jitter_and_never_shorter() -> None:
    waits = {policy.resend_delay(4, None).total_seconds() for _ in range(200)}

    assert 8 <= min(waits) < max(waits) <= 8.8
    still = Seller(timing={"jitter": 0})
    assert {policy.resend_delay(4, None, still) for _ in range(20)} == {timedelta(seconds=8)}


def test_each_number_may_be_the_sellers_own() -> None:
    seller = Seller(
        timing={
            "submitted_s": 90,
            "webhook_until_s": 30,
            "input_factor": 2,
            "call_cap_s": 5,
            "call_attempts": 7,
            "deadline_create_media_buy_s": 60,
        }
    )

    def own(status: str, polls: int = 0, age_s: float = 0, webhook: bool = False) -> float:
        found = policy.poll_interval(
            status=status, polls=polls, age_s=age_s, webhook=webhook, retry_after_s=None, seller=seller
        )
        return found.total_seconds()

    assert own(S.SUBMITTED) == 90
    assert own(S.SUBMITTED, polls=1, age_s=31, webhook=True) == 90
    assert own(S.INPUT_REQUIRED, polls=2) == 120
    assert policy.backoff(6, seller) == timedelta(seconds=5)
    assert policy.max_attempts(seller) == 7
    assert policy.deadline("create_media_buy", seller) == timedelta(seconds=60)
    assert policy.deadline("update_media_buy", seller) == timedelta(hours=12)


def test_the_table_covers_every_pending_status() -> None:
    wanted = {(status, webhook) for status in (*PENDING, S.TIMED_OUT) for webhook in (False, True)}

    assert set(policy.PACES) == wanted


def test_so_often_and_then_as_when_overdue() -> None:
    assert interval(S.SUBMITTED, polls=1440, age_s=86_400) == 900


@pytest.mark.parametrize(
    ("task_type", "limit"),
    [
        ("create_media_buy", timedelta(hours=24)),
        ("update_media_buy", timedelta(hours=12)),
        ("creative_approval", timedelta(hours=48)),
        ("sync_accounts", timedelta(hours=24)),
        *((read, timedelta(minutes=10)) for read in sorted(READS)),
    ],
)
def test_deadlines(task_type: str, limit: timedelta) -> None:
    assert policy.deadline(task_type) == limit


def test_a_purchase_may_be_held_open_and_a_read_may_not(settings: Any) -> None:
    assert policy.call_timeout_s("create_media_buy") == settings.WORKING_TIMEOUT_S == 300
    assert policy.call_timeout_s("get_products") == settings.CALL_TIMEOUT_S == 60


def test_only_numbers_that_document_000_states_are_credited_to_it() -> None:
    stated = {
        "submitted_s": 60,
        "submitted_polls": 1440,
        "working_s": 5,
        "working_polls": 24,
        "webhook_first_s": 2 * 60,
        "webhook_until_s": 10 * 60,
        "input_first_s": 30,
        "input_factor": 1.5,
        "input_cap_s": 300,
        "call_attempts": 3,
        "call_first_s": 1,
        "call_cap_s": 60,
        "deadline_create_media_buy_s": 24 * 3600,
        "deadline_update_media_buy_s": 12 * 3600,
        "deadline_creative_approval_s": 48 * 3600,
    }

    credited = {
        name: number.default
        for name, number in timing_numbers().items()
        if number.source.startswith("document 000")
    }

    assert credited == stated


NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)


def next_look(status: str, to: str, *, retry_after_s: float | None = None, **columns: Any) -> float:
    """Seconds until an operation in `status`, about to be in `to`, is looked at again; without jitter."""
    timing = {"jitter": 0, **columns.pop("timing", {})}
    seller = Seller(timing=timing, webhook_mode=columns.pop("webhook_mode", "none"))
    task_type = columns.pop("task_type", "create_media_buy")
    operation = Operation(seller=seller, status=status, task_type=task_type, **columns)
    return (
        policy.next_poll(operation, status=to, now=NOW, retry_after_s=retry_after_s) - NOW
    ).total_seconds()


def test_looks_count_in_the_status_in_which_they_were_made() -> None:
    assert next_look(S.INPUT_REQUIRED, S.INPUT_REQUIRED, polls=1) == 45
    assert next_look(S.WORKING, S.INPUT_REQUIRED, polls=1) == 30
    assert next_look(S.INPUT_REQUIRED, S.INPUT_REQUIRED, polls=0) == 30


def test_the_sellers_own_numbers_hold_for_every_wait() -> None:
    own = {"jitter": 0, "call_first_s": 2, "submitted_s": 7, "submitted_polls": 2, "overdue_s": 50}
    assert [next_look(S.SUBMITTED, S.SUBMITTED, polls=polls, timing=own) for polls in (0, 1, 2)] == [7, 7, 50]
    seller = Seller(timing=own)
    assert [policy.resend_delay(tries, None, seller).total_seconds() for tries in (0, 1, 2, 3)] == [
        2,
        2,
        4,
        8,
    ]
    assert policy.deadline("get_products", Seller(timing={"deadline_read_s": 60})) == timedelta(minutes=1)


def test_what_the_seller_asks_for_is_kept_to_the_second() -> None:
    assert next_look(S.SUBMITTED, S.SUBMITTED, retry_after_s=33, timing={"jitter": 1}) == 33
    assert 60 < next_look(S.SUBMITTED, S.SUBMITTED, timing={"jitter": 1}) <= 120


def test_webhooks_are_relied_on_by_the_age_of_the_call() -> None:
    trusted = {"webhook_mode": "hmac", "polls": 1}
    assert next_look(S.SUBMITTED, S.SUBMITTED, sent_at=NOW, **trusted) == 30
    assert next_look(S.SUBMITTED, S.SUBMITTED, sent_at=NOW - timedelta(minutes=11), **trusted) == 60
    assert next_look(S.SUBMITTED, S.SUBMITTED, **trusted) == 30, "sent this moment"


def test_a_seller_sets_no_pace_of_repeats_below_ours() -> None:
    """ "In a second", said for ever: never sooner than the floor, and ever more seldom."""
    waits = [policy.resend_delay(attempts, 1.0).total_seconds() for attempts in range(1, 40)]

    assert waits[0] == policy.floor().total_seconds() == 6
    assert waits == sorted(waits)
    assert waits[-1] == 900
    day = timedelta(days=1).total_seconds()
    assert day / (sum(waits) / len(waits)) < 1000, "attempts in a day"
    assert policy.resend_delay(1, 45.0).total_seconds() == 45
    asked = policy.poll_interval(status=S.WORKING, polls=0, age_s=0, webhook=False, retry_after_s=1.0)
    assert asked == policy.floor()


def test_a_counter_that_a_seller_drives_is_an_integer() -> None:
    """What goes up with every answer of a seller's, or try of ours, holds more than 32,767."""
    small = {
        f"{model._meta.model_name}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, SmallIntegerField)
    }
    grown = {"attempts", "failures", "polls", "times", "generation", "replays", "gate_round", "version"}
    assert {name for name in small if name.split(".")[1] in grown} == set()


def test_a_sellers_own_floor_and_waits_bound_what_it_asks_for() -> None:
    seller = Seller(timing={"jitter": 0, "repeat_floor_s": 20, "call_first_s": 2, "unclear_cap_s": 90})
    waits = [policy.resend_delay(tries, 1.0, seller).total_seconds() for tries in (1, 9, 10)]
    assert waits == [20, 20, 90], "its floor, and from the tenth attempt our own pace"
    assert policy.resend_delay(1, 70.0, seller) == timedelta(seconds=70)
    low = Seller(timing={"repeat_floor_s": 30, "unclear_cap_s": 10})
    assert policy.resend_delay(10, 1.0, low) == timedelta(seconds=30), "never below its floor"


def test_webhooks_that_are_paused_are_not_waited_for() -> None:
    for until, seconds in ((NOW + timedelta(seconds=1), 60), (NOW, 30)):
        seller = Seller(timing={"jitter": 0}, webhook_mode="hmac", webhook_paused_until=until)
        operation = Operation(seller=seller, status=S.SUBMITTED, task_type="create_media_buy", polls=1)
        due = policy.next_poll(operation, status=S.SUBMITTED, now=NOW, retry_after_s=None)
        assert due == NOW + timedelta(seconds=seconds)


def test_looks_at_an_earlier_pace_say_nothing_of_the_next_but_those_at_the_same_do() -> None:
    seller = Seller(timing={"webhook_first_s": 200})
    told = {"status": S.WORKING, "polls": 24, "age_s": 120, "webhook": True, "retry_after_s": None}
    assert policy.poll_interval(**told, seller=seller) == timedelta(seconds=200), "none with webhooks yet"
    assert interval(S.SUBMITTED, polls=1440, age_s=600, webhook=True) == 900
    assert interval(S.SUBMITTED, polls=1439, age_s=600, webhook=True) == 60
