"""`manage.py sweep`: one pass of sending, polling and deadlines."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync

from tasks_app.management.base import DeskCommand, table
from tasks_app.operations.sweep import sweep_once


class Command(DeskCommand):
    help = (
        "Sends and polls everything that is due now, waits for the answers, and declares what is overdue. "
        "Harmless beside running workers."
    )

    def run(self, **options: Any) -> None:
        counts = async_to_sync(sweep_once)().as_dict()
        self.answer(counts, table(("what", "how many"), [(name, str(n)) for name, n in counts.items()]))
