"""Reading commands and the kill switch: each person sees their teams', and what holds for all teams."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from tasks_app.commands.models import Command, KillSwitch
from tasks_app.people.models import User
from tasks_app.people.scope import visible


def commands_of(viewer: User) -> QuerySet[Command]:
    """What the viewer's teams had done outside, newest first."""
    return visible(Command.objects.select_related("seller", "team"), viewer).order_by("-id")


def kill_switch_turns(viewer: User) -> QuerySet[KillSwitch]:
    """Every turn that holds for the viewer's teams, newest first."""
    turns = KillSwitch.objects.select_related("team").order_by("-id")
    if viewer.is_superuser:
        return turns
    return turns.filter(Q(team__isnull=True) | Q(team__in=viewer.teams.all()))


def kill_switch_latest(viewer: User) -> list[KillSwitch]:
    """How it stands: the latest turn for all teams, and of each of the viewer's."""
    latest = kill_switch_turns(viewer).order_by("team_id", "-id").distinct("team_id")
    return sorted(latest, key=lambda turn: (turn.team is not None, str(turn.team or "")))
