"""An account is its whole natural key, every part that AdCP's schema allows."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tasks_app.adcp import requests
from tasks_app.adcp.account_keys import account_in, account_key, account_name, natural_reference, other_brand
from tasks_app.adcp.capabilities import OUR_VERSIONS

ASKED = {"brand": {"domain": "lindqvist-coffee.com"}, "operator": "haldenmarsh.com"}
OURS = {**ASKED, "account_id": "acc-ours", "status": "active"}
# What makes it another account, by the schema's name of each part of a natural key.
OTHER: dict[str, Any] = {
    "brand.domain": {"brand": {"domain": "another.com"}},
    "brand.brand_id": {"brand": {"domain": "lindqvist-coffee.com", "brand_id": "spark"}},
    "brand.countries": {"brand": {"domain": "lindqvist-coffee.com", "countries": ["SE"]}},
    "operator": {"operator": "another-agency.com"},
    "operator_unit": {"operator_unit": {"id": "ny", "name": "New York"}},
    "currency": {"currency": "SEK"},
    "timezone": {"timezone": "Europe/Stockholm"},
    "sandbox": {"sandbox": True},
}
SETTLED_BY_SELLER = {"currency", "timezone"}
# May stand beside a brand's domain and say nothing of which brand it is.
NO_KEY = {"industries", "data_subject_contestation", "brand_kit_override"}


def schema(version: str, name: str) -> dict[str, Any]:
    spec = find_spec("adcp")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    root = Path(next(iter(spec.submodule_search_locations))) / "_schemas" / version / "core"
    found: dict[str, Any] = json.loads((root / f"{name}.json").read_text("utf-8"))
    return found


def parts(version: str) -> set[str]:
    natural = schema(version, "account-ref")["oneOf"][1]["properties"]
    brand = set(schema(version, "brand-ref")["properties"]) - NO_KEY
    return (set(natural) - {"brand"}) | {f"brand.{name}" for name in brand}


def test_every_part_of_the_schemas_natural_key_is_known() -> None:
    assert parts("3.2") == set(OTHER)
    assert all(parts(version) <= set(OTHER) for version in OUR_VERSIONS)


@pytest.mark.parametrize("part", sorted(OTHER))
@pytest.mark.parametrize("others_first", [True, False], ids=["first", "last"])
def test_among_accounts_that_differ_in_one_part_ours_is_found(part: str, others_first: bool) -> None:
    other = {**OURS, **OTHER[part], "account_id": "acc-other"}
    rows = [other, OURS] if others_first else [OURS, other]
    assert account_in(rows, ASKED) is OURS


def test_two_accounts_that_differ_in_what_nobody_asked_for_are_not_told_apart() -> None:
    for part, other in (("timezone", "Asia/Tokyo"), ("currency", "JPY")):
        assert account_in([{**OURS, **OTHER[part]}, {**OURS, part: other}], ASKED) is None


@pytest.mark.parametrize("part", sorted(OTHER))
def test_an_only_account_that_differs_is_ours_where_the_seller_settles_that_part_alone(part: str) -> None:
    other = {**OURS, **OTHER[part]}
    assert (account_in([other], ASKED) is other) == (part in SETTLED_BY_SELLER)


@pytest.mark.parametrize("part", sorted(OTHER))
def test_what_was_asked_for_is_wanted_in_every_part(part: str) -> None:
    asked = {**ASKED, **OTHER[part]}
    assert account_in([{**asked, "account_id": "a"}, OURS], asked) == {**asked, "account_id": "a"}
    assert account_in([OURS, {**OURS, "account_id": "acc-twin"}], asked) is None


@pytest.mark.parametrize(
    "row",
    [
        {"account_id": "acc-1", "status": "active"},
        {"brand": None, "operator": None, "status": "active"},
        {"brand": {"domain": "Lindqvist-Coffee.com."}, "operator": "HaldenMarsh.com", "sandbox": False},
        {"brand": {"domain": "lindqvist-coffee.com", "industries": ["food"]}, "operator": "haldenmarsh.com"},
        {"account": dict(ASKED), "status": "active"},
    ],
    ids=["no-key", "null", "upper-case", "industries", "settings"],
)
def test_an_only_account_need_not_repeat_what_was_asked(row: dict[str, Any]) -> None:
    assert account_in([row], ASKED) is row


@pytest.mark.parametrize("row", [{}, {"account": {"brand": {"domain": "another.com"}}}, {"brand": {}}])
def test_of_several_accounts_one_without_its_key_is_nobodys(row: dict[str, Any]) -> None:
    assert account_in([row, {**row, "status": "active"}], ASKED) is None
    assert account_in([row, OURS], ASKED) is OURS


def test_the_same_account_twice_is_none() -> None:
    assert account_in([OURS, dict(OURS)], ASKED) is None
    assert account_in([], ASKED) is None


def test_an_account_is_found_by_its_id_also_where_it_is_a_number() -> None:
    row = {"account_id": 42.0, "status": "active"}
    assert account_in([{"account_id": 41}, row], {"account_id": "42"}) is row
    assert account_in([{"account": {"account_id": "42"}}], {"account_id": "42"}) is not None
    assert account_in([{"brand": ASKED["brand"]}], {"account_id": "42"}) is None


@pytest.mark.parametrize("part", sorted(OTHER))
@pytest.mark.parametrize("version", OUR_VERSIONS)
def test_a_reference_names_what_the_sellers_version_allows(part: str, version: str) -> None:
    told = {**ASKED, **OTHER[part], "status": "active"}
    reference = natural_reference(told, version=version)
    requests.Account.model_validate(reference)
    same = account_key(reference) == account_key(told)
    assert same == (part in parts(version))
    assert set(reference) <= set(schema(version, "account-ref")["oneOf"][1]["properties"])


def test_a_timezone_that_nobody_chose_is_no_part_of_the_name() -> None:
    told = {**ASKED, "timezone": "Europe/Stockholm", "operator_unit": {"id": "ny", "name": "New York"}}
    reference = natural_reference(told, version="3.2", timezone_is_chosen=False)
    assert reference == {**ASKED, "operator_unit": {"id": "ny"}}


def test_another_brand_is_told_where_it_is_stated() -> None:
    assert other_brand({"brand": {"domain": "another.com"}}, "lindqvist-coffee.com") == "another.com"
    assert (
        other_brand({"account": {"brand": {"domain": "another.com"}}}, "lindqvist-coffee.com")
        == "another.com"
    )
    assert other_brand({"brand": {"domain": "Lindqvist-Coffee.com"}}, "lindqvist-coffee.com") == ""
    assert other_brand({"account_id": "acc-1"}, "lindqvist-coffee.com") == ""


def test_an_account_has_a_name_for_people() -> None:
    assert (
        account_name({**OURS, "sandbox": True})
        == "lindqvist-coffee.com / haldenmarsh.com / acc-ours (sandbox)"
    )
    assert account_name({}) == "one that it does not name"
