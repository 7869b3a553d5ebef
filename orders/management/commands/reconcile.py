"""`manage.py reconcile`: what sellers know of our tasks and media buys, beside what we know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import Q

from orders.reconcile import media_buys_reconcile
from tasks_app.management.base import DeskCommand, refuse, table
from tasks_app.operations.reconcile import Finding, Reading, Verdict, tasks_reconcile
from tasks_app.sellers.models import Seller

_WORDS = {
    Verdict.BOUGHT_UNKNOWN: "BOUGHT, UNKNOWN HERE",
    Verdict.ORPHANED: "orphaned",
    Verdict.MISSING: "missing",
    Verdict.BEHIND: "behind: ended there",
    Verdict.AHEAD: "ahead: ended here",
    Verdict.UNANSWERED: "answer to come",
    Verdict.EXTERNAL: "external",
    Verdict.IN_STEP: "in step",
}
_ORDER = list(_WORDS)


class Command(DeskCommand):
    help = (
        "Lists what differs between us and the sellers: orphaned (known there alone), missing (known here "
        "alone), in step. Tasks and media buys; it only reads."
    )
    exit_codes = (
        "Exit code 0: in step; 1: something differs; 2: a seller could not be read (whatever the others "
        "said), or there is no such seller."
    )

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--seller", metavar="S", help="only this one (short name or name); else every active one"
        )

    def run(self, **options: Any) -> None:
        sellers = _sellers(options["seller"])
        tasks = tasks_reconcile(sellers=sellers)
        buys = media_buys_reconcile(sellers=sellers)
        counts = Counter(finding.verdict for reading in (*tasks, *buys) for finding in reading.findings)
        unread = [reading for reading in (*tasks, *buys) if reading.unread]
        differ = sum(f.differs for reading in (*tasks, *buys) for f in reading.findings)
        self.answer(
            {
                "differ": differ,
                "counts": {verdict.value: counts[verdict] for verdict in Verdict},
                "sellers": [_seller_data(*pair) for pair in zip(tasks, buys, strict=True)],
            },
            _lines(tasks, buys, counts),
        )
        if unread:
            names = ", ".join(dict.fromkeys(reading.seller.name for reading in unread))
            refuse(f"Could not be read: {names}.")
        if differ:
            self.found(f"{differ} differ." if differ > 1 else "1 differs.")


def _sellers(named: str | None) -> list[Seller]:
    if named is None:
        return list(Seller.objects.filter(active=True))
    found = list(Seller.objects.filter(Q(slug=named) | Q(name__iexact=named)))
    if not found:
        known = ", ".join(Seller.objects.values_list("slug", flat=True)) or "none"
        refuse(f"There is no seller {named!r}. Known: {known}.")
    return found


def _seller_data(tasks: Reading, buys: Reading) -> dict[str, Any]:
    return {
        "seller": tasks.seller.slug,
        "unread": list(dict.fromkeys(reading.unread for reading in (tasks, buys) if reading.unread)),
        "notes": [*tasks.notes, *buys.notes],
        "tasks": [finding.as_dict() for finding in _sorted(tasks)],
        "media_buys": [finding.as_dict() for finding in _sorted(buys)],
    }


def _sorted(reading: Reading) -> list[Finding]:
    return sorted(reading.findings, key=lambda f: (_ORDER.index(f.verdict), f.here, f.theirs))


def _lines(tasks: list[Reading], buys: list[Reading], counts: Counter[Verdict]) -> Iterator[str]:
    rows = [
        (_WORDS[f.verdict], reading.seller.name, kind, f.theirs, f.here or "—", f.status_there or "—",
         f.status_here or "—", f.note)
        for kind, readings in (("task", tasks), ("media buy", buys))
        for reading in readings
        for f in _sorted(reading)
    ]  # fmt: skip
    rows.sort(key=lambda row: list(_WORDS.values()).index(row[0]))
    if rows:
        yield from table(
            ("verdict", "seller", "kind", "id there", "here", "there it is", "here it is", ""), rows
        )
    for reading in (*tasks, *buys):
        if reading.unread:
            yield f"{reading.seller.name} could not be read: {reading.unread}"
        yield from (f"{reading.seller.name}: {note}" for note in reading.notes)
    told = [f"{counts[verdict]} {words}" for verdict, words in _WORDS.items() if counts[verdict]]
    yield ", ".join(told) or "Nothing is open at any seller."
