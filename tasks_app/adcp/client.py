"""The two doors of this room: `call` one task of one seller, `discover` what a seller can do.

The protocol stacks (50 MB and half a second) are imported by the first call, not with this module: a web
process that never calls a seller never pays for them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .capabilities import names_kept, negotiate, read_capabilities, version_named
from .meaning import About
from .optional import MOST_TRIES, OPTIONAL, lesson, merged, shaped, tool_of
from .tasks import (
    CAPABILITIES_TOOL,
    LIST_TOOL_NAMES,
    STATUS_TOOL_NAMES,
    STATUS_TOOLS,
    task_list_tool,
    task_status_tool,
)
from .types import Capabilities, DiscoveryError, Endpoint, Seen

# Reads that may name the account they are about, and that some sellers refuse with one.
_BY_ACCOUNT = frozenset({"get_media_buys", "get_media_buy_delivery", *LIST_TOOL_NAMES, *STATUS_TOOL_NAMES})

__all__ = ["CAPABILITIES_TOOL", "call", "discover", "task_list_tool", "task_status_tool", "version_fields"]


async def call(
    endpoint: Endpoint,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    timeout_s: float | None = None,
    secrets: Sequence[str] = (),
    continuation: Mapping[str, str] | None = None,
    spare: Mapping[str, Any] | None = None,
    task_type: str = "",
) -> Seen:
    """Send one task and normalise whatever comes back; nothing a seller or the network does raises.

    `timeout_s` (seconds) replaces the endpoint's own limit: of each try, and no further one begins after it.
    With a pinned `endpoint.adcp_version` the version fields are added unless `arguments` hold them. Every
    occurrence of `secrets`, and of the endpoint's own, is replaced in what is returned. `continuation` (from
    a Seen, A2A only) answers a task that waits for input; beside the identity it may hold a `message_id` (the
    same where the same answer leaves again) and a `text` in words. A status tool's reply is returned as an
    observation of the task it tells of, which is of `task_type`, empty where nobody knows. A read that is
    refused for an argument it need not have is made once more without it, or with it out of `spare`
    (`optional`); what worked is in the answer's `learned`. What is refused for its version, by a seller that
    names one we speak, is made once more in that: nothing was done of it.
    """
    if timeout_s is not None:
        endpoint = replace(endpoint, timeout_s=timeout_s)
    began = time.monotonic()
    ends = began + endpoint.timeout_s
    hidden = (*secrets, *endpoint.secrets)
    about: About = "poll" if tool in STATUS_TOOLS or tool == endpoint.status_tool else "call"
    of = task_type if about == "poll" else tool

    async def ask(version: str | None) -> Seen:
        versioned = {**version_fields(version), **arguments}
        if tool in OPTIONAL or about == "poll":
            return await _read(endpoint, tool, versioned, spare or {}, hidden, about, of, ends)
        return await _send(endpoint, tool, versioned, hidden, continuation or {}, about, of)

    seen = await ask(endpoint.adcp_version)
    spoken = version_named(seen)
    refused = seen.kind == "answer" and seen.task_id is None and "adcp_version" not in arguments
    if refused and spoken not in (None, endpoint.adcp_version) and time.monotonic() < ends:
        seen = replace(await ask(spoken), other_version=True)
    if about == "poll" and seen.task_id is None:
        seen = replace(seen, status="unknown")  # a refusal before it was asked says nothing of the task
    return replace(seen, duration_ms=round(1000 * (time.monotonic() - began)))


async def _read(
    endpoint: Endpoint,
    tool: str,
    arguments: Mapping[str, Any],
    spare: Mapping[str, Any],
    secrets: Sequence[str],
    about: About,
    of: str,
    ends: float,
) -> Seen:
    """The read as this seller takes it; refused for an optional argument, once more without it or with it,
    unless it is past `ends` (monotonic seconds).

    Where a person has said whether the account is named, nothing is learned about that.
    """
    known = tool if tool in OPTIONAL else STATUS_TOOL_NAMES[0]  # a status tool of the seller's own name
    quirks, said = endpoint.quirks, frozenset[str]()
    if endpoint.reads_account is not None and known in _BY_ACCOUNT:
        said = frozenset({"account"})
        quirks = frozenset(quirk for quirk in quirks if quirk.rpartition(" ")[2] != "account")
        if endpoint.reads_account:
            arguments = {**{n: v for n, v in spare.items() if n in said}, **arguments}
        else:
            arguments = {n: v for n, v in arguments.items() if n not in said}
        spare = {}
    learned: dict[str, str] = {}  # argument to quirk
    while True:
        sent = shaped(known, arguments, spare, merged(quirks, learned.values()))
        seen = await _send(endpoint, tool, sent, secrets, {}, about, of)
        # What a task failed for says nothing of how it is asked for.
        refused = about == "call" or seen.task_id is None
        taught = lesson(known, sent, {**spare, **arguments}, seen, said | learned.keys()) if refused else None
        if taught is None or len(learned) >= MOST_TRIES or time.monotonic() >= ends:
            break
        learned[taught.argument] = taught.quirk
    worked = seen.kind == "answer" and (seen.error is None or not refused)
    return replace(seen, learned=frozenset(learned.values())) if worked and learned else seen


async def _send(
    endpoint: Endpoint,
    tool: str,
    arguments: Mapping[str, Any],
    secrets: Sequence[str],
    ids: Mapping[str, str],
    about: About,
    of: str,
) -> Seen:
    if endpoint.unusable:
        from .http import Ledger
        from .outcome import seen_failure

        return seen_failure(Ledger(), timed_out=False, reason=endpoint.unusable, secrets=secrets)
    if endpoint.protocol == "mcp":
        from . import mcp

        return await mcp.call_tool(endpoint, tool, arguments, secrets=secrets, about=about, task_type=of)
    from . import a2a

    return await a2a.call_skill(
        endpoint,
        tool,
        arguments,
        secrets=secrets,
        about=about,
        task_type=of,
        task_id=ids.get("task_id"),
        context_id=ids.get("context_id"),
        message_id=ids.get("message_id"),
        text=ids.get("text", ""),
    )


def version_fields(adcp_version: str | None) -> dict[str, Any]:
    """`adcp_version` and the older `adcp_major_version` beside it, or nothing without a pin."""
    if adcp_version is None:
        return {}
    return {"adcp_version": adcp_version, "adcp_major_version": int(adcp_version.partition(".")[0])}


async def discover(endpoint: Endpoint) -> Capabilities:
    """Ask a seller what it can do; raises DiscoveryError.

    The version is negotiated here: an `adcp_version` of the endpoint is not sent, so that a seller that does
    not speak it can still say what it speaks.
    """
    if endpoint.unusable:
        raise DiscoveryError(endpoint.unusable)
    unpinned = replace(endpoint, adcp_version=None)
    tools, name, found = await (_a2a_tools(unpinned) if endpoint.protocol == "a2a" else _mcp_tools(unpinned))
    # What a card says of itself, and how this tool is asked, is learnt anew each time; what calls of tools
    # that it still lists have taught stays.
    asked = {*tools, STATUS_TOOL_NAMES[0]} - {CAPABILITIES_TOOL}
    known = {one for one in endpoint.quirks if tool_of(one) in asked} | found
    seen = await call(replace(unpinned, quirks=frozenset(known)), CAPABILITIES_TOOL, {})
    if seen.kind != "answer" or seen.status != "completed" or seen.payload is None:
        raise _failed(CAPABILITIES_TOOL, seen)
    return read_capabilities(
        seen.payload,
        tools=tools,
        agent_name=name,
        quirks=merged(known, seen.learned),
        version=negotiate(seen.payload),
    )


async def _a2a_tools(endpoint: Endpoint) -> tuple[frozenset[str], str, frozenset[str]]:
    from . import a2a

    card, failure = await a2a.read_card(endpoint)
    if card is None:
        raise _failed("the agent card", failure)
    return names_kept(card.skills), card.name, card.quirks


async def _mcp_tools(endpoint: Endpoint) -> tuple[frozenset[str], str, frozenset[str]]:
    from . import mcp

    tools, name, failure = await mcp.list_tools(endpoint)
    if failure is not None:
        raise _failed("the list of tools", failure)
    if CAPABILITIES_TOOL not in tools:
        raise DiscoveryError(f"the seller has no tool {CAPABILITIES_TOOL}: it does not speak AdCP 3")
    return names_kept(tools), name, frozenset()


def _failed(what: str, seen: Seen | None) -> DiscoveryError:
    if seen is None or seen.error is None:
        return DiscoveryError(f"{what}: the seller gave no usable answer")
    return DiscoveryError(f"{what}: {seen.error.message or seen.error.code}", seen.error)
