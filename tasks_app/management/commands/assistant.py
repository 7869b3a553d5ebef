"""`manage.py assistant`: the process that answers questions to the assistant."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from tasks_app.assistant.runner import Runner, model_client
from tasks_app.management.base import DeskCommand


class Command(DeskCommand):
    help = "Answers questions to the assistant until SIGTERM or Ctrl-C. Any number may run."

    def run(self, **options: Any) -> None:
        asyncio.run(_serve())
        self.answer({"stopped": True}, ["stopped; open questions go on elsewhere"])


async def _serve() -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await Runner(model_client()).run(stopped.is_set)
