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


def test_yaml_dates_become_text_and_norway_stays_a_country() -> None:
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
        (b"start: 2030-02-31", "not YAML"),
        (b"name: [unclosed", "not YAML"),
        (b"name: a\n\tbudget: 1", "not YAML"),
        (b'{"name": "a\\u0000b"}', "cannot be kept"),
        (b'{"name": "\\ud800"}', "cannot be kept"),
        (b'{"\\ud800": 1}', "cannot be kept"),
        (b"n: 0x" + b"f" * 10_000, "too many digits"),
        (b'{"n": ' + b"9" * 5000 + b"}", "not JSON"),
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
