"""Refusals in plain words: about credentials, about arguments, and what is neither."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from re import _parser as sre  # type: ignore[attr-defined]  # what `re` itself reads patterns with
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks_app import adcp
from tasks_app.adcp import errors
from tasks_app.adcp.envelopes import seen_a2a, seen_mcp, seen_rpc_error
from tasks_app.adcp.plain_words import refusal_in_words
from tasks_app.adcp.types import Seen
from tests.adcp.raw_server import response
from tests.adcp.scripted_seller import ask, seller

pytestmark = pytest.mark.deep

CREDENTIALS = (
    "Authentication required: provide x-adcp-auth header",
    "Error executing tool get_media_buys: Missing or invalid x-adcp-auth header",
    "Error executing tool create_media_buy: Invalid token",
    "Unauthorized",
    "Cannot determine tenant from request",
    "Access denied for this principal",
    "API key is missing",
    "The bearer token has expired",
    "Error calling tool 'create_media_buy': permission denied",
    "Forbidden for this tenant",
    "Error: Unauthorized",
    "ToolError: Authentication required",
    "Unauthorized: invalid token",
    "Not authorized",
    # Sellers that were met.
    "Principal ID not found in context - authentication required",
    "Error executing tool create_media_buy: Principal ID not found in context - authentication required",
    "Authentication required: principal_id not found in context",
    "principal_id is required but was None - authentication required",
    "Principal buyer-7 not found",
    "Tenant 'acme' not found",
    "No tenant context available. Check x-adcp-auth token and host headers.",
    "Missing x-adcp-auth header",
    "Missing x-adcp-auth header. Apx-Incoming-Host: seller.example",
    "Missing authentication token",
    "Authentication token required for skill invocation",
    # Servers and their frameworks: FastMCP, FastAPI, Django REST, express and passport, Spring.
    "401 Unauthorized",
    "HTTP 401: Unauthorized",
    "Error: 401 Unauthorized: Invalid API key",
    "Invalid API key",
    "API key not valid. Please pass a valid API key.",
    "Incorrect API key provided",
    "No API key provided.",
    "API key required",
    "Access denied",
    "permission denied",
    "Permission denied: missing token",
    "Not authenticated",
    "Invalid authentication credentials",
    "Could not validate credentials",
    "Authentication credentials were not provided.",
    "You do not have permission to perform this action.",
    "You are not authorized to access this resource",
    "Insufficient permissions: 'media:write' scope required.",
    "insufficient_scope",
    "No authorization token was found",
    "jwt expired",
    "JWT must be provided",
    "invalid_token",
    "Invalid or expired token",
    "Token is invalid or expired",
    "Signature has expired",
    "Login required",
    "You must be logged in.",
    "Bad credentials",
    "Access is denied",
    "Full authentication is required to access this resource",
    "AuthenticationError: Invalid token",
)
ARGUMENTS = (
    "Input validation error: 'account' is a required property",
    "MCP error -32602: Invalid arguments for tool create_media_buy: [...]",
    "Error executing tool create_media_buy: 1 validation error for create_media_buyArguments\nbudget",
    "1 validation error for call[get_media_buys]\naccount\n  Unexpected keyword argument",
    "3 validation errors for CreateMediaBuyRequest",
    "get_media_buys: Omit account, it is taken from the token.",
    "Unknown tool: update_media_buy",
    "Error calling tool 'create_media_buy': 1 validation error for call[create_media_buy]\nbudget",
    "Tool create_media_buy not found",
    "create_media_buy() got an unexpected keyword argument 'account'",
    "Error: Invalid arguments for tool create_media_buy",
    # pydantic, FastMCP
    "Field required",
    "Field required: packages",
    "brand: Field required",
    "packages.0.pricing_option_id\n  Field required [type=missing, input_value={}, input_type=dict]",
    "1 validation error for call[create_media_buy]\nbrand\n  Missing required argument",
    "2 validation errors for CreateMediaBuyInput\nbrand\n  Field required",
    "Invalid get_products request: 1 validation error for GetProductsBody",
    "create_media_buy() missing 1 required positional argument: 'packages'",
    # jsonschema, ajv, joi, yup, zod
    "'brand' is a required property",
    "Validation error: 'packages' is a required property\n\nFailed validating 'required' in schema",
    "data must have required property 'packages'",
    "/packages/0 must have required property 'product_id'",
    'instance requires property "brand"',
    '"packages" is required',
    'ValidationError: "packages[0].product_id" is required',
    "brand is a required field",
    "packages: Required",
    "packages must be an array",
    "Additional properties are not allowed ('brand_manifest' was unexpected)",
    # express, Spring and Bean Validation, Laravel, serde
    "packages is required",
    "Bad Request: packages is required",
    "400 Bad Request: packages are required",
    "account is missing.",
    "brand must not be null",
    "packages should not be empty",
    "start_time cannot be empty",
    "media_buy_id must be a string",
    "The brand field is required.",
    "Parameter 'brand' is required",
    "Required request parameter 'account' for method parameter type String is not present",
    "Required parameter 'brand' is not present.",
    "Required field missing: brand",
    "Required request body is missing: public void create()",
    "missing field `brand` at line 1 column 2",
    "Missing argument: packages",
    # Sellers that were met.
    "Missing required argument: x",
    "Missing required arguments: brand, packages",
    "Missing required fields: brand",
    "Missing required parameter: id",
    "buyer_ref is required for create_media_buy",
    "idempotency_key is required in this request",
    "Brand manifest required by tenant policy",
)
# What passes by itself: sent again.
OUTAGES = (
    "Service unavailable",
    "service unavailable, try later",
    "timeout while authenticating",
    "Timed out while validating the token",
    "database connection required",
    "Authentication service unavailable",
    "Authentication failed: database connection lost",
    "Authentication failed: the identity provider timed out",
    "Could not validate credentials: connection refused",
    "Invalid token: timeout while asking the identity provider",
    "Unauthorized: token service is temporarily down",
    "Access denied: too many requests, token bucket is empty",
    "Token required: rate limited, try again in 5 s",
    "packages is required; the catalogue is under maintenance",
    "brand is missing: upstream returned nothing",
    "Bad gateway",
    "502 Bad Gateway",
    "500 Internal Server Error",
    "Request timeout",
    "connect ECONNREFUSED 10.0.0.1:5432",
    "could not obtain lock on row",
    "deadlock detected",
    "Too many connections",
    "The server is overloaded, please retry later",
    "Rate limit exceeded",
    "upstream connect error or disconnect/reset before headers",
    "Deadline exceeded",
    "socket hang up",
    "java.net.SocketTimeoutException: Read timed out",
    "An error occurred invoking 'create_media_buy'.",
    "Error executing tool create_media_buy: ",
)
NEITHER = (
    "",
    "Internal error",
    "Traceback (most recent call last): KeyError: 'budget'",
    "connection to the ad server lost",
    "Output validation error: 'media_buy_id' is a required property",
    "1 validation error for CreateMediaBuyResponse\nmedia_buy_id\n  Field required",
    "Tool create_media_buy has an output schema but no structured content",
    "The budget token system is down",
    "book() missing 1 required positional argument: 'line'",
    "book() got an unexpected keyword argument 'line'",
    "invalid input syntax for type json",
    "failed to remove lock file",
    # A purchase that is half made: what an ad server, or a part of the seller, was refused.
    "order 123 created; line item failed: 403 PERMISSION DENIED by ad server",
    "order 9001 saved, then: 1 validation error for LineItemRequest",
    "Permission denied by ad server",
    "Error: Permission denied by ad server",
    "Error: 403 Forbidden",
    "401 Client Error: Unauthorized for url: https://ads.example/orders",
    "Unauthorized: order",
    "Unauthorized: order 123 was created before the line item was refused",
    "Unauthorized\norder 123 created",
    "Error executing tool create_media_buy: 403 Forbidden: ad server, line item 2",
    "Error executing tool create_media_buy: 1 validation error for LineItemRequest\nname",
    "1 validation error for LineItemArguments",
    "1 validation error for call[book_line_item]",
    "Error executing tool book_line_item: Invalid token",
    "Error executing tool create_media_buy: Error executing tool book_line_item: Unauthorized",
    "Unknown tool: book_line_item",
    "'line_item_id' is a required property",
    "Campaign is live. Input validation error: 'flight' is a required property",
    "The order stands. Authentication required for the ad server",
    "Placed. Omit account next time",
    "Authentication failed: GAM refresh token expired",
    "Missing credentials for the ad server",
    "Advertiser ID is required for creating line items",
    "GAM OAuth credentials not configured",
    "network_code is required for GoogleAdManager adapter",
    "budget is required",
    "name is required",
    "packages is required before the line items are trafficked",
    "account is required to traffic order 12",
    "creative_format: Field required",
    "Field required by the trafficker",
    "missing field `line_id`",
    "Missing required field: line_item_id",
    "Invalid parameters: rejected by the ad server",
    "data must have required property 'order_id'",
    "You are not authorized to use ad unit 12",
    "403 Forbidden",
    "401 Client Error",
    "Principals of this order were not found",
    "Context is required",
    "tokenizer failed",
    "No tokens left in the bucket",
    "The account was charged",
    "packages booked: 2 of 3",
    "brand safety check failed",
    "required",
    "None",
)


def plain(text: str) -> dict[str, Any]:
    return {"isError": True, "content": [{"type": "text", "text": text}]}


def told(seen: Seen) -> tuple[str, str, str | None, str]:
    assert seen.error is not None
    return seen.kind, seen.status, seen.error.recovery, seen.error.code


@pytest.mark.parametrize("text", CREDENTIALS)
def test_credentials_that_are_refused_in_words_wait_for_others(text: str) -> None:
    seen = seen_mcp(plain(text))
    assert told(seen) == ("answer", "auth-required", "correctable", "AUTH_REQUIRED")
    assert seen.message == text
    assert told(seen_rpc_error({"code": -32000, "message": text}))[1] == "auth-required"


@pytest.mark.parametrize("text", ARGUMENTS)
def test_arguments_that_are_refused_in_words_have_failed_and_can_be_corrected(text: str) -> None:
    seen = seen_mcp(plain(text))
    assert told(seen) == ("answer", "failed", "correctable", "INVALID_REQUEST")
    assert seen.error is not None
    assert seen.error.message == text
    status = {"state": "TASK_STATE_FAILED", "message": {"parts": [{"text": text}]}}
    failed = seen_a2a({"task": {"id": "t", "contextId": "c", "status": status}})
    assert told(failed)[3] == "INVALID_REQUEST"


@pytest.mark.parametrize("text", [*NEITHER, *OUTAGES])
def test_other_words_leave_the_outcome_unknown(text: str) -> None:
    """What a tool says of its own result, it says after it ran: the purchase may have been made."""
    assert refusal_in_words(text) is None
    assert told(seen_mcp(plain(text)))[3] == errors.TOOL_ERROR


@pytest.mark.parametrize("text", [*CREDENTIALS, *ARGUMENTS])
@pytest.mark.parametrize(
    "before", ["Order 123 is live; then: ", "2 of 3 line items made\n", "Error in GAM: "]
)
def test_what_follows_other_words_may_be_about_a_part_of_what_was_done(before: str, text: str) -> None:
    assert refusal_in_words(before + text) is None


@pytest.mark.parametrize("text", [*CREDENTIALS, *ARGUMENTS])
def test_a_refusal_beside_something_done_is_none(text: str) -> None:
    assert refusal_in_words(f"{text}. Order 123 was created.") is None


def test_an_adcp_error_speaks_before_any_words() -> None:
    error = {"adcp_error": {"code": "BUDGET_TOO_LOW", "message": "Unauthorized amount"}}
    seen = seen_mcp({**plain("Unauthorized"), "structuredContent": error})
    assert told(seen)[3] == "BUDGET_TOO_LOW"


@pytest.mark.parametrize("protocol", ["mcp", "a2a"])
@pytest.mark.parametrize("status", ["400 Bad Request", "422 Unprocessable"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (json.dumps({"detail": "Missing tenant header"}), "AUTH_REQUIRED"),
        (json.dumps({"error": "invalid arguments"}), "INVALID_REQUEST"),
        ("Invalid token", "AUTH_REQUIRED"),
        ("<html>Invalid token</html>", errors.HTTP_ERROR),
        (json.dumps({"detail": "busy"}), errors.HTTP_ERROR),
    ],
)
def test_a_bad_request_says_so_in_its_body(protocol: str, status: str, body: str, code: str) -> None:
    seen, _ = ask(seller(response(body, status=status)), protocol)
    assert seen.error is not None
    assert seen.error.code == code


@given(st.text(max_size=3000))
def test_whatever_is_said_is_read(text: str) -> None:
    refusal_in_words(text)


_WORDS = st.sampled_from(
    [
        *CREDENTIALS,
        *ARGUMENTS,
        *OUTAGES,
        *NEITHER,
        " ",
        "\n",
        ": ",
        "error: ",
        "packages",
        "[0].",
        "401 ",
        "no ",
    ]
)


@given(st.lists(_WORDS, max_size=60).map("".join), st.integers(1, 50))
def test_what_it_is_depends_on_the_beginning_alone(text: str, times: int) -> None:
    """So it costs no more than that, however much is said."""
    whole, beginning = refusal_in_words(text * times), refusal_in_words((text * times)[:1000])
    assert whole == beginning
    assert whole is None or len(whole.message) <= 1000


def _repeats(node: Any) -> Iterator[tuple[int, Any]]:
    """Each repeat in a pattern: how often at most, and what is repeated."""
    for name, value in node:
        if name in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            yield int(value[1]), value[2]
        yield from _inner(value)


def _inner(value: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(value, sre.SubPattern):
        yield from _repeats(value)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _inner(part)


def _patterns() -> dict[str, re.Pattern[str]]:
    """All that anything in `tasks_app.adcp` keeps compiled: each is tried on what a seller says."""
    found: dict[str, re.Pattern[str]] = {}
    for one in pkgutil.walk_packages(adcp.__path__, f"{adcp.__name__}."):
        for name, value in vars(import_module(one.name)).items():
            for at, pattern in enumerate(_within(value)):
                found[f"{one.name}.{name}[{at}]"] = pattern
    return found


def _within(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list | frozenset | set):
        for one in value:
            yield from _within(one)
    elif isinstance(value, dict):
        for one in (*value.keys(), *value.values()):
            yield from _within(one)


_PATTERNS = _patterns()


@pytest.mark.parametrize("name", sorted(_PATTERNS))
def test_no_pattern_repeats_what_repeats_without_end(name: str) -> None:
    """Which is what makes a pattern take for ever over a text that almost fits."""
    without_end = int(sre.MAXREPEAT)
    for most, repeated in _repeats(sre.parse(_PATTERNS[name].pattern)):
        assert most < without_end or not list(_repeats(repeated)), repeated
    assert len(_PATTERNS) >= 20


def test_long_words_cost_no_more_than_their_beginning() -> None:
    refusal = refusal_in_words("Invalid token " + "no a " * 1_000_000)
    assert refusal is not None
    assert len(refusal.message) == 1000
