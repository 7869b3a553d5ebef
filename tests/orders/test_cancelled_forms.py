"""That a package is cancelled, in whatever form its seller says so; what nobody can read is shown."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orders.amounts import deal_amounts
from orders.changes.requested import is_shown
from orders.models import Deal
from orders.questions import DIFFERENT
from orders.terms.matching import is_cancelled
from tasks_app.adcp.values import boolean_of
from tasks_app.approvals.models import Approval
from tests.factories import make_line
from tests.orders.late import fresh
from tests.orders.live import booked, first_line, packages, says
from tests.orders.test_adopted import adopt

pytestmark = pytest.mark.django_db
YES = [True, "true", "True", " TRUE ", 1, 1.0, "1", "yes", "Yes"]
NO = [None, False, "false", "False", 0, 0.0, "0", "no", "NO", ""]
SAID, UNREAD = ["true", 1, "Yes"], ["maybe", 2, {"reason": "sold out"}]  # of both, through the whole way
NEITHER = ["maybe", "2026-05-01T00:00:00Z", 2, -1, 0.5, [True], {"reason": "sold out"}, "cancelled", "\u0661"]


@pytest.mark.parametrize("said", YES, ids=repr)
def test_yes_in_any_form(said: Any) -> None:
    assert boolean_of(said) is True
    assert is_cancelled({"canceled": said}) is True


@pytest.mark.parametrize("said", NO, ids=repr)
def test_no_in_any_form(said: Any) -> None:
    assert is_cancelled({"canceled": said}) is False


@pytest.mark.parametrize("said", NEITHER, ids=repr)
def test_what_is_neither(said: Any) -> None:
    assert boolean_of(said) is None
    assert is_cancelled({"canceled": said}) is None


def two_lines(**told: Any) -> Deal:
    """Two packages, of the first of which the seller tells so."""
    deal = booked(lines=(make_line(), make_line()))
    return says(deal, "active", revision=2, packages=packages(deal, **told))


@pytest.mark.parametrize("said", SAID, ids=repr)
def test_a_cancelled_package_comes_to_nothing(said: Any) -> None:
    deal = two_lines(canceled=said)
    assert [(one["line"], one["field"], one["confirmed"]) for one in deal.differences] == [
        (1, "canceled", "yes")
    ]
    assert deal_amounts(deal).confirmed == deal.lines.get(position=2).budget


@pytest.mark.parametrize("said", ["false", 0, ""], ids=repr)
def test_one_that_runs_departs_in_nothing(said: Any) -> None:
    assert two_lines(canceled=said).differences == []


@pytest.mark.parametrize("said", UNREAD, ids=repr)
def test_what_nobody_can_read_is_shown_as_stated_and_asked_about(said: Any) -> None:
    deal = two_lines(canceled=said)
    (found,) = deal.differences
    assert (found["line"], found["field"], found["approved"]) == (1, "canceled", "no")
    assert found["confirmed"][:5] in str(said)
    assert deal_amounts(deal).confirmed == sum(line.budget for line in deal.lines.all()), "it may run"
    assert Approval.objects.get(kind=DIFFERENT, status="open").evidence["differences"] == [found]
    says(deal, "active", revision=4, packages=packages(deal, canceled="yes"))
    assert (fresh(deal).differs, first_line(deal).confirmed_budget) == (True, 0)


def test_it_goes_when_the_seller_says_it_runs() -> None:
    deal = two_lines(canceled="maybe")
    assert says(deal, "active", revision=3, packages=packages(deal)).differences == []


@pytest.mark.parametrize("said", SAID, ids=repr)
def test_one_that_nobody_ordered_and_that_is_cancelled_comes_to_nothing(said: Any) -> None:
    deal = booked()
    extra = {"package_id": "other", "product_id": "other", "budget": 5000.0, "canceled": said}
    deal = says(deal, "active", revision=2, packages=[*packages(deal), extra])
    assert deal.differences == []


@pytest.mark.parametrize("said", SAID, ids=repr)
def test_a_total_with_or_without_what_is_cancelled_is_right(said: Any) -> None:
    deal = booked(lines=(make_line(), make_line()))
    told = packages(deal, canceled=said)
    whole = sum(package["budget"] for package in told)
    for revision, total in enumerate((whole, whole - told[0]["budget"]), start=2):
        deal = says(deal, "active", revision=revision, packages=told, total_budget=total)
        assert {one["field"] for one in deal.differences} == {"canceled"}


@pytest.mark.parametrize("said", SAID, ids=repr)
def test_what_is_cancelled_is_not_adopted(said: Any) -> None:
    own = {"product_id": "prod-olv", "budget": 4000.0}
    deal = adopt(packages=[{**own, "package_id": "p-1"}, {**own, "package_id": "p-2", "canceled": said}])
    assert [(one.package_id, one.budget) for one in deal.lines.all()] == [("p-1", 4000)]


@pytest.mark.parametrize("name", ["canceled", "paused"])
def test_a_change_is_shown_in_any_form(name: str) -> None:
    deal = booked()
    one = {"media_buy_id": "mb-1", "packages": [{"package_id": "pkg-1", name: True}]}
    whole = {"media_buy_id": "mb-1", name: True}
    for said in [*YES, *NO, *NEITHER]:
        record = {"media_buy_id": "mb-1", "packages": [{"package_id": "pkg-1", name: said}]}
        for asked in (one, whole):
            assert is_shown(asked, record, deal, whole=True) == (said in YES), (asked, said)


def _compared() -> Iterator[str]:
    """Each place where what is stated of a boolean is compared with one, rather than read."""
    for path in sorted((Path(__file__).parents[2] / "orders").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
                right, left = node.comparators[0], ast.unparse(node.left)
                is_boolean = isinstance(right, ast.Constant) and isinstance(right.value, bool)
                if is_boolean and ".get(" in left and "boolean_of" not in left:
                    yield f"{path.name}: {left}"


@pytest.mark.rule
def test_nobody_else_reads_a_sellers_boolean() -> None:
    """What we ask for is ours; the terms were read when they were offered."""
    assert set(_compared()) == {
        "open_changes.py: request.get('canceled')",
        "policy_facts.py: terms.get('changes_need_approval')",
        "policy_facts.py: terms.get('material_by_hand')",
    }
