"""The question a closed gate puts to people: go on all the same, or not at all.

To go on passes the gates that are named, for one attempt. Who asked for the command does not decide. A gate
that opens by itself withdraws the question (`gates_ask_again`).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Any

from django.db import transaction

from tasks_app import clock
from tasks_app.approvals.kinds import Kind, Outcome, kind_register, on_closed
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import Question, approval_open, approval_void
from tasks_app.commands.adapters import adapter_of
from tasks_app.commands.decisions import Code, decided
from tasks_app.commands.executing import execute_now
from tasks_app.commands.gates import gate_label, gates_closed
from tasks_app.commands.models import Command
from tasks_app.lifecycle.names import EntityName, link_to, namer_register
from tasks_app.people.actors import SYSTEM

KIND = "risk_gate"
_AT_ONCE = 100
_OPEN_AGAIN = "The gate is open again"
_ENDED = "What asked for it has ended"


class GateUnaskedError(Exception):
    """A gate is closed and there is nobody to ask: the command belongs to no team."""


def register() -> None:
    """Called when the application starts."""
    on_closed(_closed)
    namer_register("command", _names)
    kind_register(
        Kind(
            name=KIND,
            label="Risk gate",
            apply=_apply,
            version=_version,
            reopen=_reopen,
            effects={
                "approve": "Goes on all the same, this once; the gate stays closed to the next attempt.",
                "reject": "It is not sent (again). The step that wants it fails; what may have left is "
                "followed to its end.",
                "nothing": "It waits, and is asked about again. It goes on by itself when the gate opens.",
            },
        )
    )


def gate_ask(command: Command, closed: Mapping[str, str]) -> Approval:
    """Ask people about a command that waits. Raises GateUnaskedError."""
    if command.team is None:
        raise GateUnaskedError("; ".join(closed.values()))
    labels = ", ".join(gate_label(name) for name in closed)
    seller = command.seller.name if command.seller else ""
    what = command.kind.replace("_", " ")
    evidence: dict[str, Any] = {
        "command": what,
        "seller": seller,
        "gates": list(closed),
        "why": "; ".join(closed.values()),
        "attempt": "repeated" if command.repeated else "first",
        "key": command.key,
        **{name: str(value) for name, value in command.result.items()},
    }
    return approval_open(
        question=Question(
            kind=KIND,
            team=command.team,
            title=f"{labels}: {what} {seller}".strip(),
            subject_type="command",
            subject_id=command.pk,
            subject_version=command.gate_round,
            evidence=evidence,
            policy=f"{labels}, one approver",
        ),
        requested_by=command.requested_by,
    )


def gate_question(command: Command) -> Approval | None:
    """The open question about a command that waits."""
    asked = Approval.objects.filter(kind=KIND, subject_type="command", subject_id=command.pk)
    return asked.filter(status=ApprovalStatus.OPEN).first() if command.waiting_since else None


def gate_passed(command: Command) -> None:
    """A locked command is past its gates: what a person said held for this attempt, and nobody is asked."""
    waited = command.waiting_since is not None
    if command.overrides or waited:
        command.overrides, command.waiting_since = [], None
        command.save(update_fields=["overrides", "waiting_since"])
    if not waited:
        return
    asked = Approval.objects.filter(
        kind=KIND, subject_type="command", subject_id=command.pk, status=ApprovalStatus.OPEN
    )
    # Who is deciding at this moment finds that it has gone, and changes nothing.
    _withdraw_question(asked.select_for_update(no_key=True, skip_locked=True).first(), _OPEN_AGAIN)


def gates_ask_again() -> int:
    """Let go on what waits at gates that have opened by themselves; the longest unasked first. Answers how
    many went on."""
    waiting = Command.objects.filter(waiting_since__isnull=False).order_by("asked_at")
    return sum(_ask_again(pk) for pk in list(waiting.values_list("pk", flat=True)[:_AT_ONCE]))


@transaction.atomic
def _ask_again(command_id: uuid.UUID) -> bool:
    # The question's lock first, as where a person decides it.
    asked = Approval.objects.filter(
        kind=KIND, subject_type="command", subject_id=command_id, status=ApprovalStatus.OPEN
    )
    approval = asked.select_for_update(no_key=True, skip_locked=True).first()
    command = _held(command_id)
    if command is None or command.waiting_since is None or (approval is None and asked.exists()):
        return False
    if adapter_of(command).ended(command):
        command_withdraw(command, reason=_ENDED, user=SYSTEM)
        _withdraw_question(approval, _ENDED)
        return False
    closed = gates_closed(command, repeated=command.repeated)
    if closed:
        command.asked_at = clock.now()
        command.save(update_fields=["asked_at"])
        return False
    decided(command, Code.REOPENED, user=SYSTEM)
    _go_on(command)
    _withdraw_question(approval, _OPEN_AGAIN)
    return True


def _withdraw_question(approval: Approval | None, reason: str) -> None:
    if approval is not None:
        approval_void(approval=approval, reason=reason)


def _held(command_id: uuid.UUID) -> Command | None:
    rows = Command.objects.select_related("seller", "team").filter(pk=command_id)
    return rows.select_for_update(of=("self",), no_key=True, skip_locked=True).first()


def _go_on(command: Command) -> None:
    """What waited goes on: sent again, or executed; what somebody asks for again is left to them."""
    command.waiting_since = None
    command.save(update_fields=["waiting_since", "overrides"])
    if command.executed_at is not None:
        adapter_of(command).resume(command)
    elif not command.awaited:
        execute_now(command)


def command_withdraw(command: Command, *, reason: str, user: str) -> None:
    """A locked command is not to be had (again)."""
    command.waiting_since = None
    if command.executed_at is None:
        command.refused_at, command.refused_why = clock.now(), reason
    command.save(update_fields=["waiting_since", "refused_at", "refused_why"])
    decided(command, Code.REFUSED, note=reason, user=user)
    adapter_of(command).withdraw(command, reason=reason)


def _apply(approval: Approval, outcome: Outcome) -> None:
    command = Command.objects.select_related("seller", "team").select_for_update(of=("self",), no_key=True)
    held = command.get(pk=approval.subject_id)
    if held.waiting_since is None or held.gate_round != approval.subject_version:
        return
    named = dict.fromkeys(approval.evidence["gates"], approval.evidence["why"])
    if outcome.answer == "approved":
        held.overrides = sorted({*held.overrides, *named})
        decided(held, Code.OVERRIDDEN, gates=named, note=outcome.comment, user=outcome.actor)
        _go_on(held)
    elif outcome.answer == "rejected":
        command_withdraw(held, reason=outcome.comment, user=outcome.actor)
    else:
        _ask_once_more(held)


def _ask_once_more(command: Command) -> None:
    closed = gates_closed(command, repeated=command.repeated)
    if not closed:
        _go_on(command)
        return
    command.gate_round += 1
    command.save(update_fields=["gate_round"])
    gate_ask(command, closed)


def _version(approval: Approval) -> int | None:
    """The round of the question, while the command waits; held still until the decision's commit."""
    found = Command.objects.filter(pk=approval.subject_id, waiting_since__isnull=False)
    return found.select_for_update(no_key=True).values_list("gate_round", flat=True).first()


def _reopen(approval: Approval) -> None:
    command = Command.objects.select_related("seller", "team").get(pk=approval.subject_id)
    closed = gates_closed(command, repeated=command.repeated)
    if closed:
        gate_ask(command, closed)


def _names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    found = Command.objects.filter(pk__in=ids).select_related("seller")
    return {
        command.pk: EntityName(
            reference=command.kind.replace("_", " "),
            name=f"{command.kind.replace('_', ' ')} {command.seller or ''}".strip(),
            link=link_to(Command, command.pk),
        )
        for command in found
    }


def _closed(approval: Approval) -> None:
    """A question withdrawn with what asked for it (a job was cancelled) takes the command with it."""
    if approval.kind != KIND or approval.status != ApprovalStatus.VOIDED:
        return
    command = _held(approval.subject_id)
    if command is not None and command.waiting_since is not None and gate_question(command) is None:
        command_withdraw(command, reason=_ENDED, user=SYSTEM)
