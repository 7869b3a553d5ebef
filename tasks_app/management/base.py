"""What Flightdeck's commands share: `--json`, exit codes, and output that a seller's words cannot upset."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError, OperationalError

from tasks_app.installation import start_lacks
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.refusals import refusal_of
from tasks_app.people.models import User

FOUND = 1
REFUSED = 2
_EXIT_CODES = "Exit code 0: done; 2: refused or impossible, and nothing was done."


def refuse(why: str) -> NoReturn:
    """End with exit code 2: bad input, or it may not be done. Raises CommandError."""
    raise CommandError(shown(why), returncode=REFUSED)


class DeskCommand(BaseCommand):
    """A thin shell over one service. Subclasses have `arguments(parser)` and `run(**options)`.

    With --json standard output holds exactly one JSON object, also for a refusal: {"error": …}.
    """

    requires_system_checks = ()
    exit_codes = _EXIT_CODES
    whole = True  # whether it needs an installation that nothing is lacking of
    _a_process = False

    def run_from_argv(self, argv: list[str]) -> None:
        self._a_process = True
        super().run_from_argv(argv)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, epilog=self.exit_codes, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
        self.arguments(parser)

    def arguments(self, parser: CommandParser) -> None:
        """The command's own arguments."""

    def run(self, **options: Any) -> None:
        """What the command does. Raises CommandError."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json: bool = options["json"]
        self._answered = False
        try:
            for lack in start_lacks() if self._a_process and self.whole else ():
                refuse(lack)
            self.run(**options)
        except OperationalError as error:
            told = f"The database did not answer: {error}\n{settings.CONNECTION_HINT()}".strip()
            self._refused(CommandError(told, returncode=REFUSED))
        except CommandError as error:
            self._refused(error)
        except (TransitionError, DatabaseError) as error:
            refused = refusal_of(error)
            if refused is None:
                raise
            self._refused(CommandError(shown(str(refused)), returncode=REFUSED))

    def answer(self, data: dict[str, Any], lines: Iterable[str]) -> None:
        """Print `data` with --json, else the lines. Once, before any `found` or `refuse`."""
        self._answered = True
        if self.as_json:
            self.stdout.write(json.dumps(data, cls=DjangoJSONEncoder))
            return
        for line in lines:
            self.stdout.write(shown(line))

    def found(self, why: str) -> NoReturn:
        """End with exit code 1, after the answer was printed. Raises CommandError."""
        raise CommandError(shown(why), returncode=FOUND)

    def _refused(self, error: CommandError) -> NoReturn:
        if self.as_json and not self._answered:
            self.stdout.write(json.dumps({"error": str(error)}))
        raise error


def shown(text: str) -> str:
    """Return ``text`` for a terminal: plain spaces, and "?" for control characters and escapes."""
    plain = text.replace("\N{NO-BREAK SPACE}", " ")
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in plain)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Aligned columns, a row per line."""
    every = [tuple(heads), *(tuple(cell.replace("\n", " ") for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in every
    ]


def login_named(username: str) -> User:
    """The login of that name, switched off or not. Raises CommandError (2)."""
    return User.objects.filter(username=username).first() or refuse(f"There is no user {username!r}.")


def user_named(username: str) -> User:
    """The login of that name, who may act. Raises CommandError (2)."""
    user = login_named(username)
    if not user.is_active:
        refuse(f"The user {username!r} is switched off.")
    return user


def read_file(name: str, *, limit: int, stdin: Any) -> bytes:
    """A file's bytes, `-`: standard input's; never more than `limit` + 1 of them. Raises CommandError (2)."""
    try:
        if name == "-":
            return bytes(stdin.buffer.read(limit + 1))
        with Path(name).open("rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        refuse(f"{name} cannot be read: {error.strerror or error}")
