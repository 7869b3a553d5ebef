"""By enumeration: what is refused where a purchase, or a change, is asked for is refused with the same values
in an answer to the seller's question about it; and nobody but the one module says what is refused."""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from orders import request_rules
from orders.ask import Ask, AskRefusedError
from orders.changes.send import change_ask
from orders.models import Deal
from orders.purchases import purchase_ask
from orders.services import deal_book
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.operations.models import Operation
from tasks_app.operations.steered import SteeringRefusedError
from tests.factories import approve_deal, make_deal, make_line, make_user
from tests.operations.making import stand
from tests.orders.late import answered, decide, fresh, paused
from tests.orders.live import booked

pytestmark = pytest.mark.django_db
Said = dict[str, Any]
_START, _END = timedelta(days=10), timedelta(days=38)
_FAR = timedelta(days=20_000)
_OPTION = {"pricing_option_id": "cpm-fixed", "pricing_model": "cpm", "currency": "USD", "fixed_price": 14.2}
# Products as the seller offers them: the deal's own, and others.
OFFERED: dict[str, Said] = {
    "prod-olv": {"min_spend_per_package": 5000},
    "in-euro": {"currency": "EUR"},
    "unread": {"fixed_price": "a lot"},
    "for-nothing": {"fixed_price": 0},
    "dear": {"min_spend_per_package": 50_000},
    "takeover": {"pricing_model": "flat_rate", "fixed_price": 18_000},
    "over": {},
}


def _at(later: timedelta) -> str:
    return (clock.now().replace(microsecond=0) + later).isoformat()


def _package(**said: Any) -> Callable[[Said], Said]:
    return lambda package: {"packages": [{**package, **said}]}


def _total(amount: int, currency: str) -> Callable[[Said], Said]:
    return lambda package: {"total_budget": {"amount": amount, "currency": currency}}


# What is said of the purchase of one package of 10,000, and why it is refused.
PURCHASES: dict[str, tuple[Callable[[Said], Said], str]] = {
    "no moment": (lambda package: {"start_time": "asap"}, "name the moment"),
    "a start that is no time": (lambda package: {"start_time": "soon"}, "start_time"),
    "a start that has passed": (lambda package: {"start_time": _at(-timedelta(days=1))}, "passed|begun"),
    "an end that is too far away": (lambda package: {"end_time": _at(_FAR)}, "is too far away"),
    "dates that are too far away": (
        lambda package: {"start_time": _at(_FAR), "end_time": _at(2 * _FAR)},
        "start_time: is too far away",
    ),
    "an end before its start": (
        lambda package: {"end_time": _at(timedelta(days=9))},
        "ends before it starts",
    ),
    "a package too far away": (
        lambda package: _package(end_time=_at(_FAR))(package),
        "flight is too far away",
    ),
    "a package outside": (
        lambda package: _package(end_time=_at(timedelta(40)))(package),
        "would not run within",
    ),
    "packages for more than any": (_package(budget=9_000_000_000_000), "come to more than|below"),
    "a package for nothing": (_package(budget=0), "must be above 0"),
    "a fraction of a cent": (_package(budget=9_000.001), "finer than the smallest unit"),
    "less than its minimum": (_package(budget=4_999), "its budget is below the seller's minimum of 5000"),
    "a bid beside a fixed price": (_package(bid_price=20), "leave bid_price out"),
    "a bid for more than any": (
        _package(product_id="new", bid_price=9_000_000_000_000),
        "cannot be bought at",
    ),
    "a bid for nothing": (_package(product_id="new", bid_price=0), "cannot be bought at"),
    "a long id": (_package(product_id="p" * 300), "its ids may have 255"),
    "a product in another currency": (_package(product_id="in-euro"), "one media buy has one currency"),
    "a product of no readable price": (_package(product_id="unread"), "cannot be read"),
    "a product for nothing": (_package(product_id="for-nothing"), "its rate of 0"),
    "a product of another minimum": (
        _package(product_id="dear"),
        "its budget is below the seller's minimum of 50000",
    ),
    "a part of a flat rate": (_package(product_id="takeover"), "it is bought whole, for 18000"),
    "more than a flat rate": (
        _package(product_id="takeover", budget=20_000),
        "has a flat rate: it is bought whole",
    ),
    "a product that is offered no more": (_package(product_id="over"), "the offer has expired"),
    "another total": (_total(10_001, "USD"), "is not the sum"),
    "a total in another currency": (_total(10_000, "EUR"), "currency"),
    "a budget that the seller splits": (
        lambda package: {"budget_allocation": {"mode": "fixed"}},
        "budget_allocation",
    ),
    "a field of none": (lambda package: {"unheard_of": 1}, "unheard_of"),
}
CHANGES: dict[str, tuple[Said, str]] = {
    "no moment": ({"start_time": "asap"}, "name the moment"),
    "an end that is too far away": ({"end_time": _FAR}, "is too far away"),
    "an end before its start": ({"end_time": timedelta(days=9)}, "ends before it starts"),
    "a package too far away": ({"packages": {"end_time": _FAR}}, "too far away"),
    "a package for more than any": ({"packages": {"budget": 9_000_000_000_000}}, "below"),
    "a package for nothing": ({"packages": {"budget": 0}}, "must be above 0"),
    "a fraction of a cent": ({"packages": {"budget": 9_000.001}}, "finer than the smallest unit"),
    "another package": ({"packages": {"package_id": "another"}}, "is no package of this media buy"),
    "a total": ({"total_budget": {"amount": 1, "currency": "USD"}}, "is not changed here"),
}


