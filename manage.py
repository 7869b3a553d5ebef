#!/usr/bin/env python
"""Django's command-line entry point."""

import os
import sys

# What the application's role may not do, and does not need to.
OWNERS = {"migrate", "createsuperuser", "rotate_field_keys", "database_roles"}
# Django's commands that make rows or tables, or serve; ours look by themselves (tasks_app.management.base).
LOOKED_AT = {"migrate", "createsuperuser", "runserver"}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    if sys.argv[1:2] == ["worker"]:
        os.environ.setdefault("FLIGHTDECK_PAGES", "0")
    if sys.argv[1:2] and sys.argv[1] in OWNERS:
        os.environ.setdefault("FLIGHTDECK_DB_LOGIN", "owner")
    from django.conf import settings
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        if sys.argv[1:2] and sys.argv[1] in LOOKED_AT and not {"-h", "--help"} & set(sys.argv):
            _stop_where_lacking(as_owner=sys.argv[1] in OWNERS)
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        hint = settings.CONNECTION_HINT()
        if not hint:
            raise
        sys.exit(f"{error}\n{hint}")


def _stop_where_lacking(*, as_owner: bool) -> None:
    import django

    django.setup()
    from tasks_app.installation import start_lacks

    for lack in start_lacks(as_owner=as_owner):
        sys.exit(lack)


if __name__ == "__main__":
    main()
