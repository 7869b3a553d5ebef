"""AdCP over A2A 1.0 (and 0.3): one message to the agent, its task read from the very bytes that came.

Sources: AdCP L0/a2a-guide, L0/a2a-profile-extension, L0/a2a-response-extraction. `a2a-sdk` finds the
interface and builds the message; the answer is read from the JSON itself, because protobuf refuses fields it
does not know and turns whole numbers into floats.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit
from uuid import uuid4

import anyio
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.types.a2a_pb2 import AgentCard, Message, Part, Role, SendMessageRequest
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.struct_pb2 import Value

from . import errors, http
from .envelopes import seen_a2a
from .hygiene import clean
from .meaning import About
from .outcome import seen_failure
from .strict_json import MalformedBody, parse_object
from .types import QUIRK_A2A_PARAMETERS, Endpoint, Seen, WireError

# What an interface speaks that names no binding.
_BINDING = "JSONRPC"
_NAMED_CHARS = 200
ADCP_EXTENSION = "https://adcontextprotocol.org/extensions/adcp/v3"

for _name in ("a2a.client.card_resolver", "a2a.client.transports.jsonrpc"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class CardError(Exception):
    """The agent card cannot be used; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """An agent card: the parsed message, the JSON as it came, and what follows from it."""

    parsed: Any
    raw: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.parsed.name)

    @property
    def skills(self) -> frozenset[str]:
        return frozenset(skill.id or skill.name for skill in self.parsed.skills)

    @property
    def speaks_profile(self) -> bool:
        """Whether the card declares AdCP's profile extension: then arguments go under `input`."""
        return any(extension.uri == ADCP_EXTENSION for extension in self.parsed.capabilities.extensions)

    @property
    def quirks(self) -> frozenset[str]:
        return frozenset() if self.speaks_profile else frozenset({QUIRK_A2A_PARAMETERS})


async def call_skill(
    endpoint: Endpoint,
    skill: str,
    arguments: Mapping[str, Any],
    *,
    secrets: Sequence[str],
    about: About = "call",
    task_type: str = "",
    task_id: str | None = None,
    context_id: str | None = None,
    message_id: str | None = None,
    text: str = "",
) -> Seen:
    """Send one skill invocation; whatever comes back, or does not, as a Seen: of the task called, or, `about`
    a poll, of the task asked for, of `task_type`.

    `task_id` and `context_id` continue a task that waits for input, `text` says it in words as well
    (advisory: the arguments decide). `message_id` defaults to a new one. `endpoint.timeout_s` bounds
    everything, the agent card included.
    """
    ledger = http.Ledger(keep_bytes=endpoint.max_bytes, credentialed=bool(endpoint.secrets))
    reason = ""
    with anyio.move_on_after(endpoint.timeout_s) as limit:
        try:
            async with _client(endpoint, ledger) as http_client:
                card = await _read_card(endpoint, http_client)
                message = _message(skill, arguments, card, text=text)
                message.message.message_id = message_id or str(uuid4())
                message.message.task_id, message.message.context_id = task_id or "", context_id or ""
                if card.speaks_profile:
                    http_client.headers["A2A-Extensions"] = ADCP_EXTENSION
                ledger.sending_task = True
                await _send(http_client, card, message)
        except CardError as refusal:
            return _card_refused(ledger, str(refusal), secrets)
        except Exception as error:  # the SDK may choke on what we can read; the bytes decide
            reason = f"the call failed ({type(error).__name__})"
    return _answer(ledger, secrets, about, task_type) or seen_failure(
        ledger, timed_out=limit.cancelled_caught, reason=reason, secrets=secrets
    )


async def read_card(endpoint: Endpoint) -> tuple[Card | None, Seen | None]:
    """The agent card, or the failure to get one as a Seen."""
    ledger = http.Ledger(sending_task=True, credentialed=bool(endpoint.secrets))
    reason = ""
    with anyio.move_on_after(endpoint.timeout_s) as limit:
        try:
            async with _client(endpoint, ledger) as http_client:
                return await _read_card(endpoint, http_client), None
        except CardError as refusal:
            return None, _card_refused(ledger, str(refusal), endpoint.secrets)
        except httpx.HTTPError as error:
            reason = f"the call failed ({type(error).__name__})"
    timed_out = limit.cancelled_caught
    return None, seen_failure(ledger, timed_out=timed_out, reason=reason, secrets=endpoint.secrets)


