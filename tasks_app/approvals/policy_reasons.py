"""Why a policy catches a question, in a sentence; empty where it does not. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from tasks_app import money
from tasks_app.approvals.policy_models import PolicyRule
from tasks_app.approvals.rates import USD, Rates, in_usd
from tasks_app.approvals.splitting import Neighbour, parts_beside
from tasks_app.desk import text
from tasks_app.desk.items import joined, raised

if TYPE_CHECKING:
    from tasks_app.approvals.policies import Asked, Policy

_NAMED = 5  # orders named in one sentence


def why_caught(policy: Policy, asked: Asked, rates: Rates) -> str:
    """Why `policy` catches `asked`; empty where it does not. What cannot be judged is caught."""
    return _RULES[policy.rule](policy, asked, rates)


def money_words(amount: Decimal, currency: str) -> str:
    """102,500.00 USD; with all its digits where the currency is none that money is counted in."""
    shown = text.amount(amount, currency) if money.is_currency(currency) else text.number(amount)
    return f"{shown} {currency}".strip()


def percent_words(share: Decimal) -> str:
    """10 %."""
    return f"{text.number(share)}{text.SPACE}%"


def _always(policy: Policy, asked: Asked, rates: Rates) -> str:
    return "It is put to people, whatever it comes to."


def _amount(policy: Policy, asked: Asked, rates: Rates) -> str:
    if asked.amount is None or policy.limit is None:
        return "What it comes to is not known, so it is caught."
    return _over(policy, [(asked.amount, asked.currency)], rates)


def _first_order(policy: Policy, asked: Asked, rates: Rates) -> str:
    return "It would be the first order with this seller." if asked.facts.first_order else ""


def _sensitive(policy: Policy, asked: Asked, rates: Rates) -> str:
    found = sorted(asked.facts.categories & set(policy.categories))
    return f"It falls under {joined(found)}." if found else ""


def _manual(policy: Policy, asked: Asked, rates: Rates) -> str:
    said = [f"{raised(one)}." for one in asked.facts.manual[:_NAMED]]
    more = len(asked.facts.manual) - len(said)
    return " ".join([*said, f"And {more} more."] if more > 0 else said)


def _change(policy: Policy, asked: Asked, rates: Rates) -> str:
    before, after = asked.facts.approved, asked.amount
    if before is None:
        return ""
    if after is None or policy.percent is None or before <= 0:
        return "How much it changes what was approved is not known, so it is caught."
    share = abs(after - before) / before * 100
    if share <= policy.percent:
        return ""
    changed = f"{money_words(before, asked.currency)} approved becomes {money_words(after, asked.currency)}"
    return f"{changed}: more than {percent_words(policy.percent)}."


def _splitting(policy: Policy, asked: Asked, rates: Rates) -> str:
    facts = asked.facts
    if facts.flight is None:
        return ""
    beside = parts_beside(facts.flight, facts.neighbours, timedelta(days=policy.gap_days))
    if not beside:
        return ""
    if asked.amount is None or policy.limit is None:
        return "What it comes to with its parts is not known, so it is caught."
    parts = [(asked.amount, asked.currency), *((one.amount, one.currency) for one in beside)]
    over = _over(policy, parts, rates)
    return f"With {_names(beside)}, for the same advertiser, seller and flight: {over}" if over else ""


def _names(beside: Sequence[Neighbour]) -> str:
    named = [one.reference for one in beside[:_NAMED]]
    more = len(beside) - len(named)
    return joined([*named, f"{more} more"] if more > 0 else named)


def _over(policy: Policy, parts: Sequence[tuple[Decimal, str]], rates: Rates) -> str:
    """Why the parts together are at or over the policy's limit; empty where they are under it."""
    limit = policy.limit or Decimal(0)
    currencies = {currency for _, currency in parts}
    said = money_words(limit, policy.currency)
    if currencies == {policy.currency}:
        total = sum((amount for amount, _ in parts), Decimal(0))
        return f"{money_words(total, policy.currency)} is at or over {said}." if total >= limit else ""
    missing = sorted(c for c in {*currencies, policy.currency} if c != USD and c not in rates)
    if missing:
        return f"There is no exchange rate for {joined(missing)}, so it is caught as if it were over {said}."
    total = sum((in_usd(amount, currency, rates) or Decimal(0) for amount, currency in parts), Decimal(0))
    if total < (in_usd(limit, policy.currency, rates) or Decimal(0)):
        return ""
    by = joined([_rate_words(c, rates) for c in sorted({*currencies, policy.currency} - {USD})])
    return f"{_stated(parts)}{money_words(total, USD)} by {by}, is at or over {said}."


def _stated(parts: Sequence[tuple[Decimal, str]]) -> str:
    """What it is in its own currency, where that is one."""
    currencies = {currency for _, currency in parts}
    if len(currencies) > 1 or currencies == {USD}:
        return ""
    return f"{money_words(sum((amount for amount, _ in parts), Decimal(0)), currencies.pop())}, "


def _rate_words(currency: str, rates: Rates) -> str:
    rate = rates[currency]
    return f"{text.number(rate.usd)} USD for one {currency} ({rate.source}, {rate.day:%d %b %Y})"


_RULES: dict[PolicyRule, Callable[[Policy, Asked, Rates], str]] = {
    PolicyRule.ALWAYS: _always,
    PolicyRule.AMOUNT: _amount,
    PolicyRule.FIRST_ORDER: _first_order,
    PolicyRule.SENSITIVE: _sensitive,
    PolicyRule.MANUAL: _manual,
    PolicyRule.CHANGE: _change,
    PolicyRule.SPLITTING: _splitting,
}
