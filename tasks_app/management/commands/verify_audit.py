"""`manage.py verify_audit`: the whole trail against its hashes, what is stored, and a kept anchor."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from tasks_app.lifecycle.anchor import Anchor, AnchorError, anchor_open
from tasks_app.lifecycle.anchor_keys import KeyFileError, key_path, public_key, public_path
from tasks_app.lifecycle.chain import Head
from tasks_app.lifecycle.verify import Found, verify_trail
from tasks_app.management.base import DeskCommand, refuse
from tasks_app.management.trail import entity_named, moment

_SHOWN = 100


class Command(DeskCommand):
    help = (
        "Verifies the audit trail: the stored bytes against their hashes and the columns, each entry against"
        " the one before, every move against the declared edges, and where the entries lead against what is"
        " stored."
    )
    exit_codes = (
        "Exit code 0: the trail holds; 1: it does not, the first hundred places are printed; 2: refused."
    )

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--entity", metavar="TYPE[:ID]", default="", help="only this kind, or this one")
        parser.add_argument("--since", metavar="TIME", default="", help="only what moved since (ISO 8601)")
        parser.add_argument(
            "--anchor", metavar="FILE", default="", help="an anchor or a proof to compare with"
        )
        parser.add_argument(
            "--anchor-key", metavar="PUB", default="", help="the public key you kept (default: this system's)"
        )

    def run(self, **options: Any) -> None:
        if options["since"] and options["anchor"]:
            refuse("An anchor is compared with whole trails: leave out --since or --anchor.")
        if options["anchor_key"] and not options["anchor"]:
            refuse("--anchor-key goes with --anchor.")
        kind, entity_id = entity_named(options["entity"]) if options["entity"] else ("", None)
        since = moment(options["since"]) if options["since"] else None
        anchor = _anchor(options["anchor"], options["anchor_key"]) if options["anchor"] else None
        heads = _Heads(anchor, kind, entity_id)
        checked = entries = missed = 0
        broken: list[Found] = []
        anchored = heads if anchor else ()
        for found in verify_trail(entity_type=kind, entity_id=entity_id, since=since, anchored=anchored):
            checked, entries = checked + 1, entries + found.verification.entries
            if not found.verification.ok:
                missed += 1
                if missed <= _SHOWN:
                    broken.append(found)
        if entity_id is not None and not checked:
            refuse(f"There is no {kind} {entity_id}, and no trail of one.")
        self._tell(checked, entries, missed, broken, anchor, heads.compared)
        if missed:
            self.found(f"The trail of {missed} entities does not hold.")

    def _tell(
        self,
        checked: int,
        entries: int,
        missed: int,
        broken: list[Found],
        anchor: Anchor | None,
        compared: int,
    ) -> None:
        data: dict[str, Any] = {
            "ok": not missed,
            "entities": checked,
            "entries": entries,
            "broken": missed,
            "problems": [_problem(found) for found in broken],
        }
        lines = [
            *(f"{found.entity_type} {found.entity_id}: {found.verification.problem}" for found in broken),
            f"{entries} entries of {checked} entities, {missed} trails broken.",
        ]
        if anchor is not None:
            data["anchor"] = {**anchor.statement.as_json(), "compared": compared}
            lines.append(f"Compared with {compared} heads anchored at {anchor.statement.at}.")
        self.answer(data, lines)


class _Heads:
    """The anchored heads of what is verified, and how many there were."""

    def __init__(self, anchor: Anchor | None, kind: str, entity_id: uuid.UUID | None) -> None:
        self._anchor, self._kind, self._entity_id = anchor, kind, entity_id
        self.compared = 0

    def __iter__(self) -> Iterator[Head]:
        for head in self._anchor.heads() if self._anchor else ():
            if self._kind not in ("", head.entity_type) or self._entity_id not in (None, head.entity_id):
                continue
            self.compared += 1
            yield head


def _anchor(name: str, key_name: str) -> Anchor:
    key_file = Path(key_name) if key_name else public_path(key_path())
    try:
        return anchor_open(Path(name), key=public_key(key_file))
    except AnchorError as error:
        refuse(f"{name} is not to be trusted: {error}.")
    except KeyFileError as error:
        refuse(f"{error}.")
    except OSError as error:
        refuse(f"{error.filename} cannot be read: {error.strerror}.")


def _problem(found: Found) -> dict[str, Any]:
    return {
        "entity": found.entity_type,
        "id": str(found.entity_id),
        "entry": found.verification.broken_at or None,
        "problem": found.verification.problem,
    }
