"""Lines and packages are weighed in steps and memory that grow as they do, and what a seller may name at most
is bounded: packages that are read, departures that are kept."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from types import FrameType
from typing import Any

import pytest
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from orders.amounts import PACKAGE
from orders.booking import compare
from orders.departures import BEYOND, MOST_NAMED, departures_told, uncounted
from orders.matching import MOST_PACKAGES, Matched, packages_match, packages_of
from orders.models import Deal, DealLine
from tasks_app.adcp.values import parse_time
from tasks_app.approvals.models import Approval
from tasks_app.money import amount_of
from tests.factories import make_user
from tests.orders.late import booking, bought, fresh, say
from tests.orders.test_matching import END, LATER, START, line
from tests.ui.pages import page_of

pytestmark = pytest.mark.deep

Packages = list[dict[str, Any]]
_PRODUCTS, _OPTIONS = ["prod", "other"], ["cpm", "flat"]
_AMOUNTS = [Decimal(10000), Decimal(700)]
_MOMENTS = [START, END, LATER]
_ODD: list[Any] = [None, 7, [], {"a": 1}]


def _likeness(one: DealLine, told: Mapping[str, Any]) -> tuple[int, ...]:
    dates = ((one.start_at, "start_time"), (one.end_at, "end_time"))
    return (
        told.get("product_id") == one.product_id,
        told.get("pricing_option_id") in (None, one.pricing_option_id),
        amount_of(told.get("budget")) == one.budget,
        sum(parse_time(told.get(name)) == ours for ours, name in dates),
    )


def _pair_by_pair(lines: Sequence[DealLine], packages: Packages) -> list[tuple[int, int]]:
    """The rule said plainly, each line beside each package: the likest pair first, equals in their order."""
    found: dict[int, int] = {}
    for at, one in enumerate(lines):
        for n, told in enumerate(packages):
            named = told.get("context", {}).get("line_id") == str(one.pk)
            if named and at not in found and n not in found.values():
                found[at] = n
    for at, one in enumerate(lines):
        for n, told in enumerate(packages):
            known = one.package_id and told.get("package_id") == one.package_id
            if known and at not in found and n not in found.values():
                found[at] = n
    weighed = [
        (tuple(-part for part in _likeness(one, told)), at, n)
        for at, one in enumerate(lines)
        for n, told in enumerate(packages)
        if told.get("product_id") in (None, one.product_id)
    ]
    for _, at, n in sorted(weighed):
        if at not in found and n not in found.values():
            found[at] = n
    return sorted(found.items())


_LINES = st.lists(
    st.fixed_dictionaries(
        {
            "product_id": st.sampled_from(_PRODUCTS),
            "pricing_option_id": st.sampled_from(_OPTIONS),
            "budget": st.sampled_from(_AMOUNTS),
            "package_id": st.sampled_from(["", "", "p1", "p2"]),
            "start_at": st.sampled_from(_MOMENTS),
            "end_at": st.sampled_from(_MOMENTS),
        }
    ),
    max_size=5,
)
_TOLD = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "product_id": st.sampled_from([*_PRODUCTS, *_ODD]),
            "pricing_option_id": st.sampled_from([*_OPTIONS, *_ODD]),
            "budget": st.sampled_from([10000, "700", *_ODD]),
            "package_id": st.sampled_from(["p1", "p2", "", *_ODD]),
            "start_time": st.sampled_from([*(at.isoformat() for at in _MOMENTS), *_ODD]),
            "end_time": st.sampled_from([*(at.isoformat() for at in _MOMENTS), *_ODD]),
        },
    ),
    max_size=7,
)


@given(_LINES, _TOLD, st.data())
@settings(max_examples=300, deadline=None)
def test_what_is_looked_up_is_what_would_be_weighed_pair_by_pair(
    given_lines: list[dict[str, Any]], told: Packages, data: st.DataObject
) -> None:
    lines = [line(at, **fields) for at, fields in enumerate(given_lines)]
    for one in lines if told else []:
        if data.draw(st.booleans()):
            data.draw(st.sampled_from(told))["context"] = {"line_id": str(one.pk)}
    found = packages_match(lines, told)
    places = {id(one): n for n, one in enumerate(told)}
    assert [(one.position, places[id(named)]) for one, named in found.pairs] == _pair_by_pair(lines, told)


class Counted(str):
    """A text that counts how often it is compared or hashed: what loops in C do with it is counted too."""

    __slots__ = ()
    many = 0

    def __eq__(self, other: object) -> bool:
        Counted.many += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Counted.many += 1
        return str.__hash__(self)


def _work(lines: list[DealLine], packages: Packages) -> tuple[int, int]:
    """Lines of Python that ran and texts that were compared; bytes that were held at most."""
    ran, Counted.many, before = 0, 0, sys.gettrace()

    def count(_frame: FrameType, event: str, _told: Any) -> Any:
        nonlocal ran
        ran += event == "line"
        return count

    tracemalloc.start()
    sys.settrace(count)
    try:
        packages_match(lines, packages)
    finally:
        sys.settrace(before)
        room = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return ran + Counted.many, room


def _same(n: int) -> dict[str, Any]:
    return {"product_id": Counted("prod")}


def _own(n: int) -> dict[str, Any]:
    return {"product_id": Counted(f"prod-{n}"), "package_id": Counted(f"p-{n}")}


def _dated(n: int) -> dict[str, Any]:
    return {"product_id": Counted("prod"), "start_time": (START + timedelta(n)).isoformat()}


def _empty(n: int) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize("made", [_same, _own, _dated, _empty])
def test_twice_as_many_lines_and_packages_are_twice_the_work(made: Any) -> None:
    def work(many: int) -> tuple[int, int]:
        lines = [line(n, product_id=Counted(made(n).get("product_id", "prod"))) for n in range(many)]
        return _work(lines, [made(n) for n in range(many)])

    (steps, room), (more_steps, more_room) = work(60), work(240)
    assert more_steps < 6 * steps
    assert more_room < 6 * room


def test_of_more_packages_than_are_read_none_is_read() -> None:
    assert len(packages_of({"packages": [{}] * MOST_PACKAGES})) == MOST_PACKAGES
    assert packages_of({"packages": [{}] * (MOST_PACKAGES + 1)}) == []
    assert packages_match([], []) == Matched(pairs=(), lines=(), packages=())


@pytest.mark.django_db
def test_packages_beyond_the_bound_are_shown_as_not_counted() -> None:
    deal, operation = booking()
    told = bought(deal)
    told["packages"] += [{}] * 150_000
    say(operation, "completed", told)
    deal = fresh(deal)
    assert (deal.status, deal.differs, deal.confirmed_gross) == ("booked", True, None)
    assert [(one["field"], one["confirmed"]) for one in deal.differences] == [
        (BEYOND, "150,001: more than are counted, what they come to is unknown")
    ]
    assert departures_told(deal, {**told, "total_budget": 70_000}).gross == 70_000
    assert uncounted(deal.differences)
    assert "more than are counted" in _page(deal)
    asked = Approval.objects.get(kind="booked_differently")
    assert "more than are counted" in json.dumps(asked.evidence)


@pytest.mark.django_db
def test_of_the_packages_that_nobody_ordered_some_are_named_and_the_rest_summed() -> None:
    deal, operation = booking()
    told = bought(deal)
    ordered = sum(one.budget for one in deal.lines.all())
    told["packages"] += [{"package_id": f"x{n}", "budget": 3} for n in range(900)]
    say(operation, "completed", told)
    deal = fresh(deal)
    extra = [one for one in deal.differences if one["field"] == PACKAGE]
    assert len(extra) == MOST_NAMED
    assert {one["confirmed"] for one in extra[:-1]} == {"3"}
    rest = 900 - MOST_NAMED + 1
    assert (extra[-1]["product"], extra[-1]["confirmed"]) == (f"{rest} more", str(3 * rest))
    assert deal.confirmed_gross == ordered + 2700
    for page in (_page(deal), _page(Approval.objects.get(kind="booked_differently"))):
        assert len(page) < 500_000
        assert f"{rest} more" in page


@pytest.mark.django_db
def test_a_sum_that_leaves_out_what_cannot_be_counted_says_so() -> None:
    deal, operation = booking()
    told = bought(deal)
    told["packages"] += [{"package_id": f"x{n}", "budget": 3 if n % 2 else "much"} for n in range(200)]
    say(operation, "completed", told)
    deal = fresh(deal)
    extra = [one for one in deal.differences if one["field"] == PACKAGE]
    assert {one["confirmed"] for one in extra[:-1]} == {"much"}
    assert extra[-1]["confirmed"] == "300 and amounts that cannot be counted"
    assert len(uncounted(deal.differences)) == 2


@pytest.mark.parametrize("budget", [None, 5], ids=["unpriced", "priced"])
@pytest.mark.django_db
def test_the_same_record_again_changes_nothing(budget: int | None) -> None:
    deal, operation = booking()
    told = bought(deal)
    told["packages"] += [{"package_id": f"x{n}", "budget": budget} for n in range(120)]
    say(operation, "completed", told)
    before = fresh(deal)
    for whole in (True, False):
        compare(fresh(deal), told, whole=whole)
        after = fresh(deal)
        assert (after.differences, after.confirmed_gross) == (before.differences, before.confirmed_gross)


def _page(subject: Deal | Approval) -> str:
    client = Client()
    user = make_user("Administrator", is_staff=True)
    client.force_login(user, backend="tasks_app.people.holders.RoleBackend")
    return client.get(page_of(subject)).content.decode()
