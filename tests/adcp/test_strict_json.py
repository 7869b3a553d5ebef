"""Strict JSON: one reading, or a refusal."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks_app.adcp.strict_json import MalformedBody, parse_object, sanitise_names

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
objects = st.dictionaries(st.text(), values, max_size=5)


@given(objects)
def test_every_plain_object_is_read_as_it_is(value: dict[str, Any]) -> None:
    assert parse_object(json.dumps(value)) == value
    assert parse_object(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary() | st.text())
def test_anything_else_is_an_object_or_malformed(body: bytes | str) -> None:
    with suppress(MalformedBody):
        assert isinstance(parse_object(body), dict)


@given(st.text(alphabet='{}[]":,\\ \x00eE+-.0123456789truefalsnullNaIinity'))
def test_near_json_is_an_object_or_malformed(text: str) -> None:
    with suppress(MalformedBody):
        assert isinstance(parse_object(text), dict)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"a": 1, "a": 1}', "duplicate_key"),
        (b'{"a": {"b": [{"c": 1, "c": 2}]}}', "duplicate_key"),
        (b'{"a": 1, "\\u0061": 2}', "duplicate_key"),
        (b'{"a": "\xff"}', "not_utf8"),
        (b'\xef\xbb\xbf{"a": 1}', "not_json"),
        (b"[]", "not_an_object"),
        (b"null", "not_an_object"),
        (b'{"a": NaN}', "not_finite"),
        (b'{"a": -Infinity}', "not_finite"),
        (b'{"a": 1e999}', "not_finite"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not_json"),
        (b"", "not_json"),
        (b'{"a": 1', "not_json"),
        (b'{"a": 1} x', "not_json"),
        (b'{"a":' * 64 + b"[]" + b"}" * 64, "too_deep"),
        (b"[" * 1_000_000, "too_deep"),
    ],
)
def test_refusals(body: bytes, reason: str) -> None:
    with pytest.raises(MalformedBody) as refusal:
        parse_object(body)
    assert refusal.value.reason == reason


def test_the_limits_are_exact() -> None:
    at_limit = b'{"a":' * 63 + b"[]" + b"}" * 63
    assert parse_object(at_limit)
    assert parse_object(b'{"a": "[[[[' + b"[" * 100 + b'"}')
    assert parse_object(b'{"a": "\\"' + b"[" * 100 + b'"}')
    body = b'{"a": "' + b"x" * 92 + b'"}'
    assert parse_object(body, max_bytes=101)
    with pytest.raises(MalformedBody) as refusal:
        parse_object(body, max_bytes=100)
    assert refusal.value.reason == "too_large"


def test_names_are_safe_to_log() -> None:
    assert sanitise_names(["status"]) == "status"
    assert sanitise_names(["ab\ncd"]) == "<sanitized:2>"
    assert sanitise_names(["é" * 40]) == "é" * 16
    assert sanitise_names(["\u202eevil"]) == "<sanitized:0>"
    assert sanitise_names(["a", "b", "c", "d", "e", "f", "a"]) == "a, b, c, d, <...2 more>"
    with pytest.raises(MalformedBody) as refusal:
        parse_object('{"x\\u0000y": 1, "x\\u0000y": 2, "secret value": "s"}')
    assert str(refusal.value) == "duplicate object keys: <sanitized:1>"
