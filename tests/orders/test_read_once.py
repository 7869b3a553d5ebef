"""What is computed from a deal reads its lines once, and what ended of its changes once for all of them: how
many there are, and how many rules ask, is no matter of statements."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import orders
from orders import not_shown
from orders.amounts import amount_after, approved_after, deal_amounts, totals_after
from orders.changes import change_check, change_question
from orders.doubt import changes_in_doubt, changes_on_their_way, changes_sent
from orders.evidence import cancellation_evidence, deal_evidence
from orders.flights import change_outside
from orders.models import Deal, DealLine, lines_read_once
from orders.policy_facts import deal_facts
from orders.questions import (
    CHANGE_NOT_SHOWN,
    booking_question,
    difference_question,
    flight_question,
    po_number_question,
    undecided_question,
)
from orders.rooms import change_comes_to
from tasks_app.adcp.requests import UpdateMediaBuy
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policy_models import PolicyRule
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tests.factories import make_deal, make_line
from tests.orders.doors import wanted
from tests.orders.late import fresh, say
from tests.orders.live import booked, first_line, packages

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
LINES = DealLine._meta.db_table


def queries(compute: Callable[[], object], of: str = "") -> int:
    """How many statements it takes, of those that name a table."""
    with CaptureQueriesContext(connection) as asked:
        compute()
    return sum(of in one["sql"] for one in asked.captured_queries)


def raised(deal: Deal, to: int) -> dict[str, Any]:
    return {"media_buy_id": deal.media_buy_id, "packages": [{"package_id": "pkg-1", "budget": to}]}


CHANGE = {"packages": [{"package_id": "pkg-1", "budget": 9_000}]}
# Each of a deal, and of a change of it that its seller was sent.
COMPUTED: dict[Callable[..., object], Callable[[Deal, Operation], object]] = {
    deal_evidence: lambda deal, _: deal_evidence(deal),
    cancellation_evidence: lambda deal, change: cancellation_evidence(deal, change.request),
    booking_question: lambda deal, _: booking_question(deal),
    flight_question: lambda deal, _: flight_question(deal),
    undecided_question: lambda deal, _: undecided_question(deal),
    po_number_question: lambda deal, change: po_number_question(deal, change, []),
    difference_question: lambda deal, _: difference_question(deal),
    change_question: lambda deal, change: change_question(deal, change),
    change_check: lambda deal, change: change_check(deal, UpdateMediaBuy.model_validate(change.request)),
    not_shown._question_of: lambda deal, change: not_shown._question_of(deal, change, []),
    deal_facts: lambda deal, _: deal_facts(deal, frozenset(PolicyRule)),
    amount_after: lambda deal, change: amount_after(deal, change.request, raised(deal, 2)),
    approved_after: lambda deal, change: approved_after(deal, change.request, raised(deal, 2)),
    totals_after: lambda deal, change: totals_after(deal, change.request),
    change_comes_to: lambda deal, _: change_comes_to(deal, raised(deal, 1)),
    change_outside: lambda deal, change: change_outside(deal, change.request),
}


def test_every_function_that_is_declared_so_is_asked() -> None:
    code = deal_evidence.__code__  # the wrapper's, which all of them share
    names = [module.name for module in pkgutil.iter_modules(orders.__path__, "orders.") if not module.ispkg]
    named = [value for name in names for value in vars(import_module(name)).values()]
    assert {value for value in named if getattr(value, "__code__", None) is code} == COMPUTED.keys()


@pytest.mark.parametrize("function", COMPUTED, ids=lambda one: one.__name__)
def test_lines_are_read_once(function: Callable[..., object]) -> None:
    deal = booked(lines=(make_line(), make_line(product_id="b")))
    change = wanted(deal, **CHANGE)
    now = fresh(deal)

    assert queries(lambda: COMPUTED[function](now, change), LINES) == 1


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


def test_how_many_were_done_takes_no_more_statements_while_people_are_asked_about_one() -> None:
    deal = booked(lines=tuple(make_line(product_id=one) for one in "abcd"))
    Seller.objects.update(slots=9, tools=["create_media_buy", "update_media_buy"])
    doubted = wanted(fresh(deal), task="t-4", packages=[{"package_id": "pkg-4", "budget": 9_000}])
    say(doubted, "completed", {"media_buy_id": deal.media_buy_id}, task_id="t-4")
    assert Approval.objects.get(kind=CHANGE_NOT_SHOWN).status == "open"
    counts = []
    for at in (1, 2, 3):
        # Each of another package: what newer changes have decided is not looked at.
        asked = [{"package_id": f"pkg-{at}", "budget": 9_000}]
        change = wanted(fresh(deal), task=f"t-{at}", packages=asked)
        told = {**packages(deal)[at - 1], "budget": 9_000.0}
        answer = {"media_buy_id": deal.media_buy_id, "revision": at + 1, "affected_packages": [told]}
        say(change, "completed", answer, task_id=f"t-{at}")
        assert fresh(deal).lines.get(position=at).budget == 9_000
        counts.append(queries(partial(changes_in_doubt, fresh(deal))))

    assert counts[1:] == [counts[0]] * 2


def test_how_many_are_on_their_way_or_in_doubt_takes_no_more_statements() -> None:
    deal = booked(lines=tuple(make_line(product_id=one) for one in "abcdef"))
    Seller.objects.update(slots=9, tools=["create_media_buy", "update_media_buy"])
    counts = []
    for at in (1, 3, 5):
        doubted, on_its_way = (
            wanted(fresh(deal), task=f"t-{n}", packages=[{"package_id": f"pkg-{n}", "budget": 9_000}])
            for n in (at, at + 1)
        )
        say(doubted, "completed", {"media_buy_id": deal.media_buy_id}, task_id=f"t-{at}")
        now = fresh(deal)
        assert len(changes_in_doubt(now)) == (at + 1) / 2
        assert len(changes_sent(now)) == (at + 1) / 2
        counts.append([queries(partial(ask, now)) for ask in (changes_on_their_way, changes_sent)])
        assert on_its_way.pk

    assert counts[1:] == [counts[0]] * 2
