"""update_media_buy: budgets, dates, pause and cancel of a buy and its packages, applied at once.

Source: AdCP `media-buy/update-media-buy-*.json`, `media-buy/package-update.json`.
"""

from __future__ import annotations

from typing import Any

from demo.sellers import clock
from demo.sellers.books import Books
from demo.sellers.catalogue import House, Price
from demo.sellers.desk import TERMINAL, buy_actions, buy_status, buy_total, finish_task
from demo.sellers.post import Post
from demo.sellers.refusal import refuse, time_given

_SUPPORTED = ("budget", "paused", "canceled", "start_time", "end_time")


def buy_change(house: House, books: Books, post: Post, request: dict[str, Any]) -> dict[str, Any]:
    """Apply an update and answer it.

    Raises:
        AdcpError: no such buy or package, another revision, or a change this seller does not make.
    """
    with books.transaction():
        buy = books.buy(request["media_buy_id"])
        if buy is None:
            raise refuse("MEDIA_BUY_NOT_FOUND", "No such media buy.", field="media_buy_id")
        _check_changeable(buy, request)
        touched = [_change_package(house, buy, change) for change in request.get("packages", ())]
        _change_whole(buy, request)
        buy["revision"] += 1
        buy["updated_at"] = clock.stamp(clock.now())
        books.save_buy(buy)
        if buy["canceled_at"]:
            _end_task(books, post, buy)
    status = buy_status(buy)
    return {
        "status": "completed",
        "media_buy_id": buy["media_buy_id"],
        "media_buy_status": status,
        "revision": buy["revision"],
        "currency": buy["currency"],
        "total_budget": buy_total(buy),
        "implementation_date": buy["updated_at"],
        "affected_packages": touched or buy["packages"],
        "valid_actions": buy_actions(buy),
    }


def _check_changeable(buy: dict[str, Any], request: dict[str, Any]) -> None:
    if request.get("revision", buy["revision"]) != buy["revision"]:
        raise refuse("CONFLICT", f"The buy is at revision {buy['revision']}.", field="revision")
    if buy_status(buy) in TERMINAL:
        raise refuse("INVALID_STATE", f"The media buy is {buy_status(buy)}.", field="media_buy_id")
    if buy["confirmed_at"] is None and not request.get("canceled"):
        raise refuse("INVALID_STATE", "Not confirmed yet: it can only be cancelled.", field="media_buy_id")
    for name in ("new_packages", "total_budget", "budget_allocation", "bidding"):
        if name in request:
            raise refuse("UNSUPPORTED_FEATURE", f"This seller does not change {name}.", field=name)


def _change_package(house: House, buy: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    package = next((p for p in buy["packages"] if p["package_id"] == change.get("package_id")), None)
    if package is None:
        raise refuse("PACKAGE_NOT_FOUND", "No such package in this buy.", field="packages.package_id")
    if package.get("canceled"):
        raise refuse("INVALID_STATE", "The package is cancelled.", field="packages.package_id")
    price = _price(house, package)
    if "budget" in change and change["budget"] < price.min_spend:
        raise refuse(
            "BUDGET_TOO_LOW",
            f"The minimum is {price.min_spend:.2f} {price.currency}.",
            field="packages.budget",
        )
    package |= {name: change[name] for name in _SUPPORTED if name in change}
    _check_flight(package)
    if change.get("canceled"):
        package["cancellation"] = {"canceled_at": clock.stamp(clock.now()), "canceled_by": "buyer"}
    return package


def _check_flight(package: dict[str, Any]) -> None:
    if time_given(package["end_time"], "end_time") <= time_given(package["start_time"], "start_time"):
        raise refuse("INVALID_REQUEST", "The flight ends before it starts.", field="end_time")


def _price(house: House, package: dict[str, Any]) -> Price:
    product = house.product(package["product_id"])
    prices = product.prices if product else ()
    price = next((p for p in prices if p.option_id == package["pricing_option_id"]), None)
    if price is None:
        raise refuse("PRODUCT_UNAVAILABLE", "The product is no longer sold.", field="packages.package_id")
    return price


def _change_whole(buy: dict[str, Any], request: dict[str, Any]) -> None:
    if "paused" in request:
        buy["paused"] = request["paused"]
    for name in ("start_time", "end_time"):
        if name in request:
            moment = clock.stamp(clock.now()) if request[name] == "asap" else request[name]
            buy["packages"] = [{**package, name: moment} for package in buy["packages"]]
    for package in buy["packages"]:
        _check_flight(package)
    if "name" in request:
        buy["name"] = request["name"]
    if request.get("canceled") or all(p.get("canceled") for p in buy["packages"]):
        buy["canceled_at"] = clock.stamp(clock.now())


def _end_task(books: Books, post: Post, buy: dict[str, Any]) -> None:
    """A buy cancelled while it waited: nothing more is promised for its task."""
    task = books.task_of_buy(buy["media_buy_id"])
    if task is None or task["status"] in TERMINAL:
        return
    books.drop_steps(task["task_id"])
    finish_task(task, "canceled", "Cancelled by the buyer before it was confirmed.", None)
    books.save_task(task)
    post.announce(task)
