"""What a run found, kept until it is resolved: found again it is the same row, not found again it is over."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q

from tasks_app import clock
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.operations.comparison import DIFFERENT, Finding, Reader, Reading, Settled, Verdict
from tasks_app.people.actors import SYSTEM
from tasks_app.people.models import Team
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tasks_app.sellers.models import Account, Seller
from tasks_app.troubles.rows import connection_lost

log = structlog.get_logger(__name__)
R = ReconciliationFinding.Resolution
KEPT = DIFFERENT | {Verdict.EXTERNAL}
# What was asked for its result so long ago, and is still behind, is a person's.
_POLL_TAKES = timedelta(minutes=15)
_Owner = tuple[uuid.UUID | None, uuid.UUID | None]  # team and advertiser
_MOST_ALARMS = 100  # of one seller, one team and one advertiser in one run; one more says how many there are
# Of a seller's record and its packages what somebody accepts with it; the rest (revisions, delivery) moves.
_ACCEPTED = (
    "total_budget",
    "budget",
    "currency",
    "start_time",
    "end_time",
    "product_id",
    "paused",
    "canceled",
)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A finding, what was done about it without a person, and its row, where it has one."""

    finding: Finding
    row: ReconciliationFinding | None
    handled: str = ""


def reading_record(*, run: ReconciliationRun, reader: Reader, reading: Reading) -> list[Recorded]:
    """Do what needs no person, then keep what was found of one seller; tell people what is new.

    Harmless when repeated. What was open and is not found any more is over, unless the seller could not be
    read whole.
    """
    done = [(finding, _settled(reader, reading.seller, finding)) for finding in reading.findings]
    with transaction.atomic():
        # Two runs never write at once; a run that lost its lease and this one might.
        Seller.objects.select_for_update(no_key=True).get(pk=reading.seller.pk)
        known = _Known(reading.seller, reader.kind, [finding for finding, _ in done])
        recorded = [_record(run, reading.seller, reader.kind, finding, s, known) for finding, s in done]
        known.close_others(recorded, reading)
        _tell(run, reading.seller, [one.row for one in recorded if one.row is not None and _is_new(one.row)])
    return recorded


def id_digest(theirs: str) -> str:
    """SHA-256 (hex) of a seller's id of any length."""
    return hashlib.sha256(theirs.encode("utf-8", "surrogatepass")).hexdigest()


def _settled(reader: Reader, seller: Seller, finding: Finding) -> Settled | None:
    try:
        return reader.settle(seller, finding)
    except Exception:  # one finding's trouble stops no other: it is a person's then
        if connection_lost():
            raise
        log.exception("finding_not_settled", seller=seller.slug, verdict=finding.verdict)
        return None


class _Known:
    """The rows of what one seller told, of one kind: open, or ended in a way that still holds."""

    def __init__(self, seller: Seller, kind: str, findings: Iterable[Finding]) -> None:
        digests = {id_digest(finding.theirs) for finding in findings if finding.verdict in KEPT}
        still_holds = Q(digest__in=digests, resolution__in=(R.SEEN, R.POLLED, R.OBSERVED, R.ASKED))
        wanted = Q(resolved_at__isnull=True) | still_holds
        rows = ReconciliationFinding.objects.filter(wanted, seller=seller, kind=kind).defer("told")
        # Held until the commit: what a person does about one at this moment is before or after, not lost.
        held = list(rows.select_for_update(of=("self",), no_key=True).order_by("pk"))
        self._open = {(row.digest, row.verdict): row for row in held if row.resolved_at is None}
        self._ended = {(row.digest, row.verdict): row for row in held if row.resolved_at is not None}
        seen = [row.pk for row in held if row.resolution == R.SEEN]
        self._accepted = dict(ReconciliationFinding.objects.filter(pk__in=seen).values_list("pk", "told"))

    def of(self, finding: Finding) -> ReconciliationFinding | None:
        """The row that this finding is found again as."""
        key = (id_digest(finding.theirs), finding.verdict.value)
        row = self._open.get(key) or self._ended.get(key)
        if row is None or row.resolution != R.SEEN:
            return row
        as_seen = (row.status_there, row.status_here) == _statuses(finding)
        as_told = _accepted(self._accepted.get(row.pk)) == _accepted(finding.told)
        return row if as_seen and as_told else None  # a person accepted something else

    def close_others(self, recorded: Iterable[Recorded], reading: Reading) -> None:
        """End what was open and was not found any more, where it would have been; of a seller that was not
        read whole what was found otherwise."""
        found = {one.row.pk for one in recorded if one.row is not None}
        judged = {id_digest(finding.theirs) for finding in reading.findings}
        asked = {id_digest(theirs) for theirs in reading.asked}
        unjudged = {id_digest(theirs) for theirs in reading.unjudged}

        def is_looked_for(row: ReconciliationFinding) -> bool:
            listed = row.verdict not in reading.unseen or row.digest in asked
            return reading.complete and listed and row.digest not in unjudged

        rows = [row for row in self._open.values() if row.pk not in found]
        gone = [row.pk for row in rows if row.digest in judged or is_looked_for(row)]
        ReconciliationFinding.objects.filter(pk__in=gone, resolved_at__isnull=True).update(
            resolution=R.GONE, resolved_at=clock.now(), resolved_by=SYSTEM, reason="Not found any more"
        )


