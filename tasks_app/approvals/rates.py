"""Exchange rates: dated, never guessed. An amount without a rate cannot be compared, and whoever asked must
take that as the worst case."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from django.core.exceptions import ValidationError
from django.db import transaction

from tasks_app import clock, days, money
from tasks_app.approvals.policy_models import ExchangeRate
from tasks_app.notifications.services import notify
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE, MANAGE_POLICIES

USD = "USD"
_LEAST, _MOST = Decimal("0.0000000001"), Decimal(10) ** 7


@dataclass(frozen=True, kw_only=True)
class Rate:
    """What one unit of a currency is in USD, on a day, and who says so."""

    currency: str
    day: date
    usd: Decimal
    source: str


Rates = Mapping[str, Rate]


def in_usd(amount: Decimal, currency: str, rates: Rates) -> Decimal | None:
    """`amount` in USD, unrounded; None where `rates` does not know the currency."""
    if currency == USD:
        return amount
    rate = rates.get(currency)
    return amount * rate.usd if rate else None


def rates_on(day: date, currencies: Collection[str]) -> dict[str, Rate]:
    """Currency to its latest rate on or before `day`, the latest word about that day; one query, none for
    USD alone. A currency without one is missing."""
    wanted = set(currencies) - {USD, ""}
    if not wanted:
        return {}
    known = ExchangeRate.objects.filter(currency__in=wanted, day__lte=day)
    latest = known.order_by("currency", "-day", "-id").distinct("currency")
    return {
        one.currency: Rate(currency=one.currency, day=one.day, usd=one.usd, source=one.source)
        for one in latest
    }


def rate_add(*, currency: str, day: date, usd: Decimal, source: str, actor: User) -> ExchangeRate:
    """Keep a rate: one unit of `currency` is `usd` US dollars from `day` on, until a later one. A second word
    about the same day stands over the first, which is kept.

    Raises ValidationError without the right, and by field: no currency, USD itself, a day to come, a number
    out of reach, no source.
    """
    if actor.is_service or not actor.is_active or not actor.has_perm(MANAGE_POLICIES):
        raise ValidationError("You have no right to keep exchange rates.")
    problems = rate_problems(currency=currency, day=day, usd=usd, source=source)
    if problems:
        raise ValidationError(problems)
    before = rates_on(day, [currency]).get(currency)
    with transaction.atomic():
        kept = ExchangeRate.objects.create(
            currency=currency,
            day=day,
            usd=usd,
            source=source.strip(),
            actor=actor_key(actor),
            at=clock.now(),
        )
        _tell(kept, before, actor)
    return kept


def _tell(kept: ExchangeRate, before: Rate | None, actor: User) -> None:
    """Whoever decides: by a rate it is judged which policies an amount falls under."""
    earlier = f"Before it was {before.usd.normalize():f}." if before else "There was none before."
    notify(
        kind="exchange_rate",
        title=f"Exchange rate: 1 {kept.currency} is {kept.usd.normalize():f} USD from {kept.day.isoformat()}",
        body=f"Kept by {actor}: {kept.source}. {earlier}",
        right=DECIDE,
        not_for=kept.actor,
        key=f"exchange_rate:{kept.pk}",
    )


def rate_problems(*, currency: str, day: date, usd: Decimal, source: str) -> dict[str, str]:
    """Why a rate cannot be kept, by field; empty where it can."""
    found: dict[str, str] = {}
    if not money.is_currency(currency):
        found["currency"] = "That is no ISO 4217 currency, such as EUR."
    elif currency == USD:
        found["currency"] = "A dollar is a dollar: it needs no rate."
    if day > days.today():
        found["day"] = "That day has not come yet."
    if not usd.is_finite() or not _LEAST <= usd <= _MOST:
        found["usd"] = f"One unit is worth from {_LEAST:f} to {_MOST:,f} dollars."
    if not source.strip():
        found["source"] = "Say where the rate comes from."
    return found
