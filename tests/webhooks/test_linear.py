"""Whatever is made of a stranger’s body is at most linear in it: the steps that it takes, the memory that it
needs and what comes out are counted, for every transformation that there is."""

from __future__ import annotations

import ast
import inspect
import json
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from orders.offers import offers
from tasks_app import adcp
from tasks_app.adcp.hygiene import REDACTED, clean
from tasks_app.operations.presenters import pretty
from tasks_app.sellers.models import Seller
from tasks_app.webhooks import diagnosis
from tests.webhooks.of_a_body import OF_A_BODY, SECRETS, Json
from tests.webhooks.of_fields import OF_FIELDS
from tests.webhooks.work_counted import counted

pytestmark = pytest.mark.deep

# For each character of the body; and what is allowed whatever its size. Twice what the dearest takes: of two
# thousand things in twelve thousand characters, each looked at for each other one is more.
STEPS, ROOM, GROWTH = (160, 40_000), (600, 2_000_000), (30, 40_000)
_LARGEST = 12_000
_PIECES = st.sampled_from(
    ["r", "e", "redacted", "[redacted]", "]", "ed", "abcdefgh", "\x00", "\ud800", '"', "é"]
)


def _registrations(secrets: list[str]) -> list[Json]:
    return [
        {"push_notification_config": {"token": one, "authentication": {"credentials": one}}}
        for one in secrets
    ]


def _wrapped(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    times = st.integers(1, 40)
    return (
        st.lists(inner, max_size=4)
        | st.builds(lambda one, many: [one] * many, inner, times)
        | st.builds(lambda name, many, one: {name * many * 10: one}, _PIECES, times, inner)
        | st.builds(lambda one, deep: _nested(one, deep), inner, times)
        | st.builds(lambda one: json.dumps({"push_notification_config": {}, "x": one}), inner)
        | st.builds(lambda several, one: [*_registrations(several), one], st.lists(_PIECES), inner)
        | st.builds(lambda one, many: [{"code": "X", "message": one}] * many, inner, times)
    )


def _nested(value: Any, deep: int) -> Any:
    for _ in range(deep):
        value = {"k": [value]}
    return value


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.builds(lambda piece, many: piece * many, _PIECES, st.integers(0, 300))
)
BODIES = st.recursive(_SCALARS, _wrapped, max_leaves=5).filter(lambda body: _length(body) <= _LARGEST)

# What was sent: each secret stands in what is put in the place of the one before.
CASCADE = [*_registrations(["r", "e", "d", "a", "c", "t", "[", "]", "redacted", "[redacted]"]), "re" * 300]
LONG_NAME = {"k" * 6_000: [1] * 2_000}
MUCH_UNDER_IT = {"k" * 4_000: [{"code": "X", "message": None}] * 200}
# Each of its names is written out under each difference, and escaped.
ESCAPED_NAME = {"\x00" * 30: [{"code": "X", "message": None}] * 300}
WRAPPED_TEXT: Any = {"push_notification_config": {}, "x": "a" * 2_000}
for _ in range(6):
    WRAPPED_TEXT = {"push_notification_config": {}, "x": json.dumps(WRAPPED_TEXT)}


@pytest.mark.parametrize(
    "transform",
    [pytest.param(made, id=f"{module.__name__}.{name}") for (module, name), made in OF_A_BODY.items() if made]
    + [pytest.param(pretty, id="pretty")],
)
@given(BODIES)
@example(CASCADE)
@example(LONG_NAME)
@example(MUCH_UNDER_IT)
@example(ESCAPED_NAME)
@example(WRAPPED_TEXT)
@example([1e300, -1e-300] * 800)
@example({"\ud800": 1, "\x00": 2})
@example(_nested(list(range(2_000)), 30))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_transformation_is_at_most_linear(transform: Callable[[Any], Any], body: Any) -> None:
    size = _length(body)
    steps, room, made = counted(transform, body)
    assert steps <= STEPS[0] * size + STEPS[1]
    assert room <= ROOM[0] * size + ROOM[1]
    assert _length(made) <= GROWTH[0] * size + GROWTH[1]


def test_a_body_that_does_not_verify_is_written_anew_within_bounds() -> None:
    """Indented, what is nested deeply grows as its square: a stranger's 1 MB cost seconds."""
    deep = json.dumps(_nested([1] * 10_000, 30)).encode()
    forms = list(diagnosis._forms(deep))
    assert len(forms) > 4
    assert max(len(form) for _, form in forms) <= 4 * len(deep) + 1_000
    assert list(diagnosis._forms(json.dumps({"x": "y" * 2**17}).encode())) == []


def test_what_a_seller_repeats_costs_each_text_the_same_however_much_it_is() -> None:
    """Were each secret looked for in each text, twice as much of both would be four times the work."""

    def work(many: int) -> int:
        secrets = [f"secret-{number:05}" for number in range(many)]
        return counted(clean, [*_registrations(secrets), ["some text"] * many])[0]

    assert work(400) < 3 * work(200)


def test_a_number_is_stored_in_as_many_places_as_it_came() -> None:
    """PostgreSQL would write it out in all its digits."""
    kept = [0.0, -0.5, 1e29, 1e-29]
    assert clean([*kept, 1e300, -1e-300]) == [*kept, "1e+300", "-1e-300"]


# Modules of the wire that make nothing of a body themselves, and why.
NOT_OF_A_BODY = {
    "a2a": "calls; what comes back goes through envelopes",
    "addresses": "our own addresses",
    "client": "calls; what comes back goes through envelopes and answers",
    "http": "bounds and carries bytes",
    "mcp": "calls; what comes back goes through envelopes",
    "outcome": "words for what came of a call",
    "reads": "names of calls",
    "requests": "what we send",
    "signatures": "bytes and headers, each with its own bound",
    "types": "records",
}


