"""Refusals that a seller puts in plain words, under no AdCP code: about our credentials, or about arguments.

A call that is refused so was refused before anything was done, and sending it the same again helps nothing.
The same words in the middle of a text may be an ad server's, about a purchase that is half made: so only a
text that begins with the refusal counts, right after what SDKs put before it, and speaks of nothing done, of
no outage and of nobody behind the seller. Whatever else is said in plain words stays a failure of unknown
outcome. The wordings are those of MCP's SDKs (Python, TypeScript, FastMCP), of validators (pydantic,
jsonschema, ajv, zod, joi, Bean Validation, serde), of web frameworks and of sellers that were met.
"""

from __future__ import annotations

import re

from .optional import OPTIONAL
from .types import WireError

IN_WORDS = {"in_words": True}  # in an error's details: we read it from words
_READ_CHARS = 1000
_TOOLS = (*OPTIONAL, "create_media_buy", "update_media_buy", "sync_accounts")
_TOOL = f"(?:{'|'.join(_TOOLS)})"
_MODEL = (
    f"(?:{'|'.join(tool.replace('_', '') for tool in _TOOLS)})"
    r"(?:request|input|params|parameters|args|arguments|body)\d*"
)
# What stands before a refusal: of the tool that we called, never of one that the seller calls.
_LEAD = (
    rf"\s*(?:(?:error (?:executing|calling) tool ['\"]?{_TOOL}['\"]?|mcp error -?\d+|{_TOOL}"
    r"|(?:400 )?bad request|invalid request|(?:request )?validation (?:failed|error)"
    r"|(?:tool|value|type|validation|authentication)?error): *){0,3}"
)
# Said of what a tool made, not of what it was given: it has run.
_RAN = re.compile(
    r"output validation|structured content|validation errors? for \w*(?:Response|Result|Output)"
    r"|\b(?:created|saved|booked|committed|inserted|stored|rolled back|rollback)\b",
    re.I,
)
# Said of what passes by itself, or of those who stand behind the seller: nobody knows what was done by then.
_NOT_OF_US = re.compile(
    r"\b(?:temporar\w*|unavailable|time(?:d[ -]?|[ -])?out|overload\w*|maintenance|deadline exceeded|too many"
    r"|rate limit\w*|(?:try|retry)(?: again)? (?:later|in|shortly|soon)|database|connection|gateway"
    r"|ad[ -]?servers?|upstream|downstream|line[ _-]?item\w*|gam|google ad manager)\b",
    re.I,
)

_LOGIN = (
    r"(?:token|credentials?|api[ -]?key|(?:principal|tenant)(?:[ _]id)?"
    r"|(?:authentication|authorization|x-[\w-]*(?:auth|token|tenant|key))(?: (?:header|token))?)"
)
_OF_US = rf"(?:(?:the|your|this|a|an) )?(?:(?:access|bearer|auth|authentication|jwt) )?{_LOGIN}"
_BAD = (
    r"(?:missing or invalid|invalid or missing|invalid or expired|missing|invalid|incorrect|expired|malformed"
    r"|bad|wrong|no|unknown)"
)
_IS = r"(?:(?:is|are|was|were|has|have been) )?"
_USE = r"(?:perform|access|use|call) this (?:action|operation|resource|tool|endpoint|api)\b"
_ENDS = r"(?=[.!]?\s*$)"
_CREDENTIALS = (
    r"(?:(?:http )?401[: -]+)?(?:unauthori[sz]ed|unauthenticated|not (?:authenticated|authori[sz]ed)"
    r"|(?:access|permission)(?: is)? denied|forbidden)"
    rf"(?:{_ENDS}|(?=(?:: *|\. +| - )(?:{_BAD} )?{_OF_US}\b| for {_OF_US}\b))",
    rf"(?:full )?authentication {_IS}(?:required|failed|missing)\b",
    r"requires? authentication\b",
    rf"{_BAD} {_OF_US}\b",
    rf"{_OF_US} {_IS}(?:required|missing|invalid|expired|malformed|not (?:found|valid|recogni[sz]ed|accepted"
    r"|provided|present|given))\b",
    r"(?:principal|tenant) ['\"]?[\w.@-]{1,80}['\"]? (?:is |was )?not found\b",
    rf"(?:cannot|could not|can't|unable to|failed to) (?:determine|resolve|identify|validate) {_OF_US}\b",
    rf"jwt (?:expired|malformed|must be provided)\b|invalid_token\b|signature has expired{_ENDS}",
    rf"(?:you (?:must be|are not) logged in|not logged in|login required){_ENDS}",
    rf"you (?:do not have permission|are not (?:authori[sz]ed|allowed)) to {_USE}",
    r"insufficient(?: |_)(?:scope|permissions?)(?=[.!]?\s*$|: )",
)