def _client(endpoint: Endpoint, ledger: http.Ledger) -> Any:
    policy = http.Policy(
        allow_private=endpoint.allow_private, max_bytes=endpoint.max_bytes, timeout_s=endpoint.timeout_s
    )
    headers = {**endpoint.sent_headers, "A2A-Version": "1.0"}
    return http.client(httpx, policy, ledger, headers=headers)


async def _read_card(endpoint: Endpoint, http_client: httpx.AsyncClient) -> Card:
    response = await http_client.get(endpoint.url.rstrip("/") + AGENT_CARD_WELL_KNOWN_PATH)
    if response.status_code != 200:
        raise CardError(f"the agent card was answered with HTTP {response.status_code}")
    try:
        raw = parse_object(response.content, max_bytes=endpoint.max_bytes)
        # Parsing rewrites the dictionary it is given.
        parsed = parse_agent_card(parse_object(response.content, max_bytes=endpoint.max_bytes))
    except (MalformedBody, ParseError, TypeError, AttributeError, KeyError, ValueError) as error:
        raise CardError("the agent card cannot be read") from error
    return Card(parsed=_same_host(parsed, endpoint.url), raw=raw)


def _same_host(card: AgentCard, registered: str) -> AgentCard:
    """The card with only those interfaces that stand on the registered host and port: our token goes nowhere
    else.

    A card behind a TLS proxy may say http of an https address; what was registered wins.
    """
    ours = urlsplit(registered)
    kept = []
    for interface in card.supported_interfaces:
        theirs = _address(interface.url)
        if theirs is None or theirs.hostname != ours.hostname:
            continue
        if ours.scheme == "https" and theirs.scheme != "https":
            interface.url = urlunsplit(theirs._replace(scheme=ours.scheme, netloc=ours.netloc))
        elif _port(theirs) != _port(ours):
            continue  # another service of the same host
        kept.append(interface)
    if not kept:
        raise CardError("the agent card names no interface on the registered host")
    for interface in kept:
        interface.protocol_binding = interface.protocol_binding.upper() or _BINDING
    offered = sorted({interface.protocol_binding for interface in kept})
    if _BINDING not in offered:
        told = clean(", ".join(offered))[:_NAMED_CHARS]
        raise CardError(f"the agent card offers {told} alone (protocolBinding); we speak {_BINDING}")
    copy = AgentCard()
    copy.CopyFrom(card)
    del copy.supported_interfaces[:]
    copy.supported_interfaces.extend(kept)
    return copy


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _address(url: str) -> SplitResult | None:
    """The parts of an address; None where it cannot be read."""
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 else None
    except ValueError:
        return None


def _message(
    skill: str,
    arguments: Mapping[str, Any],
    card: Card,
    *,
    text: str,
) -> SendMessageRequest:
    older = QUIRK_A2A_PARAMETERS in card.quirks
    invocation = {"skill": skill, "parameters" if older else "input": dict(arguments)}
    words = [Part(text=text)] if text else []
    message = Message(role=Role.ROLE_USER, parts=[*words, Part(data=ParseDict(invocation, Value()))])
    return SendMessageRequest(message=message)


async def _send(http_client: httpx.AsyncClient, card: Card, message: SendMessageRequest) -> None:
    config = ClientConfig(httpx_client=http_client, streaming=False, polling=False)
    try:
        sender = ClientFactory(config).create(card.parsed)
    except ValueError as error:
        raise CardError(
            f"no interface of the agent card is {_BINDING} of a protocolVersion from 0.3 on"
        ) from error
    async for _ in sender.send_message(message):
        pass


def _answer(ledger: http.Ledger, secrets: Sequence[str], about: About, task_type: str) -> Seen | None:
    """The Task in the answer to the task's own request, if one came whole."""
    last = ledger.last
    if (
        last is None
        or not last.is_task
        or last.http_status != 200
        or not last.finished
        or last.failure is not None
    ):
        return None
    try:
        body = parse_object(bytes(last.body), max_bytes=ledger.keep_bytes)
    except MalformedBody:
        return None
    result = body.get("result")
    if not isinstance(result, dict):
        return None
    return seen_a2a(result, secrets=secrets, about=about, task_type=task_type)


def _card_refused(ledger: http.Ledger, why: str, secrets: Sequence[str]) -> Seen:
    """A failure before the task was sent: by its HTTP status where that tells more, else as an unreadable
    card."""
    seen = seen_failure(ledger, timed_out=False, reason=why, secrets=secrets)
    if seen.error is not None and seen.error.code == errors.GARBLED:
        error = WireError(code=errors.GARBLED, message=clean(why, secrets))
        return Seen(kind="garbled", error=error, message=why, raw=seen.raw, request_left=False)
    return seen
