"""What the wire takes and gives: plain frozen records, no transport types, no models."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import datetime
from typing import Any, Literal

Protocol = Literal["mcp", "a2a"]
Recovery = Literal["transient", "correctable", "terminal"]
Kind = Literal["answer", "no_answer", "not_sent", "garbled"]

# AdCP enums/task-status. `unknown` is also our word for whatever stands outside the enum.
TASK_STATUSES = frozenset(
    {
        "submitted",
        "working",
        "input-required",
        "auth-required",
        "completed",
        "failed",
        "canceled",
        "rejected",
        "unknown",
    }
)
ENDED_BADLY = frozenset({"failed", "canceled", "rejected"})
BUY_GONE = ("canceled", "rejected")  # of a media buy: nothing of it runs
TERMINAL_STATUSES = ENDED_BADLY | {"completed"}
# AdCP enums/media-buy-status; a 3.0 seller may put one where the task's status belongs.
MEDIA_BUY_STATUSES = frozenset(
    {"pending_creatives", "pending_start", "active", "paused", "completed", "rejected", "canceled"}
)

# A2A servers disagree on the name of the arguments in the data part: 3.x says `input`, older ones
# `parameters`.
QUIRK_A2A_PARAMETERS = "a2a_parameters"

MAX_RESPONSE_BYTES = 10 * 2**20


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One seller's agent and the limits under which it is called.

    `url` is the MCP endpoint, or the base address under which the A2A agent card is found. `token` is a
    bearer token, or `name:password` where `basic`. `headers` are the seller's own, `secret_headers` those
    whose values nobody may see. `status_tool` is the seller's own name for its status tool, `reads_account`
    whether reads of media buys and tasks name the account that they are about, None: as it takes it.
    `timeout_s` bounds the whole call in seconds, `max_bytes` the whole response. `adcp_version` is
    the pinned release ("3.2") or None before negotiation. `allow_private` lets the address be private or
    loopback. `unusable` says why nothing can be sent to it; empty where it can.
    """

    url: str
    protocol: Protocol
    token: str | None = dataclass_field(default=None, repr=False)
    basic: bool = False
    headers: Mapping[str, str] = dataclass_field(default_factory=dict)
    secret_headers: Mapping[str, str] = dataclass_field(default_factory=dict, repr=False)
    status_tool: str | None = None
    reads_account: bool | None = None
    allow_private: bool = False
    timeout_s: float = 30.0
    max_bytes: int = MAX_RESPONSE_BYTES
    adcp_version: str | None = None
    quirks: frozenset[str] = frozenset()
    unusable: str = ""

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers that every request carries: the credentials and the seller's own."""
        own = {**self.headers, **self.secret_headers}
        return {**own, "Authorization": self._authorization} if self.token else own

    @property
    def secrets(self) -> tuple[str, ...]:
        """What of it may be echoed by a seller and nobody may see."""
        given = (self.token, self._authorization.partition(" ")[2], *self.secret_headers.values())
        return tuple(dict.fromkeys(one for one in given if one))

    @property
    def _authorization(self) -> str:
        if not self.token:
            return ""
        if self.basic:
            return f"Basic {base64.b64encode(self.token.encode()).decode()}"
        return f"Bearer {self.token}"


