"""What differs between two pieces of evidence: every field, nothing else, and what is marked on the page."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks_app.approvals.changes import Change, evidence_changes
from tasks_app.approvals.models import Approval
from tasks_app.approvals.parts import changes_of
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approval_void
from tests.approvals.conftest import Desk
from tests.factories import make_user

LINE = {"product_id": "p1", "pricing_option_id": "cpm", "product": "Pre-roll", "budget": "100.00"}
OTHER = {**LINE, "product_id": "p2", "product": "Mid-roll"}
scalars = st.none() | st.booleans() | st.integers() | st.text("ab 01", max_size=4)
evidence = st.dictionaries(
    st.text("abc_", min_size=1, max_size=4),
    st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text("abc_", max_size=3), inner, max_size=4)
        ),
        max_leaves=12,
    ),
    max_size=5,
)


def told(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str, Any, Any]]:
    return [(c.path, c.kind, c.before, c.after) for c in evidence_changes(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"gross": "10.00"}, {"gross": "10.00"}, []),
        ({"gross": "10.0"}, {"gross": "10.00"}, []),
        ({"gross": 10}, {"gross": "10.00"}, []),
        (
            {"differences": [{"field": "rate", "confirmed": "1"}]},
            {"differences": [{"field": "rate", "confirmed": "1.0"}]},
            [],
        ),
        (
            {"sent": {"account": {"account_id": "01000"}}},
            {"sent": {"account": {"account_id": "1e3"}}},
            [("sent.account.account_id", "changed", "01000", "1e3")],
        ),
        ({"product_id": "7"}, {"product_id": "7.0"}, [("product_id", "changed", "7", "7.0")]),
        ({"po_number": 7}, {"po_number": "7"}, [("po_number", "changed", 7, "7")]),
        (
            {"differences": [{"field": "product", "confirmed": "01"}]},
            {"differences": [{"field": "product", "confirmed": "1"}]},
            [("differences.product.confirmed", "changed", "01", "1")],
        ),
        (
            {"name": "2027-01-01T00:00:00-05:00"},
            {"name": "2027-01-01T05:00:00+00:00"},
            [("name", "changed", "2027-01-01T00:00:00-05:00", "2027-01-01T05:00:00+00:00")],
        ),
        ({"gross": "10.00"}, {"gross": "12.00"}, [("gross", "changed", "10.00", "12.00")]),
        ({"end": "2027-01-01T00:00:00-05:00"}, {"end": "2027-01-01T05:00:00+00:00"}, []),
        (
            {"end": "2027-01-01T00:00:00Z"},
            {"end": "2027-01-02T00:00:00Z"},
            [("end", "changed", "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z")],
        ),
        ({"a": True}, {"a": 1}, [("a", "changed", True, 1)]),
        ({"a": None}, {"a": ""}, [("a", "changed", None, "")]),
        ({}, {"hold": "x"}, [("hold", "added", None, "x")]),
        ({"hold": None}, {}, [("hold", "removed", None, None)]),
        ({"terms": {"n": 1}}, {"terms": {"n": 2}}, [("terms.n", "changed", 1, 2)]),
        (
            {"lines": [LINE, OTHER]},
            {"lines": [{**OTHER, "budget": "50"}]},
            [
                ("lines.p1 / cpm", "removed", LINE, None),
                ("lines.p2 / cpm.budget", "changed", "100.00", "50"),
            ],
        ),
        ({"lines": [LINE, OTHER]}, {"lines": [OTHER, LINE]}, []),
        ({"lines": [LINE, LINE]}, {"lines": [LINE]}, [("lines.2", "removed", LINE, None)]),
        ({"reasons": ["a", "b"]}, {"reasons": ["a", "c"]}, [("reasons.2", "changed", "b", "c")]),
        ({"x": {"a": 1}}, {"x": [1]}, [("x", "changed", {"a": 1}, [1])]),
    ],
)
def test_field_by_field(before: Any, after: Any, changes: list[Any]) -> None:
    assert sorted(told(before, after), key=str) == sorted(changes, key=str)


@given(evidence)
def test_nothing_differs_from_itself(one: dict[str, Any]) -> None:
    assert evidence_changes(one, one) == []


@given(evidence, evidence)
def test_looked_at_from_the_other_side_it_is_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    turned = {"added": "removed", "removed": "added", "changed": "changed"}
    there = {(c.path, c.kind, repr(c.before), repr(c.after)) for c in evidence_changes(one, other)}
    back = {(c.path, turned[c.kind], repr(c.after), repr(c.before)) for c in evidence_changes(other, one)}
    assert there == back


@given(evidence, st.text("abc_", min_size=1, max_size=4), scalars)
def test_a_field_that_is_new_is_found(one: dict[str, Any], name: str, value: Any) -> None:
    without = {key: inner for key, inner in one.items() if key != name}
    assert evidence_changes(without, {**without, name: value}) == [
        Change(keys=(name,), kind="added", before=None, after=value)
    ]


@pytest.mark.django_db
def test_a_question_asked_anew_names_the_voided_one_and_what_changed(desk: Desk) -> None:
    first = desk.ask(evidence={"gross": "10.00", "currency": "USD"})
    desk.version = 2
    with pytest.raises(DecisionRefusedError):
        approval_decide(approval_id=first.pk, user=make_user("Approver"), verdict="approve")
    second = Approval.objects.get(status="open")
    assert second.replaces == first
    assert changes_of(first) == []
    marked = {one.field: (one.before, one.after, one.kind) for one in changes_of(second)}
    assert marked["Version"][2] == "added"
    assert marked["Currency"] == ("USD", "–", "removed")


@pytest.mark.django_db
def test_only_what_was_voided_is_replaced(desk: Desk) -> None:
    first = desk.ask()
    approval_decide(approval_id=first.pk, user=make_user("Approver"), verdict="reject", comment="No")
    second = desk.ask()
    assert second.replaces is None
    approval_void(approval=second, reason="Gone")
    assert desk.ask().replaces == second
