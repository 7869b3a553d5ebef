"""The kill switch: stops new commands, and what of them has not left, of one team or of all.

Reads and polls go on. What it stopped waits at its gate: for the switch, or for a person who lets one pass.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction

from tasks_app import clock
from tasks_app.commands.gates import Gate, gate_register
from tasks_app.commands.models import Command, KillSwitch
from tasks_app.lifecycle.transitions import Who
from tasks_app.notifications.services import notify
from tasks_app.people.actors import SYSTEM, actor_key, actor_user
from tasks_app.people.models import Team
from tasks_app.people.roles import TURN_KILL_SWITCH
from tasks_app.people.scope import visible
from tasks_app.tracing import origin

GATE = "kill_switch"
_LONGEST = 500


class KillSwitchRefusedError(Exception):
    """The switch was not turned; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Stops:
    """Where the switch is on, with the reason: for all teams (None where it is off), and by team id."""

    everywhere: str | None
    teams: Mapping[uuid.UUID, str]

    def why(self, team_id: uuid.UUID | None) -> str:
        """Why commands of that team are stopped; empty while they are not."""
        if self.everywhere is not None:
            return f"The kill switch is on for all teams: {self.everywhere}"
        found = self.teams.get(team_id) if team_id else None
        return f"The kill switch is on for this team: {found}" if found is not None else ""


NO_STOPS = Stops(everywhere=None, teams={})


def register() -> None:
    """Called when the application starts."""
    gate_register(Gate(name=GATE, label="Kill switch", why_closed=_why_closed, always=True))


def stops() -> Stops:
    """Where commands are stopped at this moment; one query."""
    latest = KillSwitch.objects.order_by("team_id", "-id").distinct("team_id")
    on = [row for row in latest if row.on]
    return Stops(
        everywhere=next((row.reason for row in on if row.team_id is None), None),
        teams={row.team_id: row.reason for row in on if row.team_id is not None},
    )


@transaction.atomic
def kill_switch_set(*, on: bool, reason: str, actor: Who, team: Team | None = None) -> KillSwitch:
    """Turn the switch for `team`, or for all; kept with who and why, and told to those whom it stops.

    What waited goes on by itself soon after it is off. Raises KillSwitchRefusedError: no reason, no right,
    not the person's team, or it stands so already.
    """
    refused = kill_switch_refusal(on=on, reason=reason, actor=actor, team=team)
    if refused:
        raise KillSwitchRefusedError(refused)
    said = reason.strip()
    turned = KillSwitch.objects.create(
        team=team, on=on, reason=said, actor=actor_key(actor), request=origin(), at=clock.now()
    )
    notify(
        kind="kill_switch",
        title=f"The kill switch is {'on' if on else 'off'}: {team or 'all teams'}",
        body=f"{said} {'New commands wait; reads and polls go on.' if on else 'What waited goes on.'}",
        level="alarm" if on else "info",
        team=team,
        right="" if team else "tasks_app.view_operation",
        key=f"kill_switch:{turned.pk}",
    )
    return turned


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


def _why_closed(command: Command) -> str:
    return stops().why(command.team_id)
