"""Running turns: many at a time in one asyncio loop, each under a lease."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError

from tasks_app.assistant.clients.builtin import BuiltInPlanner
from tasks_app.assistant.errors import TurnLostError
from tasks_app.assistant.executor import execute_task_safe
from tasks_app.assistant.journal import TurnJournal
from tasks_app.assistant.leases import claim_turns, release_leases, renew_leases
from tasks_app.assistant.models import AssistantTurn
from tasks_app.assistant.ports import ModelClient, Ports
from tasks_app.assistant.threads import in_lease_thread, in_thread
from tasks_app.assistant.toolbox import UserToolbox
from tasks_app.assistant.types import (
    Channel,
    ExecutionContext,
    Message,
    Mode,
    OpenObject,
    OrchestratorResult,
    TaskState,
    ToolCall,
)

log = structlog.get_logger(__name__)
TICK_S = 0.2
_TROUBLE_PAUSE_S = 2.0


def model_client() -> ModelClient:
    """Return the client of the endpoint in the settings, or the built-in planner without one."""
    if not settings.ASSISTANT_URL:
        return BuiltInPlanner()
    from tasks_app.assistant.clients.openai_client import client_from_settings

    return client_from_settings()


class Runner:
    """Works on the turns that nobody else works on, until it is stopped."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client
        self._running: dict[uuid.UUID, asyncio.Task[None]] = {}  # by lease holder
        self._renew_at = 0.0

    async def run(self, is_stopped: Callable[[], bool]) -> None:
        """Claim and run turns until `is_stopped`; then give back the turns that are not finished."""
        try:
            while not is_stopped():
                try:
                    await self._tick()
                    await asyncio.sleep(TICK_S)
                except (InterfaceError, OperationalError) as error:
                    log.warning("assistant_without_database", error=str(error))
                    await asyncio.sleep(_TROUBLE_PAUSE_S)
        finally:
            await self._hand_back()

    async def _tick(self) -> None:
        free = settings.ASSISTANT_TURNS - len(self._running)
        for turn_id, holder in (await in_lease_thread(claim_turns, limit=free)).items() if free else ():
            self._running[holder] = asyncio.create_task(self._work(turn_id, holder))
        if time.monotonic() >= self._renew_at:
            self._renew_at = time.monotonic() + min(1.0, settings.ASSISTANT_LEASE_S / 3)
            for holder in await in_lease_thread(renew_leases, [*self._running]):
                if holder in self._running:
                    self._running[holder].cancel()

    async def _work(self, turn_id: uuid.UUID, holder: uuid.UUID) -> None:
        try:
            await run_turn(turn_id, holder, self._client)
        except (InterfaceError, OperationalError) as error:  # the turn goes on when its lease has run out
            log.warning("turn_interrupted", turn=str(turn_id), error=str(error))
        except Exception:
            log.exception("turn_broken", turn=str(turn_id))
        finally:
            self._running.pop(holder, None)

    async def _hand_back(self) -> None:
        holders, tasks = [*self._running], [*self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await in_lease_thread(release_leases, holders)


async def run_turn(turn_id: uuid.UUID, holder: uuid.UUID, client: ModelClient) -> OrchestratorResult | None:
    """Run a claimed turn from its last step to its end. Return None if it was stopped or taken over."""
    context = await in_thread(load_context, turn_id, holder, client)
    try:
        return await execute_task_safe(context)
    except TurnLostError:
        log.info("turn_lost", turn=str(turn_id))
        return None


async def answer_turn(turn: AssistantTurn, client: ModelClient) -> None:
    """Run a turn, and the earlier ones of its session, in this process, or wait while another one does."""
    open_turns = AssistantTurn.objects.filter(pk=turn.pk, ended_at__isnull=True)
    while await in_thread(open_turns.exists):
        claimed = await in_lease_thread(claim_turns, limit=1, session_id=turn.session_id)
        renewing = asyncio.create_task(_renew_for_ever([*claimed.values()]))
        for turn_id, holder in claimed.items():
            await run_turn(turn_id, holder, client)
        renewing.cancel()
        if not claimed:
            await asyncio.sleep(TICK_S)


async def _renew_for_ever(holders: list[uuid.UUID]) -> None:
    while holders:
        await asyncio.sleep(settings.ASSISTANT_LEASE_S / 3)
        await in_lease_thread(renew_leases, holders)


def load_context(turn_id: uuid.UUID, holder: uuid.UUID, client: ModelClient) -> ExecutionContext:
    """Return the context of a turn as its last checkpoint stored it."""
    turn = AssistantTurn.objects.select_related("session__user").get(pk=turn_id)
    session = turn.session
    history: list[Message] = list(session.messages)
    toolbox = UserToolbox(turn_id=turn.pk, session_id=session.pk, user_id=session.user_id)
    return ExecutionContext(
        session_id=session.pk,
        trace_id=turn.trace_id,
        user_message=turn.question,
        mode=Mode.NORMAL,
        channel=Channel(session.channel),
        messages=[*history, *turn.messages],
        own_from=len(history),
        state=TaskState(turn.status),
        opened=_opened(turn),
        zone=session.user.time_zone,
        current_plan=turn.plan,
        final_reply=turn.reply,
        pending_calls=_pending(turn),
        ports=Ports(client=client, toolbox=toolbox, journal=TurnJournal(turn.pk, holder)),
    )


def _opened(turn: AssistantTurn) -> OpenObject | None:
    opened = turn.opened
    return OpenObject(kind=opened["kind"], reference=opened["reference"]) if opened else None


def _pending(turn: AssistantTurn) -> list[ToolCall]:
    """Return the calls that the model named last, if the turn is about to run them."""
    if turn.status != TaskState.TOOL_EXECUTION:
        return []
    return [
        ToolCall(
            id=call["id"],
            name=call["function"]["name"],
            arguments=json.loads(call["function"]["arguments"]),
        )
        for call in turn.messages[-1]["tool_calls"]
    ]
