"""What a chaos run counts of the load: by the order of what happened, in the sellers' books and our rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bench.chaos.load import Attempt, Moment, Span, beside, paces, taken, waiters
from bench.chaos.plan import SHARE

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HUNG = [Span(10, 16), Span(40, 46)]


def begins(at: float, looking: int = 0) -> Moment:
    return Moment(at=at, begun=True, out=1, looking=looking, of_one=looking)


def test_calls_of_others_count_while_the_flooded_seller_has_much_of_its_share() -> None:
    much = SHARE // 2
    flooded = [begins(1, much - 1), begins(2, much), begins(3, SHARE), begins(4, much - 1), begins(9, much)]
    others = [begins(1.5), begins(2.5), begins(3.5), begins(4.5), Moment(2.5, False, 0, 0, 0)]
    assert beside(flooded, others) == 2


def attempt(operation: str, begins_s: float, ends_s: float, error: str = "") -> Attempt:
    began, answered = (NOON + timedelta(seconds=second) for second in (begins_s, ends_s))
    return Attempt(operation, began, answered, error)


@pytest.mark.parametrize(
    ("again_after_s", "too_soon"), [(1.0, 1), (5.4, 1), (6.0, 0), (90.0, 0)], ids=lambda value: f"{value}"
)
@pytest.mark.parametrize("error", ["IDEMPOTENCY_IN_FLIGHT", "SERVICE_UNAVAILABLE"])
def test_a_call_made_again_in_a_second_is_too_soon(error: str, again_after_s: float, too_soon: int) -> None:
    attempts = [attempt("a", 0, 2, error), attempt("a", 2 + again_after_s, 99)]
    assert paces(attempts) == (1, too_soon)


def test_only_what_the_seller_asked_for_is_judged_and_each_purchase_by_itself() -> None:
    lost = [attempt("a", 0, 1, "TIMEOUT"), attempt("a", 2, 3, "IDEMPOTENCY_IN_FLIGHT")]
    assert paces([*lost, attempt("b", 3.1, 4)]) == (0, 0)


def test_who_comes_while_keys_hang_is_told_so_or_kept_waiting_and_one_asks_for_them() -> None:
    webhooks = [
        Span(9.9, 16.1, "401"),  # before
        Span(10.1, 16.2, "200"),  # asks for the keys
        Span(11, 11.1, "503"),
        Span(12, 17, "503"),  # waited
        Span(41, 41.1, "503"),
        Span(42, 42.1, "400"),
        Span(20, 20.1, "503"),  # nothing hangs
    ]
    assert waiters(HUNG, webhooks) == (2, 1)


def test_other_sellers_webhooks_count_where_they_came_and_were_taken_meanwhile() -> None:
    webhooks = [Span(11, 12, "200"), Span(41, 42, "202"), Span(11, 12, "503"), Span(15, 17, "200")]
    assert taken(HUNG, webhooks) == 2
    assert taken([], webhooks) == 0
