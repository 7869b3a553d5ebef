"""The two doors of this room: `call` one task of one seller, `discover` what a seller can do.

The protocol stacks (50 MB and half a second) are imported by the first call, not with this module: a web
process that never calls a seller never pays for them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .capabilities import negotiate, read_capabilities
from .tasks import STATUS_TOOLS, seen_of_status_reply, task_list_tool, task_status_tool
from .types import Capabilities, DiscoveryError, Endpoint, Seen

CAPABILITIES_TOOL = "get_adcp_capabilities"

__all__ = ["CAPABILITIES_TOOL", "call", "discover", "task_list_tool", "task_status_tool", "version_fields"]


async def call(
    endpoint: Endpoint,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    timeout_s: float | None = None,
    secrets: Sequence[str] = (),
    continuation: Mapping[str, str] | None = None,
) -> Seen:
    """Send one task and normalise whatever comes back; nothing a seller or the network does raises.

    `timeout_s` (seconds, the whole call) replaces the endpoint's own limit. With a pinned
    `endpoint.adcp_version` the version fields are added unless `arguments` hold them. Every occurrence of
    `secrets`, and of the endpoint's token, is replaced in what is returned. `continuation` (from a Seen, A2A
    only) answers a task that waits for input; beside the identity it may hold a `message_id` (the same where
    the same answer leaves again) and a `text` in words. A status tool's reply is returned as an observation
    of the task it tells of.
    """
    if timeout_s is not None:
        endpoint = replace(endpoint, timeout_s=timeout_s)
    began = time.monotonic()
    hidden = (*secrets, endpoint.token) if endpoint.token else tuple(secrets)
    versioned = {**version_fields(endpoint.adcp_version), **arguments}
    if endpoint.protocol == "mcp":
        from . import mcp

        seen = await mcp.call_tool(endpoint, tool, versioned, secrets=hidden)
    else:
        from . import a2a

        ids = continuation or {}
        seen = await a2a.call_skill(
            endpoint,
            tool,
            versioned,
            secrets=hidden,
            task_id=ids.get("task_id"),
            context_id=ids.get("context_id"),
            message_id=ids.get("message_id"),
            text=ids.get("text", ""),
        )
    seen = replace(seen, duration_ms=round(1000 * (time.monotonic() - began)))
    return seen_of_status_reply(seen) if tool in STATUS_TOOLS else seen


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
    unpinned = replace(endpoint, adcp_version=None)
    tools, name, quirks = await (_a2a_tools(unpinned) if endpoint.protocol == "a2a" else _mcp_tools(unpinned))
    seen = await call(replace(unpinned, quirks=endpoint.quirks | quirks), CAPABILITIES_TOOL, {})
    if seen.kind != "answer" or seen.status != "completed" or seen.payload is None:
        raise DiscoveryError(_explain("get_adcp_capabilities", seen))
    return read_capabilities(
        seen.payload,
        tools=tools,
        agent_name=name,
        quirks=endpoint.quirks | quirks,
        version=negotiate(seen.payload),
    )


async def _a2a_tools(endpoint: Endpoint) -> tuple[frozenset[str], str, frozenset[str]]:
    from . import a2a

    card, failure = await a2a.read_card(endpoint)
    if card is None:
        raise DiscoveryError(_explain("the agent card", failure))
    return card.skills, card.name, card.quirks


async def _mcp_tools(endpoint: Endpoint) -> tuple[frozenset[str], str, frozenset[str]]:
    from . import mcp

    tools, name, failure = await mcp.list_tools(endpoint)
    if failure is not None:
        raise DiscoveryError(_explain("the list of tools", failure))
    if CAPABILITIES_TOOL not in tools:
        raise DiscoveryError(f"the seller has no tool {CAPABILITIES_TOOL}: it does not speak AdCP 3")
    return tools, name, frozenset()


def _explain(what: str, seen: Seen | None) -> str:
    if seen is None or seen.error is None:
        return f"{what}: the seller gave no usable answer"
    return f"{what}: {seen.error.message or seen.error.code}"
