"""`manage.py explain`: why anything stands as it does, as its page and the API tell."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from tasks_app import clock
from tasks_app.api.explain import explanation_data
from tasks_app.desk import text
from tasks_app.desk.explain import Explanation, NotExplainedError, explain
from tasks_app.management.base import DeskCommand, refuse, user_named
from tasks_app.people.models import User


class Command(DeskCommand):
    help = (
        "Tells of anything what state it is in, since when, what it waits for, who can move it, and what"
        " happens if nobody does."
    )

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "id", metavar="ID", help="a reference (DEAL-2026-000001), an id, or a seller's short name"
        )
        parser.add_argument(
            "--as",
            dest="username",
            default="",
            metavar="USER",
            help="as that person sees it (default: everything)",
        )

    def run(self, **options: Any) -> None:
        viewer = user_named(options["username"]) if options["username"] else _everything()
        try:
            told = explain(options["id"], viewer)
        except NotExplainedError as error:
            refuse(str(error))
        self.answer(explanation_data(told), _lines(told))


def _everything() -> User:
    """Whoever may run commands on the server reads the whole database; no row of a person is made for it."""
    return User(username="shell", is_superuser=True, is_active=True)


def _lines(told: Explanation) -> list[str]:
    since = f"since {text.moment(told.since)} ({_ago(told)})" if told.since else "since when is not recorded"
    return [
        f"{told.label} {told.reference or told.id}: {told.title}",
        f"State            {told.state_word} ({told.state}), {since}",
        f"Waiting for      {told.waiting_for}",
        f"Who can move it  {told.who_words}",
        f"If nobody does   {told.otherwise}",
        f"Times are in {timezone.get_current_timezone_name()}.",
    ]


def _ago(told: Explanation) -> str:
    return f"{text.duration(clock.now() - told.since)} ago" if told.since else ""