def _record(
    run: ReconciliationRun,
    seller: Seller,
    kind: str,
    finding: Finding,
    settled: Settled | None,
    known: _Known,
) -> Recorded:
    if finding.verdict not in KEPT:
        return Recorded(finding=finding, row=None, handled=settled.note if settled else "")
    now, row = clock.now(), known.of(finding)
    if settled is not None and settled.how == R.POLLED and row is not None and _still_behind(row):
        row, settled = (row if row.is_open else None), None
    if row is not None and row.resolution == R.ASKED and settled is None:
        row = None  # nobody is asked about it any more
    row = row or ReconciliationFinding(
        seller=seller,
        kind=kind,
        verdict=finding.verdict.value,
        theirs=finding.theirs[:255],
        digest=id_digest(finding.theirs),
        first_seen_at=now,
    )
    _describe(row, finding)
    row.run, row.last_seen_at = run, now
    if settled is not None and row.is_open:
        row.resolution, row.reason = settled.how, settled.note
        row.resolved_at, row.resolved_by = now, SYSTEM
    row.save()
    return Recorded(finding=finding, row=row, handled="" if row.is_open else row.reason or row.resolution)


def _describe(row: ReconciliationFinding, finding: Finding) -> None:
    row.here, row.note = finding.here, finding.note
    row.status_there, row.status_here = _statuses(finding)
    row.subject_type = finding.subject.type if finding.subject else ""
    row.subject_id = finding.subject.id if finding.subject else None
    row.team_id, row.account_id = finding.team_id, finding.account_id
    row.told = finding.told


def finding_sign(row: ReconciliationFinding) -> str:
    """Differs where somebody who acts on the finding would act on something else."""
    told = [row.verdict, row.status_there, row.status_here, row.account_id, row.subject_id, row.holder_id]
    return id_digest(json.dumps([told, _accepted(row.told)], sort_keys=True, default=str))


def _accepted(told: Any) -> tuple[dict[str, Any], ...]:
    """What of a seller's record somebody accepts with it: money, dates and pauses, and those of its packages,
    in the order of their ids."""
    record = told if isinstance(told, dict) else {}
    packages = record.get("packages")
    each = [one for one in packages if isinstance(one, dict)] if isinstance(packages, list) else []
    each.sort(key=lambda one: str(one.get("package_id")))
    names = ("package_id", *_ACCEPTED)
    return tuple({name: part.get(name) for name in names} for part in (record, *each))


def _statuses(finding: Finding) -> tuple[str, str]:
    return finding.status_there[:80], finding.status_here[:32]