def _seller_asks() -> Operation:
    """A purchase that its seller has paused, and what it offers."""
    start = clock.now().replace(microsecond=0) + _START
    deal = make_deal(make_line(budget=Decimal(10_000)), start_at=start, end_at=start + _END - _START)
    approve_deal(deal)
    products = [
        {
            "product_id": name,
            "name": name,
            "channels": ["olv"],
            "pricing_options": [{**_OPTION, **said}],
            **({"expires_at": _at(-timedelta(days=1))} if name == "over" else {}),
        }
        for name, said in OFFERED.items()
    ]
    stand("completed", "get_products", seller=deal.seller, team=deal.team, result={"products": products})
    return paused(deal_book(deal=fresh(deal)))


def _asked_anew(operation: Operation, said: Said) -> Operation:
    """The same purchase asked for by an integrator, with what is said otherwise."""
    deal = Deal.objects.get()
    bought = {name: operation.request[name] for name in ("brand", "start_time", "end_time", "packages")}
    total = {
        "total_budget": {"amount": sum(one["budget"] for one in _packages(bought, said)), "currency": "USD"}
    }
    ask = Ask(
        user=make_user("Integration"),
        task="create_media_buy",
        seller=deal.seller,
        arguments={**bought, **total, **said},
    )
    return purchase_ask(ask)


def _packages(bought: Said, said: Said) -> list[Said]:
    found: list[Said] = said.get("packages", bought["packages"])
    return found


@pytest.mark.parametrize("case", PURCHASES)
def test_what_no_purchase_may_ask_for_no_answer_may(case: str) -> None:
    operation = _seller_asks()
    said, why = PURCHASES[case][0](operation.request["packages"][0]), PURCHASES[case][1]
    with pytest.raises(AskRefusedError, match=why):
        _asked_anew(operation, said)
    with pytest.raises(SteeringRefusedError, match=why):
        answered(operation, **said)
    assert not Approval.objects.filter(status="open").exists()


def test_what_a_purchase_may_ask_for_an_answer_may() -> None:
    operation = _seller_asks()
    (package,) = operation.request["packages"]
    said = {"packages": [{**package, "budget": 5_000}], "end_time": _at(timedelta(days=60))}
    assert _asked_anew(operation, said).pk
    answered(operation, **said)
    assert Approval.objects.filter(kind="answer", status="open").exists()


