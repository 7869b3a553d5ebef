"""Functions that run as the owner: each is a door that the application's role uses as it is meant, and in no
other way. Enumerated from the database, so that the next one is held to the same."""

from __future__ import annotations

import contextlib
import re
import uuid
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.types.json import Jsonb

from campaigns.models import Campaign
from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.assistant.models import AssistantTurn
from tasks_app.database_rights import doors_declared
from tasks_app.jobs.models import Job, Step
from tasks_app.operations.models import Operation

ENTITIES = {model.entity: model for model in (Approval, AssistantTurn, Campaign, Deal, Job, Operation, Step)}
PATH = "search_path=pg_catalog, public, pg_temp"
OURS = re.compile(r"(?<![\w.'])(?:tasks_app|orders|campaigns)_[a-z]+\b(?!')")
_EVERYBODY = (
    "exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee = 0)"
)
DEFINERS = (
    "select p.proname, pg_get_userbyid(p.proowner), coalesce(p.proconfig, '{}'), p.prosrc, "
    + _EVERYBODY
    + " from pg_proc p where p.prosecdef and p.pronamespace = 'public'::regnamespace order by 1"
)
ROW = str(uuid.uuid4())


def definers(connection: psycopg.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(DEFINERS).fetchall()


def test_each_has_its_path_owner_and_callers(app: psycopg.Connection) -> None:
    found = definers(app)
    assert {name for name, *_ in found} == set(doors_declared()), "each in a role_rights.py, with its reason"
    for name, owner, config, source, everybody in found:
        assert owner == "flightdeck_owner", name
        assert PATH in config, name
        assert not everybody, f"PUBLIC may call {name}"
        assert not OURS.findall(source), f"{name} names tables without their schema"


def test_nobody_else_may_call_any_function_of_ours(app: psycopg.Connection) -> None:
    ours = "p.pronamespace = 'public'::regnamespace and p.proname like 'fd\\_%'"
    assert app.execute(f"select p.proname from pg_proc p where {ours} and {_EVERYBODY}").fetchall() == []


def test_a_function_made_later_is_not_everybodys(owner: psycopg.Connection) -> None:
    owner.execute("create function fd_later() returns int language sql as 'select 1'")
    made = f"select {_EVERYBODY} from pg_proc p where p.proname = 'fd_later'"
    assert owner.execute(made).fetchall() == [(False,)]


@pytest.mark.parametrize(
    "statement", ["create temporary table t (id int)", "create table t (id int)", "create schema mine"]
)
def test_the_application_makes_no_table_of_its_own(app: psycopg.Connection, statement: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        app.execute(statement)


def edge(entity: str) -> tuple[str, str]:
    """The first that is declared from the initial status."""
    declared = ENTITIES[entity].declared()
    return next((before, after) for before, after in declared.edges if before == declared.initial != after)


# Rows that only stand in the tables put in the place of ours: whoever is deceived finds and moves them.
BAIT: dict[str, dict[str, Any]] = {
    "tasks_app_job": {"status": "PROCESSING"},
    "tasks_app_step": {"status": "queued", "lane": "recipes", "ready_at": "2020-01-01Z", "priority": 1},
    "tasks_app_securityevent": {"at": "2020-01-01Z"},
    "tasks_app_outboxevent": {"id": 7, "type": "x.y", "at": "2020-01-01Z", "position": 1},
    "tasks_app_webhookdelivery": {"verdict": "early", "at": "2020-01-01Z", "body": {"token": "t" * 43}},
    "tasks_app_notification": {"at": "2020-01-01Z"},
    "tasks_app_outsideevent": {"received_at": "2020-01-01Z"},
    "tasks_app_reconciliationfinding": {"resolved_at": "2020-01-01Z"},
    "tasks_app_eventstream": {"id": 1, "head": 5},
}


@pytest.fixture
def trapped(with_temporary: psycopg.Connection) -> psycopg.Connection:
    """A temporary table in the place of every table of ours, whose trigger runs as whoever writes there."""
    app = with_temporary
    names = app.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
    app.execute("create temporary table caught (who text, what text)")
    app.execute("grant insert on caught to public")
    app.execute(
        "create function pg_temp.trap() returns trigger language plpgsql as $$ begin"
        " insert into pg_temp.caught values (current_user, tg_table_name); return new; end $$"
    )
    app.execute("grant execute on function pg_temp.trap() to public")
    baits = {
        model._meta.db_table: {"status": edge(entity)[0], "version": 1} for entity, model in ENTITIES.items()
    }
    for (name,) in names:
        shadow, real = sql.Identifier("pg_temp", name), sql.Identifier("public", name)
        app.execute(
            sql.SQL("create temporary table {} as table {} with no data").format(sql.Identifier(name), real)
        )
        bait = {"id": ROW, **baits.get(name, {}), **BAIT.get(name, {})}
        if name in {**baits, **BAIT}:
            filled = sql.SQL("insert into {} select * from jsonb_populate_record(null::{}, %s)")
            app.execute(filled.format(shadow, real), [Jsonb(bait)])
        trap = "create trigger trap before insert or update or delete on {} for each row execute function"
        app.execute(sql.SQL(trap + " pg_temp.trap()").format(shadow))
        app.execute(sql.SQL("grant all on {} to public").format(shadow))
    return app


def calls() -> dict[str, str]:
    """One use of each, about what stands in the temporary tables alone."""
    end = "'system', 'x', null, '', null)"
    born, rest = "'{}', '', null)", "'{}', null, '', null)"
    some = {
        "fd_steps_claim": "select public.fd_steps_claim('{recipes}', 5, '{}', 30, '{}', '', null)",
        "fd_steps_done": "select public.fd_steps_done('[]', '{}', '{recipes}', 5, '{}', 30, '{}', '', null)",
        "fd_tell": f"select public.fd_tell('{uuid.uuid4()}', now())",
        "fd_message_due": f"select public.fd_message_due('{uuid.uuid4()}', now())",
        "fd_events_number": "select * from public.fd_events_number(10, '{}', 'fd_events')",
        "fd_approval_escalate": f"select public.fd_approval_escalate('{ROW}', 1, now(), 'x', '', null)",
        "fd_events_forget": "select public.fd_events_forget(now(), 10)",
        "fd_delivery_hide": f"select public.fd_delivery_hide('{ROW}', '{'t' * 43}')",
        "fd_deliveries_forget": "select public.fd_deliveries_forget(now(), 10)",
        "fd_deal_amend": f"select public.fd_deal_amend('{ROW}', 1, '[]', '{{}}', '[]', {end}",
        "fd_security_forget": "select public.fd_security_forget(now())",
        "fd_notifications_forget": f"select public.fd_notifications_forget('f{ROW[1:]}', 10)",
        "fd_outside_forget": "select public.fd_outside_forget(now(), 10)",
        "fd_reconciliation_forget": "select public.fd_reconciliation_forget(now(), 10)",
    }
    for entity in ENTITIES:
        frm, to = edge(entity)
        one, many = f"'{ROW}', '{frm}', '{to}', 1, 'system', 'x'", f"'{{{ROW}}}', '{to}', 'system'"
        why = f'\'{{"{frm}": "x"}}\''
        some |= {
            f"fd_move_{entity}": f"select public.fd_move_{entity}({one}, {rest}",
            f"fd_note_{entity}": f"select public.fd_note_{entity}('{ROW}', 1, 'system', 'x', {rest}",
            f"fd_move_many_{entity}": f"select public.fd_move_many_{entity}({many}, {why}, {rest}",
            f"fd_birth_{entity}": f"select public.fd_birth_{entity}('{{{ROW}}}', 'system', 'x', {born}",
        }
    return some


def test_no_temporary_table_is_written_or_read_by_the_owner(trapped: psycopg.Connection) -> None:
    """Whatever stands before it in the path: what a function touches is where it is meant to be."""
    tried = calls()
    for name, *_ in definers(trapped):
        for path in ("pg_temp, public", "public", "public, pg_temp", "pg_temp"):
            trapped.execute(f"set search_path = {path}")
            with contextlib.suppress(errors.UniqueViolation):  # the second event about the same
                trapped.execute(tried[name])
    assert trapped.execute("select distinct who, what from pg_temp.caught").fetchall() == []
    events = (
        "select type from public.tasks_app_outboxevent where seq = 1 and type not like 'deal.%' order by 1"
    )
    assert trapped.execute(events).fetchall() == [("message.to_send",), ("notification.told",)]