def test_no_module_of_the_wire_is_left_out() -> None:
    there = {found.name for found in pkgutil.iter_modules(adcp.__path__)}
    tried = {of.__name__.rpartition(".")[2] for of, _ in OF_A_BODY if of.__name__.startswith(adcp.__name__)}
    assert there == tried | set(NOT_OF_A_BODY)
    assert not tried & set(NOT_OF_A_BODY)


# Where sellers' words are read outside of the wire: what of it is given a body, by the types that it names.
ROOMS = (
    "campaigns",
    "orders",
    "tasks_app/approvals",
    "tasks_app/desk",
    "tasks_app/operations",
    "tasks_app/reconciliation",
    "tasks_app/sellers",
    "tasks_app/webhooks",
)
_GIVEN = re.compile(r"\b(Seen|Ended|Any|object|Request|bytes|Incoming|Offer|Product|LeftOut|PassedOver)\b")
_NO_BODY = re.compile(r"Callable|QuerySet")


def given_a_body() -> Iterator[str]:
    """module.function of every public function of those rooms that takes what may be a seller's."""
    for module, tree in _modules().items():
        for made in tree.body:
            if isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef) and _takes_a_body(module, made):
                yield f"{module}.{made.name}"


@cache
def _modules() -> dict[str, ast.Module]:
    base, found = Path(django_settings.BASE_DIR), {}
    for room in ROOMS:
        for source in sorted((base / room).rglob("*.py")):
            name = source.relative_to(base).with_suffix("").as_posix().replace("/", ".")
            found[name] = ast.parse(source.read_text())
    return found


def _takes_a_body(module: str, made: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    each = [*made.args.posonlyargs, *made.args.args, *made.args.kwonlyargs, made.args.vararg, made.args.kwarg]
    types = [_spelled_out(module, one.annotation) for one in each if one and one.annotation]
    return not made.name.startswith("_") and any(_GIVEN.search(t) and not _NO_BODY.search(t) for t in types)


def _spelled_out(module: str, annotation: ast.expr) -> str:
    """An annotation with what stands for a type, here or where that is imported from, in its place."""
    told = ast.unparse(annotation)
    for name in {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}:
        where, named = _named_in(module).get(name, (module, None))
        if named is not None:
            told = re.sub(rf"\b{name}\b", _spelled_out(where, named), told)
    return told


@cache
def _named_in(module: str) -> dict[str, tuple[str, ast.expr]]:
    """What names in a module stand for, and where that is said."""
    found: dict[str, tuple[str, ast.expr]] = {}
    tree = _modules().get(module)
    for node in tree.body if tree else ():
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp() as value):
                found[name] = (module, value)
            case ast.ImportFrom(module=str() as other, names=names):
                there = _named_in(other)
                found |= {n.asname or n.name: there[n.name] for n in names if n.name in there}
    return found


@pytest.mark.rule
def test_a_type_is_known_by_what_it_stands_for() -> None:
    given = {
        "orders.terms.matching.match_packages",
        "orders.terms.stated.is_paused",
    }
    assert given <= set(given_a_body())


@pytest.mark.rule
def test_no_function_that_is_given_a_body_is_left_out() -> None:
    tried = {f"{of.__name__}.{name}" for of, name in OF_A_BODY}
    said = [name for names in OF_FIELDS.values() for name in names]
    assert len(said) == len(set(said))
    assert set(given_a_body()) - tried == set(said)


def test_a_product_with_more_options_and_properties_costs_each_the_same() -> None:
    """Were its channels read anew for each option, twice as much of both would be four times the work."""

    def work(many: int) -> int:
        options = [{"pricing_option_id": f"o{number}"} for number in range(many)]
        properties = [{"property_type": "website"}] * many
        product = {"product_id": "p", "pricing_options": options, "properties": properties}
        return counted(lambda body: list(offers(Seller(), body, {})), [product])[0]

    assert work(400) < 3 * work(200)


def test_no_transformation_is_left_out() -> None:
    for module in {module for module, _ in OF_A_BODY}:
        public = {
            name
            for name, found in inspect.getmembers(module, inspect.isfunction)
            if found.__module__ == module.__name__ and not name.startswith("_")
        }
        assert public == {name for of, name in OF_A_BODY if of is module}, module.__name__


@given(BODIES)
@example(CASCADE)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_secret_is_left_and_what_is_clean_stays_as_it_is(body: Any) -> None:
    told = {"of the seller": body, "ours": f"{SECRETS[0]}{SECRETS[1]}", SECRETS[1]: [SECRETS[0] * 3]}
    made = clean(told, SECRETS)
    assert made == clean(made, SECRETS)
    assert not any(secret in json.dumps(made) for secret in SECRETS)
    assert made["ours"] == REDACTED * 2


@pytest.mark.parametrize(
    ("text", "secrets", "left"),
    [
        ("xabcdefx", ["abcd", "cdef"], f"x{REDACTED}x"),  # two that overlap are one place
        ("abcdabcd", ["abcd"], REDACTED * 2),
        ("abcdef", ["abc", "abcdef"], REDACTED),
        ("the redacted one", ["the", "redacted"], f"{REDACTED} {REDACTED} one"),
        ("none", ["", "abcd"], "none"),
    ],
)
def test_places_that_overlap_are_hidden_whole(text: str, secrets: list[str], left: str) -> None:
    assert clean(text, secrets) == left


def test_a_letter_is_no_secret_beyond_where_it_stands() -> None:
    made = clean({"push_notification_config": {"token": "e", "url": "here"}, "message": "Please see"})
    assert made == {"push_notification_config": {"token": REDACTED, "url": "here"}, "message": "Please see"}


def _length(value: Any) -> int:
    return len(json.dumps(value, default=repr))
