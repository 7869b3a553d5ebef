"""What is computed from a deal reads its lines once, and what ended of its changes once for all of them: how
many there are, and how many rules ask, is no matter of statements."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from orders.amounts import amount_after, deal_amounts
from orders.changes import change_question
from orders.doubt import changes_in_doubt, changes_on_their_way
from orders.evidence import deal_evidence
from orders.models import Deal, DealLine, lines_read_once
from orders.policy_facts import deal_facts
from orders.questions import booking_question, difference_question, flight_question, undecided_question
from orders.rooms import change_comes_to
from tasks_app.approvals.policy_models import PolicyRule
from tests.factories import make_deal, make_line
from tests.orders.doors import wanted
from tests.orders.late import fresh, say
from tests.orders.live import booked, first_line, packages

pytestmark = pytest.mark.django_db
LINES = DealLine._meta.db_table


def queries(compute: Callable[[], object], of: str = "") -> int:
    """How many statements it takes, of those that name a table."""
    with CaptureQueriesContext(connection) as asked:
        compute()
    return sum(of in one["sql"] for one in asked.captured_queries)


def raised(deal: Deal, to: int) -> dict[str, Any]:
    return {"media_buy_id": deal.media_buy_id, "packages": [{"package_id": "pkg-1", "budget": to}]}


COMPUTED: dict[str, Callable[[Deal], object]] = {
    "evidence": deal_evidence,
    "the question whether to book it": booking_question,
    "the question about new dates": flight_question,
    "the question that is asked now": undecided_question,
    "the question about what departs": difference_question,
    "what policies judge by": lambda deal: deal_facts(deal, frozenset(PolicyRule)),
    "what a change brings it to": lambda deal: amount_after(deal, raised(deal, 1), raised(deal, 2)),
    "what it comes to with and without": lambda deal: change_comes_to(deal, raised(deal, 1)),
}


@pytest.mark.parametrize("named", COMPUTED)
def test_lines_are_read_once(named: str) -> None:
    deal = fresh(make_deal(make_line(), make_line(product_id="b")))

    assert queries(lambda: COMPUTED[named](deal), LINES) == 1


def test_the_question_about_a_change_reads_them_once() -> None:
    deal = fresh(booked())
    change = wanted(deal, packages=[{"package_id": "pkg-1", "budget": 9_000}])

    assert queries(lambda: change_question(deal, change), LINES) == 1


def test_what_is_written_afterwards_is_seen() -> None:
    deal = make_deal(make_line(budget=Decimal(10_000)))
    assert booking_question(deal).amount == 10_000

    DealLine.objects.filter(deal=deal).update(budget=Decimal(12_000))

    assert booking_question(deal).amount == 12_000
    assert deal_amounts(deal).approved == 12_000


def test_nothing_is_kept_of_what_fails() -> None:
    @lines_read_once
    def failing(deal: Deal) -> None:
        assert list(deal.lines.all())
        raise LookupError

    deal = make_deal()
    with pytest.raises(LookupError):
        failing(deal)

    DealLine.objects.filter(deal=deal).update(budget=Decimal(12_000))
    assert deal_amounts(deal).approved == 12_000


def test_lines_that_were_read_already_are_not_read_again() -> None:
    deal = Deal.objects.prefetch_related("lines").get(pk=make_deal().pk)

    assert queries(lambda: amount_after(deal, {}), LINES) == 0
    assert queries(lambda: list(deal.lines.all())) == 0, "who read them has them still"


def changed(deal: Deal, budget: int) -> None:
    """One more change that its seller has done, and shows."""
    task, asked = f"t-{budget}", [{"package_id": "pkg-1", "budget": budget}]
    change = wanted(fresh(deal), task=task, packages=asked)
    told = {"media_buy_id": deal.media_buy_id, "media_buy_status": "active"}
    told_of_all = {**told, "revision": 20_000 - budget, "packages": packages(deal, budget=budget)}
    say(change, "completed", told_of_all, task_id=task)
    assert first_line(deal).budget == budget


def test_how_many_changes_were_done_takes_no_more_statements() -> None:
    deal = booked()
    changed(deal, 9_000)
    counts = []
    for budget in (8_000, 7_000):
        changed(deal, budget)
        now = fresh(deal)
        counts.append((queries(partial(changes_in_doubt, now)), queries(partial(changes_on_their_way, now))))

    assert counts[0] == counts[1]
