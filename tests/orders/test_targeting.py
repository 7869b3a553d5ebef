"""What targeting means, before any deal: of two ways to write it, whether they say the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orders.terms.targeting import is_targeted, stated_targeting, targeting_after

Record = dict[str, Any]
SE, MOBILE = {"geo_countries": ["SE"]}, {"device_type": ["mobile"]}
BOTH = {**SE, **MOBILE}
DAYPART = {"days": ["monday", "friday"], "start_hour": 6, "end_hour": 10}

ALIKE: dict[str, tuple[Any, Any]] = {
    "another order": (["NO", "DK"], ["DK", "NO"]),
    "dayparts in another order": ([DAYPART, {"days": []}], [{"days": []}, DAYPART]),
    "days of a daypart in another order": ([DAYPART], [{**DAYPART, "days": ["friday", "monday"]}]),
    "one that is named twice": (["NO", "DK", "NO"], ["DK", "NO"]),
    "fields in another order": ({"max": 3, "per": "day"}, {"per": "day", "max": 3}),
    "none by any name": (None, []),
    "none by an empty object": ([], {}),
    "whole numbers in floats": ({"max": 3}, {"max": 3.0}),
    "large numbers in floats": ({"max": 10**15}, {"max": 1e15}),
    "tens": (100, 1e2),
    "nothing": (0, -0.0),
    "in a list": ([59, 18], [59.0, 18.0]),
}
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "one more": (["NO"], ["NO", "DK"]),
    "one twice for two": (["NO", "DK"], ["NO", "NO"]),
    "a package for two": ([{"id": 1}, {"id": 1}], [{"id": 1}]),
    "coordinates": ([59.3, 18.1], [18.1, 59.3]),
    "numbers beyond floats": (2**60, 2**60 + 1),
    "beyond any amount": (10**30, 10**30 + 1),
    "a number and its text": (18, "18"),
    "true and one": (True, 1),
    "false and none": (False, None),
    "nothing and none": (0, None),
    "an empty text and none": ("", None),
    "a null inside": ({"max": None, "per": "day"}, {"max": 1, "per": "day"}),
    "another name": ({"a": 1}, {"b": 1}),
    "a name and what stands behind it": ({"a": "b"}, {"b": "a"}),
    "what a text quotes": ({"a": 'x","b":"y'}, {"a": "x", "b": "y"}),
}
_KEPT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("case", ALIKE)
def test_it_means_the_same(case: str) -> None:
    one, other = ALIKE[case]
    assert is_targeted({"x": one}, {"x": other}, ["x"])
    assert is_targeted({"x": other}, {"x": one}, ["x"])


@pytest.mark.parametrize("case", DIFFERENT)
def test_it_means_something_else(case: str) -> None:
    one, other = DIFFERENT[case]
    assert not is_targeted({"x": one}, {"x": other}, ["x"])
    assert not is_targeted({"x": other}, {"x": one}, ["x"])


def test_only_what_is_named_is_compared() -> None:
    assert is_targeted(BOTH, {**BOTH, "geo_countries": ["NO"]}, ["device_type"])
    assert not is_targeted(BOTH, {**BOTH, "geo_countries": ["NO"]}, ["device_type", "geo_countries"])


@given(_KEPT)
def test_it_means_the_same_once_it_was_kept(value: Any) -> None:
    """As JSON it goes to the database and comes back."""
    assert is_targeted({"x": json.loads(json.dumps(value))}, {"x": value}, ["x"])


@pytest.mark.parametrize(
    ("overlay", "version", "after"),
    [
        (MOBILE, "3.0", {**MOBILE, "geo_countries": None}),
        (MOBILE, "", {**MOBILE, "geo_countries": None}),
        (MOBILE, "3.1-beta", {**MOBILE, "geo_countries": None}),
        (MOBILE, "3.2", BOTH),
        (MOBILE, "4.0", BOTH),
        ({"geo_countries": None}, "3.2", {"geo_countries": None}),
        ({}, "3.2", {"geo_countries": None}),
        ({"geo_countries": ["NO"]}, "3.1", {"geo_countries": ["NO"]}),
    ],
)
def test_an_overlay_replaces_up_to_3_1_and_patches_from_3_2(
    overlay: Record, version: str, after: Record
) -> None:
    """A cleared dimension is None, which a seller that still targets it differs from."""
    assert targeting_after(SE, overlay, version=version) == after


@pytest.mark.parametrize(
    ("package", "known", "whole", "told"),
    [
        ({"targeting_overlay": SE}, None, False, SE),
        ({"targeting_overlay": {}}, SE, False, {}),
        ({"targeting_overlay": []}, None, False, {}),
        ({"targeting_overlay": "Sweden"}, None, False, {"as stated": "Sweden"}),
        ({"targeting_overlay": None}, SE, False, None),
        ({}, SE, False, None),
        ({}, None, True, None),
        ({}, SE, True, {}),
        ({"targeting_overlay": None}, SE, True, {}),
    ],
)
def test_what_a_package_says_of_it(package: Record, known: Record | None, whole: bool, told: Any) -> None:
    assert stated_targeting(package, known, whole=whole) == told
