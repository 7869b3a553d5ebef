"""Running commands: one effect per key, the recorded result for whoever asks again, gates before it.

All is rows, in the caller's transaction: what an adapter makes due is sent afterwards. Two that race for one
key follow one another on its row. Source: document 003, "Execution Command Boundary".
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from tasks_app import clock
from tasks_app.approvals.kinds import EffectRefusedNowError
from tasks_app.canonical import canonical_digest
from tasks_app.commands.adapters import adapter_of
from tasks_app.commands.boundary import effect_allowed, effect_held, is_repeated
from tasks_app.commands.decisions import Code, decided
from tasks_app.commands.executing import execute_now
from tasks_app.commands.gates import gates_closed, passed_as_repeated
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gate_ask, gate_passed
from tasks_app.lifecycle.transitions import Who
from tasks_app.people.actors import actor_key
from tasks_app.people.models import Team
from tasks_app.people.scope import advertiser_of
from tasks_app.sellers.models import Seller

IDEMPOTENCY_KEY_CONFLICT = "IDEMPOTENCY_KEY_CONFLICT"


class IdempotencyKeyConflictError(Exception):
    """The key was used for another payload. Nothing was done."""

    code = IDEMPOTENCY_KEY_CONFLICT


class CommandRefusedError(EffectRefusedNowError):
    """A person refused the command at its gate, or withdrew it; the text says why. It stays refused."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An effect: its kind and payload (JSON), the adapter that has it, and whose it is."""

    kind: str
    adapter: str
    payload: Mapping[str, Any]
    team: Team | None
    seller: Seller | None = None
    subject_type: str = ""
    subject_id: uuid.UUID | None = None
    advertiser_id: uuid.UUID | None = None  # by default that of the subject

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of RFC 8785: what makes two payloads under one key the same."""
        return canonical_digest({"kind": self.kind, "payload": dict(self.payload)})


@transaction.atomic
def command_run(*, key: str, wanted: Wanted, actor: Who, awaited: bool = False) -> Command:
    """Have an effect outside, once per `key`: the command, executed, or waiting at a gate.

    The same key with the same payload answers what is recorded. `awaited`: whoever asks does so again when
    the gate's question is decided (a step); else the command then goes on by itself. Raises
    IdempotencyKeyConflictError, CommandRefusedError, EffectRefusedError, and what the adapter raises.
    """
    command = _recorded(key, wanted, actor)
    return _executed(command, awaited=awaited)


@transaction.atomic
def command_record(*, key: str, wanted: Wanted, actor: Who) -> Command:
    """Make an effect durable, to be had later by `command_execute`; nothing leaves. Raises
    IdempotencyKeyConflictError, EffectRefusedError."""
    return _recorded(key, wanted, actor)


@transaction.atomic
def command_execute(*, key: str, awaited: bool = False) -> Command:
    """Have a recorded effect. Raises Command.DoesNotExist, and what `command_run` raises."""
    effect_allowed()
    return _executed(command_locked(key=key), awaited=awaited)


@transaction.atomic
def command_pass(*, command_id: uuid.UUID, repeated: bool) -> bool | None:
    """Whether an effect that is about to leave (again) passes the gates; else people are asked, and it waits.
    None: somebody is deciding about it at this moment.

    What a person said to pass holds for this attempt. The caller holds what carries the effect, so the
    command is not waited for: whoever decides locks it first.
    """
    rows = Command.objects.select_related("seller", "team").filter(pk=command_id)
    command = rows.select_for_update(of=("self",), no_key=True, skip_locked=True).first()
    if command is None:
        return None
    closed, as_repeated = _closed(command, repeated=repeated)
    if closed:
        _wait(command, closed, repeated=as_repeated, awaited=False)
        return False
    if repeated:
        decided(command, Code.REPEATED)
    gate_passed(command)
    return True


@transaction.atomic
def command_let_pass(*, key: str, repeated: bool) -> bool | None:
    """Whether people let a command pass every gate that is closed to it now: that is used up, as by
    `command_pass`. None: somebody is deciding about it at this moment. Nobody is asked here."""
    found = Command.objects.filter(key=key).exclude(overrides=[])
    if not found.exists():
        return False
    rows = found.select_related("seller", "team")
    command = rows.select_for_update(of=("self",), no_key=True, skip_locked=True).first()
    if command is None:
        return None
    if gates_closed(command, repeated=repeated):
        return False
    gate_passed(command)
    return True


def command_locked(**which: Any) -> Command:
    """A command, held still until the caller's commit. Raises Command.DoesNotExist."""
    found = Command.objects.select_related("seller", "team").select_for_update(of=("self",), no_key=True)
    return found.get(**which)


