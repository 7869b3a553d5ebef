"""The brief: what a buyer asks for, validated whole; every problem is named at once, by field.

Channels, pricing models and format kinds are AdCP's (enums/channels, enums/pricing-model, core/format).
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tasks_app import money

Channel = Literal[
    "display", "olv", "social", "search", "ctv", "linear_tv", "radio", "streaming_audio", "podcast", "dooh",
    "ooh", "print", "cinema", "email", "gaming", "retail_media", "influencer", "affiliate",
    "product_placement", "sponsored_intelligence",
]
RateBasis = Literal[
    "cpm", "vcpm", "cpc", "cpcv", "cpv", "cpp", "cpa", "revenue_share", "flat_rate", "time"
]
_RELATIVE = re.compile(r"\+(\d{1,3})d")


def _exact(value: Any) -> Any:
    """Numbers as they were written: a float's shortest text, so that 0.1 is 0.1."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return Decimal(str(value)) if isinstance(value, int | float) else value


def _zone(value: str) -> str:
    if value not in _zones():
        raise ValueError(f"{value!r} is no time zone of the IANA database, such as America/New_York")
    return value


@lru_cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _currency(value: str) -> str:
    if not money.is_currency(value):
        raise ValueError(f"{value!r} is no ISO 4217 currency, such as USD")
    return value


def _day(value: Any, info: ValidationInfo) -> Any:
    """A date, or "+14d": so many days from today."""
    if isinstance(value, str) and (match := _RELATIVE.fullmatch(value)):
        today: date = (info.context or {}).get("today") or date.today()
        return today + timedelta(days=int(match[1]))
    return value


Amount = Annotated[
    Decimal, BeforeValidator(_exact), Field(gt=0, le=Decimal(10) ** 13, allow_inf_nan=False)
]
Day = Annotated[date, BeforeValidator(_day)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Domain = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)+$", max_length=253)]
Country = Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Objective(_Part):
    """What the campaign is for, and how one will know: the KPI and its target value."""

    goal: Text
    kpi: Text
    target: Annotated[Decimal, BeforeValidator(_exact), Field(gt=0, allow_inf_nan=False)]


class Budget(_Part):
    """Gross, all channels together, in one currency."""

    total: Amount
    currency: Annotated[str, AfterValidator(_currency)]

    @model_validator(mode="after")
    def _in_units(self) -> Self:
        if self.total != money.floor_to_unit(self.total, self.currency):
            raise ValueError(f"the total is finer than the smallest unit of {self.currency}")
        return self


class Flight(_Part):
    """First and last day, both included, in a named zone."""

    zone: Annotated[str, AfterValidator(_zone)]
    start: Day
    end: Day

    @model_validator(mode="after")
    def _forward(self, info: ValidationInfo) -> Self:
        if self.end < self.start:
            raise ValueError(f"ends on {self.end}, before it starts on {self.start}")
        now: datetime | None = (info.context or {}).get("now")
        if now is not None and self.start_at <= now:
            raise ValueError(f"starts on {self.start}, which is not in the future")
        return self

    @property
    def start_at(self) -> datetime:
        return datetime.combine(self.start, datetime.min.time(), ZoneInfo(self.zone))

    @property
    def end_at(self) -> datetime:
        """The moment after the last day."""
        return datetime.combine(self.end + timedelta(days=1), datetime.min.time(), ZoneInfo(self.zone))


class ChannelWish(_Part):
    """One channel: a share by weight (1 unless said), at least a minimum, or a fixed amount."""

    channel: Channel
    weight: Annotated[Decimal, BeforeValidator(_exact), Field(gt=0, le=1000, allow_inf_nan=False)] = Decimal(1)
    minimum: Amount | None = None
    fixed: Amount | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain_name(cls, value: Any) -> Any:
        return {"channel": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.fixed is not None and self.minimum is not None:
            raise ValueError(f"{self.channel}: a fixed amount and a minimum exclude each other")
        return self


class Geography(_Part):
    """ISO 3166-1 alpha-2 countries, and regions in the seller's words."""

    countries: tuple[Country, ...] = Field(min_length=1)
    regions: tuple[Text, ...] = ()


class Constraints(_Part):
    """Ceilings per rate basis in the brief's currency, sellers not to be asked, guaranteed or not."""

    ceilings: dict[RateBasis, Amount] = Field(default_factory=dict)
    excluded_sellers: tuple[Text, ...] = ()
    delivery_type: Literal["guaranteed", "non_guaranteed"] | None = None


class Brief(_Part):
    """A whole brief."""

    name: Text
    advertiser: Text
    brand_domain: Domain
    objective: Objective
    budget: Budget
    flight: Flight
    channels: tuple[ChannelWish, ...] = Field(min_length=1, max_length=20)
    audience: Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)] = ""
    geography: Geography
    formats: tuple[Text, ...] = ()
    measurement: tuple[Text, ...] = ()
    constraints: Constraints = Constraints()

    @field_validator("channels")
    @classmethod
    def _once_each(cls, channels: tuple[ChannelWish, ...]) -> tuple[ChannelWish, ...]:
        names = [wish.channel for wish in channels]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"named twice: {', '.join(twice)}")
        return channels


Problem = dict[str, str]


def brief_validate(raw: object, *, now: datetime) -> tuple[Brief | None, list[Problem]]:
    """The brief, or every problem with it as `{"field": …, "problem": …}`. `now` decides what is past."""
    context = {"now": now, "today": now.date()}
    try:
        brief = Brief.model_validate(raw, context=context)
    except ValidationError as error:
        return None, [_problem(dict(found)) for found in error.errors()] + _money_problems_of(raw, context)
    problems = _money_problems(brief.budget, brief.channels)
    return (None if problems else brief), problems


def _money_problems_of(raw: object, context: dict[str, Any]) -> list[Problem]:
    """The arithmetic of a brief that is wrong elsewhere, where its money and channels can be read."""
    if not isinstance(raw, dict):
        return []
    try:
        budget = Budget.model_validate(raw.get("budget"))
        channels = tuple(ChannelWish.model_validate(wish) for wish in raw.get("channels") or ())
    except (ValidationError, TypeError):
        return []
    return _money_problems(budget, channels)


def _money_problems(budget: Budget, channels: tuple[ChannelWish, ...]) -> list[Problem]:
    bound = sum(((wish.fixed or wish.minimum or Decimal(0)) for wish in channels), Decimal(0))
    if bound > budget.total:
        problem = f"fixed amounts and minimums come to {bound}, more than the budget of {budget.total}"
        return [{"field": "channels", "problem": problem}]
    fixed = sum((wish.fixed or Decimal(0) for wish in channels), Decimal(0))
    if channels and all(wish.fixed is not None for wish in channels) and fixed < budget.total:
        return [{"field": "channels", "problem": f"fixed amounts leave {budget.total - fixed} without a channel"}]
    return []


def _problem(found: dict[str, Any]) -> Problem:
    field = ".".join(str(part) for part in found["loc"]) or "brief"
    text = str(found["msg"]).removeprefix("Value error, ")
    if found["type"] == "extra_forbidden":
        text = "is not a field of a brief"
    elif found["type"] == "missing":
        text = "is missing"
    return {"field": field, "problem": text}