@dataclass(frozen=True, kw_only=True)
class WireError:
    """An AdCP error, or one of ours (codes in `errors`) when the seller said nothing usable.

    `retry_after` is in seconds, already clamped to 1..3600. `recovery` None means that nobody said and no
    standard code implies it.
    """

    code: str
    message: str = ""
    recovery: Recovery | None = None
    field: str | None = None
    retry_after: float | None = None
    suggestion: str | None = None
    details: Mapping[str, Any] = dataclass_field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a `working` answer tells: `percentage` 0..100, the step's name, steps done and in all."""

    percentage: float | None = None
    current_step: str | None = None
    step_number: int | None = None
    total_steps: int | None = None


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One normalised observation of whatever came back from a seller.

    kind:
      `answer`     the seller answered in AdCP (also with an AdCP error);
      `no_answer`  time-out, or the connection was lost after bytes may have left: the outcome is unknown;
      `not_sent`   no byte of the request left (refused, DNS, blocked address): safe to send again at will;
      `garbled`    something came that is no AdCP answer (HTML, truncated JSON, too large, 5xx): outcome
      unknown.

    `status` is the AdCP task status, `unknown` for anything outside the enum (the word itself stays in
    `raw_status`) and for every kind but `answer`. `payload` is the task's own result without the envelope.
    `task_type` is what a poll or a webhook says that it tells of. `account` is the one that the result names,
    or the task's record beside it. `partial` marks an end without the result that belongs to it: it proves
    the status and nothing more.
    `raw` is what was received, as JSON, with the caller's secrets replaced. `request_left` is False when the
    request itself surely never left, also where kind is not `not_sent` (a handshake that was answered with
    HTML). `duration_ms` is how long the call took that brought it, None where none was made. `learned` are
    quirks of the seller that this call found out, to be kept with it. `asked_at` is our clock's moment before
    the call left that this answers, `at` the seller's own of what it tells.
    """

    kind: Kind
    status: str = "unknown"
    raw_status: str | None = None
    task_id: str | None = None
    a2a_task_id: str | None = None
    a2a_context_id: str | None = None
    continuation: Mapping[str, str] | None = None
    message: str | None = None
    payload: dict[str, Any] | None = None
    task_type: str | None = None
    partial: bool = False
    media_buy_status: str | None = None
    error: WireError | None = None
    errors: tuple[WireError, ...] = ()
    context: dict[str, Any] | None = None
    context_id: str | None = None
    account: dict[str, Any] | None = None
    replayed: bool = False
    adcp_version: str | None = None
    progress: Progress | None = None
    retry_after: float | None = None
    at: datetime | None = None
    raw: dict[str, Any] | str | None = None
    request_left: bool = True
    duration_ms: int | None = None
    asked_at: datetime | None = None
    learned: frozenset[str] = frozenset()
    other_version: bool = False  # it came in another AdCP version than was asked in first

    @property
    def is_terminal(self) -> bool:
        """Whether the task has ended by the seller's word."""
        return self.kind == "answer" and self.status in TERMINAL_STATUSES

    @property
    def asks_to_wait(self) -> float | None:
        """Seconds that the seller asks to wait before anything is repeated, in the answer or its error."""
        return self.retry_after or (self.error.retry_after if self.error else None)

    @property
    def outcome_known(self) -> bool:
        """False where the seller may or may not have acted: the same bytes and key must be sent again."""
        return self.kind in ("answer", "not_sent")


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a seller's agent can do, from get_adcp_capabilities and its list of tools.

    `version` is the best release both sides speak ("3.2"), `supported_versions` what the seller lists.
    `tools` holds MCP tool names, or the skills of the A2A agent card. `idempotency_ttl_s` None means that the
    seller promises no replay (mutating tasks are then blocked, AdCP L1/security "Idempotency").
    `quirks` is what the transport learned and `Endpoint.quirks` must carry from now on.
    """

    agent_name: str
    version: str
    supported_versions: tuple[str, ...]
    tools: frozenset[str]
    lifecycle_tools: tuple[str, ...] = ()
    supported_protocols: tuple[str, ...] = ()
    specialisms: tuple[str, ...] = ()
    idempotency_ttl_s: int | None = None
    webhook_signing: Mapping[str, Any] | None = None
    legacy_hmac_fallback: bool = False
    require_operator_auth: bool | None = None
    account: Mapping[str, Any] | None = None
    brand_json_url: str | None = None
    channels: tuple[str, ...] = ()
    quirks: frozenset[str] = frozenset()
    raw: Mapping[str, Any] = dataclass_field(default_factory=dict)


class DiscoveryError(Exception):
    """A seller did not say what it can do, or speaks no AdCP version of ours. The text says why.

    `error` is that of the failed call, None if every call was answered.
    """

    def __init__(self, text: str, error: WireError | None = None) -> None:
        super().__init__(text)
        self.error = error

    @property
    def reason(self) -> str:
        """The text without the name of the call."""
        return self.error.message or self.error.code if self.error else str(self)
