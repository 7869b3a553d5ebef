"""A process of its own that takes what is due: `claim` prints what it got, `sweep` makes the calls.

It says "ready" when it could begin, and begins when a line comes in.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

import django


def main() -> None:
    django.setup()
    from django.db import connection

    from tasks_app.operations.dispatch import claim_sends
    from tasks_app.operations.sweep import sweep_once

    connection.ensure_connection()
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    if sys.argv[1] == "sweep":
        asyncio.run(sweep_once())
        return
    taken = []
    while calls := claim_sends(limit=2, out=Counter()):
        taken += [str(call.operation_id) for call in calls]
    print(json.dumps(taken), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
