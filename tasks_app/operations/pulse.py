"""When a sweep last ran: what waited while none did was held by us, and gets its time anew.

What was to be sent gets its type's time from then on, what a seller has in hand as much as the outage took.
A job's own time stands still during an outage, as while it waits for somebody (`jobs/expiry.py`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models, transaction

from tasks_app import clock
from tasks_app.desk import text
from tasks_app.operations.deadlines import deadlines_anew, deadlines_later

_EVERY = timedelta(seconds=10)
# Longer than a restart, or another cluster's taking over, takes.
OUTAGE = timedelta(minutes=2)


class SweepPulse(models.Model):
    """One row: the latest moment at which a sweep was at work."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"swept {text.moment_kept(self.at)}"


class SweepOutage(models.Model):
    """A time in which no sweep was at work."""

    begun_at = models.DateTimeField()
    over_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"no sweep {text.moment_kept(self.begun_at)} to {text.moment_kept(self.over_at)}"


@transaction.atomic
def pulse_beat() -> int:
    """Note that a sweep is at work; after an outage, give what waited its time anew. Answers how many
    operations got that."""
    now = clock.now()
    last = SweepPulse.objects.values_list("at", flat=True).first()
    if last is not None and last > now - _EVERY:
        return 0
    anew = _outage(last, now) if last is not None and last < now - OUTAGE else 0
    SweepPulse.objects.update_or_create(pk=1, defaults={"at": now})
    return anew


def outages_since(moment: datetime) -> list[tuple[datetime, datetime]]:
    """The outages that were not over at `moment`, each from when to when, the first one first."""
    found = SweepOutage.objects.filter(over_at__gt=moment).order_by("over_at")
    return [(max(begun, moment), over) for begun, over in found.values_list("begun_at", "over_at")]


def _outage(begun: datetime, over: datetime) -> int:
    SweepOutage.objects.create(begun_at=begun, over_at=over)
    return deadlines_later(over - begun) + deadlines_anew()