# Arguments of the requests that we send, and no words that an ad server has for its own.
_ARGUMENT = (
    r"(?:account|brand(?:[ _]manifest)?|promoted_offering|packages?|product_ids?|pricing_option_id"
    r"|proposal_id|buyer_ref|po_number|start_time|end_time|total_budget|idempotency_key|media_buy_ids?"
    r"|push_notification_config|reporting_webhook|revision|brief|buying_mode|filters|pagination|task_id"
    r"|adcp_(?:major_)?version)"
)
_NAMED = (
    r"(?:(?:the|field|argument|parameter|property|input|body|data|request|params|arguments|instance)?[ ./]?)"
    rf"[`'\"/]?{_ARGUMENT}(?:[.\[/][\w.\[\]/]{{0,80}})?[`'\"]?(?: (?:field|argument|parameter|property))?"
)
_KIND = r"(?:arguments?|parameters?|fields?|propert(?:y|ies))"
_WHERE = rf"(?:at line \d|(?:for|by|in) (?:{_TOOL}|(?:this |the )?(?:request|tenant|seller|tool)\b))"
_STOPS = rf"(?=\s*(?:$|[.!,;:(\[\n-])| {_WHERE})"
_ARGUMENTS = (
    r"invalid (?:arguments?|params|parameters)\b",
    rf"missing (?:a )?required (?:\w+ )?{_KIND}\b",
    rf"required (?:\w+ )?{_KIND} (?:{_NAMED} )?(?:for method parameter type \S{{1,80}} )?"
    rf"(?:{_IS}missing|is not present)\b",
    r"required request body is missing\b",
    rf"(?:missing|unknown|unexpected) {_KIND}(?:: *| ){_NAMED}{_STOPS}",
    rf"unknown {_KIND}\b",
    rf"{_NAMED} (?:(?:is|are) )?(?:an? )?(?:required|missing|mandatory)(?: {_KIND})?{_STOPS}",
    rf"{_NAMED}(?:: *|\s+)(?:field )?required{_STOPS}",
    rf"{_NAMED} (?:must|should|can) ?not be (?:null|empty|blank|undefined){_STOPS}",
    rf"{_NAMED} must be (?:provided|specified|set|an? (?:string|array|object|number|integer)){_STOPS}",
    rf"(?:\S{{1,80}} )?(?:must|should) have required property [`'\"]?\.?{_ARGUMENT}\b",
    rf"(?:instance )?requires property [`'\"]?{_ARGUMENT}\b",
    rf"field required(?:{_ENDS}|: *{_NAMED}{_STOPS})",
    r"omit [`'\"]?\w",
    r"additional properties are not allowed\b",
)

# Said by what reads the arguments before the tool has them, whatever those hold.
_BEFORE_THE_TOOL = (
    r"input validation error\b",
    rf"invalid arguments for tool ['\"]?{_TOOL}\b",
    rf"invalid {_TOOL} request\b",
    rf"\d+ validation errors? for (?:call\[{_TOOL}\]|{_TOOL}arguments\b|{_MODEL}\b)",
    r"failed to deserialize the json body\b",
    rf"unknown tool: *['\"]?{_TOOL}\b",
    rf"tool ['\"]?{_TOOL}['\"]? not found\b",
    rf"{_TOOL}\(\) (?:got an unexpected keyword argument|missing \d+ required \S+ arguments?)",
)


def _begins_with(*wordings: str) -> re.Pattern[str]:
    return re.compile(f"{_LEAD}(?:{'|'.join(wordings)})", re.I)


_OF_CREDENTIALS = _begins_with(*_CREDENTIALS)
_OF_ARGUMENTS = _begins_with(*_ARGUMENTS)
_OF_THE_SDK = _begins_with(*_BEFORE_THE_TOOL)


def refusal_in_words(text: str | None) -> WireError | None:
    """The refusal in a seller's plain words, with them; None where they are about something else."""
    said = (text or "")[:_READ_CHARS]
    code = _code_of(said)
    if code is None:
        return None
    return WireError(code=code, message=said, recovery="correctable", details=IN_WORDS)


def refusal_status(refusal: WireError) -> str:
    """The task's status that such a refusal means."""
    return "auth-required" if refusal.code in ("AUTH_REQUIRED", "AUTH_MISSING") else "failed"


def _code_of(said: str) -> str | None:
    """The AdCP error that these words stand for."""
    if not said or _RAN.search(said):
        return None
    if _OF_THE_SDK.match(said):
        return "INVALID_REQUEST"
    if _NOT_OF_US.search(said):
        return None
    if _OF_CREDENTIALS.match(said):
        return "AUTH_REQUIRED"
    return "INVALID_REQUEST" if _OF_ARGUMENTS.match(said) else None
