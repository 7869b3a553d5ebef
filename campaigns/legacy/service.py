"""Importing the reference buyer's database: read it whole, then write what fits, in one transaction."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import DataError, IntegrityError, connection, transaction

from campaigns.legacy.briefs import campaign_rows
from campaigns.legacy.deals import deal_rows
from campaigns.legacy.history import Histories, histories
from campaigns.legacy.owners import Owner
from campaigns.legacy.plans import Plan, Problem, Refused
from campaigns.legacy.recorder import Recorded, record_import
from campaigns.legacy.sellers import seller_ensure
from campaigns.legacy.source import Source, UnreadableSourceError, opened
from campaigns.legacy.values import UnmappableError
from campaigns.models import Campaign
from orders.models import Deal, DealLine
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.imports import import_record
from tasks_app.lifecycle.models import Import
from tasks_app.lifecycle.references import next_reference
from tasks_app.people.actors import actor_ensure

_KINDS: dict[str, tuple[type[Deal] | type[Campaign], str]] = {
    "deals": (Deal, "DEAL"),
    "campaigns": (Campaign, "CMP"),
    "jobs": (Campaign, "CMP"),
}
_NOTHING_HERE = "no such thing here"
# Tables that are read, though not as entities of their own.
_READ = {
    "booking_records": "as lines of their deals",
    "portfolio_metadata": "for the advertisers of their deals; the rest has no place here",
    "status_transitions": "as the history of what was imported",
    "campaign_events": "those with a status, as the history of their campaigns",
}
_OWN = frozenset({"schema_version", "sqlite_sequence", "sqlite_stat1"})


@dataclass(frozen=True, kw_only=True)
class Imported:
    """One row that is now here: `replayed` where its history was, `reference` empty on a dry run."""

    table: str
    legacy_id: str
    reference: str
    status: str
    replayed: bool
    notes: tuple[str, ...]


@dataclass(kw_only=True)
class Report:
    """What became of every row. `import_id` is None where nothing was written; `unknown` counts unknown
    statuses by table; `elsewhere` has (table, rows, what became of them) for every other table."""

    digest: str = ""
    import_id: uuid.UUID | None = None
    imported: list[Imported] = field(default_factory=list)
    already: int = 0
    refused: list[Refused] = field(default_factory=list)
    sellers: list[str] = field(default_factory=list)
    unknown: dict[str, Counter[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    elsewhere: list[tuple[str, int, str]] = field(default_factory=list)


def legacy_import(*, path: Path, owner: Owner, dry_run: bool = False) -> Report:
    """Import what fits from the database at `path`; what does not is told row by row, and nothing guessed.

    Rows that are here already stay as they are, so that a second run imports nothing new. A dry run does the
    same and takes it back. Raises UnreadableSourceError, and then nothing has been written.
    """
    report = Report()
    with opened(path) as source:
        report.digest = source.digest
        plans = _plans(source, owner, report)
    with transaction.atomic():
        _write(plans, owner, report, dry_run)
        if dry_run:
            connection.check_constraints()  # what the database would say at the commit
            transaction.set_rollback(True)
    for refused in report.refused:
        if refused.unknown_status is not None:
            report.unknown.setdefault(refused.table, Counter())[refused.unknown_status[:80]] += 1
    if dry_run:
        report.import_id = None
    return report


def _plans(source: Source, owner: Owner, report: Report) -> list[Plan]:
    if not source.tables & set(_KINDS):
        raise UnreadableSourceError("the database has none of the tables deals, campaigns and jobs")
    report.missing = [table for table in _KINDS if table not in source.tables]
    told, unread = histories(source)
    for row, error in unread:
        problem = {"field": error.field, "problem": error.problem}
        report.refused.append(Refused(table=row.table, rowid=row.rowid, legacy_id="", problems=(problem,)))
    deals, campaigns = deal_rows(source, owner, told), campaign_rows(source, owner, told)
    report.refused += deals.refused + campaigns.refused
    plans = [*deals.plans, *campaigns.plans]
    there = {(plan.table, plan.legacy_id) for plan in plans}
    there |= {(refused.table, refused.legacy_id) for refused in report.refused}
    report.elsewhere = [*_other_tables(source), *_other_histories(told, there)]
    return plans


def _other_tables(source: Source) -> Iterator[tuple[str, int, str]]:
    for table in sorted(source.tables - set(_KINDS) - _OWN):
        if count := source.count(table):
            yield table, count, _READ.get(table, _NOTHING_HERE)


def _other_histories(told: Histories, there: set[tuple[str, str]]) -> Iterator[tuple[str, int, str]]:
    foreign = sum(len(entries) for (table, _), entries in told.items() if not table)
    lost = sum(len(entries) for key, entries in told.items() if key[0] and key not in there)
    if foreign:
        yield "status_transitions", foreign, f"of bookings and others: {_NOTHING_HERE}"
    if lost:
        yield "status_transitions", lost, "of deals and others that the database no longer has"


def _write(plans: list[Plan], owner: Owner, report: Report, dry_run: bool) -> None:
    with connection.cursor() as cursor:  # one import at a time: the next sees what this one wrote
        cursor.execute("select pg_advisory_xact_lock(hashtext('flightdeck import_ad_buyer'))")
    fresh = _fresh(plans, report)
    # A dry run uses up no reference that people would miss.
    references = {
        plan.pk: f"DRY-RUN-{number}" if dry_run else next_reference(_KINDS[plan.table][1])
        for number, plan in enumerate(fresh, start=1)
    }
    while fresh:
        refused = _written(fresh, references, owner, report, dry_run)
        fresh = [plan for plan in fresh if plan.pk not in refused] if refused else []


@transaction.atomic
def _written(
    fresh: list[Plan], references: dict[uuid.UUID, str], owner: Owner, report: Report, dry_run: bool
) -> set[uuid.UUID]:
    """Write them in one import, which says of how many it is; answers which of them are refused. Then nothing
    is written: an import that says more than it brought would explain births that it had no part in."""
    actor = actor_ensure(user=owner.user)
    import_row = import_record(source=owner.source, actor=actor, digest=report.digest, rows=len(fresh))
    imported, sellers, refused = [], [], set()
    for plan in fresh:
        reference = references[plan.pk]
        try:
            with transaction.atomic():
                recorded, seller = _stored(plan, owner, import_row, reference)
        except (UnmappableError, TransitionError, DataError, IntegrityError) as error:
            report.refused.append(_refused(plan, error))
            refused.add(plan.pk)
            continue
        sellers += [seller] if seller else []
        imported.append(
            Imported(
                table=plan.table,
                legacy_id=plan.legacy_id,
                reference="" if dry_run else reference,
                status=plan.status,
                replayed=recorded.replayed,
                notes=plan.notes,
            )
        )
    if refused:
        transaction.set_rollback(True)
        return refused
    report.import_id, report.sellers, report.imported = import_row.pk, sellers, imported
    return refused


def _fresh(plans: list[Plan], report: Report) -> list[Plan]:
    """Plans of rows that are not here yet; of those that are, the ones that changed since are told."""
    here: dict[uuid.UUID, tuple[str, Any]] = {}
    for model, provenance in ((Deal, "terms__imported__row"), (Campaign, "brief__imported__row")):
        keys = [plan.pk for plan in plans if _KINDS[plan.table][0] is model]
        rows = model._default_manager.filter(pk__in=keys).values_list("pk", "reference", provenance)
        here |= {pk: (reference, row) for pk, reference, row in rows}
    fresh: dict[uuid.UUID, Plan] = {}
    for plan in plans:
        if plan.pk in fresh:
            report.refused.append(_problem(plan, "id", "is there twice"))
        elif plan.pk not in here:
            fresh[plan.pk] = plan
        else:
            report.already += 1
            reference, row = here[plan.pk]
            if str((row or {}).get("updated_at", "")) != plan.updated_at:
                problem = f"it was imported as {reference} and has changed since; it stays as it is here"
                report.refused.append(_problem(plan, "updated_at", problem))
    return list(fresh.values())


def _stored(plan: Plan, owner: Owner, import_row: Import, reference: str) -> tuple[Recorded, str]:
    """The entity, its lines, and the slug of its seller where that is new."""
    model, new_seller, more = _KINDS[plan.table][0], "", dict(plan.fields)
    if plan.seller is not None:
        more["seller"], made = seller_ensure(plan.seller, import_row.actor)
        new_seller = more["seller"].slug if made else ""
        _bought_once(more["seller"].pk, plan.fields["media_buy_id"])
    entity = model(
        pk=plan.pk,
        reference=reference,
        status=plan.status,
        team=owner.team,
        requested_by=import_row.actor,
        created_at=plan.created_at,
        **more,
    )
    recorded = record_import(
        entity,
        actor=import_row.actor,
        import_row=import_row,
        history=plan.history,
        reason=f"Imported from {owner.source}",
        parts=[DealLine(deal_id=plan.pk, **line) for line in plan.lines],
    )
    return recorded, new_seller


def _bought_once(seller: uuid.UUID, media_buy_id: str) -> None:
    """Raises UnmappableError where another deal is that media buy already."""
    other = Deal.objects.filter(seller=seller, media_buy_id=media_buy_id).first() if media_buy_id else None
    if other is not None:
        raise UnmappableError("seller_deal_id", f"is {other.reference}'s already")


def _refused(plan: Plan, error: Exception) -> Refused:
    if isinstance(error, UnmappableError):
        return _problem(plan, error.field, error.problem)
    return _problem(plan, "", f"could not be stored: {str(error).splitlines()[0][:300]}")


def _problem(plan: Plan, column: str, problem: str) -> Refused:
    named: Problem = {"field": column, "problem": problem}
    return Refused(table=plan.table, rowid=plan.rowid, legacy_id=plan.legacy_id, problems=(named,))
