"""`manage.py kill_switch on|off|status`: stop new commands, of one team or of all, or let them go on."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from tasks_app.commands.kill_switch import KillSwitchRefusedError, kill_switch_set, stops
from tasks_app.commands.models import KillSwitch
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
            "--seen",
            default="",
            metavar="TURN",
            help="off: the number of the turn to let go, as `status` shows",
        )
        parser.add_argument(
            "--as", dest="username", default="", metavar="USER", help="who turns it; default: the system"
        )

    def run(self, **options: Any) -> None:
        team = _team(options["team"])
        if options["turn"] != "status":
            actor = user_named(options["username"]) if options["username"] else SYSTEM
            try:
                kill_switch_set(
                    on=options["turn"] == "on",
                    reason=options["reason"],
                    actor=actor,
                    team=team,
                    seen=options["seen"],
                )
            except KillSwitchRefusedError as error:
                refuse(str(error))
        now = stops().turns
        names = dict(Team.objects.filter(pk__in=[pk for pk in now if pk]).values_list("pk", "name"))
        on = {str(names[pk]): turn for pk, turn in now.items() if pk in names}
        everywhere = now.get(None)
        self.answer(
            {"all_teams": _data(everywhere), "teams": {name: _data(turn) for name, turn in on.items()}},
            [
                f"all teams: {_words(everywhere)}",
                *(f"{name}: {_words(turn)}" for name, turn in sorted(on.items())),
            ],
        )


def _data(turn: KillSwitch | None) -> dict[str, Any] | None:
    return {"turn": turn.turn, "reason": turn.reason} if turn else None


def _words(turn: KillSwitch | None) -> str:
    return "off" if turn is None else f"ON since turn {turn.turn}, {turn.reason}"


def _team(name: str | None) -> Team | None:
    """The team that is named; an empty name is no team, and never all of them. Raises CommandError (2)."""
    if name is None:
        return None
    return Team.objects.filter(name=name).first() or refuse(f"There is no team {name!r}.")
