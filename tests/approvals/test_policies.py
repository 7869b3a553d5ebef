"""What policies demand of a question: a table, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks_app.approvals.policies import Asked, Facts, Ground, Policy, Verdict, policy_evaluate
from tasks_app.approvals.policy_models import OnExpiry, PolicyRule
from tasks_app.approvals.policy_words import policy_sentences
from tasks_app.approvals.rates import Rate
from tasks_app.approvals.splitting import Flight, Neighbour, parts_beside
from tasks_app.sellers.hours import hours_parse

NOW = datetime(2026, 11, 20, 15, tzinfo=UTC)  # a Friday
GROUND = Ground(now=NOW, deadline=timedelta(hours=24))
EUR = {"EUR": Rate(currency="EUR", day=date(2026, 11, 19), usd=Decimal("1.1"), source="ECB")}
R = PolicyRule


def policy(rule: PolicyRule = R.ALWAYS, **said: Any) -> Policy:
    defaults: dict[str, Any] = {
        "key": str(rule),
        "name": f"Rule {rule}",
        "kinds": ("deal",),
        "limit": Decimal(100_000),
        "currency": "USD",
        "percent": Decimal(10),
        "categories": ("age_restricted", "gambling_advertising"),
        "quorum": 2,
    }
    return Policy(rule=rule, **{**defaults, **said})


def asked(amount: Any = 50_000, currency: str = "USD", **facts: Any) -> Asked:
    gross = None if amount is None else Decimal(str(amount))
    return Asked(kind="deal", amount=gross, currency=currency, facts=Facts(**facts))


def flight(start: int, end: int) -> Flight:
    return Flight(start=NOW + timedelta(days=start), end=NOW + timedelta(days=end))


def part(reference: str, start: int, end: int, amount: int = 60_000, currency: str = "USD") -> Neighbour:
    return Neighbour(
        reference=reference, flight=flight(start, end), amount=Decimal(amount), currency=currency
    )


def judged(question: Asked, *policies: Policy, rates: Any = EUR, ground: Ground = GROUND) -> Verdict:
    return policy_evaluate(question, policies, rates, ground)


def why(question: Asked, one: Policy, rates: Any = EUR) -> str:
    return " ".join(caught.why for caught in judged(question, one, rates=rates).caught)


@pytest.mark.parametrize(
    ("question", "rule", "said"),
    [
        (asked(1), R.ALWAYS, "It is put to people"),
        (asked(99_999.99), R.AMOUNT, ""),
        (asked(100_000), R.AMOUNT, "100,000.00 USD is at or over 100,000.00 USD."),
        (asked(90_909.09, "EUR"), R.AMOUNT, ""),
        (
            asked(90_909.10, "EUR"),
            R.AMOUNT,
            "90,909.10 EUR, 100,000.01 USD by 1.1 USD for one EUR (ECB, 19 Nov 2026), is at or over",
        ),
        (asked(1, "SEK"), R.AMOUNT, "There is no exchange rate for SEK, so it is caught as if"),
        (asked(None), R.AMOUNT, "What it comes to is not known"),
        (asked(first_order=True), R.FIRST_ORDER, "It would be the first order with this seller."),
        (asked(), R.FIRST_ORDER, ""),
        (asked(categories=frozenset({"age_restricted", "x"})), R.SENSITIVE, "It falls under age_restricted."),
        (asked(categories=frozenset({"x"})), R.SENSITIVE, ""),
        (asked(manual=("Pre-roll is not guaranteed",)), R.MANUAL, "Pre-roll is not guaranteed."),
        (asked(), R.MANUAL, ""),
        (asked(55_000, approved=Decimal(50_000)), R.CHANGE, ""),
        (
            asked(55_000.01, approved=Decimal(50_000)),
            R.CHANGE,
            "50,000.00 USD approved becomes 55,000.01 USD: more than 10",
        ),
        (asked(44_999, approved=Decimal(50_000)), R.CHANGE, "more than 10"),
        (asked(1_000_000), R.CHANGE, ""),
        (asked(None, approved=Decimal(5)), R.CHANGE, "is not known, so it is caught"),
        (asked(90_000, approved=Decimal(0)), R.CHANGE, "is not known, so it is caught"),
        (asked(99_000, flight=flight(0, 10)), R.SPLITTING, ""),
        (asked(200_000, flight=flight(0, 10)), R.SPLITTING, ""),
        (
            asked(40_000, flight=flight(0, 10), neighbours=(part("DEAL-1", 11, 20),)),
            R.SPLITTING,
            "With DEAL-1, for the same advertiser, seller and flight: 100,000.00 USD is at or over",
        ),
        (asked(39_999, flight=flight(0, 10), neighbours=(part("DEAL-1", 11, 20),)), R.SPLITTING, ""),
        (asked(90_000, flight=flight(0, 10), neighbours=(part("DEAL-1", 12, 20),)), R.SPLITTING, ""),
        (
            asked(30_000, flight=flight(0, 10), neighbours=(part("DEAL-1", 5, 6, 70_000, "EUR"),)),
            R.SPLITTING,
            "107,000.00 USD by 1.1 USD for one EUR",
        ),
        (
            asked(1, flight=flight(0, 10), neighbours=(part("DEAL-1", 5, 6, 1, "NOK"),)),
            R.SPLITTING,
            "There is no exchange rate for NOK",
        ),
    ],
)
def test_what_each_rule_catches_and_says(question: Asked, rule: PolicyRule, said: str) -> None:
    found = why(question, policy(rule))
    assert found.startswith(said) or said in found
    assert bool(found) == bool(said)


def test_a_limit_in_another_currency_is_compared_in_dollars_too() -> None:
    euros = policy(R.AMOUNT, limit=Decimal(100_000), currency="EUR")
    assert not why(asked(109_999), euros)
    assert "at or over 100,000.00 EUR" in why(asked(110_000), euros)
    assert not why(asked(99_999, "EUR"), euros, rates={}), "the same currency needs no rate"
    assert "no exchange rate for EUR" in why(asked(1), euros, rates={})


def test_a_row_of_short_flights_is_one_order() -> None:
    weeks = [part(f"D{n}", 7 * n, 7 * n + 7) for n in (1, 2, 3)]
    beside = parts_beside(flight(0, 7), weeks, timedelta())
    assert [one.reference for one in beside] == ["D1", "D2", "D3"]
    assert parts_beside(flight(0, 6), weeks, timedelta()) == ()


def test_the_strictest_of_each_wins_and_all_are_named() -> None:
    verdict = judged(
        asked(150_000),
        policy(R.ALWAYS, quorum=1, roles=("Approver", "Administrator"), deadline=timedelta(hours=48)),
        policy(
            R.AMOUNT,
            version=4,
            roles=("Administrator", "Finance"),
            deadline=timedelta(hours=8),
            escalate_after=timedelta(hours=4),
            escalate_to="Administrator",
            on_expiry=OnExpiry.WAIT,
        ),
        policy(R.FIRST_ORDER, quorum=9),
    )
    assert [(one.key, one.name, one.rule, one.version) for one in verdict.caught] == [
        ("always", "Rule always", R.ALWAYS, 1),
        ("amount", "Rule amount", R.AMOUNT, 4),
    ]
    assert (verdict.quorum, verdict.roles) == (2, ("Administrator",))
    assert verdict.due_at == NOW + timedelta(hours=8)
    assert (verdict.escalate_at, verdict.escalate_to) == (NOW + timedelta(hours=4), ("Administrator",))
    assert verdict.on_expiry == OnExpiry.WAIT
    ends = judged(
        asked(), policy(key="a", on_expiry=OnExpiry.WAIT), policy(key="b", on_expiry=OnExpiry.EXPIRE)
    )
    assert ends.on_expiry == OnExpiry.EXPIRE


def test_policies_without_a_role_in_common_want_an_administrator() -> None:
    verdict = judged(asked(), policy(key="a", roles=("Approver",)), policy(key="b", roles=("Finance",)))
    assert verdict.roles == ("Administrator",)


def test_a_lax_policy_lets_nobody_in_that_a_strict_one_keeps_out() -> None:
    strict = policy(key="strict", roles=("Administrator",))
    lax = policy(key="lax", escalate_after=timedelta(hours=1), escalate_to="Approver")
    verdict = judged(asked(), strict, lax)
    assert (verdict.roles, verdict.escalate_to) == (("Administrator",), ("Administrator",))


@pytest.mark.parametrize(
    ("hold_h", "due_h"),
    [(None, 24), (100, 24), (24.5, 23.5), (3, 2), (1, 0.5), (-1, 24)],
)
def test_a_deadline_ends_before_the_sellers_hold(hold_h: float | None, due_h: float) -> None:
    hold = None if hold_h is None else NOW + timedelta(hours=hold_h)
    assert judged(asked(hold_until=hold)).due_at == NOW + timedelta(hours=due_h)


def test_deadlines_count_in_the_sellers_hours_where_they_are_known() -> None:
    hours = hours_parse("Mon-Fri 09:00-17:00 UTC")
    one = policy(deadline=timedelta(hours=4), business_hours=True)
    assert judged(asked(hours=hours), one).due_at == datetime(2026, 11, 23, 11, tzinfo=UTC)
    assert judged(asked(), one).due_at == NOW + timedelta(hours=4)
    by_the_clock = replace(one, business_hours=False)
    assert judged(asked(hours=hours), by_the_clock).due_at == NOW + timedelta(hours=4)


def test_escalation_counts_in_the_sellers_hours_where_the_policy_does() -> None:
    hours = hours_parse("Mon-Fri 09:00-17:00 UTC")
    one = policy(
        deadline=timedelta(days=9),
        escalate_after=timedelta(hours=4),
        escalate_to="Finance",
        business_hours=True,
    )
    assert judged(asked(hours=hours), one).escalate_at == datetime(2026, 11, 23, 11, tzinfo=UTC)
    by_the_clock = replace(one, business_hours=False)
    assert judged(asked(hours=hours), by_the_clock).escalate_at == NOW + timedelta(hours=4)


@pytest.mark.parametrize(
    ("others", "to"),
    [
        ([], ("Finance",)),
        ([{"roles": ()}], ("Finance",)),
        ([{"roles": ("Finance", "Approver")}], ("Finance",)),
        ([{"roles": ("Approver",)}], ("Administrator",)),
        ([{"roles": ("Approver",), "escalate_to": "Finance"}], ("Finance",)),
        ([{"escalate_to": "Approver"}], ("Approver", "Finance")),
        ([{"escalate_to": "Approver", "roles": ("Finance",)}], ("Approver", "Finance")),
    ],
)
def test_it_is_put_to_roles_that_no_policy_keeps_out(
    others: list[dict[str, Any]], to: tuple[str, ...]
) -> None:
    one = policy(key="one", escalate_after=timedelta(hours=1), escalate_to="Finance")
    rest = [policy(key=f"other {number}", **other) for number, other in enumerate(others)]
    assert judged(asked(), one, *rest).escalate_to == to


def test_escalation_is_before_the_deadline_that_a_hold_brings_forward() -> None:
    one = policy(escalate_after=timedelta(hours=12), escalate_to="Administrator")
    verdict = judged(asked(hold_until=NOW + timedelta(hours=3)), one)
    assert (verdict.due_at, verdict.escalate_at) == (NOW + timedelta(hours=2), NOW + timedelta(hours=1))


def test_a_question_of_another_kind_is_not_looked_at() -> None:
    verdict = judged(replace(asked(1), kind="conflict"), policy())
    assert (verdict.caught, verdict.quorum, verdict.roles) == ((), 1, ())


ROLES = st.lists(st.sampled_from(["Approver", "Administrator", "Finance"]), max_size=3, unique=True).map(
    tuple
)
SPANS = st.none() | st.integers(1, 200).map(lambda hours: timedelta(hours=hours))
POLICIES = st.lists(
    st.builds(
        policy,
        rule=st.sampled_from(list(PolicyRule)),
        key=st.uuids().map(str),
        limit=st.integers(1, 200_000).map(Decimal),
        currency=st.sampled_from(["USD", "EUR", "SEK"]),
        percent=st.integers(0, 100).map(Decimal),
        quorum=st.integers(1, 5),
        roles=ROLES,
        deadline=SPANS,
        escalate_after=SPANS,
        escalate_to=st.sampled_from(["", "Administrator", "Finance"]),
        on_expiry=st.sampled_from(list(OnExpiry)),
    ),
    max_size=6,
    unique_by=lambda one: one.key,
)
AMOUNTS = st.decimals(min_value=50_000, max_value=300_000, places=2)
QUESTIONS = st.builds(
    asked,
    amount=st.none() | AMOUNTS,
    currency=st.sampled_from(["USD", "EUR", "SEK"]),
    approved=st.none() | st.just(Decimal(50_000)),
    first_order=st.booleans(),
    manual=st.sampled_from([(), ("It is not guaranteed",)]),
    flight=st.just(flight(0, 10)),
    neighbours=st.sampled_from([(), (part("DEAL-1", 3, 5),), (part("DEAL-1", 3, 5, 9, "EUR"),)]),
    hold_until=st.none() | st.integers(-50, 500).map(lambda hours: NOW + timedelta(hours=hours)),
)


@settings(deadline=None)
@given(question=QUESTIONS, policies=POLICIES)
def test_no_verdict_ever_approves(question: Asked, policies: list[Policy]) -> None:
    """A person is always wanted, in a time that is to come, and waiting ends in no approval."""
    verdict = judged(question, *policies)
    assert verdict.quorum >= 1
    assert verdict.due_at > NOW
    assert verdict.on_expiry in (OnExpiry.EXPIRE, OnExpiry.WAIT)
    hold = question.facts.hold_until
    assert hold is None or hold <= NOW or verdict.due_at < hold
    assert verdict.escalate_at is None or NOW < verdict.escalate_at < verdict.due_at
    assert bool(verdict.escalate_to) == (verdict.escalate_at is not None)


@settings(deadline=None)
@given(question=QUESTIONS, policies=POLICIES, data=st.data())
def test_the_order_of_policies_says_nothing(question: Asked, policies: list[Policy], data: Any) -> None:
    shuffled = data.draw(st.permutations(policies))
    assert judged(question, *policies) == judged(question, *shuffled)


@settings(deadline=None)
@given(question=QUESTIONS, policies=POLICIES, extra=POLICIES)
def test_another_policy_never_asks_for_less(
    question: Asked, policies: list[Policy], extra: list[Policy]
) -> None:
    few, many = judged(question, *policies), judged(question, *policies, *extra)
    assert set(few.caught) <= set(many.caught)
    assert few.quorum <= many.quorum
    assert not few.roles or set(many.roles) <= {*few.roles, "Administrator"}


@settings(deadline=None)
@given(question=QUESTIONS, policies=POLICIES, more=AMOUNTS)
def test_a_larger_amount_is_never_asked_less(question: Asked, policies: list[Policy], more: Decimal) -> None:
    if question.amount is None:
        return
    larger = replace(question, amount=question.amount + more)
    few, many = judged(question, *policies), judged(larger, *policies)
    assert {one.key for one in few.caught} <= {one.key for one in many.caught}
    assert few.quorum <= many.quorum


def test_a_policy_is_told_in_words() -> None:
    one = policy(
        R.AMOUNT,
        roles=("Approver", "Administrator"),
        deadline=timedelta(hours=8),
        business_hours=True,
        escalate_after=timedelta(hours=4),
        escalate_to="Administrator",
        on_expiry=OnExpiry.WAIT,
    )
    assert policy_sentences(one, labels={"deal": "Recommendation"}, scope="Halden & Marsh") == (
        "For Halden & Marsh: reads every recommendation and applies to what comes to 100,000.00 USD or more.",
        "Other currencies are compared in USD, at the latest exchange rate on or before the day; where there "
        "is none, it is caught.",
        "Two different people of the role Approver or Administrator must approve, never who asked; one "
        "rejection ends it.",
        "They have 8 hours, counted in the seller’s business hours where they are known; a deadline always "
        "ends before the seller’s hold does.",
        "After 4 hours without a decision, and before the deadline, the role Administrator is told and may "
        "decide too.",
        "If nobody decides in time it is escalated and keeps waiting, at most as long as the seller holds "
        "it, unless another policy ends it. Waiting never approves.",
    )


@pytest.mark.parametrize("rule", list(PolicyRule))
def test_every_rule_is_told_even_half_written(rule: PolicyRule) -> None:
    bare = Policy(key="k", name="n", rule=rule)
    said = " ".join(policy_sentences(bare, labels={}))
    assert "None" not in said
    assert "never approves" in said


DAYS = st.tuples(st.integers(0, 60), st.integers(1, 6))


@settings(deadline=None)
@given(own=DAYS, others=st.lists(DAYS, max_size=8), gap=st.integers(0, 3), data=st.data())
def test_parts_are_all_that_can_be_reached_from_flight_to_flight(
    own: tuple[int, int], others: list[tuple[int, int]], gap: int, data: Any
) -> None:
    mine = flight(own[0], sum(own))
    rows = [part(f"D{n}", start, start + days) for n, (start, days) in enumerate(others)]
    reached, left = [mine], list(rows)
    while near := [r for r in left if any(_touch(r.flight, one, gap) for one in reached)]:
        reached += [r.flight for r in near]
        left = [r for r in left if r not in near]
    found = parts_beside(mine, data.draw(st.permutations(rows)), timedelta(days=gap))
    assert {one.reference for one in found} == {one.reference for one in rows if one not in left}


def _touch(one: Flight, other: Flight, gap: int) -> bool:
    far = timedelta(days=gap)
    return one.start <= other.end + far and other.start <= one.end + far
