"""Reads of sessions and turns."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection
from typing import Any

from django.db.models import QuerySet

from tasks_app.approvals.models import Approval
from tasks_app.assistant.governance import current_mode
from tasks_app.assistant.models import AssistantProposal, AssistantSession, AssistantToolCall, AssistantTurn
from tasks_app.assistant.types import TERMINAL, TaskState
from tasks_app.people.models import User

#: The stream shows no more of a reply that is being written; the whole reply comes with the turn.
LONGEST_PARTIAL = 8000


def own_sessions(user: User) -> QuerySet[AssistantSession]:
    """Return a person's sessions, the last used first."""
    return AssistantSession.objects.filter(user=user)


def own_turns(user: User) -> QuerySet[AssistantTurn]:
    """Return a person's turns, the newest first."""
    return AssistantTurn.objects.filter(session__user=user)


def turn_data(turn_id: uuid.UUID) -> dict[str, Any]:
    """Return a turn as the command, the REST API and the panel show it.

    `steps` have `state`, `duration_ms`, `tool`, `arguments` and `error`; a step that ran several tools is
    listed once for each. `table`, `links` and `quoted` (text of sellers and briefs, by name) are those of the
    last tool.
    """
    turn = _with_details(AssistantTurn.objects.filter(pk=turn_id)).get()
    return _turn_data(turn, str(current_mode(turn.session_id)))


def session_turns(session: AssistantSession, *, limit: int = 20) -> list[dict[str, Any]]:
    """Return the newest turns of a session, the oldest first, as `turn_data` does."""
    mode = str(current_mode(session.pk))
    newest = _with_details(session.turns.order_by("-number"))[:limit]
    return [_turn_data(turn, mode) for turn in reversed(newest)]


def turns_before(turn: AssistantTurn) -> int:
    """Return how many earlier turns of the session have to end before this one starts."""
    earlier = AssistantTurn.objects.filter(session_id=turn.session_id, number__lt=turn.number)
    return earlier.filter(ended_at__isnull=True).count()


def proposal_data(proposal: AssistantProposal) -> dict[str, Any]:
    """Return a proposal. `approval` is the reference of its newest approval, null until it is confirmed."""
    newest = proposal.approvals[-1:]
    approval = Approval.objects.filter(pk__in=newest).values_list("reference", flat=True).first()
    return {
        "id": str(proposal.pk),
        "summary": proposal.summary,
        "approval": approval,
        "approval_id": newest[0] if approval else None,
        "confirmed_at": proposal.confirmed_at,
        "dismissed_at": proposal.dismissed_at,
        "error": proposal.error or None,
    }


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
    return turns.select_related("session").prefetch_related("steps", "tool_calls", "proposals")


def _turn_data(turn: AssistantTurn, mode: str) -> dict[str, Any]:
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
        "proposals": [proposal_data(one) for one in turn.proposals.all()],
        "mode": mode,
        "error": turn.error or None,
    }


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
