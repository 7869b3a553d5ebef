"""`manage.py rotate_field_keys`: encrypt every encrypted column with the ring's first key."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from tasks_app.field_keys import field_keys_rotate
from tasks_app.management.base import DeskCommand, table


class Command(DeskCommand):
    help = (
        "Encrypts again, with the first key of FLIGHTDECK_FIELD_KEYS, what an older key encrypted. May be "
        "stopped and run again; once it rotates nothing, the old keys can go."
    )
    whole = False  # its ring may lack keys
    exit_codes = (
        "Exit code 0: everything is under the first key; 1: some values are under no key of the ring."
    )

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--give-up-lost",
            action="store_true",
            help="processes start although values are under a key that nobody has: they stay unreadable",
        )

    def run(self, **options: Any) -> None:
        done = field_keys_rotate(give_up_lost=options["give_up_lost"])
        counts = [
            (name, str(done.rotated[name]), str(done.current[name]), str(done.unreadable[name]))
            for name in done.rotated
        ]
        self.answer(
            {"rotated": done.rotated, "current": done.current, "unreadable": done.unreadable},
            table(("column", "rotated", "already", "unreadable"), counts),
        )
        lost = sum(done.unreadable.values())
        if lost:
            self.found(f"{lost} values cannot be read with any key of the ring: they were left as they are.")
