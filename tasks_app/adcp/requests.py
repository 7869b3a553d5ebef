"""What we send: one model per task, as strict as the schemas of AdCP 3.2 where we use them.

`model_dump(mode="json", exclude_none=True)` gives the arguments of the task. Money is a Decimal in the major
unit of the buy's currency and leaves as a JSON number; times must carry an offset. Source: AdCP 3.2
media-buy/*-request, core/push-notification-config, protocol/get-task-status-request,
protocol/list-tasks-request.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    field_serializer,
    model_validator,
)

from tasks_app import clock
from tasks_app.money import currency_of, decimal_of, typed_amount, typed_rate

# JSON has one kind of number. A double holds 15 decimal digits: budgets in minor units up to 10**15 survive
# exactly.
_MAX_AMOUNT = Decimal(10) ** 13


def _json_number(amount: Decimal) -> int | float:
    return int(amount) if amount == amount.to_integral_value() else float(amount)


def _read(value: Any, typed: Callable[[str], Decimal]) -> Decimal:
    """A number as JSON says it, a text as people type it."""
    number = typed(value) if isinstance(value, str) else decimal_of(value)
    if number is None:
        raise ValueError("must be a number")
    return number


def _amount(value: Any) -> Decimal:
    return _read(value, typed_amount)


def _rate(value: Any) -> Decimal:
    return _read(value, typed_rate)


_BOUNDS = Field(ge=0, le=_MAX_AMOUNT, allow_inf_nan=False)
_AS_JSON = PlainSerializer(_json_number, return_type=int | float, when_used="json")
Amount = Annotated[Decimal, BeforeValidator(_amount), _BOUNDS, _AS_JSON]
Rate = Annotated[Decimal, BeforeValidator(_rate), _BOUNDS, _AS_JSON]
Moment = Annotated[AwareDatetime, Field(ge=clock.EARLIEST, lt=clock.LATEST)]
Currency = Annotated[str, AfterValidator(currency_of)]
Country = Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")]
Region = Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}-[A-Z0-9]+$")]
Domain = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$")
]
Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{16,255}$")]
OperationId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,255}$")]
NonEmpty = Annotated[str, StringConstraints(min_length=1)]
Version = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+(-[A-Za-z0-9.-]+)?$")]
MediaBuyStatus = Literal[
    "pending_creatives", "pending_start", "active", "paused", "completed", "rejected", "canceled"
]
Context = dict[str, Any]


class _Strict(BaseModel):
    """A part of a request: a misspelt field is our bug and must not leave."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Request(_Strict):
    """A whole request. `context` is ours and comes back unchanged."""

    adcp_version: Version | None = None
    adcp_major_version: Annotated[int, Field(ge=1, le=99)] | None = None
    context: Context | None = None
    ext: dict[str, Any] | None = None


class Brand(_Strict):
    """core/brand-ref: whose advertising it is."""

    domain: Domain
    brand_id: NonEmpty | None = None
    countries: Annotated[list[Country], Field(min_length=1)] | None = None


