"""Running tools for one user: checks first, reads side by side, every result recorded."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import structlog
from django.db import InternalError, connection, transaction
from django.utils import timezone

from tasks_app import clock
from tasks_app.assistant.errors import CriticalViolationError
from tasks_app.assistant.governance import (
    ToolNotAllowedError,
    check_call,
    current_mode,
    lock_session,
)
from tasks_app.assistant.models import AssistantProposal, AssistantToolCall
from tasks_app.assistant.threads import in_thread
from tasks_app.assistant.tools.registry import Effect, Link, Tool, ToolAnswer, ToolRefusedError, tools_offered
from tasks_app.assistant.types import ToolCall, ToolResult, ToolSpec
from tasks_app.days import zone_of
from tasks_app.desk.explain import explainers
from tasks_app.lifecycle.transitions import exact
from tasks_app.people.models import User

log = structlog.get_logger(__name__)
_LONGEST_READ_MS = 10_000
_READ_ONLY = "25006"  # PostgreSQL's code for a write in a read-only transaction
_FAILED = "The data could not be read. Operators find the reason in the log."


class UserToolbox:
    """The tools of one user in one turn."""

    def __init__(self, *, turn_id: uuid.UUID, session_id: uuid.UUID, user_id: uuid.UUID) -> None:
        self._turn_id, self._session_id, self._user_id = turn_id, session_id, user_id

    async def offered(self) -> Sequence[ToolSpec]:
        """Return the tools that the user's rights and the present mode allow."""
        return await in_thread(self._offered)

    async def run(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Run calls side by side and record each result. Raise CriticalViolationError."""
        return [*await asyncio.gather(*(in_thread(self.run_one, call) for call in calls))]

    def run_one(self, call: ToolCall) -> ToolResult:
        """Run one call unless its result is recorded already; record and return the result."""
        row = AssistantToolCall.objects.get(turn_id=self._turn_id, call_id=call.id)
        if row.ended_at is not None:
            return _recorded(call, row)
        began, refused = time.monotonic(), False
        try:
            user = User.objects.get(pk=self._user_id)
            tool, arguments = check_call(call, user=user, session_id=self._session_id)
            answer = _read(tool, user, arguments)
            result = ToolResult(call=call, content=_as_stored(answer))
            if tool.effect == Effect.PROPOSE:
                return self._propose(row, result, answer, began=began)
        except ToolNotAllowedError as error:
            result, refused = ToolResult(call=call, error=str(error)), True
        except ToolRefusedError as error:
            result = ToolResult(call=call, error=str(error))
        except CriticalViolationError as error:
            with transaction.atomic():
                self._end(row, ToolResult(call=call, error=str(error)), refused=True, began=began)
                lock_session(session_id=self._session_id, reason=str(error))
            raise
        except Exception:
            log.exception("tool_failed", tool=call.name)
            result = ToolResult(call=call, error=_FAILED)
        self._end(row, result, refused=refused, began=began)
        return result

    def _offered(self) -> list[ToolSpec]:
        user = User.objects.get(pk=self._user_id)
        return [tool.spec() for tool in tools_offered(user, current_mode(self._session_id))]

    @transaction.atomic
    def _propose(
        self, row: AssistantToolCall, result: ToolResult, answer: ToolAnswer, *, began: float
    ) -> ToolResult:
        """Store the proposal in the commit of the result; return the result with the proposal's id."""
        subject = answer.links[0] if answer.links else None
        proposal = AssistantProposal.objects.create(
            turn_id=self._turn_id,
            call=row,
            tool=row.tool,
            arguments=row.arguments,
            summary=answer.summary,
            subject_type=subject.kind if subject else "",
            subject_id=subject.id if subject else None,
            at=clock.now(),
        )
        result = replace(result, content={**result.content, "proposal": str(proposal.pk)})
        self._end(row, result, refused=False, began=began)
        return result

    def _end(self, row: AssistantToolCall, result: ToolResult, *, refused: bool, began: float) -> None:
        AssistantToolCall.objects.filter(pk=row.pk, ended_at__isnull=True).update(
            result=dict(result.content) or None,
            error=result.error,
            refused=refused,
            duration_ms=round((time.monotonic() - began) * 1000),
            ended_at=clock.now(),
        )


def _read(tool: Tool[Any], user: User, arguments: Any) -> ToolAnswer:
    """Run a tool in a read-only transaction. Raise CriticalViolationError if it wrote, or left the scope."""
    try:
        with timezone.override(zone_of(user.time_zone)), transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("set transaction read only")
                cursor.execute("set local statement_timeout = %s", [_LONGEST_READ_MS])
            answer = tool.run(user, arguments)
            transaction.set_rollback(True)
    except InternalError as error:
        if getattr(error.__cause__, "sqlstate", "") != _READ_ONLY:
            raise
        raise CriticalViolationError(f"The tool {tool.name} tried to write.") from error
    outside = _outside_scope(answer.links, user)
    if outside is not None:
        raise CriticalViolationError(
            f"The tool {tool.name} returned a {outside.kind} that {user} may not see."
        )
    return answer


def _as_stored(answer: ToolAnswer) -> dict[str, Any]:
    """Return an answer as JSON: dates and decimals as text, without characters that cannot be stored."""
    stored: dict[str, Any] = exact(answer.as_json(), floats=True)
    return stored


def _outside_scope(links: Sequence[Link], user: User) -> Link | None:
    """Return an object of the answer that the user may not see; unknown kinds count as such."""
    known = dict(explainers())
    for kind in {link.kind for link in links}:
        wanted = [link for link in links if link.kind == kind]
        explainer = known.get(kind)
        seen: set[uuid.UUID] = set()
        if explainer is not None and user.has_perm(explainer.right):
            ids = [link.id for link in wanted]
            seen = set(explainer.rows(user).order_by().filter(pk__in=ids).values_list("pk", flat=True))
        outside = next((link for link in wanted if link.id not in seen), None)
        if outside is not None:
            return outside
    return None


def _recorded(call: ToolCall, row: AssistantToolCall) -> ToolResult:
    return ToolResult(call=call, content=row.result or {}, error=row.error, duration_ms=row.duration_ms)
