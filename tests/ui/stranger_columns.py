"""Which columns hold what sellers say, and putting hostile values into every one of them.

A new column of a model that sellers' words reach joins by itself (of a seller and an account by what
`sellers/columns.py` says of it), and a new model has to be named here: what is ours is said, everything else
is theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
from django.apps import apps
from django.db import models
from psycopg import sql

from campaigns.models import Campaign
from orders.models import Deal, DealLine, DealMirror, UnclaimedBuy
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.assistant.models import AssistantProposal, AssistantToolCall, AssistantTurn
from tasks_app.commands.models import Command
from tasks_app.events.models import EventDelivery
from tasks_app.jobs.models import Job, Step, WorkflowEvent
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.notifications.models import Notification
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.models import Observation, Operation
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tasks_app.sellers.columns import ACCOUNT_HEARD, SELLER_HEARD, all_columns
from tasks_app.sellers.models import Account, Seller, SellerBreaker
from tasks_app.troubles.models import RowTrouble
from tasks_app.webhooks.models import SellerKey, SellerRevocations, WebhookDelivery

_OURS = ("campaigns", "orders", "tasks_app")
# Of the models that sellers' words reach, the columns that hold none.
COLUMNS_OF_OURS: dict[type[models.Model], set[str]] = {
    Seller: all_columns(Seller) - SELLER_HEARD | {"capabilities_at", "capabilities_next_at"},
    Account: all_columns(Account)
    - ACCOUNT_HEARD
    - {"reference", "billing_party", "payment_terms", "setup_url"}
    | {"status_since", "read_at", "next_read_at"},
    SellerBreaker: {"since", "failures", "successes", "opened_at", "probe_at"},
    Command: {
        *("key", "kind", "adapter", "payload", "digest", "subject_type", "requested_by", "at", "executed_at"),
        *("result", "refused_at", "replays", "waiting_since", "asked_at", "gate_round", "overrides"),
    },
    Operation: {
        *("version", "status_since", "created_at", "reference", "task_type", "requested_by", "subject_type"),
        *("purpose", "request", "idempotency_key", "settled_at", "sent_at", "overdue_at", "published_at"),
        *("publish_at", "overdue_told_at", "looked_up_at", "send_at", "priority", "turn_at", "next_poll_at"),
        *("deadline_at", "attempts", "polls"),
    },
    Observation: {"kind", "digest", "duration_ms", "at"},
    Conflict: {"reference", "digest", "at", "resolved_by", "resolved_at", "reason", "asked_by", "asked_at"},
    Continuation: {
        *("generation", "at", "answer", "answered_by", "answered_at", "released_at", "dispatched_at"),
        *("deadline_at", "consumed_at", "stale_at"),
    },
    ReconciliationRun: {"asked_by", "asked_at", "woken_at", "started_at", "ended_at", "differ"},
    ReconciliationFinding: {
        *("kind", "digest", "here", "status_here", "subject_type", "first_seen_at", "last_seen_at"),
        *("resolved_at", "resolved_by", "reason"),
    },
    WebhookDelivery: {"at", "source", "bound_until", "fingerprint"},
    SellerKey: {"first_seen_at"},
    SellerRevocations: {"updated", "next_at", "good_until"},
    Deal: {
        *("version", "status_since", "created_at", "reference", "requested_by", "currency", "start_at"),
        *("end_at", "zone", "born_in"),
    },
    DealLine: {"position", "budget", "ceiling", "start_at", "end_at", "targeting"},
    DealMirror: {
        *("due_at", "lease_until", "failures", "asked_at", "read_at"),
        *("older_reads", "older_asked_at"),
    },
    Approval: {
        *("version", "status_since", "created_at", "reference", "kind", "subject_type", "subject_version"),
        *("requested_by", "set_off_by", "policy", "policies", "quorum", "roles", "amount", "currency"),
        *(
            "evidence_digest",
            "due_at",
            "told_at",
            "reminded_at",
            "escalate_at",
            "escalate_to",
            "escalated_at",
        ),
        *("on_expiry", "claimed_by", "claimed_until"),
    },
    Notification: {"at", "kind", "subject_type", "right", "roles", "not_for", "nor_for", "key"},
    Job: {
        *("version", "status_since", "created_at", "reference", "recipe", "recipe_version", "recipe_digest"),
        *("plan", "inputs", "requested_by", "request_id", "subject_type", "priority", "expires_at"),
        *("active_steps", "ended_at"),
    },
    Step: {
        *(
            "version",
            "status_since",
            "created_at",
            "key",
            "spec",
            "item_index",
            "item",
            "incoming",
            "priority",
        ),
        *("ready_at", "attempts", "failures", "lease_until", "waiting_for", "started_at", "ended_at"),
    },
    WorkflowEvent: {"type", "source", "correlation", "idempotency_key", "at"},
    AuditEntry: {
        *("entity_type", "seq", "from_status", "to_status", "at", "actor", "trace_id", "format_version"),
    },
    EventDelivery: {
        *("subscriber", "position", "entity_type", "attempts", "due_at", "gave_up_at", "retried_by"),
        "created_at",
    },
    AssistantTurn: {
        *("version", "status_since", "created_at", "number", "question", "opened", "trace_id"),
        *("lease_until", "ended_at"),
    },
    AssistantToolCall: {"call_id", "tool", "duration_ms", "at", "ended_at"},
    AssistantProposal: {
        "tool",
        "subject_type",
        "approvals",
        "remaining",
        "at",
        "confirmed_at",
        "dismissed_at",
    },
    UnclaimedBuy: {"source", "amount", "opened_at", "closed_at", "outcome"},
    RowTrouble: {"work", "times", "first_at", "at", "again_at"},
    Campaign: {
        *("version", "status_since", "created_at", "reference", "name", "requested_by", "brief", "problems"),
        *("budget", "currency", "start_at", "end_at", "zone"),
    },
}
# What no seller's word reaches.
MODELS_OF_OURS = {
    *(
        "change",
        "outboxevent",
        "lifecycleedge",
        "import",
        "lifecyclerule",
        "house",
        "team",
        "advertiser",
        "user",
        "membership",
    ),
    *("actor", "decision", "approvalpolicy", "exchangerate", "approvalescalation", "approvalnote"),
    *(
        "apitoken",
        "briefdraft",
        "delegation",
        "decisionbatch",
        "decisionbatchitem",
        "linkuse",
        "trustchange",
        "commanddecision",
    ),
    *("killswitch", "outgoingmessage", "savedfilter", "eventstream", "eventsubscription", "eventcount"),
    *("fieldkey", "workercluster", "edge", "outsideevent", "eventwait", "schedule", "scheduleentry"),
    *("notificationread", "notificationmail", "teamwebhook", "teamwebhooksent", "calllease"),
    *("sweeppulse", "sweepoutage"),
    *("securityevent", "loginsession", "secondfactor", "recoverycode", "sendertally", "seennonce"),
    *("requestkey", "calendarfeed", "allocation"),
    *("assistantmode", "assistantsession", "assistantstep"),
}
# JSON that we build, of what sellers say: its shape is ours, what stands in it is theirs.
BUILT = {
    *((Approval, "evidence"), (Deal, "reasons"), (Deal, "differences"), (Campaign, "outcome")),
    *((AssistantToolCall, "result"), (AssistantToolCall, "arguments")),
    *((Job, "outputs"), (Step, "outputs"), (WorkflowEvent, "payload"), (AuditEntry, "metadata")),
    *((AuditEntry, "changes"), (ReconciliationRun, "counts"), (ReconciliationRun, "report")),
    *(
        (Conflict, "first"),
        (Conflict, "second"),
        (Account, "reference"),
        (Seller, "quirks"),
        (Seller, "tools"),
        (Account, "said"),
        (Account, "refused_reference"),
        (DealMirror, "as_stated"),
    ),
}
_OFFERED = {"seller": "so", "product": "", "why": "so"}
_REFUSED = dict.fromkeys(("code", "message", "field", "suggestion"), "so")
# What stands in these where no row has anything; a column of a seller's own shape takes any.
_BUILT_AS: dict[tuple[type[models.Model], str], Any] = {
    (DealMirror, "as_stated"): dict.fromkeys(("confirmed_at", "status_as_of", "revision"), "so"),
    (Campaign, "outcome"): {"booked": ["so"], "left_out": [_OFFERED], "left_out_more": 1},
    (ReconciliationRun, "counts"): {"differs": 1},
    (Account, "said"): {"message": "so", "expires_at": "so", "currency": "so", "errors": [_REFUSED]},
    (Account, "refused_reference"): {"account_id": "so"},
    (Seller, "quirks"): ["so"],
}
_MOST = 3000


@dataclass(frozen=True, kw_only=True)
class Hostile:
    """What takes the place of texts and numbers, of anything where the shape is a seller's own, and what the
    other columns hold at most. `zone`: whose clocks leave the calendar with it."""

    zone: str
    text: str
    number: float
    anything: Any
    moment: datetime
    most: bool


HOSTILE = {
    "the end of time": Hostile(
        zone="Pacific/Kiritimati",
        text="9999-12-31T23:59:59Z",
        number=1e29,
        anything="1e999999",
        moment=clock.LATEST - timedelta(microseconds=1),
        most=True,
    ),
    "the beginning of time": Hostile(
        zone="Pacific/Pago_Pago",
        text="0001-01-01T00:00:00Z",
        number=-1e-29,
        anything=None,
        moment=clock.EARLIEST,
        most=False,
    ),
    "lists": Hostile(
        zone="Asia/Kathmandu",
        text="usd",
        number=-1,
        anything=[[{}], 7, None, "BTC"],
        moment=clock.EARLIEST,
        most=True,
    ),
    "objects": Hostile(
        zone="UTC",
        text="<script>alert(1)</script>\u202e{{ 7 }}%s{0}" * 40,
        number=0,
        anything={"": {"<b>": [None, -1, "XAU"]}, "currency": {"low": True}},
        moment=clock.LATEST - timedelta(microseconds=1),
        most=False,
    ),
}


def all_models() -> Iterator[type[models.Model]]:
    """Every model of the product."""
    return (model for model in apps.get_models() if model._meta.app_label in _OURS)


def theirs(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    """The columns of a model that a seller fills, of kinds that can be hostile."""
    ours = COLUMNS_OF_OURS.get(model)
    kinds = (models.JSONField, models.CharField, models.TextField, models.DateTimeField, models.DecimalField)
    return [
        field
        for field in model._meta.concrete_fields
        if ours is not None
        and isinstance(field, (*kinds, models.IntegerField))
        and field.name not in ours
        and not (
            field.choices or field.primary_key or field.is_relation or type(field).__name__.startswith("Enc")
        )
    ]


def poison(admin: psycopg.Connection, hostile: Hostile) -> list[str]:
    """Put hostile values into every column that a seller fills, of all rows; where no row has anything in a
    column, the newest has from then on. Answers the columns of what there is no row of."""
    admin.execute("set session_replication_role = replica")
    left: list[str] = []
    for model in COLUMNS_OF_OURS:
        fields = theirs(model)
        table, pk = sql.Identifier(model._meta.db_table), sql.Identifier(str(model._meta.pk.column))
        names = [sql.Identifier(str(field.column)) for field in fields]
        wanted = sql.SQL(", ").join([pk, *names])
        sets = sql.SQL(", ").join(sql.SQL("{} = %s").format(name) for name in names)
        rows = admin.execute(sql.SQL("select {} from {} order by {}").format(wanted, table, pk)).fetchall()
        if not rows:
            left += [f"{model.__name__}.{field.name}" for field in fields]
            continue
        newest = rows.pop()
        empty = {at for at in range(1, len(newest)) if not any(row[at] for row in (*rows, newest))}
        rows.append(tuple(_filled(fields[at - 1]) if at in empty else one for at, one in enumerate(newest)))
        for row, *before in rows:
            after = [_value(field, value, hostile, row) for field, value in zip(fields, before, strict=True)]
            admin.execute(sql.SQL("update {} set {} where {} = %s").format(table, sets, pk), [*after, row])
    return left


def _filled(field: models.Field[Any, Any]) -> Any:
    """What a column holds before a hostile value takes its place."""
    if not isinstance(field, models.JSONField):
        return "so"
    plain = ["so"] if field.default is list else {"so": "so"}
    return _BUILT_AS.get((field.model, field.name), plain)


def _value(field: models.Field[Any, Any], before: Any, hostile: Hostile, row: object) -> Any:
    if isinstance(field, models.JSONField):
        built = (field.model, field.name) in BUILT
        return None if before is None else json.dumps(_json(before, hostile, built=built))
    if isinstance(field, models.DateTimeField):
        return hostile.moment
    if isinstance(field, models.DecimalField):
        size, scale = int(field.max_digits or 18), int(field.decimal_places or 0)
        return Decimal(10) ** (size - scale) - Decimal(1).scaleb(-scale) if hostile.most else Decimal(0)
    if isinstance(field, models.IntegerField):
        return 2**31 - 1 if hostile.most else 0
    longest = min(field.max_length or _MOST, _MOST)
    own = f"{hostile.text}{row}"
    return own[-longest:] if before else before


def _json(value: Any, hostile: Hostile, *, built: bool) -> Any:
    if isinstance(value, dict):
        return {key: _json(inner, hostile, built=built) for key, inner in value.items()}
    if isinstance(value, list):
        return [_json(inner, hostile, built=built) for inner in value]
    if isinstance(value, bool) or value is None:
        return value
    if not built:
        return hostile.anything
    return hostile.text if isinstance(value, str) else hostile.number
