"""`manage.py replay`: what an entity was at any moment, told by its trail alone."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from tasks_app.lifecycle.replay import Known, State, entity_at
from tasks_app.management.base import DeskCommand, refuse, table
from tasks_app.management.trail import id_named, kind_named, moment


class Command(DeskCommand):
    help = (
        "Tells what an entity was at a moment, from its audit trail alone: its status, since when, by whom,"
        " and the columns that moved with its status. Decimals are told as text."
    )
    exit_codes = "Exit code 0: told; 1: told as far as the trail holds, which is not whole; 2: refused."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("entity", metavar="ENTITY", help="the kind of entity: deal, campaign, …")
        parser.add_argument("id", metavar="ID", help="its id or its reference")
        parser.add_argument("--at", metavar="TIME", default="", help="the moment (ISO 8601; default: now)")

    def run(self, **options: Any) -> None:
        kind = kind_named(options["entity"])
        entity_id = id_named(kind, options["id"])
        at = moment(options["at"]) if options["at"] else None
        try:
            state = entity_at(kind, entity_id, at=at)
        except LookupError:
            refuse(f"There is no {kind} {entity_id}, and no trail of one.")
        data = {"entity": kind, "id": str(entity_id), "at": at, **_data(state)}
        self.answer(data, [f"{kind} {entity_id}", *_lines(state)])
        if not state.verification.ok:
            self.found(f"Its trail does not hold: {state.verification.problem}.")


def _data(state: State) -> dict[str, Any]:
    return {
        "status": state.status or None,
        "since": state.since.isoformat() if state.since else None,
        "actor": state.actor,
        "reason": state.reason,
        "entry": state.seq,
        "columns": {name: vars(known) for name, known in state.columns.items()},
        "verified": state.verification.ok,
        "problem": state.verification.problem,
    }


def _lines(state: State) -> list[str]:
    if state.since is None:
        return ["did not exist yet, as far as its trail tells"]
    lines = [
        f"status  {state.status}",
        f"since   {state.since.isoformat()}",
        f"by      {state.actor}",
        f"reason  {state.reason}",
        f"entry   {state.seq} of {state.verification.entries}",
    ]
    rows = [(name, _value(known), _source(known)) for name, known in state.columns.items()]
    return [*lines, *table(("column", "value", "known from"), rows)] if rows else lines


def _value(known: Known) -> str:
    return json.dumps(known.value, cls=DjangoJSONEncoder, ensure_ascii=False)


def _source(known: Known) -> str:
    return f"entry {known.seq}, which found it so" if known.later else f"entry {known.seq}"
