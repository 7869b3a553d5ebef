"""The brief: what a buyer asks for, validated whole; every problem is named at once, by field.

Channels, pricing models and format kinds are AdCP's (enums/channels, enums/pricing-model, core/format).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Literal, Self, TypeVar, get_args
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from tasks_app import clock, days, money

Channel = Literal[
    "display",
    "olv",
    "social",
    "search",
    "ctv",
    "linear_tv",
    "radio",
    "streaming_audio",
    "podcast",
    "dooh",
    "ooh",
    "print",
    "cinema",
    "email",
    "gaming",
    "retail_media",
    "influencer",
    "affiliate",
    "product_placement",
    "sponsored_intelligence",
]
RateBasis = Literal["cpm", "vcpm", "cpc", "cpcv", "cpv", "cpp", "cpa", "revenue_share", "flat_rate", "time"]
# When what is approved is booked: each deal by itself, or nothing before every deal is decided.
Booking = Literal["each", "together"]
RATE_BASES: frozenset[str] = frozenset(get_args(RateBasis))
_RELATIVE = re.compile(r"\+([0-9]{1,3})d")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})+")
MOST_CHANNELS = 20
_MOST_QUOTED, _MOST_PROBLEMS = 60, 50
_COUNTRY = re.compile(r"[A-Z]{2}")
_REGION = re.compile(r"[A-Z]{2}-[A-Z0-9]{1,3}")


def _exact(value: Any) -> Any:
    """A number as it was written, 0.1 for 0.1, or as people type it."""
    number = money.decimal_of(value)
    if number is None and isinstance(value, str):
        return money.typed_rate(value)
    return _number(number)


def _typed(value: Any, info: ValidationInfo) -> Any:
    """An amount of the brief's currency as people type it, or a number as it was written."""
    if isinstance(value, str):
        return money.typed_amount(value, (info.context or {}).get("currency", ""))
    return _number(money.decimal_of(value))


def _number(read: Decimal | None) -> Decimal:
    if read is None:
        raise ValueError("must be a number, such as 1234.50, of at most 24 digits")
    return read


def _most(items: int) -> BeforeValidator:
    """A list of so many at most, counted before anything in it is looked at. One of a brief that is kept may
    be longer than what comes today."""

    def counted(value: Any, info: ValidationInfo) -> Any:
        kept = bool((info.context or {}).get("kept"))
        if not kept and isinstance(value, list | tuple) and len(value) > items:
            raise ValueError(f"should have at most {items} items, not {len(value)}")
        return value

    return BeforeValidator(counted)


def _once(values: tuple[str, ...]) -> tuple[str, ...]:
    """Each once: a seller that confirms it once confirms what was asked for."""
    return tuple(dict.fromkeys(values))


def _zone(value: str) -> str:
    if value not in _zones():
        raise ValueError(f"{_quoted(value)} is no time zone of the IANA database, such as America/New_York")
    return value


@lru_cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _domain(value: str) -> str:
    domain = value.lower()
    if not _DOMAIN.fullmatch(domain):
        raise ValueError(f"{_quoted(value)} is no domain, such as example.com")
    return domain


def _country(value: str) -> str:
    if not _COUNTRY.fullmatch(value):
        raise ValueError(f"{_quoted(value)} is no two-letter country code of ISO 3166-1, such as US")
    return value


def _region(value: str) -> str:
    if not _REGION.fullmatch(value):
        raise ValueError(f"{_quoted(value)} is no region of ISO 3166-2, such as US-IL")
    return value


def _quoted(value: str) -> str:
    return repr(_cut(value))


def _cut(value: str) -> str:
    """As much of what was written as names it."""
    return value if len(value) <= _MOST_QUOTED else f"{value[:_MOST_QUOTED]}…"


def _day(value: Any, info: ValidationInfo) -> Any:
    """A date as YYYY-MM-DD, or "+14d": so many days from today in the flight's zone. Never a number of
    seconds."""
    if isinstance(value, str) and (match := _RELATIVE.fullmatch(value)):
        return _today(info) + timedelta(days=int(match[1]))
    if isinstance(value, str) and _DAY.fullmatch(value):
        return date.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise ValueError("must be a date such as 2026-12-01, or +14d for 14 days from now")


Amount = Annotated[Decimal, BeforeValidator(_typed), Field(gt=0, le=Decimal(10) ** 13, allow_inf_nan=False)]
Rate = Annotated[Decimal, BeforeValidator(_exact), Field(gt=0, lt=Decimal(10) ** 12, allow_inf_nan=False)]
Weight = Annotated[Decimal, BeforeValidator(_exact), Field(ge=Decimal("0.001"), le=1000, allow_inf_nan=False)]
Currency = Annotated[str, AfterValidator(money.currency_of)]
Zone = Annotated[str, AfterValidator(_zone)]


# Bounded, so that a zone's offset and the day after never leave the calendar.
def _today(info: ValidationInfo) -> date:
    """That of the flight's zone, which stands before its days."""
    context = info.context or {}
    zone = context.get("zone") or (info.data or {}).get("zone") or "UTC"
    return days.day_of(context.get("now") or clock.now(), zone)


