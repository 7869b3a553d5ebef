"""Two payloads side by side, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from tasks_app.operations.differences import ABSENT, fields_beside


def test_every_field_of_either_is_there_and_says_whether_it_differs() -> None:
    first = {"status": "completed", "packages": [{"budget": 46200.0, "id": "p-1"}], "sandbox": False}
    second = {"status": "rejected", "packages": [{"budget": 46200, "id": "p-1"}], "errors": [{"code": "X"}]}
    found = {field.path: (field.first, field.second, field.differs) for field in fields_beside(first, second)}
    assert found == {
        "status": ("completed", "rejected", True),
        "packages[0].budget": ("46200.0", "46200", False),
        "packages[0].id": ("p-1", "p-1", False),
        "sandbox": ("false", ABSENT, True),
        "errors[0].code": (ABSENT, "X", True),
    }
    assert [field.path for field in fields_beside(first, second)][-1] == "errors[0].code"


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": True}, True),
        ({"a": "1"}, {"a": 1}, True),
        ({"a": None}, {}, True),
        ({"a": []}, {"a": {}}, True),
        ({"a": []}, {"a": []}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, True),
        (None, {"a": 1}, True),
    ],
    ids=str,
)
def test_what_counts_as_a_difference(first: Any, second: Any, differs: bool) -> None:
    assert any(field.differs for field in fields_beside(first, second)) is differs


def test_a_hostile_payload_is_cut_and_its_differences_stay() -> None:
    first = {f"k{n}": n for n in range(5000)}
    second = {**first, "k4999": "x" * 10_000}
    found = fields_beside(first, second)
    assert len(found) == 400
    assert (found[0].path, found[0].differs) == ("k4999", True)
    assert len(found[0].second) < 400
