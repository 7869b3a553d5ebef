"""When to look again, when to send again, when it is overdue: the numbers of document 000."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tasks_app.operations import policy
from tasks_app.operations.models import PENDING, READS
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller


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
        # "Webhook Support": a look after 2 min, a back-off until 10 min, then as without a webhook.
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