class OperatorUnit(_Strict):
    """core/operator-unit: the operator's seat or business unit; its name is no part of what it is."""

    id: Annotated[str, StringConstraints(max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")]
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None


class Account(_Strict):
    """core/account-ref: the seller's `account_id`, or the natural key: `brand` and `operator` with what
    qualifies them; never both."""

    account_id: NonEmpty | None = None
    brand: Brand | None = None
    operator: Domain | None = None
    operator_unit: OperatorUnit | None = None
    currency: Currency | None = None
    timezone: NonEmpty | None = None
    sandbox: bool | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        natural = type(self).model_fields.keys() - {"account_id"}
        if self.account_id is not None:
            if any(getattr(self, part) is not None for part in natural):
                raise ValueError("an account is named by account_id alone, or by brand and operator")
        elif self.brand is None or self.operator is None:
            raise ValueError("an account needs account_id, or brand and operator")
        return self


class Money(_Strict):
    """An amount in the major unit of its currency."""

    amount: Amount
    currency: Currency


class WebhookAuthentication(_Strict):
    """The older way of authenticating webhooks; its presence selects it, its absence selects RFC 9421."""

    schemes: Annotated[list[Literal["HMAC-SHA256", "Bearer"]], Field(min_length=1, max_length=1)]
    credentials: Annotated[str, Field(min_length=32, repr=False)]


class PushNotificationConfig(_Strict):
    """core/push-notification-config: where and how the seller tells us what became of the task."""

    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s@]+$")]
    operation_id: OperationId
    token: Annotated[str, Field(min_length=16, max_length=4096, repr=False)]
    authentication: WebhookAuthentication | None = None


class Pagination(_Strict):
    """core/pagination-request."""

    max_results: Annotated[int, Field(ge=1, le=100)] | None = None
    cursor: NonEmpty | None = None


class ProductFilters(_Strict):
    """core/product-filters, as far as briefs ask for it. Dates are days ("2026-09-01")."""

    channels: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    countries: Annotated[list[Country], Field(min_length=1)] | None = None
    regions: Annotated[list[Region], Field(min_length=1)] | None = None
    start_date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    end_date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    delivery_type: Literal["guaranteed", "non_guaranteed"] | None = None
    pricing_currencies: Annotated[list[Currency], Field(min_length=1)] | None = None


class GetAdcpCapabilities(_Request):
    """protocol/get-adcp-capabilities-request."""

    protocols: Annotated[list[NonEmpty], Field(min_length=1)] | None = None


class GetProducts(_Request):
    """media-buy/get-products-request. `brief` goes with buying_mode `brief` and with no other."""

    buying_mode: Literal["brief", "wholesale"] = "brief"
    brief: NonEmpty | None = None
    brand: Brand | None = None
    account: Account | None = None
    filters: ProductFilters | None = None
    preferred_delivery_types: (
        Annotated[list[Literal["guaranteed", "non_guaranteed"]], Field(min_length=1)] | None
    ) = None
    fields: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    pagination: Pagination | None = None
    idempotency_key: Key | None = None
    push_notification_config: PushNotificationConfig | None = None

    @model_validator(mode="after")
    def _brief_by_mode(self) -> Self:
        if (self.buying_mode == "brief") != (self.brief is not None):
            raise ValueError("a brief is sent in buying_mode brief, and only there")
        return self


class PackageRequest(_Strict):
    """media-buy/package-request: one product to buy. Money is in the media buy's currency."""

    product_id: NonEmpty
    pricing_option_id: NonEmpty
    budget: Amount | None = None
    bid_price: Rate | None = None
    impressions: Annotated[int, Field(ge=0)] | None = None
    pacing: Literal["even", "asap", "front_loaded"] | None = None
    start_time: Moment | None = None
    end_time: Moment | None = None
    paused: bool | None = None
    targeting_overlay: dict[str, Any] | None = None
    optimization_goals: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    measurement_terms: dict[str, Any] | None = None
    agency_estimate_number: Annotated[str, StringConstraints(max_length=100)] | None = None
    format_option_refs: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    format_ids: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    context: Context | None = None
    ext: dict[str, Any] | None = None


class BudgetAllocation(_Strict):
    """core/budget-allocation."""

    mode: Literal["fixed", "seller_optimized"]


class CreateMediaBuy(_Request):
    """media-buy/create-media-buy-request, in its three forms: packages with budgets; packages with
    total_budget and budget_allocation `seller_optimized`; a proposal with total_budget."""

    idempotency_key: Key
    account: Account
    brand: Brand
    start_time: Moment | Literal["asap"]
    end_time: Moment
    packages: Annotated[list[PackageRequest], Field(min_length=1)] | None = None
    proposal_id: NonEmpty | None = None
    total_budget: Money | None = None
    budget_allocation: BudgetAllocation | None = None
    pacing: Literal["even", "asap", "front_loaded"] | None = None
    name: Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"\S")] | None = None
    po_number: NonEmpty | None = None
    agency_estimate_number: Annotated[str, StringConstraints(max_length=100)] | None = None
    invoice_recipient: dict[str, Any] | None = None
    io_acceptance: dict[str, Any] | None = None
    governance_context: Annotated[str, StringConstraints(pattern=r"^[\x20-\x7E]{1,4096}$")] | None = None
    paused: bool | None = None
    push_notification_config: PushNotificationConfig | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.proposal_id is not None:
            if self.packages is not None or self.budget_allocation is not None or self.total_budget is None:
                raise ValueError(
                    "a proposal is bought with total_budget, without packages or budget_allocation"
                )
        elif self.packages is None:
            raise ValueError("a media buy needs packages or a proposal_id")
        elif self.budget_allocation is not None and self.budget_allocation.mode == "seller_optimized":
            if self.total_budget is None:
                raise ValueError("a budget optimised by the seller needs total_budget")
        elif any(package.budget is None for package in self.packages):
            raise ValueError("every package needs a budget")
        return self

    @model_validator(mode="after")
    def _flight(self) -> Self:
        if self.start_time != "asap" and self.start_time >= self.end_time:
            raise ValueError("the flight ends before it starts")
        return self


