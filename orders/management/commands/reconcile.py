"""`manage.py reconcile`: what sellers know of our tasks and media buys, beside what we know."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Q

from tasks_app.management.base import DeskCommand, refuse, table
from tasks_app.operations.comparison import Verdict
from tasks_app.people.actors import SYSTEM
from tasks_app.reconciliation.models import ReconciliationRun
from tasks_app.reconciliation.runs import ORDER, Report, RunsAlreadyError, run_ask, run_perform
from tasks_app.sellers.models import Seller

_WORDS = {
    Verdict.BOUGHT_UNKNOWN: "BOUGHT, UNKNOWN HERE",
    Verdict.ORPHANED: "orphaned",
    Verdict.MISSING: "missing",
    Verdict.BEHIND: "behind: ended there",
    Verdict.AHEAD: "ahead: ended here",
    Verdict.UNCLEAR: "unclear: a status of its own",
    Verdict.UNANSWERED: "answer to come",
    Verdict.EXTERNAL: "external",
    Verdict.IN_STEP: "in step",
}
_KINDS = {"tasks": "task", "media_buys": "media buy"}
_LIMIT_S = 600  # by hand there is more time than in a worker
_LOOK_AGAIN_S = 0.5


class Command(DeskCommand):
    help = (
        "Compares our tasks and media buys with the sellers' and keeps the report. Tasks that only a seller "
        "knows are observed from now on, deals go where the seller's word leads; nothing that is sent "
        "changes anything at a seller. Waits for a reconciliation that is running."
    )
    exit_codes = (
        "Exit code 0: in step; 1: something differs; 2: a seller could not be read (whatever the others "
        "said), or there is no such seller, or another reconciliation did not end."
    )

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--seller", metavar="S", help="only this one (short name or name); else every active one"
        )

    def run(self, **options: Any) -> None:
        report = _performed(_seller(options["seller"]))
        sellers = [seller.as_dict() for seller in report.sellers]
        differ = len(report.differing())
        self.answer(
            {
                "run": str(report.run.pk),
                "differ": differ,
                "unattended": len(report.unattended()),
                "counts": report.counts(),
                "sellers": sellers,
            },
            _lines(report, sellers),
        )
        if report.unread():
            refuse(f"Could not be read: {', '.join(report.unread())}.")
        if differ:
            self.found(f"{differ} differ." if differ > 1 else "1 differs.")


def _performed(only: Seller | None) -> Report:
    """A run of our own, after the one that is running has ended, or was lost."""
    until = time.monotonic() + _LIMIT_S
    while True:
        run = run_ask(trigger=ReconciliationRun.Trigger.HAND, actor=SYSTEM, only=only)
        try:
            return run_perform(run=run, limit_s=_LIMIT_S)
        except RunsAlreadyError as error:
            if time.monotonic() >= until:
                refuse(str(error))
        time.sleep(_LOOK_AGAIN_S)


def _seller(named: str | None) -> Seller | None:
    if named is None:
        return None
    found = Seller.objects.filter(Q(slug=named) | Q(name__iexact=named)).first()
    if found is None:
        known = ", ".join(Seller.objects.values_list("slug", flat=True)) or "none"
        refuse(f"There is no seller {named!r}. Known: {known}.")
    return found


def _lines(report: Report, sellers: list[dict[str, Any]]) -> Iterator[str]:
    rows = [
        (
            _WORDS[Verdict(found["verdict"])],
            compared.seller.name,
            kind,
            found["theirs"],
            found["here"] or "—",
            found["status_there"] or "—",
            found["status_here"] or "—",
            found["note"],
            found["handled"] or found["waits_on"],
        )
        for compared, told in zip(report.sellers, sellers, strict=True)
        for name, kind in _KINDS.items()
        for found in told.get(name, ())
    ]
    rows.sort(key=lambda row: list(_WORDS.values()).index(row[0]))
    if rows:
        heads = (
            "verdict",
            "seller",
            "kind",
            "id there",
            "here",
            "there it is",
            "here it is",
            "",
            "who has it",
        )
        yield from table(heads, rows)
    for compared, told in zip(report.sellers, sellers, strict=True):
        yield from (f"{compared.seller.name} could not be read: {why}" for why in told["unread"])
        yield from (f"{compared.seller.name}: {note}" for note in told["notes"])
    counts = report.counts()
    told_counts = [f"{counts[verdict]} {_WORDS[verdict]}" for verdict in ORDER if counts[verdict]]
    yield ", ".join(told_counts) or "Nothing is open at any seller."
