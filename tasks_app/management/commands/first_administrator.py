"""`manage.py first_administrator`: the one-time address of an empty installation."""

from __future__ import annotations

from typing import Any

from tasks_app.management.base import DeskCommand, refuse
from tasks_app.people.first_administrator import LoginExistsError, make_one_time_address


class Command(DeskCommand):
    help = (
        "Prints the address that makes the first administrator. It works once, within a day, as long as "
        "nobody has a login."
    )

    def run(self, **options: Any) -> None:
        try:
            address = make_one_time_address()
        except LoginExistsError:
            refuse("Somebody has a login already. Administrators add people in the admin.")
        self.answer({"address": address}, [address])
