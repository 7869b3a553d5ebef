"""The kill switch: stops new commands, and what of them has not left, of one team or of all.

Reads and polls go on. What it stopped waits at its gate: for the switch, or for a person who lets one pass.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from django.db import connection, transaction

from tasks_app import clock
from tasks_app.approvals.kinds import held_register
from tasks_app.commands.gates import Gate, gate_register
from tasks_app.commands.models import Command, KillSwitch
from tasks_app.desk import text
from tasks_app.desk.explain import Mover
from tasks_app.lifecycle.transitions import Who
from tasks_app.notifications.services import notify
from tasks_app.people.actors import SYSTEM, actor_key, actor_names, actor_user
from tasks_app.people.models import Team
from tasks_app.people.roles import TURN_KILL_SWITCH
from tasks_app.people.scope import visible
from tasks_app.tracing import origin, trace_id

GATE = "kill_switch"
_LONGEST = 500
_LOCK = 0xF117_5709


class KillSwitchRefusedError(Exception):
    """The switch was not turned; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Stops:
    """The turns that stop something: by team id, None for all teams."""

    turns: Mapping[uuid.UUID | None, KillSwitch]

    @property
    def everywhere(self) -> str | None:
        """Why it is on for all teams; None where it is not."""
        return self.turns[None].reason if None in self.turns else None

    @property
    def teams(self) -> dict[uuid.UUID, str]:
        """Team id to why it is on for that team."""
        return {team_id: turn.reason for team_id, turn in self.turns.items() if team_id is not None}

    def turn(self, team_id: uuid.UUID | None) -> KillSwitch | None:
        """The turn that stops commands of that team; None while they go."""
        return self.turns.get(None) or (self.turns.get(team_id) if team_id else None)

    def all_of(self, team_id: uuid.UUID | None) -> list[KillSwitch]:
        """Every turn that stops commands of that team."""
        return [turn for of, turn in self.turns.items() if of is None or of == team_id]

    def why(self, team_id: uuid.UUID | None) -> str:
        """Why commands of that team are stopped; empty while they are not."""
        turn = self.turn(team_id)
        whose = "this team" if turn and turn.team_id else "all teams"
        return f"The kill switch is on for {whose}: {turn.reason}" if turn else ""

    def words(self, team_id: uuid.UUID | None) -> str:
        """Stopped by Ada Okafor, Sat 21 Nov, 09:12: reason; empty while nothing is stopped."""
        turn = self.turn(team_id)
        return stopped_words(turn) if turn else ""


_turned: list[Callable[[KillSwitch], None]] = []
NO_STOPS = Stops(turns={})
_shown: ContextVar[tuple[str, Stops] | None] = ContextVar("stops_shown", default=None)


def register() -> None:
    """Called when the application starts."""
    gate = Gate(
        name=GATE,
        label="Kill switch",
        why_closed=_why_closed,
        always=True,
        closings=_closings,
        opens=lambda _command: [Mover(right=TURN_KILL_SWITCH, does="let the kill switch go")],
    )
    gate_register(gate)
    held_register(_held)


def on_turned(listener: Callable[[KillSwitch], None]) -> None:
    """Call `listener(turn)` in the commit of every turn."""
    if listener not in _turned:
        _turned.append(listener)


def stops() -> Stops:
    """Where commands are stopped at this moment; one query."""
    latest = KillSwitch.objects.order_by("team_id", "-turn").distinct("team_id")
    return Stops(turns={turn.team_id: turn for turn in latest if turn.on})


def stops_shown() -> Stops:
    """The same for words on a page: read once in a request, however many of its parts ask. Nothing is let go
    or held by it."""
    request, known = trace_id(), _shown.get()
    if request and known is not None and known[0] == request:
        return known[1]
    found = stops()
    _shown.set((request, found))
    return found


def stopped_words(turn: KillSwitch) -> str:
    """Who stopped it, when (by the viewer's clock) and why, in a sentence without its full stop."""
    return _stopped(turn, text.moment(turn.at))


def _stopped(turn: KillSwitch, at: str) -> str:
    return f"Stopped by {actor_names({turn.actor})[turn.actor]}, {at}: {turn.reason}"


@transaction.atomic
def kill_switch_set(
    *, on: bool, reason: str, actor: Who, team: Team | None = None, seen: str | None = None
) -> KillSwitch:
    """Turn the switch for `team`, or for all; kept with who and why, and told to those whom it stops.

    What waited goes on by itself soon after it is off. `seen`: the number of the turn that is let go, which a
    person has read; another is not. Raises KillSwitchRefusedError: no reason, no right, not the person's
    team, it stands so already, or it was turned since.
    """
    with connection.cursor() as cursor:  # turns follow one another: each is judged by the one before
        cursor.execute("select pg_advisory_xact_lock(%s)", [_LOCK])
    refused = kill_switch_refusal(on=on, reason=reason, actor=actor, team=team)
    if refused:
        raise KillSwitchRefusedError(refused)
    if not on:
        _refuse_unread(stops().turns[team.pk if team else None], seen, actor)
    said = reason.strip()
    turned = KillSwitch.objects.create(
        team=team, on=on, reason=said, actor=actor_key(actor), request=origin(), at=clock.now()
    )
    for listener in _turned:
        listener(turned)
    _shown.set(None)
    notify(
        kind="kill_switch",
        title=f"The kill switch is {'on' if on else 'off'}: {team or 'all teams'}",
        body=f"{said} {'New commands wait; reads and polls go on.' if on else 'What waited goes on.'}",
        level="alarm" if on else "info",
        team=team,
        right="" if team else "tasks_app.view_operation",
        not_for=turned.actor,
        key=f"kill_switch:{turned.pk}",
    )
    return turned


def _refuse_unread(turn: KillSwitch, seen: str | None, actor: Who) -> None:
    """Nobody lets go what they have not read: somebody else may have stopped it since for another reason.
    Raises KillSwitchRefusedError."""
    if seen is None and actor_key(actor) == SYSTEM:
        return
    if seen != str(turn.turn):
        since = "It was turned again since" if seen else "Say which turn is let go"
        stopped = _stopped(turn, text.moment_kept(turn.at))  # also read off the API and a terminal
        raise KillSwitchRefusedError(f"{since}: turn {turn.turn} stands. {stopped}.")


def kill_switch_refusal(*, on: bool, reason: str, actor: Who, team: Team | None = None) -> str:
    """Why it cannot be turned so; empty when it can."""
    if not reason.strip() or len(reason.strip()) > _LONGEST:
        return f"Say why, in at most {_LONGEST} characters."
    key = actor_key(actor)
    user = actor_user(key)
    if key != SYSTEM and (user is None or not user.has_perm(TURN_KILL_SWITCH)):
        return "You have no right to turn the kill switch."
    if (
        user is not None
        and team is not None
        and not visible(Team.objects.all(), user, team="pk").filter(pk=team.pk)
    ):
        return "There is no such team among yours."
    now = stops()
    is_on = now.everywhere is not None if team is None else team.pk in now.teams
    return f"It is {'on' if on else 'off'} already." if is_on == on else ""


def _held() -> Callable[[uuid.UUID | None], str]:
    return stops_shown().words


def _why_closed(command: Command) -> str:
    return stops().why(command.team_id)


def _closings(command: Command) -> list[str]:
    """The numbers of the turns: who lets a command pass has read why it is stopped by these."""
    return [str(turn.turn) for turn in stops().all_of(command.team_id)]