Day = Annotated[date, BeforeValidator(_day), Field(ge=date(2000, 1, 1), le=date(2199, 12, 31))]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Category = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,59}$")]
Domain = Annotated[str, StringConstraints(max_length=253), AfterValidator(_domain)]
Country = Annotated[str, AfterValidator(_country)]
Region = Annotated[str, AfterValidator(_region)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Objective(_Part):
    """What the campaign is for, and how one will know: the KPI and its target value."""

    goal: Text
    kpi: Text
    target: Annotated[Decimal, BeforeValidator(_exact), Field(gt=0, allow_inf_nan=False)]


class Budget(_Part):
    """Gross, all channels together, in one currency and its smallest units."""

    total: Amount
    currency: Currency


class Flight(_Part):
    """First and last day, both included, in a named zone."""

    zone: Zone
    start: Day
    end: Day

    @property
    def start_at(self) -> datetime:
        return days.start_of(self.start, self.zone)

    @property
    def end_at(self) -> datetime:
        """The moment after the last day."""
        return days.end_of(self.end, self.zone)


class ChannelWish(_Part):
    """One channel: a share by weight (1 unless said), at least a minimum, or a fixed amount."""

    channel: Channel
    weight: Weight = Decimal(1)
    minimum: Amount | None = None
    fixed: Amount | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain_name(cls, value: Any) -> Any:
        return {"channel": value} if isinstance(value, str) else value


class Geography(_Part):
    """Countries (ISO 3166-1 alpha-2); and of each of them, or of none, the regions (ISO 3166-2) that are
    bought instead of the whole: together sellers may read them either way."""

    countries: Annotated[tuple[Country, ...], _most(300), Field(min_length=1), AfterValidator(_once)]
    regions: Annotated[tuple[Region, ...], _most(500), AfterValidator(_once)] = ()

    @model_validator(mode="after")
    def _of_each_country(self) -> Self:
        if not self.regions:
            return self
        within = {region.partition("-")[0] for region in self.regions}
        beyond = sorted(within - {*self.countries})
        if beyond:
            raise ValueError(f"regions lie in {', '.join(beyond)}, which is none of the countries")
        whole = sorted({*self.countries} - within)
        if whole:
            raise ValueError(f"name regions of each country, or of none: {', '.join(whole)} has none")
        return self

    @property
    def targeting(self) -> dict[str, list[str]]:
        """AdCP's targeting overlay that buys it and nothing beside it."""
        if self.regions:
            return {"geo_regions": list(self.regions)}
        return {"geo_countries": list(self.countries)}


class Constraints(_Part):
    """Ceilings per rate basis in the brief's currency, sellers not to be asked, guaranteed or not."""

    ceilings: dict[RateBasis, Rate] = Field(default_factory=dict)
    excluded_sellers: Annotated[tuple[Text, ...], _most(100)] = ()
    delivery_type: Literal["guaranteed", "non_guaranteed"] | None = None


class Brief(_Part):
    """A whole brief."""

    name: Text
    advertiser: Text
    # Which of one's teams buys; needed where several have an advertiser of that name and brand domain.
    team: Text | None = None
    brand_domain: Domain
    objective: Objective
    budget: Budget
    flight: Flight
    channels: Annotated[tuple[ChannelWish, ...], _most(MOST_CHANNELS), Field(min_length=1)]
    audience: Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)] = ""
    geography: Geography
    formats: Annotated[tuple[Text, ...], _most(100)] = ()
    measurement: Annotated[tuple[Text, ...], _most(100)] = ()
    # AdCP's sync_plans: regulatory categories that apply to it; approval policies may ask for more.
    policy_categories: Annotated[tuple[Category, ...], _most(20)] = ()
    booking: Booking = "each"
    constraints: Constraints = Constraints()


Problem = dict[str, str]


def brief_validate(raw: object, *, now: datetime, kept: bool = False) -> tuple[Brief | None, list[Problem]]:
    """The brief, or every problem with it as `{"field": …, "problem": …}`. `now` decides what is past; one
    that is `kept` may have longer lists."""
    problems: list[Problem] = []
    brief = None
    try:
        currency = _currency_of(_mapping(_mapping(raw).get("budget")))
        brief = Brief.model_validate(raw, context={"now": now, "currency": currency, "kept": kept})
    except ValidationError as error:
        problems = [_problem(dict(found)) for found in error.errors() if not _follows(dict(found))]
    if isinstance(raw, dict):
        problems += _flight_problems(_mapping(raw.get("flight")), now)
        problems += _money_problems(_mapping(raw.get("budget")), _wishes(raw.get("channels")))
    return (None if problems else brief), problems_told(problems)


def brief_kept(raw: dict[str, Any], *, now: datetime) -> tuple[Brief | None, list[Problem]]:
    """As `brief_validate`, of a brief that was right when it came. Its regions were any words once, which
    nothing read: what are no regions of its countries are left out, as they were then."""
    geography = _mapping(raw.get("geography"))
    if _read(_GEOGRAPHY, geography, kept=True) is None:
        raw = {**raw, "geography": {name: value for name, value in geography.items() if name != "regions"}}
    return brief_validate(raw, now=now, kept=True)