def command_stands(command: Command) -> bool:
    """Whether it was executed and its effect is there, or may be."""
    return command.executed_at is not None and adapter_of(command).stands(command)


def _recorded(key: str, wanted: Wanted, actor: Who) -> Command:
    effect_allowed()
    command = Command.objects.filter(key=key).first() or _new(key, wanted, actor)
    if command.digest != wanted.digest:
        raise IdempotencyKeyConflictError(f"{key} was used for another {command.kind}")
    return command_locked(pk=command.pk)


def _new(key: str, wanted: Wanted, actor: Who) -> Command:
    effect_held()
    command = Command(
        key=key,
        kind=wanted.kind,
        adapter=wanted.adapter,
        payload=dict(wanted.payload),
        digest=wanted.digest,
        seller=wanted.seller,
        team=wanted.team,
        advertiser_id=wanted.advertiser_id or advertiser_of(wanted.subject_type, wanted.subject_id),
        subject_type=wanted.subject_type,
        subject_id=wanted.subject_id,
        requested_by=actor_key(actor),
        at=clock.now(),
    )
    try:
        with transaction.atomic():
            command.save(force_insert=True)
            command.result = adapter_of(command).prepare(command)
            command.save(update_fields=["result"])
    except IntegrityError:
        # Somebody with the same key was a moment faster: theirs is the command.
        found = Command.objects.filter(key=key).first()
        if found is None:
            raise
        return found
    return command


def _executed(command: Command, *, awaited: bool) -> Command:
    if command.executed_at is not None:
        command.replays += 1  # its row is held
        command.save(update_fields=["replays"])
        return command
    if command.refused_at is not None:
        raise CommandRefusedError(command.refused_why)
    repeated = command.repeated or is_repeated()
    closed, repeated = _closed(command, repeated=repeated)
    if closed:
        return _wait(command, closed, repeated=repeated, awaited=awaited)
    execute_now(command)
    return command


def _closed(command: Command, *, repeated: bool) -> tuple[dict[str, str], bool]:
    """The gates that are closed to it, name to why, and whether as to a repeat. What people let pass before
    and was not enough is asked about again with the rest, for each round has all gates that are closed."""
    closed = gates_closed(command, repeated=repeated)
    if not closed or command.waiting_since is not None or not command.overrides:
        return closed, repeated
    passed, repeated = command.overrides, repeated or passed_as_repeated(command)
    command.overrides = []
    closed = gates_closed(command, repeated=repeated)
    if not closed:  # they have opened since
        command.overrides = passed
    return closed, repeated


def _wait(command: Command, closed: Mapping[str, str], *, repeated: bool, awaited: bool) -> Command:
    """At its gate: asked about once, however often it comes by."""
    now = clock.now()
    is_new = command.waiting_since is None
    command.waiting_since = command.waiting_since or now
    command.repeated, command.awaited, command.asked_at = repeated, awaited, now
    command.gate_round += is_new
    command.save(
        update_fields=["waiting_since", "repeated", "awaited", "asked_at", "gate_round", "overrides"]
    )
    if is_new:
        decided(command, Code.WAITS, gates=closed)
        gate_ask(command, closed)
    return command
