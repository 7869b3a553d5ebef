#!/usr/bin/env python
"""Django's command-line entry point."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    if sys.argv[1:2] == ["worker"]:
        os.environ.setdefault("FLIGHTDECK_PAGES", "0")
    from django.conf import settings
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        hint = settings.CONNECTION_HINT()
        if not hint:
            raise
        sys.exit(f"{error}\n{hint}")


if __name__ == "__main__":
    main()
