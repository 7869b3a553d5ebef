"""`python -m tests.assistant.crowd N`: answers N open turns, which all run at the same time.

Prints as JSON how many ran at once, how many were completed, and the process's resident memory in MB.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from typing import Any


def main(number: int) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    import psutil

    from tasks_app.assistant.clients.builtin import BuiltInPlanner
    from tasks_app.assistant.models import AssistantTurn
    from tasks_app.assistant.runner import Runner
    from tasks_app.assistant.types import TaskState

    class Waits(BuiltInPlanner):
        """Answers once all turns wait for it."""

        waiting = most = 0
        mb = 0.0

        async def respond(self, role: Any, messages: Sequence[Any], tools: Any, **how: Any) -> Any:
            self.waiting += 1
            while self.most < number:
                self.most = max(self.most, self.waiting)
                await asyncio.sleep(0.02)
            self.mb = max(self.mb, psutil.Process().memory_info().rss / 2**20)
            return await super().respond(role, messages, tools, **how)

    client = Waits()

    async def run() -> None:
        ended = asyncio.Event()

        async def watch() -> None:
            while await asyncio.to_thread(AssistantTurn.objects.filter(ended_at__isnull=True).exists):
                await asyncio.sleep(0.1)
            ended.set()

        await asyncio.gather(Runner(client).run(ended.is_set), watch())

    asyncio.run(run())
    completed = AssistantTurn.objects.filter(status=TaskState.COMPLETED).count()
    print(json.dumps({"running": client.most, "completed": completed, "mb": round(client.mb)}))  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]))
