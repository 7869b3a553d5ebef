"""The question a closed gate puts to people: go on all the same, or not at all. To pass the kill switch takes
two people, on a page of its own.

To go on passes the gates that are named, for one attempt. Who asked for the command, or for what it is about
where the system commands, does not decide. A gate that opens by itself withdraws the question, and where the
kill switch is turned it is asked anew, of one person or of two (`gates_ask_again`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from django.db import transaction

from tasks_app import clock
from tasks_app.approvals.kinds import EffectRefusedNowError, Kind, Outcome, kind_register, on_closed
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import (
    approval_ask_again,
    approval_ended_by,
    approval_open,
    approval_void,
)
from tasks_app.approvals.subjects import questions_withdraw
from tasks_app.commands.adapters import adapter_of
from tasks_app.commands.decisions import Code, decided
from tasks_app.commands.executing import execute_now
from tasks_app.commands.gates import gate_label, gates_closed, gates_passes
from tasks_app.commands.kill_switch import GATE
from tasks_app.commands.models import Command
from tasks_app.lifecycle.names import EntityName, link_to, namer_register
from tasks_app.people.actors import SYSTEM
from tasks_app.people.scope import asker_of
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on

KIND = "risk_gate"
STOPPED = "kill_switch"  # to let one pass while all are stopped
_KINDS = (KIND, STOPPED)
_AT_ONCE = 100
_WORK = work_on("gates_opened", "command")
_OPEN_AGAIN = "The gate is open again"
_ENDED = "What asked for it has ended"
_LET_GO, _TURNED_ON = "The kill switch was let go; another gate is closed", "The kill switch was turned on"


OrderWords = Callable[[Command, Question], Question]
_words: list[OrderWords] = []


def register() -> None:
    """Called when the application starts."""
    on_closed(_closed)
    namer_register("command", _names)
    gate = Kind(
        name=KIND,
        label="Risk gate",
        apply=_apply,
        version=_version,
        asks=_question_again,
        reopen=_reopen,
        effects={
            "approve": "Goes on all the same, this once; the gate stays closed to the next attempt.",
            "reject": "It is not sent (again). The step that wants it fails; what may have left is "
            "followed to its end.",
            "nothing": "It waits, and is asked about again. It goes on by itself when the gate opens.",
        },
        decided={"approved": "it goes on all the same, this once", "rejected": "nothing more of it is sent"},
    )
    kind_register(gate)
    stopped = {
        "approve": "Passes the kill switch, this once; the switch stays on for everything else.",
        "nothing": "It waits, and is asked about again. It goes on by itself when the switch is let go.",
    }
    kind_register(
        replace(
            gate,
            name=STOPPED,
            label="Passing the kill switch",
            effects={**gate.effects, **stopped},
            apart=True,
        )
    )


def order_words_register(said: OrderWords) -> None:
    """Let the storey that knows what a command buys say so in its question: the amount, and what policies
    judge it by."""
    if said not in _words:
        _words.append(said)


def gate_ask(command: Command, closed: Mapping[str, str]) -> Approval:
    """Ask people about a command that waits: its team, else anybody with the right to decide."""
    question = _question(command, list(closed), "; ".join(closed.values()))
    return approval_open(question=question, requested_by=asker_of("command", command.pk), opened_by=SYSTEM)


def _kind(gates: Collection[str]) -> str:
    """Of which kind the question at these gates is."""
    return STOPPED if GATE in gates else KIND


def _question(command: Command, gates: list[str], why: str) -> Question:
    kind = _kind(gates)
    labels = ", ".join(gate_label(name) for name in gates)
    seller = command.seller.name if command.seller else ""
    what = command.kind.replace("_", " ")
    evidence: dict[str, Any] = {
        "command": what,
        "seller": seller,
        "gates": gates,
        "passes": gates_passes(command, gates),
        "why": why,
        "attempt": "repeated" if command.repeated else "first",
        "key": command.key,
        **{name: str(value) for name, value in command.result.items()},
    }
    question = Question(
        kind=kind,
        team=command.team,
        title=f"{labels}: {what} {seller}".strip(),
        subject_type="command",
        subject_id=command.pk,
        subject_version=command.gate_round,
        evidence=evidence,
        policy=f"{labels}, {'two approvers' if kind == STOPPED else 'one approver'}",
        quorum=2 if kind == STOPPED else 1,
    )
    for said in _words:
        question = said(command, question)
    return question


def _question_again(approval: Approval) -> Question:
    """About the same gates: one that has opened since is passed by all, one that has closed since holds. Why
    they were closed stands in the question alone: gates say it otherwise from one minute to the next."""
    command = Command.objects.select_related("seller", "team").get(pk=approval.subject_id)
    again = _question(command, approval.evidence["gates"], approval.evidence["why"])
    shown = set(_passes(approval))
    passed = shown >= set(again.evidence["passes"])  # a turn that was let go since takes nothing away
    return replace(again, evidence={**again.evidence, "passes": sorted(shown)}) if passed else again


def _passes(approval: Approval) -> list[str]:
    """What the question's approval is kept as; of one from before that was named, its gates."""
    passes: list[str] = approval.evidence.get("passes", approval.evidence["gates"])
    return passes


def gate_question(command: Command) -> Approval | None:
    """The open question about a command that waits."""
    asked = Approval.objects.filter(kind__in=_KINDS, subject_type="command", subject_id=command.pk)
    return asked.filter(status=ApprovalStatus.OPEN).first() if command.waiting_since else None


