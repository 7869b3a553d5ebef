"""Reads of sessions and turns."""

from __future__ import annotations

import uuid
from typing import Any

from tasks_app.approvals.models import Approval
from tasks_app.assistant.governance import current_mode
from tasks_app.assistant.models import AssistantProposal, AssistantTurn


def turn_data(turn_id: uuid.UUID) -> dict[str, Any]:
    """Return a turn as `manage.py ask --json` and the REST API show it.

    `steps` have `state`, `duration_ms`, `tool` and `arguments`; a step that ran several tools is listed once
    for each. `table` and `links` are those of the last tool. `approval` of a
    proposal is null until it is confirmed.
    """
    turn = AssistantTurn.objects.select_related("session").get(pk=turn_id)
    last = turn.tool_calls.order_by("-id").first()
    result: dict[str, Any] = (last.result if last else None) or {}
    return {
        "table": result.get("table"),
        "links": result.get("links", []),
        "reply": turn.reply,
        "session_id": str(turn.session_id),
        "turn_id": str(turn.pk),
        "trace_id": turn.trace_id,
        "status": turn.status,
        "waits_for_turns": turns_before(turn) if turn.ended_at is None else 0,
        "steps": _steps(turn),
        "proposals": [proposal_data(one) for one in turn.proposals.all()],
        "mode": str(current_mode(turn.session_id)),
        "error": turn.error or None,
    }


def turns_before(turn: AssistantTurn) -> int:
    """Return how many earlier turns of the session have to end before this one starts."""
    earlier = AssistantTurn.objects.filter(session_id=turn.session_id, number__lt=turn.number)
    return earlier.filter(ended_at__isnull=True).count()


def _steps(turn: AssistantTurn) -> list[dict[str, Any]]:
    """Return the steps; each tool stands where it ran."""
    calls = list(turn.tool_calls.all())
    shown: list[dict[str, Any]] = []
    for step in turn.steps.filter(stale=False):
        ran = []
        if step.state == "tool_execution":
            ran = [call for call in calls if call.ended_at and call.ended_at <= step.at]
            calls = [call for call in calls if call not in ran]
        for call in ran:
            shown.append(
                {
                    "state": step.state,
                    "tool": call.tool,
                    "arguments": call.arguments,
                    "duration_ms": call.duration_ms,
                    "error": call.error or None,
                }
            )
        if not ran:
            shown.append(
                {"state": step.state, "tool": None, "arguments": None, "duration_ms": step.duration_ms}
            )
    return shown


def proposal_data(proposal: AssistantProposal) -> dict[str, Any]:
    """Return a proposal as the command and the REST API show it. `approval` is the newest one's reference."""
    newest = Approval.objects.filter(pk__in=proposal.approvals[-1:]).values_list("reference", flat=True)
    return {
        "id": str(proposal.pk),
        "summary": proposal.summary,
        "approval": newest.first(),
        "confirmed_at": proposal.confirmed_at,
        "dismissed_at": proposal.dismissed_at,
        "error": proposal.error or None,
    }
