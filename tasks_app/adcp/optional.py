"""Arguments that the specification calls optional and a seller refuses, or wants, all the same.

A read that is refused for one is made once more without it, or with it, and what worked is kept as a quirk of
the seller ("omit get_media_buys account"). Only what leaves the question the same may be dropped: never ids,
products' filters, dates; nor where a list goes on; nor what it is filtered by where sellers filter it by
themselves (media buys without ids: the active ones alone). Source: AdCP 3.2
media-buy/get-media-buys-request and the requests of other reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import errors
from .types import Seen

OMIT, SEND = "omit", "send"
_ANYWHERE = frozenset({"account", "adcp_version", "adcp_major_version", "context", "ext", "pagination"})
_LISTS_TASKS = _ANYWHERE | {"filters"}
_TELLS_A_TASK = _ANYWHERE | {"include_result"}
OPTIONAL: Mapping[str, frozenset[str]] = {
    "get_adcp_capabilities": _ANYWHERE,
    "get_products": _ANYWHERE | {"fields", "preferred_delivery_types"},
    "get_media_buys": _ANYWHERE | {"status_filter"},
    "get_media_buy_delivery": _ANYWHERE,
    "list_accounts": _ANYWHERE - {"account"},  # there it is what is asked for
    "list_creative_formats": _ANYWHERE,
    **dict.fromkeys(("list_tasks", "tasks/list", "tasks_list"), _LISTS_TASKS),
    **dict.fromkeys(("get_task_status", "get_task", "tasks/get", "tasks_get"), _TELLS_A_TASK),
}
_PAGES = "pagination"
# Arguments that may be dropped beside another alone: what is asked for by its id is told of in any status.
BESIDE: Mapping[tuple[str, str], str] = {("get_media_buys", "status_filter"): "media_buy_ids"}
MOST_TRIES = 4  # so many arguments are dropped or added in one call
_OF_ARGUMENTS = frozenset(
    {
        "INVALID_REQUEST",
        "VALIDATION_ERROR",
        "FIELD_NOT_PERMITTED",
        "UNSUPPORTED_FEATURE",
        "ACCOUNT_REQUIRED",
        errors.TOOL_ERROR,
        errors.RPC_ERROR,
    }
)
_UNWANTED = re.compile(
    r"\b(omit|remove|drop|leave out|without|unexpected|unknown|unsupported|not supported|not allowed"
    r"|not accepted|not permitted|extra|additional propert\w+|unrecogni[sz]ed|forbidden|not implemented)\b",
    re.IGNORECASE,
)
_WANTED = re.compile(
    r"\b(required?|requires|missing|must (be|have|provide|include|name)|needs?)\b", re.IGNORECASE
)
# The account itself is what is refused, not that one is named.
_OF_THE_ACCOUNT = re.compile(
    r"\b(rejected|suspended|closed|inactive|not active|not found|pending|unknown account)\b", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What one seller wants of one argument of one tool: to `omit` it, or to `send` it."""

    verb: str
    tool: str
    argument: str

    @property
    def quirk(self) -> str:
        """As kept with the seller."""
        return f"{self.verb} {self.tool} {self.argument}"


def shaped(
    tool: str, arguments: Mapping[str, Any], spare: Mapping[str, Any], quirks: Iterable[str]
) -> dict[str, Any]:
    """`arguments` as this seller takes them: without what it refuses, with what of `spare` it wants."""
    known, asked = frozenset(quirks), {**spare, **arguments}
    sent = {name for name in spare if Lesson(verb=SEND, tool=tool, argument=name).quirk in known}
    sent |= {
        name
        for name in arguments
        if Lesson(verb=OMIT, tool=tool, argument=name).quirk not in known
        or not _may_go(tool, name, arguments)
    }
    return {name: value for name, value in asked.items() if name in sent}


def lesson(
    tool: str, sent: Mapping[str, Any], could_send: Iterable[str], seen: Seen, tried: Iterable[str]
) -> Lesson | None:
    """What a refusal teaches; None where it is about something else. `tried`: arguments this call has dropped
    or added already."""
    error = seen.error
    if seen.kind != "answer" or error is None or error.recovery == "transient":
        return None
    text = " ".join(part for part in (error.message, error.suggestion, seen.message) if part)
    field = (error.field or "").lstrip("$./").partition(".")[0].partition("[")[0]
    known, left = OPTIONAL.get(tool, frozenset()), frozenset(tried)
    for name in sorted(known - left):
        said = re.search(rf"\b{name}\b", text, re.IGNORECASE) is not None
        if field != name and not said:
            continue
        if _may_go(tool, name, sent) and _is_unwanted(name, error.code, field, text):
            return Lesson(verb=OMIT, tool=tool, argument=name)
        if name not in sent and name in could_send and _is_wanted(error.code, text):
            return Lesson(verb=SEND, tool=tool, argument=name)
    return None


def _may_go(tool: str, name: str, sent: Mapping[str, Any]) -> bool:
    """Whether the question stays the same without an argument that is sent."""
    if name == _PAGES and isinstance(sent.get(name), Mapping) and sent[name].get("cursor"):
        return False  # without it the list would begin anew, as if it were all there is
    beside = BESIDE.get((tool, name))
    return name in sent and (beside is None or bool(sent.get(beside)))


def tool_of(quirk: str) -> str:
    """The tool that a learnt quirk is about; empty for one that no call has taught."""
    verb, _, rest = quirk.partition(" ")
    return rest.partition(" ")[0] if verb in (OMIT, SEND) else ""


def merged(quirks: Iterable[str], learned: Iterable[str]) -> frozenset[str]:
    """Quirks with what was learned since; the later word about an argument replaces the earlier."""
    kept = set(quirks)
    for quirk in learned:
        verb, _, rest = quirk.partition(" ")
        if verb in (OMIT, SEND):
            kept.discard(f"{SEND if verb == OMIT else OMIT} {rest}")
        kept.add(quirk)
    return frozenset(kept)


def _is_unwanted(name: str, code: str, field: str, text: str) -> bool:
    told_off = _UNWANTED.search(text) is not None
    if name == "account" and _OF_THE_ACCOUNT.search(text):
        return re.search(r"\bomit\b", text, re.IGNORECASE) is not None
    return told_off or (code in _OF_ARGUMENTS and field == name and not _WANTED.search(text))


def _is_wanted(code: str, text: str) -> bool:
    return code == "ACCOUNT_REQUIRED" or _WANTED.search(text) is not None
