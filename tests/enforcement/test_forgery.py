"""What somebody in psql as the application's role could tell that was not so: all of it is refused."""

from __future__ import annotations

import uuid

import psycopg
import pytest
from psycopg import errors

from orders.models import Deal
from tasks_app.lifecycle.models import AuditEntry, OutboxEvent
from tests.enforcement.conftest import COPY, in_one_transaction, unchanged

pytestmark = pytest.mark.all_cases

ENTRY = (
    "insert into tasks_app_auditentry (entity_type, entity_id, seq, from_status, to_status, at, actor,"
    " reason, metadata, changes, trace_id, format_version, body, prev_hash, hash)"
    " select 'deal', d.id, 2, 'quoted', 'accepted', now(), 'system', 'Forged', '{}', '{}', '', 1,"
    " b.body, a.hash, sha256(b.body) from orders_deal d"
    " join tasks_app_auditentry a on a.entity_id = d.id, lateral (select fd_body('deal', d.id, 2, 'quoted',"
    " 'accepted', now(), 'system', 'Forged', '{}', '{}', '', a.hash) as body) b"
)
CHANGE = "update orders_deal set status = 'accepted', version = 2"
# fd_audit_append makes a sound entry of whatever it is told: the functions that also make the change call it.
APPEND = (
    "select fd_audit_append('deal', id, 2, 'quoted', 'accepted', now(), 'system', 'Forged', '{}', '{}', '')"
    " from orders_deal"
)
EVENT = (
    "insert into tasks_app_outboxevent (type, entity_type, entity_id, seq, payload, at)"
    " select 'deal.booked', 'deal', id, 9, '{}', now() from orders_deal"
)


def test_an_entry_is_written_by_the_databases_own_functions_alone(
    app: psycopg.Connection, deal: Deal
) -> None:
    """Even one that is right in every byte, beside the change it tells of."""
    for forged in (ENTRY, APPEND, EVENT):
        with pytest.raises(errors.InsufficientPrivilege):
            in_one_transaction(app, CHANGE, forged)
        unchanged(deal)
    assert OutboxEvent.objects.count() == AuditEntry.objects.count()


def moved(app: psycopg.Connection, deal: Deal, **told: object) -> object:
    """`fd_move_deal` called as the application calls it, but for what is `told`."""
    call = {"frm": "quoted", "to": "accepted", "version": 1, "actor": "system", "reason": "Terms", **told}
    row = app.execute(
        "select fd_move_deal(%(id)s, %(frm)s, %(to)s, %(version)s, %(actor)s, %(reason)s, '{}', null, '',"
        " null)",
        {"id": deal.pk, **call},
    ).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("reason", ["", " ", "\n\t "])
def test_a_move_without_a_reason(app: psycopg.Connection, deal: Deal, reason: str) -> None:
    with pytest.raises(errors.CheckViolation, match="audit_reason_given"):
        moved(app, deal, reason=reason)
    unchanged(deal)


@pytest.mark.parametrize(
    "actor",
    ["", "root", "human:", "human:-x", "agent:a b", "system ", "System", "human:x\n", "agent:" + "x" * 73],
)
def test_a_move_by_nobody(app: psycopg.Connection, deal: Deal, actor: str) -> None:
    with pytest.raises(errors.CheckViolation, match="audit_actor_typed"):
        moved(app, deal, actor=actor)
    unchanged(deal)


def test_a_move_of_another_version_or_status_does_nothing(app: psycopg.Connection, deal: Deal) -> None:
    assert moved(app, deal, version=2) is None
    assert moved(app, deal, frm="negotiating") is None
    with pytest.raises(errors.CheckViolation, match="no declared edge from quoted to completed"):
        moved(app, deal, to="completed")
    unchanged(deal)
    assert moved(app, deal) is not None


def test_many_moves_without_a_reason_or_by_nobody(app: psycopg.Connection, deal: Deal) -> None:
    ids = "array(select id from orders_deal)"
    many = f"select fd_move_many_deal({ids}, 'accepted', %s, %s, '{{}}', null, '', null)"
    for actor, reason, rule in (("root", "Terms", "actor_typed"), ("system", "", "reason_given")):
        with pytest.raises(errors.CheckViolation, match=f"audit_{rule}"):
            app.execute(many, [actor, psycopg.types.json.Jsonb({"quoted": reason})])
    unchanged(deal)


def test_a_second_birth(app: psycopg.Connection, deal: Deal) -> None:
    with pytest.raises(errors.UniqueViolation, match="audit_once_per_version"):
        app.execute("select fd_birth_deal(%s, 'system', 'Again', '{}', '', null)", [[deal.pk]])
    unchanged(deal)


def test_a_birth_is_told_as_it_is(app: psycopg.Connection, deal: Deal) -> None:
    """Its entry says what the row says, whoever calls."""
    new = uuid.uuid4()
    with app.transaction():
        app.execute(COPY, [psycopg.types.json.Jsonb({"id": str(new), "reference": "DEAL-X"}), deal.pk])
        app.execute("select fd_birth_deal(%s, 'system', 'By hand', '{}', '', null)", [[new]])
    entry = AuditEntry.objects.get(entity_id=new)
    assert (entry.seq, entry.from_status, entry.to_status, entry.reason) == (1, "", "quoted", "By hand")


# Temporary tables are found before all others: a rule that looked there would read what was made up.
SHADOWS = {
    "the matrix": (
        "create temporary table tasks_app_lifecycleedge as"
        " select 'deal' as entity, 'quoted' as from_status, 'completed' as to_status"
    ),
    "the trail": (
        "create temporary table tasks_app_auditentry as select 'deal' as entity_type, id as entity_id,"
        " 2 as seq, 'quoted' as from_status, 'accepted' as to_status, '{}'::jsonb as metadata"
        " from orders_deal"
    ),
    "the imports": (
        "create temporary table tasks_app_import as"
        " select gen_random_uuid() as id, pg_current_xact_id()::text::bigint as txid"
    ),
}


def test_tables_of_the_same_names_deceive_no_rule(with_temporary: psycopg.Connection, deal: Deal) -> None:
    app = with_temporary
    jump = "update public.orders_deal set status = 'completed', version = 2"
    with pytest.raises(errors.CheckViolation, match="no declared edge"):
        in_one_transaction(app, SHADOWS["the matrix"], jump)
    step = "update public.orders_deal set status = 'accepted', version = 2"
    with pytest.raises(errors.CheckViolation, match="no audit entry"):
        in_one_transaction(app, SHADOWS["the trail"], step)
    born = (
        "insert into orders_deal select (jsonb_populate_record(d, jsonb_build_object('id', gen_random_uuid(),"
        " 'status', 'booked', 'reference', 'DEAL-X'))).* from public.orders_deal d"
    )
    with pytest.raises(errors.CheckViolation, match="is born quoted"):
        in_one_transaction(app, SHADOWS["the imports"], born)
    unchanged(deal)


def test_a_search_path_deceives_no_rule(with_temporary: psycopg.Connection, deal: Deal) -> None:
    """Nor does the path that names are looked up along; the application cannot make a schema either."""
    app = with_temporary
    with pytest.raises(errors.InsufficientPrivilege):
        app.execute("create schema mine")
    app.execute("set search_path = pg_temp")
    app.execute("create temporary table orders_deal (like public.orders_deal)")
    row = app.execute(
        "select public.fd_move_deal(%s, 'quoted', 'accepted', 1, 'system', 'Terms', '{}', null, '', null)",
        [deal.pk],
    ).fetchone()
    assert row is not None
    assert row[0] is not None
    assert Deal.objects.get(pk=deal.pk).status == "accepted"
