"""`python -m tests.suite.teller HOW`: print what this process was started with, then end as HOW says."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    import django
    from django.conf import settings
    from django.db import connection

    django.setup()
    with connection.cursor() as cursor:
        cursor.execute("select current_database(), current_user")
        database, user = cursor.fetchone()
    how, *_ = sys.argv[1:]
    facts = {
        "argv": sys.argv[1:],
        "cwd": str(Path.cwd()),
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "input": sys.stdin.read() if how == "reads" else "",
        "word": os.environ.get("TELLER_WORD", ""),
        "lease_s": settings.STEP_LEASE_S,
        "database": database,
        "user": user,
    }
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
    if how == "ends":
        sys.exit(7)
    if how == "waits":
        time.sleep(600)


if __name__ == "__main__":
    main()
