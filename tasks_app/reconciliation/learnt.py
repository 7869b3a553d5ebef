"""What reconciliation learns of a seller: accounts that it does not tell of."""

from __future__ import annotations

from django.db.models import Q

from tasks_app.desk.items import plural
from tasks_app.operations.line import MOST_NAMED, NOT_READ
from tasks_app.reconciliation.models import ReconciliationRun
from tasks_app.sellers.learnt import Learnt, learnt_register
from tasks_app.sellers.models import Seller


def register() -> None:
    """Called when the application starts."""
    learnt_register(reads_refused)


def reads_refused(seller: Seller) -> list[Learnt]:
    """How many questions, about one account or id each, the seller refused in its last run. Not which: they
    may be another team's."""
    runs = ReconciliationRun.objects.filter(
        Q(only=None) | Q(only=seller), state=ReconciliationRun.State.ENDED
    )
    report = runs.order_by("-id").values_list("report", flat=True).first() or []
    parts = [part for part in report if part["seller"] == seller.slug]
    # Once for each team whose it is; in the notes for everybody in runs of old.
    notes = {one["note"] for part in parts for one in part["unnamed"]}.union(
        *(part["notes"] for part in parts)
    )
    refused = sum(note.startswith(NOT_READ) for note in notes)
    if not refused:
        return []
    least = "at least " if refused > MOST_NAMED else ""
    many = f"{least}{plural(refused, 'account or id', 'accounts or ids')}"
    return [
        Learnt(
            what=f"Would not tell, or not all, of {many} in the latest reconciliation",
            so="Whatever else it told is judged; the run’s page says which and why",
        )
    ]
