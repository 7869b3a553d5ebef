"""What we send validates against the schemas that the reference SDK ships, in every version we speak."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, FormatChecker
from pydantic import BaseModel, ValidationError

from tasks_app.adcp import requests as r
from tasks_app.adcp.capabilities import OUR_VERSIONS
from tasks_app.adcp.values import parse_time

KEY = "7b1f6a9e-6f6f-4d5c-8f0e-0a1b2c3d4e5f"
START, END = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)
BRAND = r.Brand(domain="acme.example.com")
NATURAL = r.Account(brand=BRAND, operator="agency.example.com")
BY_ID = r.Account(account_id="acc-1")
WEBHOOK = r.PushNotificationConfig(
    url="https://buyer.example.com/webhooks/adcp/norrland/", operation_id="op_1", token="t" * 24
)
HMAC_WEBHOOK = WEBHOOK.model_copy(
    update={"authentication": r.WebhookAuthentication(schemes=["HMAC-SHA256"], credentials="c" * 43)}
)
CONTEXT = {"deal_id": "d", "operation_id": "o"}
PACKAGE = r.PackageRequest(
    product_id="p",
    pricing_option_id="cpm",
    budget=Decimal("1234.56"),
    start_time=START,
    end_time=END,
    context={"deal_line_id": "l"},
    targeting_overlay={"geo_countries": ["SE"]},
)


def create(**changes: Any) -> r.CreateMediaBuy:
    given_fields: dict[str, Any] = {
        "idempotency_key": KEY,
        "account": NATURAL,
        "brand": BRAND,
        "start_time": START,
        "end_time": END,
        "packages": [PACKAGE],
        "context": CONTEXT,
        "adcp_version": "3.2",
        "adcp_major_version": 3,
        **changes,
    }
    return r.CreateMediaBuy(**given_fields)


REQUESTS: list[tuple[str, BaseModel]] = [
    ("protocol/get-adcp-capabilities", r.GetAdcpCapabilities(protocols=["media_buy"])),
    (
        "media-buy/get-products",
        r.GetProducts(brief="CTV in Sweden", brand=BRAND, account=NATURAL, context=CONTEXT),
    ),
    (
        "media-buy/get-products",
        r.GetProducts(
            brief="CTV",
            filters=r.ProductFilters(
                channels=["ctv", "olv"], countries=["SE"], start_date="2026-09-01", end_date="2026-10-01"
            ),
            preferred_delivery_types=["guaranteed"],
            pagination=r.Pagination(max_results=50),
        ),
    ),
    ("media-buy/get-products", r.GetProducts(buying_mode="wholesale", brand=BRAND)),
    ("media-buy/create-media-buy", create()),
    (
        "media-buy/create-media-buy",
        create(account=BY_ID, start_time="asap", push_notification_config=WEBHOOK),
    ),
    (
        "media-buy/create-media-buy",
        create(push_notification_config=HMAC_WEBHOOK, po_number="PO-1", paused=True),
    ),
    (
        "media-buy/create-media-buy",
        create(packages=None, proposal_id="pr", total_budget=r.Money(amount=Decimal(5000), currency="EUR")),
    ),
    (
        "media-buy/update-media-buy",
        r.UpdateMediaBuy(
            idempotency_key=KEY,
            media_buy_id="mb",
            account=BY_ID,
            revision=3,
            end_time=END,
            packages=[r.PackageUpdate(package_id="pk", budget=Decimal("99.5"), paused=False)],
            context=CONTEXT,
            push_notification_config=WEBHOOK,
        ),
    ),
    (
        "media-buy/update-media-buy",
        r.UpdateMediaBuy(
            idempotency_key=KEY, media_buy_id="mb", account=NATURAL, canceled=True, cancellation_reason="Over"
        ),
    ),
    ("media-buy/get-media-buys", r.GetMediaBuys(account=NATURAL, pagination=r.Pagination(cursor="c"))),
    ("media-buy/get-media-buys", r.GetMediaBuys(media_buy_ids=["mb"], context=CONTEXT)),
    ("task-status", r.GetTaskStatus(task_id="t", account=NATURAL, context=CONTEXT)),
    (
        "task-list",
        r.ListTasks(account=BY_ID, filters=r.TaskFilters(statuses=["submitted"], created_after=START)),
    ),
]

# The names of the task tools changed with 3.1.
RENAMED = {
    "3.0": {"task-status": "core/tasks-get", "task-list": "core/tasks-list"},
    "3.1": {"task-status": "protocol/get-task-status", "task-list": "protocol/list-tasks"},
    "3.2": {"task-status": "protocol/get-task-status", "task-list": "protocol/list-tasks"},
}


def wire(request: BaseModel) -> dict[str, Any]:
    arguments: dict[str, Any] = json.loads(json.dumps(request.model_dump(mode="json", exclude_none=True)))
    return arguments


def schema(version: str, name: str) -> dict[str, Any]:
    spec = find_spec("adcp")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    root = Path(next(iter(spec.submodule_search_locations))) / "_schemas" / version / "bundled"
    found: dict[str, Any] = json.loads((root / f"{name}-request.json").read_text("utf-8"))
    return found


def formats() -> FormatChecker:
    """Formats count too: `asap` is told from a time by its format alone."""
    checker = FormatChecker()
    checker.checks("date-time")(lambda value: not isinstance(value, str) or parse_time(value) is not None)
    return checker


@pytest.fixture(scope="module")
def validators() -> dict[tuple[str, str], Draft7Validator]:
    return {
        (version, name): Draft7Validator(
            schema(version, RENAMED[version].get(name, name)), format_checker=formats()
        )
        for version in OUR_VERSIONS
        for name in {name for name, _ in REQUESTS}
    }


@pytest.mark.parametrize("version", OUR_VERSIONS)
@pytest.mark.parametrize("number", range(len(REQUESTS)), ids=lambda number: f"{number}-{REQUESTS[number][0]}")
def test_the_request_is_valid(
    number: int, version: str, validators: dict[tuple[str, str], Draft7Validator]
) -> None:
    name, request = REQUESTS[number]
    problems = [error.message for error in validators[version, name].iter_errors(wire(request))]
    assert problems == []


@given(st.decimals(min_value=0, max_value=10**10, places=2))
def test_money_leaves_as_a_number_and_loses_nothing(amount: Decimal) -> None:
    sent = json.dumps(wire(r.Money(amount=amount, currency="EUR")))
    assert json.loads(sent, parse_float=Decimal, parse_int=Decimal)["amount"] == amount


def test_all_seven_statuses_are_asked_for() -> None:
    assert len(wire(r.GetMediaBuys())["status_filter"]) == 7


def test_a_poll_always_asks_for_the_result() -> None:
    assert wire(r.GetTaskStatus(task_id="t"))["include_result"] is True


def test_secrets_do_not_stand_in_repr() -> None:
    assert "t" * 24 not in repr(HMAC_WEBHOOK)
    assert "c" * 43 not in repr(HMAC_WEBHOOK)
    assert wire(HMAC_WEBHOOK)["authentication"]["credentials"] == "c" * 43


@pytest.mark.parametrize(
    "changes",
    [
        {"idempotency_key": "short"},
        {"idempotency_key": "k" * 256},
        {"idempotency_key": "with a space in it"},
        {"packages": []},
        {"packages": None},
        {"packages": [PACKAGE.model_copy(update={"budget": None})]},
        {"start_time": END, "end_time": START},
        {"start_time": datetime(2026, 9, 1)},  # noqa: DTZ001 (the point of the case)
        {"proposal_id": "pr"},
        {"packages": None, "proposal_id": "pr"},
        {"budget_allocation": r.BudgetAllocation(mode="seller_optimized")},
        {"misspelt": 1},
    ],
)
def test_a_wrong_purchase_never_leaves(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        create(**changes)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: r.Account(),
        lambda: r.Account(account_id="a", brand=BRAND, operator="x.example.com"),
        lambda: r.Account(brand=BRAND),
        lambda: r.Brand(domain="Not A Domain"),
        lambda: r.Money(amount=Decimal("-1"), currency="EUR"),
        lambda: r.Money(amount=Decimal("NaN"), currency="EUR"),
        lambda: r.Money(amount=Decimal(1), currency="euro"),
        lambda: r.GetProducts(),
        lambda: r.GetProducts(buying_mode="wholesale", brief="x"),
        lambda: r.PushNotificationConfig(url="https://user@x/", operation_id="o", token="t" * 16),
        lambda: r.PushNotificationConfig(url="https://x/", operation_id="o", token="short"),
        lambda: r.WebhookAuthentication(schemes=["HMAC-SHA256"], credentials="short"),
        lambda: r.WebhookAuthentication(schemes=["HMAC-SHA256", "Bearer"], credentials="c" * 32),
    ],
)
def test_wrong_parts_are_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        wrong()


@pytest.mark.parametrize("stated", ["0001-01-01T00:00:00Z", "1999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"])
def test_a_moment_that_nobody_means_does_not_leave(stated: str) -> None:
    with pytest.raises(ValidationError, match="end_time"):
        r.PackageUpdate.model_validate({"package_id": "p", "end_time": stated})


MODELS = [one for one in vars(r).values() if isinstance(one, type) and issubclass(one, BaseModel)]
AMOUNTS = [
    (model, name)
    for model in MODELS
    for name, field in model.model_fields.items()
    if "Decimal" in str(field.annotation)
]


def test_amounts_are_found() -> None:
    assert {(r.Money, "amount"), (r.PackageRequest, "bid_price"), (r.PackageUpdate, "budget")} <= {*AMOUNTS}


@pytest.mark.parametrize(("model", "name"), AMOUNTS, ids=lambda one: getattr(one, "__name__", one))
@pytest.mark.parametrize(("typed", "why"), [("450,50", "450.50 or as 45050"), ("a lot", "is no amount")])
def test_a_text_that_says_two_amounts_is_refused_with_both(
    model: type[BaseModel], name: str, typed: str, why: str
) -> None:
    """As people type it everywhere else (approve in part, imports, forms)."""
    with pytest.raises(ValidationError, match=why):
        model.model_validate({name: typed})


def test_a_point_before_three_digits_is_a_fraction_of_a_rate_alone() -> None:
    with pytest.raises(ValidationError, match=r"12\.50 or as 12500"):
        r.Money.model_validate({"amount": "12.500", "currency": "EUR"})
    package = {"product_id": "p", "pricing_option_id": "o", "budget": "1 234.5", "bid_price": "0.125"}
    read = r.PackageRequest.model_validate(package)
    assert (read.budget, read.bid_price) == (Decimal("1234.5"), Decimal("0.125"))
