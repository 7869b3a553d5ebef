"""`manage.py verify_audit`: the whole trail against its hashes and against what is stored."""

from __future__ import annotations

from typing import Any

from tasks_app.lifecycle.verify import entity_models, verify_all
from tasks_app.management.base import DeskCommand

_SHOWN = 100


class Command(DeskCommand):
    help = "Verifies every entity's audit trail: bytes, hashes, order, and the status it replays to."
    exit_codes = "Exit code 0: the trail holds; 1: it does not, the first hundred places are printed."

    def run(self, **options: Any) -> None:
        checked, entries = 0, 0
        broken: list[dict[str, str]] = []
        for entity in sorted(entity_models()):
            for pk, verification in verify_all(entity):
                checked, entries = checked + 1, entries + verification.entries
                if not verification.ok:
                    broken.append({"entity": entity, "id": str(pk), "problem": verification.problem})
        shown = broken[:_SHOWN]
        self.answer(
            {
                "ok": not broken,
                "entities": checked,
                "entries": entries,
                "broken": len(broken),
                "problems": shown,
            },
            [
                *(f"{found['entity']} {found['id']}: {found['problem']}" for found in shown),
                f"{entries} entries of {checked} entities, {len(broken)} trails broken.",
            ],
        )
        if broken:
            self.found(f"The trail of {len(broken)} entities does not hold.")
