#!/usr/bin/env python
"""Django's command-line entry point."""

import os
import sys

# What the application's role may not do, and does not need to.
OWNERS = {"migrate", "createsuperuser", "rotate_field_keys", "database_roles"}
# They change no row, and run also where the installation is not whole. Every other command is stopped there,
# ours by themselves (tasks_app.management.base).
CHANGE_NOTHING = {"check", "collectstatic", "diffsettings", "findstatic", "help", "makemigrations", "version"}
OURS = ("tasks_app", "campaigns", "orders")


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    command = "".join(sys.argv[1:2])
    if command == "worker":
        os.environ.setdefault("FLIGHTDECK_PAGES", "0")
    if command in OWNERS:
        os.environ.setdefault("FLIGHTDECK_DB_LOGIN", "owner")
    from django.conf import settings
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        if command not in CHANGE_NOTHING and not {"-h", "--help"} & set(sys.argv):
            _stop_where_lacking(command)
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        hint = settings.CONNECTION_HINT()
        if not hint:
            raise
        sys.exit(f"{error}\n{hint}")


def _stop_where_lacking(command: str) -> None:
    import django

    django.setup()
    from django.core.management import get_commands

    from tasks_app.installation import start_lacks

    if get_commands().get(command) in (None, *OURS):
        return
    for lack in start_lacks(as_owner=command in OWNERS):
        sys.exit(lack)


if __name__ == "__main__":
    main()
