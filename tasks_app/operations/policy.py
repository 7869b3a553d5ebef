"""When to look again, how often to call again, and when an operation is overdue: one table each.

The numbers are settings per seller (`sellers.timing`), with the documents' own as defaults. Source: document
000 ("Async Operation Handler", "Task Monitoring", "Webhook Support", "Timeout Handling", "Error Recovery").
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from tasks_app import clock
from tasks_app.operations.models import READS, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.sellers.timing import timing, timing_deadline

# A purchase of unknown outcome is asked about until it is overdue, but seldom.
_PATIENT_AFTER = 10
_MOST_DOUBLINGS = 20
_GIVEN_UP = 4  # what people gave up is looked at so much less often


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often to look in one status; each field names a number of `sellers.timing`.

    The first look after `first`, the next after `next`, each further one after `factor` times more, at most
    `cap`. Beyond `until_polls` looks, or `until_s` after it was sent, the row `then` applies.
    """

    first: str
    next: str
    factor: str | float
    cap: str
    until_polls: str = ""
    until_s: str = ""
    then: tuple[str, bool] | None = None


_SUBMITTED, _SUBMITTED_WEBHOOK, _OVERDUE = (S.SUBMITTED, False), (S.SUBMITTED, True), (S.TIMED_OUT, False)
_WORKING = {"first": "working_s", "next": "working_s", "factor": 1, "cap": "working_s"}
_INPUT = Pace(first="input_first_s", next="input_first_s", factor="input_factor", cap="input_cap_s")
_SELDOM = Pace(first="overdue_s", next="overdue_s", factor=1, cap="overdue_s")

# Status and whether webhooks come, to the pace.
PACES: dict[tuple[str, bool], Pace] = {
    _SUBMITTED: Pace(
        first="submitted_s",
        next="submitted_s",
        factor=1,
        cap="submitted_s",
        until_polls="submitted_polls",
        then=_OVERDUE,
    ),
    _SUBMITTED_WEBHOOK: Pace(
        first="webhook_first_s",
        next="webhook_next_s",
        factor=2,
        cap="webhook_cap_s",
        until_s="webhook_until_s",
        then=_SUBMITTED,
    ),
    (S.WORKING, False): Pace(**_WORKING, until_polls="working_polls", then=_SUBMITTED),  # type: ignore[arg-type]
    (S.WORKING, True): Pace(**_WORKING, until_polls="working_polls", then=_SUBMITTED_WEBHOOK),  # type: ignore[arg-type]
    (S.INPUT_REQUIRED, False): _INPUT,
    (S.INPUT_REQUIRED, True): _INPUT,
    (S.AUTH_REQUIRED, False): _INPUT,
    (S.AUTH_REQUIRED, True): _INPUT,
    _OVERDUE: _SELDOM,  # a late answer is still taken
    (S.TIMED_OUT, True): _SELDOM,
}


def poll_interval(
    *,
    status: str,
    polls: int,
    age_s: float,
    webhook: bool,
    retry_after_s: float | None,
    seller: Seller | None = None,
) -> timedelta:
    """How long to wait before looking at a pending operation again, without jitter.

    `polls` were made in this status, `age_s` is the time since it was sent, in seconds. A seller's own
    retry_after wins, if above `floor()`, and is not scaled; everything else is multiplied by
    settings.POLL_SCALE.
    """
    if retry_after_s:
        return max(timedelta(seconds=retry_after_s), floor(seller))
    age = age_s / settings.POLL_SCALE
    return timedelta(seconds=_interval_s((status, webhook), polls, age, seller) * settings.POLL_SCALE)


def _interval_s(row: tuple[str, bool], polls: int, age_s: float, seller: Seller | None) -> float:
    pace = PACES.get(row, _SELDOM)
    over = (pace.until_polls and polls >= timing(seller, pace.until_polls)) or (
        pace.until_s and age_s >= timing(seller, pace.until_s)
    )
    if over and pace.then is not None:
        # Looks made at the earlier pace say nothing of how often this one was kept.
        return _interval_s(pace.then, 0 if pace.until_polls else polls, age_s, seller)
    if polls == 0:
        return timing(seller, pace.first)
    factor = timing(seller, pace.factor) if isinstance(pace.factor, str) else pace.factor
    doublings = polls if pace.next == pace.first else polls - 1
    return min(
        timing(seller, pace.next) * factor ** min(doublings, _MOST_DOUBLINGS), timing(seller, pace.cap)
    )


def next_poll(operation: Operation, *, status: str, now: datetime, retry_after_s: float | None) -> datetime:
    """The moment at which `operation`, about to be in `status`, is looked at again."""
    sent, seller = operation.sent_at or now, operation.seller
    wait = poll_interval(
        status=status,
        polls=operation.polls if status == operation.status else 0,
        age_s=(now - sent).total_seconds(),
        webhook=seller.webhooks_trusted(now) and operation.is_mutation,
        retry_after_s=retry_after_s,
        seller=seller,
    )
    if status == S.TIMED_OUT and operation.settled_at is not None:
        wait *= _GIVEN_UP
    return now + (wait if retry_after_s else jittered(wait, seller))


def given_up_for_good(operation: Operation) -> bool:
    """Whether people gave it up so long ago that its seller is asked for it no more."""
    given_up = operation.settled_at
    return given_up is not None and given_up + settings.LOOK_AFTER_GIVING_UP <= clock.now()


def resend_delay(attempts: int, retry_after_s: float | None, seller: Seller | None = None) -> timedelta:
    """How long to wait before sending the same bytes again after `attempts` attempts: exponential, with
    jitter. What the seller asks for is kept exactly, above `floor()`; after many attempts no sooner than we
    would go again ourselves: one that says "in a second" for days is asked ever more seldom."""
    if retry_after_s:
        ours = floor(seller) if attempts < _PATIENT_AFTER else backoff(attempts, seller)
        return max(timedelta(seconds=retry_after_s), floor(seller), ours)
    return jittered(backoff(attempts, seller), seller)


def floor(seller: Seller | None = None) -> timedelta:
    """The shortest wait before anything is repeated because the seller says so."""
    return timedelta(seconds=timing(seller, "repeat_floor_s"))


def backoff(attempts: int, seller: Seller | None = None) -> timedelta:
    """The wait after `attempts` attempts, without jitter."""
    cap = timing(seller, "call_cap_s" if attempts < _PATIENT_AFTER else "unclear_cap_s")
    wait = timing(seller, "call_first_s") * 2 ** min(max(attempts, 1) - 1, _MOST_DOUBLINGS)
    return timedelta(seconds=min(wait, cap))


def jittered(wait: timedelta, seller: Seller | None) -> timedelta:
    """`wait` and up to the seller's share more, so that what began together does not stay together."""
    return wait * (1 + random.random() * timing(seller, "jitter"))  # noqa: S311 (spreads load, hides nothing)


def max_attempts(seller: Seller | None = None) -> int:
    """How often a call is made before it fails, where nothing can have happened at the seller."""
    return int(timing(seller, "call_attempts"))


def deadline(task_type: str, seller: Seller | None = None) -> timedelta:
    """How long an operation of this type may take before it is overdue."""
    if task_type in READS:
        return timing_deadline(seller, "read")
    known = task_type if task_type in settings.OPERATION_DEADLINES else "create_media_buy"
    return timing_deadline(seller, known)


def call_timeout_s(task_type: str) -> float:
    """The limit of one call, in seconds. A purchase may be held open while the seller is `working`."""
    return settings.CALL_TIMEOUT_S if task_type in READS else settings.WORKING_TIMEOUT_S
