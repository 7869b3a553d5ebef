"""The journal of a turn: every step is one commit, made only while the turn is still ours."""

from __future__ import annotations

import asyncio
import uuid

import structlog
from django.db import transaction

from tasks_app import clock
from tasks_app.assistant.errors import TurnLostError
from tasks_app.assistant.governance import current_mode
from tasks_app.assistant.models import ASSISTANT, AssistantStep, AssistantToolCall, AssistantTurn
from tasks_app.assistant.sessions import SessionManager
from tasks_app.assistant.threads import in_thread
from tasks_app.assistant.turns import alert_operators, fail_turn
from tasks_app.assistant.types import TERMINAL, ExecutionContext, Mode, OrchestratorStep, TaskState
from tasks_app.lifecycle.transitions import transition

log = structlog.get_logger(__name__)
_STREAM_EVERY_S = 0.25


class TurnJournal:
    """The rows of one turn, written by the run that holds its lease."""

    def __init__(self, turn_id: uuid.UUID, holder: uuid.UUID) -> None:
        self._turn_id, self._holder = turn_id, holder
        self._text = ""
        self._writing: asyncio.Task[None] | None = None

    async def mode(self) -> Mode:
        """Return the strictest mode that holds now. Raise TurnLostError if the turn is not ours any more."""
        return await in_thread(self._mode)

    async def record(self, context: ExecutionContext, step: OrchestratorStep, to: TaskState) -> None:
        """Store a step and everything that it changed, and move the turn. Raise TurnLostError."""
        await self._stop_writing()
        await in_thread(self._record, context, step, to)

    async def abort(self, context: ExecutionContext, error: str) -> None:
        """End the turn as failed, if it is still ours, and tell operators."""
        await self._stop_writing()
        context.error = error
        await in_thread(self._abort, error)

    async def alert(self, what: str, trace_id: str) -> None:
        """Tell operators of a defect."""
        await in_thread(alert_operators, what, trace_id)

    def restart_stream(self) -> None:
        """Forget the pieces so far: the reply is written anew."""
        self._text = ""

    def stream(self, text: str) -> None:
        """Take a piece of the reply; what came so far is stored a few times a second."""
        self._text += text
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_soon())

    async def _write_soon(self) -> None:
        await asyncio.sleep(_STREAM_EVERY_S)
        await in_thread(self._write_partial, self._text)

    async def _stop_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        self._writing, self._text = None, ""

    def _write_partial(self, text: str) -> None:
        AssistantTurn.objects.filter(pk=self._turn_id, lease_holder=self._holder).update(partial=text)

    def _mode(self) -> Mode:
        turn = AssistantTurn.objects.filter(pk=self._turn_id, lease_holder=self._holder).first()
        if turn is None or turn.is_terminal:
            raise TurnLostError
        return current_mode(turn.session_id)

    def _record(self, context: ExecutionContext, step: OrchestratorStep, to: TaskState) -> None:
        with transaction.atomic():
            turn = AssistantTurn.objects.select_for_update(no_key=True).get(pk=self._turn_id)
            is_ours = turn.lease_holder == self._holder and not turn.is_terminal
            self._store_step(step, stale=not is_ours)
            if is_ours:
                _store(turn, context)
                _move(turn, context, to, span_id=step.span_id)
        if not is_ours:
            raise TurnLostError

    @transaction.atomic
    def _abort(self, error: str) -> None:
        turns = AssistantTurn.objects.select_for_update(no_key=True)
        turn = turns.filter(pk=self._turn_id, lease_holder=self._holder, ended_at__isnull=True).first()
        if turn is not None:
            alert_operators(f"a turn failed in the state {turn.status}", turn.trace_id)
            fail_turn(turn, error)

    def _store_step(self, step: OrchestratorStep, *, stale: bool) -> None:
        AssistantStep.objects.create(
            turn_id=self._turn_id,
            state=step.state,
            span_id=step.span_id,
            model_role=step.model_role or "",
            model=step.model[:120],
            duration_ms=step.duration_ms,
            tokens_used=step.tokens_used,
            stale=stale,
            at=clock.now(),
        )


def _store(turn: AssistantTurn, context: ExecutionContext) -> None:
    """Write the checkpoint's columns, and the tools that are to run next."""
    AssistantTurn.objects.filter(pk=turn.pk).update(
        messages=context.own_messages, plan=context.current_plan, reply=context.final_reply, partial=""
    )
    now = clock.now()
    AssistantToolCall.objects.bulk_create(
        [
            AssistantToolCall(
                turn=turn, call_id=call.id, tool=call.name[:60], arguments=dict(call.arguments), at=now
            )
            for call in context.pending_calls
        ],
        ignore_conflicts=True,
    )


def _move(turn: AssistantTurn, context: ExecutionContext, to: TaskState, *, span_id: str) -> None:
    ends = to in TERMINAL
    changes = {"error": context.error, "ended_at": clock.now()} if ends else {}
    metadata = {"span_id": span_id, "trace_id": turn.trace_id}
    if context.pending_calls:
        metadata["tools"] = ", ".join(call.name for call in context.pending_calls)
    transition(turn, to, actor=ASSISTANT, metadata=metadata, changes=changes)
    if ends:
        AssistantTurn.objects.filter(pk=turn.pk).update(lease_holder=None, lease_until=None)
        if to == TaskState.COMPLETED:
            messages = [
                {"role": "user", "content": context.user_message},
                {"role": "assistant", "content": context.final_reply},
            ]
            session = turn.session
            SessionManager(session.user).update_session(session.pk, [*session.messages, *messages])