def test_an_offer_that_ended_since_keeps_nobody_from_answering_about_it() -> None:
    """The seller itself asks about what it offered: only another product is looked at anew."""
    operation = _seller_asks()
    (heard,) = Operation.objects.filter(task_type="get_products")
    (own, *others) = heard.result["products"]
    ended = [{**own, "expires_at": _at(-timedelta(days=1))}, *others]
    Operation.objects.filter(pk=heard.pk).update(result={"products": ended})
    answered(operation, end_time=_at(timedelta(days=60)))
    assert Approval.objects.filter(kind="answer", status="open").exists()


@pytest.mark.parametrize("case", CHANGES)
def test_what_no_change_may_ask_for_no_answer_may(case: str) -> None:
    deal = booked(line=make_line(budget=Decimal(10_000)))
    told, why = CHANGES[case]
    said = {name: _at(value) if isinstance(value, timedelta) else value for name, value in told.items()}
    if "packages" in said:
        own = {name: _at(at) if isinstance(at, timedelta) else at for name, at in said["packages"].items()}
        said["packages"] = [{"package_id": "pkg-1", **own}]
    with pytest.raises(AskRefusedError, match=why):
        _change(deal, said)
    _change(deal, {"packages": [{"package_id": "pkg-1", "budget": 12_000}]})
    decide("deal_change", "approve")
    operation = paused(Operation.objects.get(task_type="update_media_buy"))
    with pytest.raises(SteeringRefusedError, match=why):
        answered(operation, **said)


def test_what_has_a_flat_rate_is_changed_in_all_but_its_budget() -> None:
    whole = make_line(pricing_model="flat_rate", rate=Decimal(10_000), budget=Decimal(10_000), units=None)
    deal = booked(line=whole)
    for budget in (9_000, 12_000):
        with pytest.raises(AskRefusedError, match="has a flat rate"):
            _change(deal, {"packages": [{"package_id": "pkg-1", "budget": budget}]})
    assert _change(deal, {"packages": [{"package_id": "pkg-1", "budget": 10_000, "paused": True}]}).pk


def _change(deal: Deal, said: Said) -> Operation:
    arguments = {"media_buy_id": deal.media_buy_id, **said}
    user = make_user("Integration")
    return change_ask(Ask(user=user, task="update_media_buy", seller=deal.seller, arguments=arguments))


_RULES = Path(request_rules.__file__)
_ASKERS = ("purchases.py", "changes/send.py", "answering.py")


@pytest.mark.rule
def test_each_rule_has_its_case() -> None:
    """Whatever the module says to refuse something is said by a case of these."""
    whys = [why for _, why in PURCHASES.values()]
    told = {part for why in whys for part in why.split("|")}
    words = _words(_RULES.read_text(encoding="utf-8"))
    assert words, "nothing was found"
    unsaid = {one for one in words if not any(_says(one, part) for part in told)}
    nowhere = {"say the amount and currency: these products are not known from get_products"}
    assert unsaid == nowhere | set(request_rules.OTHER_FORMS.values()), "a deal has its own of these"


def _says(words: str, part: str) -> bool:
    plain = part.split(": ")[-1]
    return " " in plain and (plain in words or plain.startswith(words))


@pytest.mark.rule
def test_bounds_are_asked_by_the_one_module() -> None:
    for name in _ASKERS:
        read = (_RULES.parent / name).read_text(encoding="utf-8")
        found = [one for one in ("is_in_reach", "floor_to_unit", '"asap":') if one in read]
        assert not found, f"{name} asks {found} by itself"


def _words(source: str) -> set[str]:
    """The refusals in words: text of several words that is no docstring."""
    tree = ast.parse(source)
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and isinstance(node.body[0], ast.Expr)
    }
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
    ]
    return {text for text in texts if len(text.split()) > 3}
