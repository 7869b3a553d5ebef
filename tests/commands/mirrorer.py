"""A process of its own that reads what is due from sellers: says "ready", begins when a line comes in."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

import django


def main() -> None:
    django.setup()
    from django.db import connection

    from orders.mirror import mirrors_refresh_due

    connection.ensure_connection()
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    print(mirrors_refresh_due(), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
