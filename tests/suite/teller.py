"""`python -m tests.suite.teller HOW`: a program that tells what it is, and ends as it is told to."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path


def main() -> None:
    descriptors = sorted(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
    import django
    from django.conf import settings
    from django.db import connection

    django.setup()
    how, *_ = sys.argv[1:]
    with connection.cursor() as cursor:
        cursor.execute("select current_database(), current_user")
        database, user = cursor.fetchone()
    told = {
        "argv": sys.argv[1:],
        "cwd": str(Path.cwd()),
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "given": sys.stdin.read() if how == "reads" else "",
        "word": os.environ.get("TELLER_WORD", ""),
        "lease_s": settings.STEP_LEASE_S,
        "main": sys.modules["__main__"].__dict__["__name__"],
        "database": database,
        "user": user,
        "descriptors": descriptors,
        "drawn": random.random(),  # noqa: S311
    }
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    match how:
        case "says":
            sys.exit("what went wrong")
        case "raises":
            raise RuntimeError("nobody expected this")
        case "ends":
            sys.exit(7)
        case "waits":
            time.sleep(600)
        case "leaves":
            if not os.fork():
                os.closerange(0, 3)
                time.sleep(600)
        case "interrupted":
            raise KeyboardInterrupt


if __name__ == "__main__":
    main()