def _still_behind(row: ReconciliationFinding) -> bool:
    """Whether it was asked for its result before, long enough ago."""
    if row.is_open:
        return True
    return (
        row.resolution == R.POLLED
        and row.resolved_at is not None
        and (row.resolved_at < clock.now() - _POLL_TAKES)
    )


def _is_new(row: ReconciliationFinding) -> bool:
    """Whether it is told as new. An approval tells people what they are asked about."""
    return row.first_seen_at == row.last_seen_at and row.differs and row.resolution != R.ASKED


def _tell(run: ReconciliationRun, seller: Seller, rows: list[ReconciliationFinding]) -> None:
    """Each media buy that nobody here knows is an alarm of its own, the rest is told at once; each to the
    people of one team and advertiser, so that what one has many of hides nobody else's."""
    clients = dict(
        Account.objects.filter(pk__in={row.account_id for row in rows}).values_list("pk", "advertiser_id")
    )
    by_owner: dict[_Owner, list[ReconciliationFinding]] = {}
    for row in rows:
        client = clients.get(row.account_id) if row.account_id else None
        by_owner.setdefault((row.team_id, client), []).append(row)
    for owner, told in by_owner.items():
        lost = [row for row in told if row.verdict == Verdict.BOUGHT_UNKNOWN]
        _alarm(run, seller, owner, [row for row in lost if row.is_open])
        others = [row for row in told if row.verdict != Verdict.BOUGHT_UNKNOWN]
        if others:
            _tell_owner(run, seller, owner, others)


def _alarm(run: ReconciliationRun, seller: Seller, owner: _Owner, lost: list[ReconciliationFinding]) -> None:
    """Money may be being spent on these."""
    for row in lost[:_MOST_ALARMS]:
        notify(
            kind="bought_unknown",
            title=f"{seller.name} runs a media buy of ours that nobody here knows",
            body=f"{row.theirs} is {row.status_there or 'there'}: {row.note}. Money may be being spent. "
            "Adopt it or have it cancelled.",
            level=Notification.Level.ALARM,
            about=About(type="finding", id=row.pk),
            right=STEER_OPERATION,
            key=f"bought_unknown:{row.pk}",
        )
    more = len(lost) - _MOST_ALARMS
    if more <= 0:
        return
    team_id, client = owner
    notify(
        kind="bought_unknown",
        title=f"{seller.name} runs {more} media buys more of ours that nobody here knows",
        body="Money may be being spent on each. They stand among the findings.",
        level=Notification.Level.ALARM,
        about=About(type="reconciliation", id=run.pk),
        team=Team.objects.get(pk=team_id) if team_id else None,
        right="" if team_id else STEER_OPERATION,
        advertiser_id=client,
        key=f"bought_unknown:{run.pk}:{seller.pk}:{team_id or ''}:{client or ''}",
    )


def _waiting_words(waiting: int, of: int) -> str:
    if of == 1:
        return "It waits for a person." if waiting else "Nobody is waited for."
    return f"{waiting or 'None'} of them {'wait' if waiting > 1 else 'waits'} for a person."


def _tell_owner(
    run: ReconciliationRun, seller: Seller, owner: _Owner, rows: list[ReconciliationFinding]
) -> None:
    team_id, client = owner
    waiting = [row for row in rows if row.is_open]
    said = [f"{row.theirs}: {row.verdict}{f', {row.here}' if row.here else ''}" for row in rows[:10]]
    more = f" and {len(rows) - 10} more" if len(rows) > 10 else ""
    notify(
        kind="reconciliation",
        title=f"{seller.name} and we differ on {len(rows)} {'thing' if len(rows) == 1 else 'things'}",
        body=f"{'; '.join(said)}{more}. {_waiting_words(len(waiting), len(rows))}",
        level=Notification.Level.WARNING if waiting else Notification.Level.INFO,
        about=About(type="reconciliation", id=run.pk),
        team=Team.objects.get(pk=team_id) if team_id else None,
        right="" if team_id else STEER_OPERATION,
        advertiser_id=client,
        key=f"reconciliation:{run.pk}:{seller.pk}:{rows[0].kind}:{team_id or ''}:{client or ''}",
    )
