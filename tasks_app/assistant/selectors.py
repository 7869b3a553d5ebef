"""Reads of sessions and turns."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db.models import QuerySet

from tasks_app.approvals.models import Approval
from tasks_app.assistant.governance import current_mode
from tasks_app.assistant.models import AssistantProposal, AssistantSession, AssistantToolCall, AssistantTurn
from tasks_app.assistant.types import TERMINAL, Mode, TaskState
from tasks_app.lifecycle.names import EntityName, names_of
from tasks_app.people.models import User

#: The stream shows no more of a reply that is being written; the whole reply comes with the turn.
LONGEST_PARTIAL = 8000
_MOST_TURNS = 20


def own_sessions(user: User) -> QuerySet[AssistantSession]:
    """Return a person's sessions without their messages, the last used first."""
    return AssistantSession.objects.filter(user=user).defer("messages")


def own_turns(user: User) -> QuerySet[AssistantTurn]:
    """Return a person's turns, the newest first."""
    return AssistantTurn.objects.filter(session__user=user)


def turn_data(turn_id: uuid.UUID) -> dict[str, Any]:
    """Return a turn as the command, the REST API and the panel show it.

    `steps` have `state`, `duration_ms`, `tool`, `arguments` and `error`; a step that ran several tools is
    listed once for each. `table`, `links` and `quoted` (text of sellers and briefs, by name) are those of the
    last tool.
    """
    turns = list(_with_details(AssistantTurn.objects.filter(pk=turn_id)))
    return _turns_data(turns, current_mode(turns[0].session_id))[0]


def session_turns(session: AssistantSession, mode: Mode) -> list[dict[str, Any]]:
    """Return the 20 newest turns of a session, the oldest first, as `turn_data` does."""
    newest = _with_details(session.turns.order_by("-number"))[:_MOST_TURNS]
    return _turns_data([*reversed(newest)], mode)


def turns_before(turn: AssistantTurn) -> int:
    """Return how many earlier turns of the session have to end before this one starts."""
    earlier = AssistantTurn.objects.filter(session_id=turn.session_id, number__lt=turn.number)
    return earlier.filter(ended_at__isnull=True).count()


def proposal_data(proposal: AssistantProposal) -> dict[str, Any]:
    """Return a proposal.

    `approval` is the reference of its newest approval; null until it is confirmed, or if there is none.
    `subject` is the object that it is about, or that its confirmation made.
    """
    return _proposals_data([proposal])[proposal.pk]


def turn_signs(turn_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return what the stream of each turn shows now: its status and the reply so far, as JSON."""
    turns = AssistantTurn.objects.filter(pk__in=turn_ids).values_list("pk", "status", "partial")
    return {
        pk: json.dumps({"status": status, "partial": partial[:LONGEST_PARTIAL]})
        for pk, status, partial in turns
    }


def is_last_turn_sign(sign: str) -> bool:
    """Return whether the turn has ended."""
    return bool(sign) and json.loads(sign)["status"] in TERMINAL


def _with_details(turns: QuerySet[AssistantTurn]) -> QuerySet[AssistantTurn]:
    return turns.defer("messages").prefetch_related("steps", "tool_calls", "proposals")


def _turns_data(turns: Sequence[AssistantTurn], mode: Mode) -> list[dict[str, Any]]:
    proposals = _proposals_data([proposal for turn in turns for proposal in turn.proposals.all()])
    return [_turn_data(turn, mode, proposals) for turn in turns]


def _turn_data(
    turn: AssistantTurn, mode: Mode, proposals: Mapping[uuid.UUID, dict[str, Any]]
) -> dict[str, Any]:
    calls = list(turn.tool_calls.all())
    result: dict[str, Any] = (calls[-1].result if calls else None) or {}
    return {
        "question": turn.question,
        "reply": turn.reply,
        "partial": turn.partial,
        "table": result.get("table"),
        "links": result.get("links", []),
        "quoted": result.get("quoted_untrusted_text", {}),
        "session_id": str(turn.session_id),
        "turn_id": str(turn.pk),
        "trace_id": turn.trace_id,
        "status": turn.status,
        "waits_for_turns": turns_before(turn) if turn.ended_at is None else 0,
        "steps": _steps(turn, calls),
        "proposals": [proposals[one.pk] for one in turn.proposals.all()],
        "mode": str(mode),
        "error": turn.error or None,
    }


def _proposals_data(proposals: Collection[AssistantProposal]) -> dict[uuid.UUID, dict[str, Any]]:
    """Return each proposal's data by its id."""
    newest = {one.pk: one.approvals[-1] for one in proposals if one.approvals}
    approvals = Approval.objects.filter(pk__in=newest.values()) if newest else ()
    references = {str(approval.pk): approval.reference for approval in approvals}
    subjects: dict[str, set[uuid.UUID]] = defaultdict(set)
    for one in proposals:
        if one.subject_id:
            subjects[one.subject_type].add(one.subject_id)
    named = {pk: name for kind, ids in subjects.items() for pk, name in names_of(kind, ids).items()}
    return {
        one.pk: {
            "id": str(one.pk),
            "summary": one.summary,
            "approval": references.get(newest.get(one.pk, "")),
            "approval_id": newest.get(one.pk),
            "subject": _subject(named.get(one.subject_id) if one.subject_id else None),
            "confirmed_at": one.confirmed_at,
            "dismissed_at": one.dismissed_at,
            "error": one.error or None,
        }
        for one in proposals
    }


def _subject(name: EntityName | None) -> dict[str, str] | None:
    return {"reference": name.reference, "url": name.link} if name else None


def _steps(turn: AssistantTurn, calls: list[AssistantToolCall]) -> list[dict[str, Any]]:
    """Return the steps; each tool stands where it ran."""
    shown: list[dict[str, Any]] = []
    for step in turn.steps.all():
        if step.stale:
            continue
        ran = []
        if step.state == TaskState.TOOL_EXECUTION:
            ran = [call for call in calls if call.ended_at and call.ended_at <= step.at]
            calls = [call for call in calls if call not in ran]
        shown += [_step(step.state, call.duration_ms, call) for call in ran]
        if not ran:
            shown.append(_step(step.state, step.duration_ms))
    return shown


def _step(state: str, duration_ms: int, call: AssistantToolCall | None = None) -> dict[str, Any]:
    return {
        "state": state,
        "tool": call.tool if call else None,
        "arguments": call.arguments if call else None,
        "duration_ms": duration_ms,
        "error": (call.error or None) if call else None,
    }
