"""`manage.py kill_switch on|off|status`: stop new commands, of one team or of all, or let them go on."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from tasks_app.commands.kill_switch import KillSwitchRefusedError, kill_switch_set, stops
from tasks_app.management.base import DeskCommand, refuse, user_named
from tasks_app.people.actors import SYSTEM
from tasks_app.people.models import Team


class Command(DeskCommand):
    help = "Stops new commands (purchases, changes, cancellations, messages); reads and polls go on."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("turn", choices=["on", "off", "status"])
        parser.add_argument("--reason", default="", metavar="TEXT", help="why; kept, and told to people")
        parser.add_argument(
            "--team", default=None, metavar="NAME", help="this team alone; default: all teams"
        )
        parser.add_argument(
            "--as", dest="username", default="", metavar="USER", help="who turns it; default: the system"
        )

    def run(self, **options: Any) -> None:
        team = _team(options["team"])
        if options["turn"] != "status":
            actor = user_named(options["username"]) if options["username"] else SYSTEM
            try:
                kill_switch_set(on=options["turn"] == "on", reason=options["reason"], actor=actor, team=team)
            except KillSwitchRefusedError as error:
                refuse(str(error))
        now = stops()
        names = dict(Team.objects.filter(pk__in=list(now.teams)).values_list("pk", "name"))
        on = {str(names[pk]): why for pk, why in now.teams.items() if pk in names}
        self.answer(
            {"all_teams": now.everywhere, "teams": on},
            [
                f"all teams: {_words(now.everywhere)}",
                *(f"{name}: {_words(why)}" for name, why in sorted(on.items())),
            ],
        )


def _words(reason: str | None) -> str:
    return "off" if reason is None else f"ON, {reason}"


def _team(name: str | None) -> Team | None:
    """The team that is named; an empty name is no team, and never all of them. Raises CommandError (2)."""
    if name is None:
        return None
    return Team.objects.filter(name=name).first() or refuse(f"There is no team {name!r}.")
