"""From bytes to plain data: what is no brief is refused with a reason, and nothing else ever escapes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from django.conf import settings
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from campaigns.brief import brief_validate
from campaigns.parsing import BriefTooLargeError, UnparseableBriefError, brief_parse
from tests.campaigns.briefs import NOW, brief

_NAMES = st.sampled_from(["", "brief.json", "brief.yaml", "brief.yml", "brief.txt"])
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_ANYTHING = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
_YAML_WORDS = st.sampled_from(
    ["a:", "- ", "? ", "!!int ", '""', "!!bool ", "!!timestamp ", "!!set ", "!!binary ", "!!omap ",
     "!!float ", "&a ", "*a", "<<: ", "{", "}", "[", "]", ",", "|", ">", "2026-02-31", "0x1F", "1:30",
     ".nan", "-.inf", "~", "\n", "  ", "'", '"', "\\0", "x", "1", "=", "%YAML 1.1\n", "---\n", "...\n", "#"]
)  # fmt: skip


def parsed_or_refused(text: bytes, name: str) -> dict[str, Any] | None:
    try:
        found = brief_parse(text, name=name)
    except UnparseableBriefError:
        return None
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", ["", "brief.json", "brief.JSON"])
def test_json_is_read_as_it_stands(name: str) -> None:
    assert brief_parse(json.dumps(brief()).encode(), name=name) == brief()


@pytest.mark.parametrize("name", ["", "brief.yaml", "brief.yml"])
def test_yaml_is_read_into_the_same_data(name: str) -> None:
    assert brief_parse(yaml.safe_dump(brief()).encode(), name=name) == brief()


def test_a_byte_order_mark_is_no_obstacle() -> None:
    assert brief_parse(b"\xef\xbb\xbf" + json.dumps(brief()).encode()) == brief()


def test_yaml_dates_are_text_and_norway_stays_a_country() -> None:
    text = b"flight: {start: 2030-04-01}\ngeography: {countries: [NO, SE]}\nguaranteed: true\n"

    assert brief_parse(text) == {
        "flight": {"start": "2030-04-01"},
        "geography": {"countries": ["NO", "SE"]},
        "guaranteed": True,
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not an object"),
        (b"just words", "not an object"),
        (b"[1, 2]", "not an object"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b'{"name": ', "not JSON"),
        (b'{"budget": {"total": NaN}}', "NaN is not a JSON number"),
        (b'{"budget": {"total": -Infinity}}', "-Infinity is not a JSON number"),
        (b'{"name": "a", "name": "b"}', "twice"),
        (b"name: a\nname: b", "twice"),
        (b'1: a\n"1": b', "twice"),
        (b"1: a\n0x1: b", "twice"),
        (b"a: &x [1]\nb: *x", "aliases"),
        (b"a: !!python/object/apply:os.system [ls]", "not YAML"),
        (b'a: !!int ""', "not YAML"),
        (b"a: !!bool maybe", "not YAML"),
        (b"a: !!timestamp soon", "not YAML"),
        (b"a: !!timestamp 2030-02-01", "not YAML"),
        (b"a: !!binary aGVsbG8=", "not YAML"),
        (b"a: !!set {b, c}", "not YAML"),
        (b"a: !!merge b", "not YAML"),
        (b"a: !!int 0100_000", "not YAML"),
        (b"a: !!int 10:00:00", "not YAML"),
        (b"a: !!float 10:00.5", "not YAML"),
        (b"a: !!null none", "not YAML"),
        (b"name: [unclosed", "not YAML"),
        (b"name: a\n\tbudget: 1", "not YAML"),
        (b'{"name": "a\\u0000b"}', "cannot be kept"),
        (b'{"name": "\\ud800"}', "cannot be kept"),
        (b'{"\\ud800": 1}', "cannot be kept"),
        (b"n: 0x" + b"f" * 10_000, "too many digits"),
        (b"n: " + b"9" * 900_000, "too many digits"),
        (b"n: 0o" + b"7" * 900_000, "too many digits"),
        (b"n: ." + b"9" * 900_000, "too many digits"),
        (b'{"n": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"n": ' + b"9" * 900_000 + b"}", "too many digits"),
        (b'{"n": 0.' + b"9" * 900_000 + b"}", "too many digits"),
        (b'{"a": ' + b"[" * 30 + b"]" * 30 + b"}", "nested deeper"),
        (b'{"a": ' + b"[" * 100_000, "nested deeper"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a": [' + b"1," * 20_000 + b"1]}", "more than 10000 values"),
        (b"a: [" + b"1," * 200_000 + b"1]", "more than 10000 values"),
    ],
)
def test_what_is_no_brief_is_refused_with_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(UnparseableBriefError, match=reason):
        brief_parse(text)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        # YAML 1.2.2, 10.3.2
        ("null", None), ("Null", None), ("NULL", None), ("~", None), ("", None), ("nULL", "nULL"),
        ("true", True), ("False", False), ("TRUE", True), ("yes", "yes"), ("on", "on"), ("NO", "NO"),
        ("y", "y"),
        ("0", 0), ("-19", -19), ("+12", 12), ("0o14", 12), ("0x3A", 58), ("0100000", 100_000), ("014", 14),
        ("0.5", 0.5), ("0.", 0.0), ("-.5", -0.5), ("+12e03", 12_000.0), ("-2E+05", -200_000.0),
        (".inf", "inf"),
        # what YAML 1.1 reads otherwise
        ("10:00:00", "10:00:00"), ("1:30.5", "1:30.5"), ("1_000", "1_000"), ("0b101", "0b101"),
        ("-0x1", "-0x1"),
        ("2030-02-31", "2030-02-31"), ("2030-04-01T10:00:00Z", "2030-04-01T10:00:00Z"), ("=", "="),
        ("<<", "<<"),
        # a point that may have been meant to part thousands
        ("100.000", "100.000"), ("12.500", "12.500"), ("0.125", 0.125), ("1234.500", 1234.5),
        # more digits than a float holds
        ("1234567890123.4567", "1234567890123.4567"), ("1e400", "1e400"), ("1e-400", "1e-400"),
    ],
)  # fmt: skip
def test_yaml_is_the_core_schema_of_1_2(written: str, read: Any) -> None:
    found = brief_parse(f"value: {written}\n".encode(), name="brief.yaml")["value"]
    assert (found, type(found)) == (read, type(read))
    if isinstance(read, int | float) and not isinstance(read, bool):
        assert brief_parse(f"{{value: {written}}}".encode(), name="b.yaml") == {"value": read}


def test_a_merge_key_is_a_name_like_others() -> None:
    assert brief_parse(b"<<: {a: 1}\nb: 2", name="brief.yaml") == {"<<": {"a": 1}, "b": 2}


@pytest.mark.parametrize("text", ["total: 1234567890123.4567", '{"total": 1234567890123.4567}'])
def test_an_amount_is_kept_as_it_was_written(text: str) -> None:
    assert brief_parse(text.encode()) == {"total": "1234567890123.4567"}


def test_the_parts_of_an_hour_are_not_multiplied_up() -> None:
    """A megabyte of `1:1:1…` was one number, made with the square of its length."""
    text = "1" + ":1" * 100_000
    assert brief_parse(f"total: {text}".encode(), name="brief.yaml") == {"total": text}


def test_nan_in_yaml_is_kept_as_a_word_for_its_field_to_refuse() -> None:
    found = brief_parse(b"budget: {total: .nan, currency: USD}\nrate: .inf", name="brief.yaml")

    assert found == {"budget": {"total": "nan", "currency": "USD"}, "rate": "inf"}


def test_five_megabytes_are_refused_by_their_size_alone() -> None:
    with pytest.raises(BriefTooLargeError, match=str(settings.MAX_BRIEF_BYTES)):
        brief_parse(b'{"name": "' + b"x" * 5 * 2**20 + b'"}')


def test_the_largest_brief_that_is_read() -> None:
    text = b'{"name": ""}'
    padded = text.replace(b'""', b'"' + b"x" * (settings.MAX_BRIEF_BYTES - len(text)) + b'"')

    assert len(brief_parse(padded)["name"]) == settings.MAX_BRIEF_BYTES - len(text)


@given(text=st.binary(max_size=300), name=_NAMES)
def test_no_bytes_escape_as_another_error(text: bytes, name: str) -> None:
    parsed_or_refused(text, name)


@given(words=st.lists(_YAML_WORDS, max_size=15), name=_NAMES)
@example(words=["!!set ", "{", "!!bool ", "x", "}"], name="brief.yaml")
@example(words=["a:", " ", "!!float ", '""'], name="brief.yaml")
def test_no_yaml_escapes_as_another_error(words: list[str], name: str) -> None:
    parsed_or_refused("".join(words).encode(), name)


@given(data=_ANYTHING)
@hypothesis_settings(suppress_health_check=[HealthCheck.too_slow])
def test_whatever_parses_can_be_stored_and_validated(data: Any) -> None:
    found = parsed_or_refused(json.dumps({"brief": data, **_as_fields(data)}).encode(), "brief.json")

    if found is not None:
        stored = json.dumps(found, allow_nan=False)
        assert json.loads(stored) == found
        assert "\\u0000" not in stored
        valid, problems = brief_validate(found, now=NOW)
        assert (valid is None) == bool(problems)


def _as_fields(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}
