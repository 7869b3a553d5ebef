"""Reading commands and the kill switch: each person sees their teams', and what holds for all teams."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from tasks_app.commands.kill_switch import stopped_words, stops_shown
from tasks_app.commands.models import Command, KillSwitch
from tasks_app.people.models import User
from tasks_app.people.scope import visible
from tasks_app.sellers.models import SELLER_HEAVY


def commands_of(viewer: User) -> QuerySet[Command]:
    """What the viewer's teams had done outside, newest first."""
    rows = Command.objects.select_related("seller", "team").defer(*SELLER_HEAVY)
    return visible(rows, viewer).order_by("-id")


def commands_stopped(viewer: User) -> QuerySet[Command]:
    """Those of the viewer's that wait at a gate."""
    return visible(Command.objects.filter(waiting_since__isnull=False), viewer)


def kill_switch_turns(viewer: User) -> QuerySet[KillSwitch]:
    """Every turn that holds for the viewer's teams, newest first."""
    turns = KillSwitch.objects.select_related("team").order_by("-turn")
    if viewer.is_superuser:
        return turns
    return turns.filter(Q(team__isnull=True) | Q(team__in=viewer.teams.all()))


def kill_switch_latest(viewer: User) -> list[KillSwitch]:
    """How it stands: the latest turn for all teams, and of each of the viewer's."""
    latest = kill_switch_turns(viewer).order_by("team_id", "-turn").distinct("team_id")
    return sorted(latest, key=lambda turn: (turn.team is not None, str(turn.team or "")))


def stopped_for(viewer: User) -> list[tuple[str, str]]:
    """(for whom, Stopped by …, when: why) of each turn that stops the viewer’s; all teams first."""
    on = [turn for turn in kill_switch_latest(viewer) if turn.on] if stops_shown().turns else []
    return [(str(turn.team or "All teams"), stopped_words(turn)) for turn in on]