def gate_questions(keys: Collection[str]) -> dict[str, Approval]:
    """The open questions about those of the commands with these keys that wait, by key."""
    rows = Command.objects.filter(key__in=keys, waiting_since__isnull=False)
    waiting = dict(rows.values_list("pk", "key"))
    asked = Approval.objects.filter(kind__in=_KINDS, subject_type="command", subject_id__in=waiting)
    return {waiting[one.subject_id]: one for one in asked.filter(status=ApprovalStatus.OPEN)}


def gate_refusal(command: Command) -> Approval | None:
    """The question about a command that a person answered with no."""
    asked = Approval.objects.filter(kind__in=_KINDS, subject_type="command", subject_id=command.pk)
    return asked.filter(status=ApprovalStatus.REJECTED).last()


def gate_passed(command: Command) -> None:
    """A locked command is past its gates: what a person said held for this attempt, whatever gates there were
    to it, and nobody is asked."""
    waited = command.waiting_since is not None
    if command.overrides or waited:
        command.overrides, command.waiting_since = [], None
        command.save(update_fields=["overrides", "waiting_since"])
    if waited:
        questions_withdraw("command", command.pk, kinds=_KINDS, reason=_OPEN_AGAIN)


def gates_ask_again() -> int:
    """Let go on what waits at gates that have opened by themselves; the longest unasked first. Answers how
    many went on."""
    waiting = Command.objects.filter(waiting_since__isnull=False).exclude(pk__in=held_back(_WORK))
    ids = waiting.order_by("asked_at").values_list("pk", flat=True)[:_AT_ONCE]
    return each_row(_WORK, ids, _ask_again)


@transaction.atomic
def _ask_again(command_id: uuid.UUID) -> bool:
    # The question's lock first, as where a person decides it.
    asked = Approval.objects.filter(
        kind__in=_KINDS, subject_type="command", subject_id=command_id, status=ApprovalStatus.OPEN
    )
    approval = asked.select_for_update(no_key=True, skip_locked=True).first()
    command = _held(command_id)
    if command is None or command.waiting_since is None or (approval is None and asked.exists()):
        return False
    if adapter_of(command).ended(command):
        command_withdraw(command, reason=_ENDED, user=SYSTEM, refused=command.executed_at is None)
        _withdraw_question(approval, _ENDED)
        return False
    command.asked_at = clock.now()
    command.save(update_fields=["asked_at"])
    closed = gates_closed(command, repeated=command.repeated)
    if approval is not None and closed and _kind(closed) != approval.kind:
        _ask_of_others(command, approval, closed)
    if closed or not _goes_on(command):
        return False
    _withdraw_question(approval, _OPEN_AGAIN)
    return True


def _ask_of_others(command: Command, approval: Approval, closed: Mapping[str, str]) -> None:
    """The kill switch was turned while another gate is closed: to pass takes other people than were asked,
    and what they read of it is not so any more."""
    _round_begin(command)
    reason = _LET_GO if approval.kind == STOPPED else _TURNED_ON
    approval_ask_again(approval=approval, reason=reason, ask=lambda: gate_ask(command, closed))


def _goes_on(command: Command) -> bool:
    """Whether what waited could go on; where its seller is off, it waits for that."""
    try:
        with transaction.atomic():
            decided(command, Code.REOPENED, user=SYSTEM)
            _go_on(command)
    except EffectRefusedNowError:
        return False
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


def command_withdraw(command: Command, *, reason: str, user: str, refused: bool = True) -> None:
    """A locked command is not to be had (again): one that was executed is not sent again either. `refused`:
    somebody wants it so; else it only needs not to be asked about any more."""
    command.waiting_since, command.overrides = None, []
    command.save(update_fields=["waiting_since", "overrides"])
    decided(command, Code.REFUSED, note=reason, user=user)
    is_over = adapter_of(command).withdraw(command, reason=reason, actor=user)
    if refused and is_over:
        command.refused_at, command.refused_why = clock.now(), reason
        command.save(update_fields=["refused_at", "refused_why"])


def _apply(approval: Approval, outcome: Outcome) -> None:
    command = Command.objects.select_related("seller", "team").select_for_update(of=("self",), no_key=True)
    held = command.get(pk=approval.subject_id)
    if held.waiting_since is None or held.gate_round != approval.subject_version:
        return
    named = dict.fromkeys(approval.evidence["gates"], approval.evidence["why"])
    if outcome.answer == "approved":
        held.overrides = sorted({*held.overrides, *_passes(approval)})
        decided(held, Code.OVERRIDDEN, gates=named, note=outcome.comment, user=outcome.actor)
        _go_on(held)
    elif outcome.answer == "rejected":
        command_withdraw(held, reason=outcome.comment, user=outcome.actor)
    else:
        _ask_once_more(held)


def _round_begin(command: Command) -> None:
    """It waits anew, under a question of its own: what people let pass before is asked about again."""
    command.gate_round += 1
    command.overrides = []
    command.save(update_fields=["gate_round", "overrides"])


def _ask_once_more(command: Command) -> None:
    closed = gates_closed(command, repeated=command.repeated)
    if not closed:
        _go_on(command)
        return
    _round_begin(command)
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
    if approval.kind not in _KINDS or approval.status != ApprovalStatus.VOIDED:
        return
    command = _held(approval.subject_id)
    if command is not None and command.waiting_since is not None and gate_question(command) is None:
        command_withdraw(command, reason=_ENDED, user=approval_ended_by(approval))
