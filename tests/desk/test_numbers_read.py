"""Every number, currency and text from outside goes through the one reader of its kind: enumerated, so that a
new reader joins by itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from django import forms
from pydantic import BaseModel, TypeAdapter, ValidationError

from campaigns import brief  # noqa: F401 (its models are looked at)
from tasks_app.adcp import requests  # noqa: F401
from tasks_app.approvals.policy_forms import RateForm

ROOT = Path(__file__).parents[2]
PARSER = "tasks_app/money.py"
# Where Django's own fields are made ours: nothing else may read a number with them.
READERS = {"tasks_app/approvals/policy_forms.py": "_Amount", "tasks_app/api/serializers.py": "AmountField"}
HOSTILE = ["1e-20000", "1e999999", "NaN", "Infinity", "1_000", "١٢٣", "450,50", "", 10**5000, 1e300, True]


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for room in ("campaigns", "orders", "tasks_app", "config"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if "migrations" not in path.parts:
                yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


# The one parser of sellers' moments, those of people's files and addresses; the others read what we kept.
_MOMENTS = {
    "tasks_app/adcp/values.py",
    "tasks_app/management/trail.py",
    "tasks_app/approvals/delegation_admin.py",
    "campaigns/brief.py",
    "campaigns/legacy/values.py",
    "campaigns/calendar/pages.py",
    "tasks_app/jobs/waits.py",
    "tasks_app/jobs/calls.py",
    "tasks_app/jobs/timeline.py",
    "tasks_app/jobs/looks.py",
    "tasks_app/lifecycle/presenters.py",
    "tasks_app/lifecycle/machine.py",
    "tasks_app/lifecycle/anchor.py",
    "tasks_app/people/sessions.py",
    "tasks_app/database_connection.py",
}


@pytest.mark.rule
def test_no_second_parser_reads_a_moment() -> None:
    readers = set()
    for path, tree in _modules():
        for node in ast.walk(tree):
            said = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""
            if said.endswith("fromisoformat") or said in ("parse_datetime", "strptime"):
                readers.add(path)
    assert readers == _MOMENTS


_COUNTERS = "tasks_app/adcp/values.py"
# What else makes whole numbers where sellers' and strangers' words are read, and of what: matched digits, our
# own figures, and what is bounded before.
_WHOLE = {
    "tasks_app/adcp/client.py": {"adcp_version.partition('.')[0]"},  # as a seller's capabilities were read
    "tasks_app/adcp/hygiene.py": {"value"},  # a float that is whole
    "tasks_app/adcp/meaning.py": {"named[1]", "named[2]"},
    "tasks_app/adcp/outcome.py": {"told[:9]"},
    "tasks_app/adcp/requests.py": {"amount"},
    "tasks_app/adcp/signatures/hmac_sha256.py": {"timestamp"},
    "tasks_app/adcp/signatures/rfc9421.py": {"expires - now"},
    "tasks_app/adcp/signatures/structured_fields.py": {"found.group()"},
    "tasks_app/adcp/signatures/urls.py": {"found.group(2)[:6]", "match.group(1)"},
    _COUNTERS: {"value", "number"},
    "tasks_app/webhooks/diagnosis.py": {"stamp"},
    "tasks_app/webhooks/rates.py": {
        "counted.aggregate(Sum('used'))['used__sum'] or 0",
        "cursor.fetchone()[0]",
    },
    "tasks_app/webhooks/retention.py": {"cursor.fetchone()[0]"},
    "tasks_app/webhooks/room.py": {"stored"},
}


@pytest.mark.rule
def test_no_second_reader_makes_a_count_of_what_a_seller_says() -> None:
    found: dict[str, set[str]] = {}
    for path, tree in _modules():
        if not path.startswith(("tasks_app/adcp/", "tasks_app/webhooks/", "orders/")):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "int":
                found.setdefault(path, set()).add(ast.unparse(node.args[0]))
    assert found == _WHOLE


_THREE_LETTERS = re.compile(r"\[A-Z(?:a-z)?\]\{3\}")


@pytest.mark.rule
def test_no_second_reader_knows_currencies() -> None:
    imported, matched = set(), set()
    for path, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "iso4217":
                imported.add(path)
            if isinstance(node, ast.Constant) and _THREE_LETTERS.search(str(node.value)):
                matched.add(path)
    assert (imported, matched) == ({PARSER}, set())


# What else names such a character, and for what.
_NULS = {
    "tasks_app/storable.py": "the one reader",
    "tasks_app/adcp/strict_json.py": "what is not printed of a refusal's words",
    "campaigns/legacy/plans.py": "what parts three names have no other way to hold",
}


@pytest.mark.rule
def test_no_second_reader_knows_what_a_text_may_hold() -> None:
    found = {
        path
        for path, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_unstorable(node.value)
    }
    assert found == set(_NULS)


def _is_unstorable(text: str) -> bool:
    return any(one == "\x00" or "\ud800" <= one <= "\udfff" for one in text)


def _made_of_no_constant(tree: ast.Module) -> list[str]:
    calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call)]
    named = [one for one in calls if isinstance(one.func, ast.Name) and one.func.id == "Decimal"]
    return [ast.unparse(one) for one in named if not all(isinstance(arg, ast.Constant) for arg in one.args)]


@pytest.mark.rule
def test_no_decimal_is_made_of_what_somebody_wrote_but_by_the_parser() -> None:
    found = {path: made for path, tree in _modules() if (made := _made_of_no_constant(tree))}
    assert found == {PARSER: ["Decimal(written)"]}


@pytest.mark.rule
def test_no_form_and_no_serializer_reads_a_number_with_a_field_of_its_own() -> None:
    for path, tree in _modules():
        described = {
            inner
            for call in ast.walk(tree)
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "extend_schema_field"
            for inner in ast.walk(call)
        }
        bases = {
            base
            for one in ast.walk(tree)
            if isinstance(one, ast.ClassDef) and one.name == READERS.get(path)
            for base in one.bases
        }
        used = [
            ast.unparse(one)
            for one in ast.walk(tree)
            if isinstance(one, ast.Attribute)
            and ast.unparse(one) in ("forms.DecimalField", "serializers.DecimalField")
            and one not in bases | described
        ]
        assert used == [], path


def _parts(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for part in model.__subclasses__():
        yield part
        yield from _parts(part)


def _numbers(kind: Any) -> Iterator[Any]:
    """The numbers in a type, each with what it is checked by."""
    if kind is Decimal or (get_origin(kind) is Annotated and get_args(kind)[0] is Decimal):
        yield kind
        return
    for part in get_args(kind):
        yield from _numbers(part)


def _fields() -> list[tuple[str, Any]]:
    return [
        (f"{model.__name__}.{name}", kind)
        for model in _parts(BaseModel)
        if model.__module__.startswith(("campaigns.", "orders.", "tasks_app."))
        for name, field in model.model_fields.items()
        for kind in _numbers(field.rebuild_annotation())
    ]


def test_every_number_of_a_brief_and_of_a_request_is_bounded() -> None:
    fields = _fields()
    assert {"Budget.total", "Constraints.ceilings", "Objective.target", "Money.amount"} <= {
        name for name, _ in fields
    }
    for name, kind in fields:
        for value in HOSTILE:
            with pytest.raises(ValidationError):
                TypeAdapter(kind).validate_python(value)
            assert name


@pytest.mark.parametrize("usd", ["1,083", "1_0", "1e-20000", "NaN"])
def test_a_rate_is_read_as_everything_that_people_type(usd: str) -> None:
    field = RateForm.base_fields["usd"]
    with pytest.raises(forms.ValidationError):
        field.clean(usd)
    assert field.clean("1.083") == Decimal("1.083")
