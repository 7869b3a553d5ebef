"""When to look again, how often to call again, and when an operation is overdue: one table each.

Source: document 000 ("Async Operation Handler", "Webhook Support", "Timeout Handling", "Error Recovery").
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from tasks_app.operations.models import READS, Operation
from tasks_app.operations.models import OperationStatus as S

_SUBMITTED_S = 60
_WORKING_S, _WORKING_POLLS = 5, 24
_INPUT_FIRST_S, _INPUT_FACTOR, _INPUT_CAP_S = 30, 1.5, 300
# With a webhook: first look after 2 min, a watchdog's back-off until 10 min, then as if there were none.
_WEBHOOK_FIRST_S, _WATCHDOG_S, _WEBHOOK_TRUST_S = 120, (30, 60, 120), 600

_OVERDUE_S = 900  # seldom: a late answer is still taken

MAX_ATTEMPTS = 3
_BACKOFF_FIRST_S, _BACKOFF_CAP_S = 1, 60
# A purchase of unknown outcome is asked about until it is overdue, but seldom.
_PATIENT_AFTER, _PATIENT_S = 10, 900


def poll_interval(
    *, status: str, polls: int, age_s: float, webhook: bool, retry_after_s: float | None
) -> timedelta:
    """How long to wait before looking at a pending operation again.

    `polls` were made in this status, `age_s` is the time since it was sent, in seconds. A seller's own
    retry_after wins and is not scaled; everything else is multiplied by settings.POLL_SCALE.
    """
    if retry_after_s:
        return timedelta(seconds=retry_after_s)
    return timedelta(seconds=_interval_s(status, polls, age_s, webhook) * settings.POLL_SCALE)


def _interval_s(status: str, polls: int, age_s: float, webhook: bool) -> float:
    if status == S.TIMED_OUT:
        return _OVERDUE_S
    if status in (S.INPUT_REQUIRED, S.AUTH_REQUIRED):
        return min(_INPUT_FIRST_S * _INPUT_FACTOR ** min(polls, 20), _INPUT_CAP_S)
    if status == S.WORKING and polls < _WORKING_POLLS:
        return _WORKING_S
    if webhook and age_s < _WEBHOOK_TRUST_S * settings.POLL_SCALE:
        return _WEBHOOK_FIRST_S if polls == 0 else _WATCHDOG_S[min(polls - 1, 2)]
    return _SUBMITTED_S


def next_poll(operation: Operation, *, status: str, now: datetime, retry_after_s: float | None) -> datetime:
    """The moment at which `operation`, about to be in `status`, is looked at again."""
    sent = operation.sent_at or now
    return now + poll_interval(
        status=status,
        polls=operation.polls if status == operation.status else 0,
        age_s=(now - sent).total_seconds(),
        webhook=operation.seller.webhooks_trusted(now) and operation.is_mutation,
        retry_after_s=retry_after_s,
    )


def resend_delay(attempts: int, retry_after_s: float | None) -> timedelta:
    """How long to wait before sending the same bytes again after `attempts` attempts."""
    if retry_after_s:
        return timedelta(seconds=retry_after_s)
    cap = _BACKOFF_CAP_S if attempts < _PATIENT_AFTER else _PATIENT_S
    return timedelta(seconds=min(_BACKOFF_FIRST_S * 2 ** min(attempts - 1, 10), cap))


def deadline(task_type: str) -> timedelta:
    """How long an operation of this type may take before it is overdue."""
    deadlines: dict[str, timedelta] = settings.OPERATION_DEADLINES
    if task_type in READS:
        return deadlines["read"]
    return deadlines.get(task_type, deadlines["create_media_buy"])


def call_timeout_s(task_type: str) -> float:
    """The limit of one call, in seconds. A purchase may be held open while the seller is `working`."""
    return settings.CALL_TIMEOUT_S if task_type in READS else settings.WORKING_TIMEOUT_S