class PackageUpdate(_Strict):
    """media-buy/package-update."""

    package_id: NonEmpty
    budget: Amount | None = None
    pacing: Literal["even", "asap", "front_loaded"] | None = None
    start_time: Moment | None = None
    end_time: Moment | None = None
    paused: bool | None = None
    canceled: Literal[True] | None = None
    cancellation_reason: Annotated[str, StringConstraints(max_length=500)] | None = None
    targeting_overlay: dict[str, Any] | None = None
    context: Context | None = None
    ext: dict[str, Any] | None = None


class UpdateMediaBuy(_Request):
    """media-buy/update-media-buy-request. `revision` is the one we saw: the seller refuses when it has moved
    on.

    `account` may be left out only for a seller with the quirk of refusing it.
    """

    idempotency_key: Key
    media_buy_id: NonEmpty
    account: Account | None = None
    revision: Annotated[int, Field(ge=1)] | None = None
    name: Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"\S")] | None = None
    paused: bool | None = None
    canceled: Literal[True] | None = None
    cancellation_reason: Annotated[str, StringConstraints(max_length=500)] | None = None
    start_time: Moment | Literal["asap"] | None = None
    end_time: Moment | None = None
    total_budget: Money | None = None
    packages: Annotated[list[PackageUpdate], Field(min_length=1)] | None = None
    new_packages: Annotated[list[PackageRequest], Field(min_length=1)] | None = None
    push_notification_config: PushNotificationConfig | None = None


class GetMediaBuys(_Request):
    """media-buy/get-media-buys-request. Without ids a seller filters to `active`: all seven statuses are
    asked for."""

    account: Account | None = None
    media_buy_ids: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    status_filter: Annotated[frozenset[MediaBuyStatus], Field(min_length=1)] = frozenset(
        get_args(MediaBuyStatus)
    )
    pagination: Pagination | None = None

    @field_serializer("status_filter")
    def _in_order(self, statuses: frozenset[str]) -> list[str]:
        return sorted(statuses)


class GetTaskStatus(_Request):
    """protocol/get-task-status-request, and tasks/get before it: always with the result."""

    task_id: NonEmpty
    account: Account | None = None
    include_result: Literal[True] = True


class TaskFilters(_Strict):
    """Filters of list_tasks. `statuses` are AdCP task statuses."""

    statuses: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    task_types: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    task_ids: Annotated[list[NonEmpty], Field(min_length=1, max_length=100)] | None = None
    created_after: Moment | None = None


class ListTasks(_Request):
    """protocol/list-tasks-request, and tasks/list before it."""

    account: Account | None = None
    filters: TaskFilters | None = None
    pagination: Pagination | None = None
