"""A process of its own that relays: `relaying.py FILE die|hang|go SEQ`.

Its subscriber `filed` appends each event it was handed to FILE. At the first event of that seq it dies by
SIGKILL, or hangs, after the line is written and before anybody learns that it was.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

import django


def main() -> None:
    path, what, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
    django.setup()
    from tasks_app.events.bus import subscribe
    from tasks_app.events.relay import Relay

    def file(event: Any) -> None:
        line = json.dumps([event.entity_type, str(event.entity_id), event.seq]) + "\n"
        with open(path, "a") as lines:  # noqa: PTH123 (one write, one line)
            lines.write(line)
        if event.seq == at and what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if event.seq == at and what == "hang":
            threading.Event().wait()

    subscribe("filed", ["deal.*"], file)
    with Relay():
        sys.stdin.read()


if __name__ == "__main__":
    main()
