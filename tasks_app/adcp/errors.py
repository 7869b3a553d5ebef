"""The taxonomy of errors: AdCP error code to recovery, and the codes that are ours.

Sources: AdCP enums/error-code (`enumMetadata.recovery`), operating/transport-errors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from .types import Recovery, WireError

MAX_CODE_CHARS = 64
MAX_ERROR_BYTES = 4096
MOST_ERRORS = 100  # of one list; a seller may name as many as its answer holds
_MAX_WORDS_CHARS = 2000
_WORDS = ("message", "error_message", "reason", "detail", "description", "error")
MIN_RETRY_AFTER_S = 1
MAX_RETRY_AFTER_S = 3600

# Our own codes, in the vendor form of the specification, so that none is taken for a seller's word.
NOT_SENT = "X_FLIGHTDECK_NOT_SENT"  # no byte left; details.reason tells why
ADDRESS_REFUSED = "X_FLIGHTDECK_ADDRESS_REFUSED"  # the address is not one we connect to
NO_ANSWER = "X_FLIGHTDECK_NO_ANSWER"  # time-out or a lost connection
GARBLED = "X_FLIGHTDECK_GARBLED"  # an answer that cannot be read
TOO_LARGE = "X_FLIGHTDECK_TOO_LARGE"  # the answer passed the limit in bytes
HTTP_ERROR = "X_FLIGHTDECK_HTTP_ERROR"  # details.http_status
REDIRECTED = "X_FLIGHTDECK_REDIRECTED"  # details.location; never followed
RPC_ERROR = "X_FLIGHTDECK_RPC_ERROR"  # details.rpc_code; a JSON-RPC error without an AdCP error in it
TOOL_ERROR = "X_FLIGHTDECK_TOOL_ERROR"  # the tool failed and said so in plain text only
UNCODED = "X_FLIGHTDECK_UNCODED"  # the seller said why a task failed, under no code
NO_DATA = "X_FLIGHTDECK_NO_DATA"  # an answer without AdCP data in it
WRAPPED_RESULT = "X_FLIGHTDECK_WRAPPED_RESULT"  # A2A data wrapped in {response: ...}: a bug of the seller
INPUT_ASKED_ON_MCP = "X_FLIGHTDECK_INPUT_ASKED_ON_MCP"  # MCP elicitation, which AdCP does not use

# The seller works on a request of ours under that very key.
IN_FLIGHT = "IDEMPOTENCY_IN_FLIGHT"
_TRANSIENT = (
    "CAMPAIGN_SUSPENDED CONFLICT GOVERNANCE_UNAVAILABLE IDEMPOTENCY_IN_FLIGHT RATE_LIMITED "
    "SERVICE_UNAVAILABLE SIGNED_RESPONSE_ENVELOPE_EXPIRED STALE_RESPONSE"
)
_TERMINAL = (
    "ACCOUNT_NOT_FOUND ACCOUNT_PAYMENT_REQUIRED ACCOUNT_SUSPENDED AGENT_BLOCKED AGENT_SUSPENDED "
    "AUTH_INVALID BILLING_OUT_OF_BAND BUDGET_EXHAUSTED COMMITTED_RESOURCE_PURGED CONFIGURATION_ERROR "
    "CREDENTIAL_IN_ARGS"
)
_CORRECTABLE = (
    "ACCOUNT_AMBIGUOUS ACCOUNT_IDENTITY_CONFLICT ACCOUNT_MOVED ACCOUNT_REQUIRED ACCOUNT_SETUP_REQUIRED "
    "ACTION_NOT_ALLOWED AMBIGUOUS_BIDDING_POLICY AUDIENCE_TOO_SMALL AUTHORIZATION_REQUIRED AUTH_MISSING "
    "AUTH_REQUIRED BIDDING_PLACEMENT_CONFLICT BILLING_NOT_PERMITTED_FOR_AGENT BILLING_NOT_SUPPORTED "
    "BRAND_REQUIRED BUDGET_CAP_REACHED BUDGET_EXCEEDED BUDGET_TOO_LOW CATALOG_LIMIT_EXCEEDED "
    "COMPLIANCE_UNSATISFIED CONFLICTING_SELECTORS CREATIVE_DEADLINE_EXCEEDED CREATIVE_INACCESSIBLE "
    "CREATIVE_LOCALE_NOT_ACCEPTED CREATIVE_MISSING_CLICK_URL CREATIVE_NOT_FOUND CREATIVE_REJECTED "
    "CREATIVE_REPRESENTATION_UNRESOLVED CREATIVE_REVISION_CONTENT_MISMATCH CREATIVE_SIZE_MISMATCH "
    "CREATIVE_VALIDATION_FAILED_GENERIC CREATIVE_VALUE_NOT_ALLOWED CURSOR_EXPIRED "
    "EVALUATOR_AGENT_NOT_ACCEPTED FEED_FETCH_FAILED FIELD_NOT_PERMITTED FORMAT_DECLARATION_DIVERGENT "
    "FORMAT_DECLARATION_V1_AMBIGUOUS FORMAT_DECLARATION_V1_LOSSY_MULTI_SIZE FORMAT_NOT_SUPPORTED "
    "FORMAT_OPTION_UNRESOLVED FORMAT_PROJECTION_FAILED FORMAT_SHAPE_PROMOTED "
    "GOVERNANCE_AGENT_NOT_ACCEPTED GOVERNANCE_DENIED IDEMPOTENCY_CONFLICT IDEMPOTENCY_EXPIRED "
    "INVALID_FEED_FORMAT INVALID_PRICING_OPTION INVALID_REQUEST INVALID_STATE INVALID_USAGE_DATA "
    "IO_REQUIRED ITEM_VALIDATION_FAILED MACRO_RESOLUTION_FAILED MEDIA_BUY_NOT_FOUND "
    "MULTI_FINALIZE_UNSUPPORTED NOT_CANCELLABLE PACKAGE_NOT_FOUND PAYMENT_TERMS_NOT_SUPPORTED "
    "PERMISSION_DENIED PIXEL_TRACKER_LOSSY_DOWNGRADE PIXEL_TRACKER_UPGRADE_INFERRED "
    "PLACE_TARGET_UNAVAILABLE PLAN_NOT_FOUND POLICY_VIOLATION PRIVATE_FIELD_IN_PUBLIC_PLACEMENT "
    "PRODUCT_EXPIRED PRODUCT_NOT_FOUND PRODUCT_UNAVAILABLE PROPOSAL_EXPIRED PROPOSAL_NOT_COMMITTED "
    "PROPOSAL_NOT_FOUND PROVENANCE_CLAIM_CONTRADICTED PROVENANCE_DIGITAL_SOURCE_TYPE_MISSING "
    "PROVENANCE_DISCLOSURE_MISSING PROVENANCE_EMBEDDED_MISSING PROVENANCE_REQUIRED "
    "PROVENANCE_SYNTHETIC_DEPICTION_MISSING PROVENANCE_VERIFIER_NOT_ACCEPTED READ_ONLY_SCOPE "
    "REFERENCE_NOT_FOUND REQUOTE_REQUIRED SCOPE_INSUFFICIENT SESSION_NOT_FOUND SESSION_TERMINATED "
    "SIGNAL_NOT_FOUND SIGNAL_TARGETING_INCOMPATIBLE SIGNED_RESPONSE_REQUEST_HASH_MISMATCH "
    "SIGNED_RESPONSE_TENANT_MISMATCH SOURCE_ACCESS_FAILED TERMS_REJECTED UNPRICEABLE_OUTPUT "
    "UNSUPPORTED_FEATURE UNSUPPORTED_GRANULARITY UNSUPPORTED_PROVISIONING VALIDATION_ERROR "
    "VAST_PARSE_FAILED VAST_VERSION_MISMATCH VAST_WRAPPER_DEPTH_EXCEEDED VERSION_UNSUPPORTED"
)

RECOVERY: Mapping[str, Recovery] = {
    **dict.fromkeys(_TRANSIENT.split(), "transient"),
    **dict.fromkeys(_TERMINAL.split(), "terminal"),
    **dict.fromkeys(_CORRECTABLE.split(), "correctable"),
}


def recovery_for(code: str, given: object = None) -> Recovery:
    """How to recover: what the seller says, else what the standard code implies.

    An unknown recovery word, and an unknown code without one, mean `terminal` (transport-errors, "Client
    Library Requirements" 6 and "Seller-Specific Error Codes").
    """
    if given is None:
        return RECOVERY.get(code, "terminal")
    for known in get_args(Recovery):
        if given == known:
            return known
    return "terminal"


def clamp_retry_after(value: object) -> float | None:
    """Whole seconds to wait, rounded up, within 1..3600; None for anything that is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return float(min(max(math.ceil(value), MIN_RETRY_AFTER_S), MAX_RETRY_AFTER_S))


def is_valid_error(candidate: object) -> bool:
    """Whether `candidate` may be read as an AdCP error: a code of 1..64 characters, at most 4096 bytes in
    all."""
    if not isinstance(candidate, dict):
        return False
    code = candidate.get("code")
    if not isinstance(code, str) or not 0 < len(code) <= MAX_CODE_CHARS:
        return False
    try:
        return len(json.dumps(candidate, separators=(",", ":"), ensure_ascii=False)) <= MAX_ERROR_BYTES
    except (TypeError, ValueError, RecursionError):
        return False


def read_error(candidate: object) -> WireError | None:
    """One AdCP error object as a WireError, or None when it is not one."""
    if not isinstance(candidate, dict) or not is_valid_error(candidate):
        return None
    details = candidate.get("details")
    return WireError(
        code=candidate["code"],
        message=_text(candidate.get("message")) or "",
        recovery=recovery_for(candidate["code"], candidate.get("recovery")),
        field=_text(candidate.get("field")),
        retry_after=clamp_retry_after(candidate.get("retry_after")),
        suggestion=_text(candidate.get("suggestion")),
        details=details if isinstance(details, dict) else {},
    )


def read_errors(candidates: object) -> tuple[WireError, ...]:
    """The readable ones among the first MOST_ERRORS of a payload's `errors[]`."""
    if not isinstance(candidates, list):
        return ()
    return tuple(error for error in map(read_error, candidates[:MOST_ERRORS]) if error is not None)


def told_error(told: object) -> WireError | None:
    """Why a task ended badly, in whatever shape the seller said it: an AdCP error, words alone, an object
    without a code or beyond its size, a list of any of these (its first); None where nothing is said."""
    if isinstance(told, list):
        return next((error for error in map(told_error, told[:MOST_ERRORS]) if error is not None), None)
    if isinstance(told, str):
        words = told.strip()[:_MAX_WORDS_CHARS]
        return WireError(code=UNCODED, message=words) if words else None
    if not isinstance(told, dict) or not told:
        return None
    found = read_error(told)
    if found is None:
        return _described(told)
    return found if found.message else replace(found, message=_words_of(told))


def _words_of(told: dict[str, object]) -> str:
    texts = (_text(told.get(name)) for name in _WORDS)
    return next((text for text in texts if text), "")


def _described(told: dict[str, object]) -> WireError:
    said = _words_of(told) or json.dumps(told, ensure_ascii=False, default=str)
    code = _text(told.get("code")) or ""
    field = _text(told.get("field"))
    return WireError(
        code=code if 0 < len(code) <= MAX_CODE_CHARS else UNCODED,
        message=said[:_MAX_WORDS_CHARS],
        field=field[:_MAX_WORDS_CHARS] if field else None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