def problems_told(problems: list[Problem]) -> list[Problem]:
    """As many as people read, and how many more there are."""
    more = len(problems) - _MOST_PROBLEMS
    if more <= 0:
        return problems
    return [*problems[:_MOST_PROBLEMS], _named("brief", f"has {more} more problems like these")]


# The rules between fields. They read the raw brief, so that one wrong field hides none of them; what
# cannot be read was named by its own field already.
_AMOUNT: TypeAdapter[Decimal] = TypeAdapter(Amount)
_GEOGRAPHY: TypeAdapter[Geography] = TypeAdapter(Geography)
_CURRENCY: TypeAdapter[str] = TypeAdapter(Currency)
_DATE: TypeAdapter[date] = TypeAdapter(Day)
_ZONE: TypeAdapter[str] = TypeAdapter(Zone)
_Read = TypeVar("_Read")
_SHOULD = re.compile(r"^(Input|String|Value|List|Dictionary|Tuple) should")  # as pydantic begins a problem


def _read(kind: TypeAdapter[_Read], value: object, **context: Any) -> _Read | None:
    try:
        return kind.validate_python(value, context=context)
    except ValidationError:
        return None


def _currency_of(budget: dict[str, Any]) -> str:
    """Its currency; empty where that cannot be read."""
    return _read(_CURRENCY, budget.get("currency")) or ""


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _wishes(value: object) -> list[dict[str, Any]]:
    listed = value if isinstance(value, list | tuple) else []
    few = listed[: MOST_CHANNELS + 1]  # as far as it is told whether they are too many
    return [{"channel": wish} if isinstance(wish, str) else _mapping(wish) for wish in few]


def _flight_problems(flight: dict[str, Any], now: datetime) -> Iterator[Problem]:
    zone = _read(_ZONE, flight.get("zone"))
    start, end = (_read(_DATE, flight.get(name), now=now, zone=zone) for name in ("start", "end"))
    if start and end and end < start:
        yield _named("flight.end", f"the flight ends on {end}, before it starts on {start}")
    if start and zone and days.start_of(start, zone) <= now:
        yield _named("flight.start", f"{start} is not in the future")


def _money_problems(budget: dict[str, Any], wishes: list[dict[str, Any]]) -> Iterator[Problem]:
    if len(wishes) > MOST_CHANNELS:
        return  # named by its field; nothing so long is compared
    named = Counter(wish["channel"] for wish in wishes if isinstance(wish.get("channel"), str))
    for name in sorted(name for name, times in named.items() if times > 1):
        yield _named("channels", f"{_cut(name)} is named twice")
    for place, wish in enumerate(wishes):
        if wish.get("fixed") is not None and wish.get("minimum") is not None:
            yield _named(f"channels.{place}", "a fixed amount and a minimum exclude each other")
    currency = _currency_of(budget)
    amounts = {
        f"channels.{place}.{name}": _read(_AMOUNT, wish.get(name), currency=currency)
        for place, wish in enumerate(wishes)
        for name in ("fixed", "minimum")
    }
    total = _read(_AMOUNT, budget.get("total"), currency=currency)
    if currency:
        yield from _too_fine({"budget.total": total, **amounts}, currency)
    if total is not None:
        yield from _sums(total, amounts, len(wishes))


def _too_fine(amounts: dict[str, Decimal | None], currency: str) -> Iterator[Problem]:
    for field, amount in amounts.items():
        if amount is not None and amount != money.floor_to_unit(amount, currency):
            yield _named(field, f"{amount} is finer than the smallest unit of {currency}")


def _sums(total: Decimal, amounts: dict[str, Decimal | None], wishes: int) -> Iterator[Problem]:
    bound = sum((amount for amount in amounts.values() if amount is not None), Decimal(0))
    fixed = [amount for field, amount in amounts.items() if field.endswith(".fixed") and amount is not None]
    if bound > total:
        problem = f"fixed amounts and minimums come to {bound}, more than the budget of {total}"
        yield _named("channels", problem)
    elif wishes and len(fixed) == wishes and sum(fixed) < total:
        yield _named("channels", f"fixed amounts leave {total - sum(fixed)} without a channel")


def _named(field: str, problem: str) -> Problem:
    return {"field": field, "problem": problem}


def _follows(found: dict[str, Any]) -> bool:
    """Whether pydantic calls a list empty because its items were wrong, which they were named for already."""
    return found["type"] == "too_short" and bool(found["input"])


def _problem(found: dict[str, Any]) -> Problem:
    field = ".".join(_cut(str(part)) for part in found["loc"]) or "brief"
    text = _SHOULD.sub("must", str(found["msg"]).removeprefix("Value error, "))
    if found["type"] == "extra_forbidden":
        text = "is not a field of a brief"
    elif found["type"] == "missing":
        text = "is missing"
    return _named(field, text)
