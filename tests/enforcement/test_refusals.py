"""What PostgreSQL itself refuses, tried in SQL as the application's role: nothing of ours stands between.

What only the owner could try at all, entries of his own, is tried as the owner."""

from __future__ import annotations

import uuid

import psycopg
import pytest
from psycopg import errors

from orders.models import Deal
from tasks_app import clock
from tasks_app.lifecycle.declarations import ENTITIES, lifecycle
from tasks_app.lifecycle.imports import create_imported, import_record
from tasks_app.lifecycle.models import AuditEntry, LifecycleEdge
from tasks_app.lifecycle.transitions import transition
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.models import OperationStatus
from tests.database import Database
from tests.enforcement.conftest import COPY, in_one_transaction, unchanged
from tests.factories import approve_deal
from tests.operations.making import stand

pytestmark = pytest.mark.all_cases


def test_an_undeclared_edge(app: psycopg.Connection, deal: Deal) -> None:
    with pytest.raises(errors.CheckViolation, match="no declared edge from quoted to delivering"):
        app.execute("update orders_deal set status = 'delivering', version = 2 where id = %s", [deal.pk])
    unchanged(deal)


def test_a_status_that_does_not_exist(app: psycopg.Connection, deal: Deal) -> None:
    with pytest.raises(errors.CheckViolation, match="no declared edge"):
        app.execute("update orders_deal set status = 'pending_manual', version = 2 where id = %s", [deal.pk])
    unchanged(deal)


@pytest.mark.parametrize("version", [1, 3, 0, 99])
def test_a_version_that_does_not_rise_by_one(app: psycopg.Connection, deal: Deal, version: int) -> None:
    with pytest.raises(errors.CheckViolation, match="version must rise from 1 to 2"):
        app.execute(
            "update orders_deal set status = 'accepted', version = %s where id = %s", [version, deal.pk]
        )
    unchanged(deal)


def test_a_version_that_moves_alone(app: psycopg.Connection, deal: Deal) -> None:
    with pytest.raises(errors.CheckViolation, match="no audit entry"):
        app.execute("update orders_deal set version = 2 where id = %s", [deal.pk])
    with pytest.raises(errors.CheckViolation, match="version must rise from 1 to 2, not to 3"):
        app.execute("update orders_deal set version = 3 where id = %s", [deal.pk])
    unchanged(deal)


@pytest.mark.parametrize("ended", ["cancelled", "failed", "expired"])
def test_what_has_ended_moves_no_more(
    app: psycopg.Connection, owner: psycopg.Connection, deal: Deal, ended: str
) -> None:
    """Not even for the owner."""
    transition(deal, ended, actor="system")
    move = "update orders_deal set status = %s, version = version + 1 where id = %s"
    for status in {*deal.declared().states} - {ended}:
        for somebody in (app, owner):
            with pytest.raises(errors.CheckViolation, match="no declared edge"):
                somebody.execute(move, [status, deal.pk])
    unchanged(deal)


def test_an_id_that_changes(app: psycopg.Connection, deal: Deal) -> None:
    with pytest.raises(errors.CheckViolation, match="its id never changes"):
        app.execute("update orders_deal set id = %s where id = %s", [uuid.uuid4(), deal.pk])
    unchanged(deal)


def test_a_change_without_its_entry(app: psycopg.Connection, deal: Deal) -> None:
    with pytest.raises(errors.CheckViolation, match="has no audit entry"), app.transaction():
        app.execute("update orders_deal set status = 'accepted', version = 2 where id = %s", [deal.pk])
    unchanged(deal)


def test_a_change_with_an_entry_that_tells_another_story(owner: psycopg.Connection, deal: Deal) -> None:
    told = f"'deal', '{deal.pk}', 2, 'quoted', 'cancelled', now(), 'system', 'no', '{{}}', '{{}}', ''"
    entry = f"select fd_audit_append({told})"
    change = f"update orders_deal set status = 'accepted', version = 2 where id = '{deal.pk}'"
    for order in ((change, entry), (entry, change)):
        with pytest.raises(errors.CheckViolation, match=r"no audit entry|was not made"):
            in_one_transaction(owner, *order)
    unchanged(deal)


def test_an_entry_without_its_change(owner: psycopg.Connection, deal: Deal) -> None:
    entry = (
        "select fd_audit_append('deal', %s, 2, 'quoted', 'accepted', now(), 'system', 'no', '{}', '{}', '')"
    )
    with (
        pytest.raises(errors.CheckViolation, match="tells of a change that was not made"),
        owner.transaction(),
    ):
        owner.execute(entry, [deal.pk])
    unchanged(deal)


def test_a_birth_outside_the_initial_status(app: psycopg.Connection, deal: Deal) -> None:
    born = psycopg.types.json.Jsonb({"id": str(uuid.uuid4()), "status": "booked", "reference": "DEAL-X"})
    with pytest.raises(errors.CheckViolation, match="is born quoted, not booked"):
        app.execute(COPY, [born, deal.pk])
    assert Deal.objects.count() == 1


def test_a_birth_with_another_version(app: psycopg.Connection, deal: Deal) -> None:
    born = psycopg.types.json.Jsonb({"id": str(uuid.uuid4()), "version": 7, "reference": "DEAL-X"})
    with pytest.raises(errors.CheckViolation, match="is born with version 1"):
        app.execute(COPY, [born, deal.pk])


def test_a_birth_without_its_entry(app: psycopg.Connection, deal: Deal) -> None:
    born = psycopg.types.json.Jsonb({"id": str(uuid.uuid4()), "reference": "DEAL-X"})
    with pytest.raises(errors.CheckViolation, match="has no audit entry"), app.transaction():
        app.execute(COPY, [born, deal.pk])
    assert Deal.objects.count() == 1


