"""`python -m tests.suite.teller HOW`: a program that tells what it is, and ends as it is told to."""

from __future__ import annotations

import json
import os
import sys
import time


def main() -> None:
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
        "cwd": os.getcwd(),
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "given": sys.stdin.read() if how == "reads" else "",
        "word": os.environ.get("TELLER_WORD", ""),
        "lease_s": settings.STEP_LEASE_S,
        "main": sys.modules["__main__"].__dict__["__name__"],
        "database": database,
        "user": user,
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
    }
    print(json.dumps(told), flush=True)
    match how:
        case "says":
            sys.exit("what went wrong")
        case "raises":
            raise RuntimeError("nobody expected this")
        case "ends":
            sys.exit(7)
        case "waits":
            time.sleep(600)
        case "interrupted":
            raise KeyboardInterrupt


if __name__ == "__main__":
    main()