def test_a_birth_that_leans_on_an_older_import(app: psycopg.Connection, deal: Deal) -> None:
    old = (
        "insert into tasks_app_import (id, source, source_digest, at, actor, rows, txid)"
        " values (%s, 'x', '', now(), 'system', 1, pg_current_xact_id()::text::bigint + %s)"
    )
    for ahead in (0, 1, 2):
        app.execute(old, [uuid.uuid4(), ahead])
    born = psycopg.types.json.Jsonb({"id": str(uuid.uuid4()), "status": "booked", "reference": "DEAL-X"})
    with pytest.raises(errors.CheckViolation, match="is born quoted"):
        app.execute(COPY, [born, deal.pk])


@pytest.mark.parametrize(
    ("table", "status"),
    [("tasks_app_approval", "approved"), ("tasks_app_job", "COMPLETED"), ("tasks_app_step", "completed")],
)
def test_what_people_decide_and_what_jobs_do_is_never_imported(
    app: psycopg.Connection, deal: Deal, table: str, status: str
) -> None:
    """An approval that was born approved passed a gate with nobody's decision."""
    approve_deal(deal)  # asked about, and bought by a job
    recorded = (
        "insert into tasks_app_import (id, source, source_digest, at, actor, rows, txid)"
        " values (%s, 'x', '', now(), 'system', 1, pg_current_xact_id()::text::bigint)"
    )
    copied = f"insert into {table} select (jsonb_populate_record(r, %s)).* from {table} r limit 1"
    born = psycopg.types.json.Jsonb({"id": str(uuid.uuid4()), "status": status, "version": 1})
    with app.transaction():
        app.execute(recorded, [uuid.uuid4()])
        with pytest.raises(errors.CheckViolation, match="is born"), app.transaction():
            app.execute(copied, [born])


@pytest.mark.parametrize(
    "statement",
    [
        "update tasks_app_auditentry set reason = 'x'",
        "delete from tasks_app_auditentry",
        "truncate tasks_app_auditentry",
        "delete from orders_deal",
        "truncate orders_deal cascade",
        "insert into tasks_app_lifecycleedge (entity, from_status, to_status) values ('deal', 'a', 'b')",
        "update tasks_app_lifecycleedge set to_status = 'booked'",
        "delete from tasks_app_lifecycleedge",
        "truncate tasks_app_lifecycleedge",
        "update tasks_app_import set source = 'x'",
        "delete from tasks_app_lifecyclerule",
        "alter table orders_deal disable trigger all",
        "alter table orders_deal disable trigger fd_guard",
        "drop trigger fd_guard on orders_deal",
        "alter table tasks_app_auditentry disable trigger audit_rows",
        "set session_replication_role = replica",
        "create or replace function fd_guard_deal() returns trigger language plpgsql as 'begin end'",
        "drop function fd_audited_deal() cascade",
    ],
)
def test_what_the_application_may_not_do(app: psycopg.Connection, deal: Deal, statement: str) -> None:
    edges = LifecycleEdge.objects.count()
    refusals = (errors.InsufficientPrivilege, errors.RaiseException)
    with pytest.raises(refusals):
        app.execute(statement)
    unchanged(deal)
    assert LifecycleEdge.objects.count() == edges


def test_a_recorded_import_may_begin_anywhere(committed_db: Database, deal: Deal) -> None:
    from django.db import transaction

    legacy = Deal.objects.get(pk=deal.pk)
    legacy.pk, legacy.reference, legacy._state.adding = uuid.uuid4(), "DEAL-LEGACY", True
    legacy.__dict__["status"] = "delivering"
    with transaction.atomic():
        row = import_record(source="a legacy database", actor="system", rows=1)
        create_imported(
            legacy, actor="system", reason="Imported", import_row=row, history=[{"to": "delivering"}]
        )
    assert verify_entity("deal", legacy.pk).ok
    entry = AuditEntry.objects.get(entity_id=legacy.pk)
    assert (entry.to_status, entry.metadata["import"]) == ("delivering", str(row.pk))
    transition(Deal.objects.get(pk=legacy.pk), "completed", actor="system")
    assert verify_entity("deal", legacy.pk).ok


def test_the_database_has_the_declared_edges(committed_db: Database) -> None:
    for entity in ENTITIES:
        stored = set(LifecycleEdge.objects.filter(entity=entity).values_list("from_status", "to_status"))
        assert stored == {(before, after) for before, after in lifecycle(entity).edges if before != after}


@pytest.mark.parametrize("column", ["result", "error"])
@pytest.mark.parametrize("status", [*OperationStatus.values, "given up"])
def test_what_an_operation_came_to_is_kept_once_it_is_settled(
    role: psycopg.Connection, status: str, column: str
) -> None:
    """By who has psql and no function of ours; while it is open a result may come in parts."""
    given_up = {"settled_at": clock.now()} if status == "given up" else {}
    operation = stand("timed_out" if given_up else status, **given_up)
    statement = f'update tasks_app_operation set {column} = \'{{"media_buy_id": "mb-9"}}\' where id = %s'
    if operation.settled_at is None:
        assert role.execute(statement, [operation.pk]).rowcount == 1
        return
    opened = "update tasks_app_operation set settled_at = null where id = %s"
    for one in (statement, opened):
        with pytest.raises(errors.InsufficientPrivilege, match="what it came to is kept"):
            role.execute(one, [operation.pk])
