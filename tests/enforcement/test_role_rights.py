"""What the application's role may write: all tables times all verbs, and what was possible once."""

from __future__ import annotations

import json
import re
import uuid
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import connection, transaction
from psycopg import errors, sql
from psycopg.types.json import Jsonb

from orders.amounts import deal_amounts
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.database_rights import (
    WRITES,
    rights_apply,
    rights_differences,
    tables_declared,
)
from tasks_app.lifecycle.errors import StaleVersionError
from tasks_app.lifecycle.models import AuditEntry, OutboxEvent
from tasks_app.lifecycle.replay import entity_at
from tasks_app.lifecycle.transitions import note, transition
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.continuation import Continuation
from tasks_app.people.models import User
from tasks_app.people.security import security_record
from tests.database import Database, point_django_at
from tests.enforcement.conftest import in_one_transaction, unchanged
from tests.enforcement.test_definers import ENTITIES
from tests.factories import make_deal, make_question, make_user
from tests.lifecycle.entities import MAKERS
from tests.operations.making import ask

pytestmark = pytest.mark.all_cases

_LINE = Decimal("10250.00")  # make_line's budget
DOCS = Path(settings.BASE_DIR) / "docs" / "audit-proof.md"
_ROW = re.compile(
    r"^\| `(?P<table>[a-z_]+)` \| (?P<verb>insert|update|delete)(?: (?P<columns>`.+`))? \| (?P<why>.+) \|$"
)

_NAMED = r"(?:`[a-z0-9_]+`(?:, )?)+|nothing"
_CHANGES = re.compile(rf"^\| (?P<entity>[a-z_]+) \| (?P<moved>{_NAMED}) \| (?P<noted>{_NAMED}) \|$")


def declared_rows() -> dict[tuple[str, str], tuple[str, tuple[str, ...]]]:
    """(table, verb) to its reason and columns."""
    rows = {}
    for table, may in tables_declared().items():
        for verb in ("insert", "update", "delete"):
            if getattr(may, verb):
                rows[table, verb] = (getattr(may, verb), may.columns if verb == "update" else ())
    return rows


def test_every_write_that_is_allowed_is_declared_and_every_other_refused(role: psycopg.Connection) -> None:
    """Asked of PostgreSQL itself, as the role: all tables, all verbs, all columns."""
    declared = declared_rows()
    found = role.execute(
        "select c.relname, array_agg(a.attname::text)"
        " from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')"
        " and a.attnum > 0 and not a.attisdropped group by 1"
    ).fetchall()
    assert {table for table, _ in found} == set(tables_declared())
    for table, columns in found:
        for verb in WRITES:
            why, only = declared.get((table, verb), ("", ()))
            name = f"public.{table}"
            whole = role.execute("select has_table_privilege(%s, %s)", [name, verb]).fetchone()
            assert whole == (bool(why) and not only,), f"{verb} on {table}"
            if verb in ("insert", "update", "references"):
                allowed = role.execute(
                    "select c from unnest(%s::text[]) c where has_column_privilege(%s, c, %s)",
                    [columns, name, verb],
                ).fetchall()
                assert {c for (c,) in allowed} == set(only or (columns if why else ())), f"{verb} on {table}"


@pytest.mark.rule
def test_every_allowed_write_has_its_reason_in_the_docs() -> None:
    told = {}
    for line in DOCS.read_text().splitlines():
        row = _ROW.match(line)
        if row:
            columns = tuple(re.findall("`([a-z0-9_]+)`", row["columns"] or ""))
            told[row["table"], row["verb"]] = (row["why"], columns)
    assert told == declared_rows()


def named(role: psycopg.Connection, verb: str, entity: str) -> set[str]:
    """Return the columns that the entity's function (`fd_moved_`, `fd_noted_`) names."""
    row = role.execute(f"select fd_{verb}_{entity}()").fetchone()
    assert row is not None
    return set(row[0])


def test_what_moves_and_notes_may_change_is_in_the_docs(role: psycopg.Connection) -> None:
    told = {}
    for line in DOCS.read_text().splitlines():
        row = _CHANGES.match(line)
        if row:
            for verb in ("moved", "noted"):
                told[row["entity"], verb] = set(re.findall("`([a-z0-9_]+)`", row[verb]))
    assert told == {(entity, verb): named(role, verb, entity) for entity, verb in told}
    assert {entity for entity, _ in told} == set(ENTITIES)


def test_what_somebody_granted_is_found_and_taken_back(
    committed_db: Database, owner: psycopg.Connection
) -> None:
    point_django_at(committed_db.urls.owner)
    with connection.cursor() as cursor:
        assert rights_differences(cursor, settings.DB_ROLE) == []
        owner.execute("grant update on tasks_app_decision to flightdeck_app")
        owner.execute("grant insert on tasks_app_outboxevent to public")
        owner.execute("grant update (budget) on orders_dealline to flightdeck_app")
        owner.execute("grant execute on function fd_tell to public")
        owner.execute("revoke insert on tasks_app_observation from flightdeck_app")
        owner.execute(
            sql.SQL("grant temporary on database {} to flightdeck_app").format(
                sql.Identifier(committed_db.name)
            )
        )
        said = [found.says for found in rights_apply(cursor, settings.DB_ROLE)]
        assert len(said) == 6
        assert "tasks_app_decision: flightdeck_app may update" in said
        assert "orders_dealline: flightdeck_app may update budget" in said
        assert "tasks_app_observation: flightdeck_app may not insert" in said
        assert rights_differences(cursor, settings.DB_ROLE) == []


def test_another_role_is_given_the_same(committed_db: Database, owner: psycopg.Connection) -> None:
    point_django_at(committed_db.urls.owner)
    with connection.cursor() as cursor:
        # A role that is there on every server, and holds nothing in this database.
        found = rights_differences(cursor, "pg_monitor")
        assert {one.says.partition(":")[0] for one in found} >= set(tables_declared())


POSSIBLE_ONCE = [
    "delete from tasks_app_workflowevent",
    "update tasks_app_workflowevent set payload = '{}'",
    "delete from tasks_app_outboxevent",
    "update tasks_app_outboxevent set payload = '{}'",
    "update tasks_app_outboxevent set position = 7",
    "update tasks_app_eventcount set total = 7",
    "update tasks_app_eventstream set head = 7",
    "update tasks_app_decision set verdict = 'approve'",
    "delete from tasks_app_decision",
    "update tasks_app_approvalnote set body = 'x'",
    "delete from tasks_app_approvalnote",
    "update tasks_app_approval set evidence = '{}'",
    "update tasks_app_approval set quorum = 1",
    "update tasks_app_approval set requested_by = 'system'",
    "update tasks_app_approval set set_off_by = '[]'",
    "update tasks_app_approval set roles = '[]'",
    "update tasks_app_approval set due_at = now()",
    "update tasks_app_approval set escalated_at = now()",
    "update orders_dealline set budget = 1",
    "delete from orders_dealline",
    "update orders_deal set born_in = 'x'",
    "update orders_deal set differs = false",
    "update orders_deal set differences = '[]'",
    "update orders_deal set status = 'accepted', version = 2",
    "update tasks_app_operation set request = '{}'",
    "update tasks_app_operation set request_text = ''",
    "update tasks_app_operation set idempotency_key = 'x'",
    "update tasks_app_operation set status = 'completed'",
    "update tasks_app_securityevent set at = now()",
    "delete from tasks_app_securityevent",
    "update tasks_app_observation set body = null",
    "delete from tasks_app_observation",
    "delete from tasks_app_webhookdelivery",
    "update tasks_app_webhookdelivery set fingerprint = ''",
    "update tasks_app_killswitch set reason = 'x'",
    "update tasks_app_commanddecision set note = 'x'",
    "update tasks_app_command set payload = '{}'",
    "update tasks_app_exchangerate set usd = 1",
    "update tasks_app_approvalpolicy set active = false",
    "delete from tasks_app_notification",
    "delete from tasks_app_notificationread",
    "delete from tasks_app_outsideevent",
    "delete from tasks_app_eventwait",
    "delete from tasks_app_reconciliationrun",
    "delete from tasks_app_reconciliationfinding",
    "insert into auth_group_permissions (group_id, permission_id) values (1, 1)",
    "insert into tasks_app_user_user_permissions (user_id, permission_id) select id, 1 from tasks_app_user",
]


@pytest.mark.parametrize("statement", POSSIBLE_ONCE)
def test_what_was_possible_once(role: psycopg.Connection, deal: Deal, statement: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        role.execute(statement)
    unchanged(deal)


def test_nobody_becomes_a_superuser(role: psycopg.Connection, deal: Deal) -> None:
    user = make_user("Buyer")
    with pytest.raises(errors.InsufficientPrivilege, match="owner makes superusers"):
        role.execute("update tasks_app_user set is_superuser = true")
    copy = (
        "insert into tasks_app_user select (jsonb_populate_record(u, %s)).*"
        " from tasks_app_user u where id = %s"
    )
    born = Jsonb({"id": str(uuid.uuid4()), "username": "root", "is_superuser": True})
    with pytest.raises(errors.InsufficientPrivilege, match="owner makes superusers"):
        role.execute(copy, [born, user.pk])
    assert not User.objects.filter(is_superuser=True).exists()


def test_the_security_log_is_not_backdated(role: psycopg.Connection, deal: Deal) -> None:
    old = security_record(event="login", actor="system")
    role.execute(
        "insert into tasks_app_securityevent select (jsonb_populate_record(s, %s)).*"
        " from tasks_app_securityevent s where id = %s",
        [Jsonb({"id": str(uuid.uuid4()), "at": "2020-01-01T00:00:00Z"}), old.pk],
    )
    row = role.execute("select count(*) from tasks_app_securityevent where at < now() - interval '1 hour'")
    assert row.fetchone() == (0,)


@pytest.mark.parametrize("when", ["quoted", "asked", "told of the mirror", "accepted"])
def test_no_line_is_added_once_its_deal_has_come(role: psycopg.Connection, deal: Deal, when: str) -> None:
    """Nor while people are asked about it: they would approve more than they were shown."""
    if when == "asked":
        ask_deal(deal)
    elif when == "told of the mirror":  # the row is a new one, and the role's own
        role.execute("update orders_deal set as_of = now()")
    elif when == "accepted":
        transition(deal, "accepted", actor="system", reason="Terms")
    copy = (
        "insert into orders_dealline select (jsonb_populate_record(l, %s)).* from orders_dealline l"
        " where deal_id = %s limit 1"
    )
    more = Jsonb({"id": str(uuid.uuid4()), "position": 99, "budget": 1_000_000})
    with pytest.raises(errors.InsufficientPrivilege, match="lines come with their deal"):
        role.execute(copy, [more, deal.pk])
    assert deal_amounts(deal).approved == _LINE


def test_lines_come_in_the_transaction_of_their_deal(deal: Deal) -> None:
    """Whatever savepoints are in between."""
    with transaction.atomic():
        with transaction.atomic():
            other = make_deal(seller=deal.seller, account=False)
        with transaction.atomic():
            (line,) = other.lines.all()
            line.pk, line.position, line._state.adding = uuid.uuid4(), 2, True
            line.save(force_insert=True)
    assert deal_amounts(other).approved == 2 * _LINE


def test_a_decision_stands_in_the_trail_or_not_at_all(role: psycopg.Connection, deal: Deal) -> None:
    approval = make_question("deal", deal, team=deal.team)
    forged = (
        "insert into tasks_app_decision (id, approval_id, actor, actor_name, verdict, comment,"
        " evidence_digest, at, on_behalf_of, on_behalf_of_name)"
        " values (gen_random_uuid(), %s, 'human:x', 'X', 'approve', '', '', now(), '', '')"
    )
    with pytest.raises(errors.CheckViolation, match="no audit entry"):
        role.execute(forged, [approval.pk])
    assert not Approval.objects.get(pk=approval.pk).decisions.exists()


def test_a_note_is_an_entry_that_moves_nothing(deal: Deal) -> None:
    events = OutboxEvent.objects.count()
    note(deal, actor="system", reason="The seller departs", changes={"differs": True})
    stored = Deal.objects.get(pk=deal.pk)
    assert (stored.version, stored.status, stored.differs) == (2, "quoted", True)
    entry = AuditEntry.objects.get(entity_id=deal.pk, seq=2)
    assert (entry.from_status, entry.to_status, entry.changes) == (
        "quoted",
        "quoted",
        {"differs": [False, True]},
    )
    assert OutboxEvent.objects.latest("id").type == "deal.noted"
    assert OutboxEvent.objects.count() == events + 1
    assert verify_entity("deal", deal.pk).ok
    assert entity_at("deal", deal.pk).since == AuditEntry.objects.get(entity_id=deal.pk, seq=1).at
    stale = Deal.objects.get(pk=deal.pk)
    stale.version = 1
    with pytest.raises(StaleVersionError):
        note(stale, actor="system", reason="Again")
    with pytest.raises(ValueError, match="reason"):
        note(deal, actor="system", reason=" ")


def changing(entity: str, verb: str) -> str:
    """One use of a function that moves or notes, about no row at all; what changes is left open."""
    frm, to = next(edge for edge in ENTITIES[entity].declared().edges if edge[0] != edge[1])
    row = str(uuid.uuid4())
    return {
        "moved": f"select fd_move_{entity}('{row}', '{frm}', '{to}', 1, 'system', 'x', '{{}}', %s, '', null)",
        "moved together": f"select fd_move_many_{entity}('{{{row}}}', '{to}', 'system',"
        f" '{{\"{frm}\": \"x\"}}', '{{}}', %s, '', null)",
        "noted": f"select fd_note_{entity}('{row}', 1, 'system', 'x', '{{}}', %s, '', null)",
    }[verb]


@pytest.mark.parametrize("verb", ["moved", "moved together", "noted"])
@pytest.mark.parametrize("entity", sorted(ENTITIES))
def test_what_moves_or_is_noted_changes_named_columns_alone(
    role: psycopg.Connection, entity: str, verb: str
) -> None:
    """Asked of PostgreSQL as the role, column by column."""
    may = named(role, "noted" if verb == "noted" else "moved", entity)
    columns = {field.column for field in ENTITIES[entity]._meta.fields}
    assert may <= columns - {"id", "status", "version", "status_since", "requested_by", "team_id"}
    for column in sorted(columns):
        if column in may:
            role.execute(changing(entity, verb), [Jsonb({column: None})])
        else:
            with pytest.raises(errors.CheckViolation, match=f"does not change {column}"):
                role.execute(changing(entity, verb), [Jsonb({column: None})])


@pytest.mark.parametrize("entity", ENTITIES)
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
@pytest.mark.parametrize("changed", [False, True], ids=["nothing", "something"])
def test_a_move_from_a_status_to_itself_is_none(
    role: psycopg.Connection, owner: psycopg.Connection, deal: Deal, entity: str, many: bool, changed: bool
) -> None:
    """It would change what a note may not, tell of an end once more, and make it a later one."""
    key = deal.pk if entity == "deal" else MAKERS[entity]().pk
    table = sql.Identifier(ENTITIES[entity]._meta.db_table)
    read = sql.SQL("select to_jsonb(t) from {} t where id = %s").format(table)
    before = owner.execute(read, [key]).fetchone()
    assert before is not None
    status, version = before[0]["status"], before[0]["version"]
    moved = sorted(named(role, "moved", entity))
    other = Jsonb({moved[0]: None}) if changed and moved else None
    if many:
        call = f"select fd_move_many_{entity}(array[%s]::uuid[], %s, 'human:boss', %s, '{{}}', %s, '', null)"
        given: list[object] = [key, status, Jsonb({status: "So."}), other]
        found = role.execute(call, given).fetchone()
        assert found == (0,)
    else:
        call = f"select fd_move_{entity}(%s, %s, %s, %s, 'human:boss', 'So.', '{{}}', %s, '', null)"
        with pytest.raises(errors.CheckViolation, match="it is so already"):
            role.execute(call, [key, status, status, version, other])
    assert owner.execute(read, [key]).fetchone() == before
    assert verify_entity(entity, key).ok


def test_a_question_is_put_to_others_when_it_is_time(role: psycopg.Connection, deal: Deal) -> None:
    asked = ask_deal(deal)
    for due_at in (asked.due_at, asked.due_at + timedelta(days=1)):
        with pytest.raises(errors.CheckViolation, match="not time yet"):
            role.execute(
                "select fd_approval_escalate(%s, %s, %s, 'Nobody decided', '', null)",
                [asked.pk, asked.version, due_at],
            )
    assert Approval.objects.get().version == asked.version


def test_a_note_forges_no_deal(role: psycopg.Connection, deal: Deal) -> None:
    """Who asked, for whom, with whom, on which terms: not even with an entry that tells of it."""
    for changes in (
        {"status": "booked"},
        {"version": 9},
        {"requested_by": "system"},
        {"seller_id": str(uuid.uuid4())},
        {"terms": {}},
        {"media_buy_id": "another", "differs": False},
    ):
        with pytest.raises(errors.CheckViolation, match="a note does not change"):
            role.execute(
                "select fd_note_deal(%s, 1, 'system', 'x', '{}', %s, '', null)", [deal.pk, Jsonb(changes)]
            )
    unchanged(deal)


def test_a_version_does_not_rise_alone(app: psycopg.Connection, deal: Deal) -> None:
    with pytest.raises(errors.CheckViolation, match="no audit entry"):
        in_one_transaction(app, "update orders_deal set version = 2")
    unchanged(deal)


@pytest.mark.parametrize(
    "changed",
    [
        "quorum",
        "requested_by",
        "evidence",
        "evidence_digest",
        "subject_version",
        "team_id",
        "amount",
        "roles",
    ],
)
def test_an_approval_is_decided_as_it_was_asked(role: psycopg.Connection, deal: Deal, changed: str) -> None:
    asked = ask_deal(deal)
    other = json.dumps({changed: None})
    for call in (
        "fd_note_approval(%(id)s, 1, 'system', 'why', '{}', %(other)s, '', null)",
        "fd_move_approval(%(id)s, 'open', 'voided', 1, 'system', 'why', '{}', %(other)s, '', null)",
        "fd_move_many_approval(array[%(id)s]::uuid[], 'voided', 'system', '{\"open\": \"why\"}', '{}',"
        " %(other)s, '', null)",
    ):
        with pytest.raises(psycopg.Error, match="does not change"):
            role.execute(f"select {call}", {"id": asked.pk, "other": other})


@pytest.mark.parametrize("names", [[], ["human:b"], None, {}, "human:a"], ids=str)
def test_who_set_it_off_is_only_added_to(
    role: psycopg.Connection, owner: psycopg.Connection, deal: Deal, names: object
) -> None:
    """By a note; nobody is taken from those who do not decide, not even with an entry that tells of it."""
    asked = ask_deal(deal)
    change = "select fd_note_approval(%s, %s, 'system', 'why', '{}', %s, '', null)"
    role.execute(change, [asked.pk, 1, Jsonb({"set_off_by": ["human:a"]})])
    assert Approval.objects.get(pk=asked.pk).set_off_by == ["human:a"]
    with pytest.raises(errors.CheckViolation, match="none is taken away"):
        role.execute(change, [asked.pk, 2, Jsonb({"set_off_by": names})])
    with pytest.raises(errors.CheckViolation, match="none is taken away"):
        owner.execute("update tasks_app_approval set set_off_by = %s", [Jsonb(names)])
    assert Approval.objects.get(pk=asked.pk).set_off_by == ["human:a"]
    assert verify_entity("approval", asked.pk).ok


@pytest.mark.parametrize(
    "statement",
    [
        "request_text = 'x'",
        "answer = '{}'",
        "answered_by = 'human:x'",
        "request_text = null, answer = null, answered_by = '', answered_at = null",
        "released_at = null",
    ],
)
@pytest.mark.parametrize("released", [False, True])
def test_an_answer_is_frozen(role: psycopg.Connection, deal: Deal, statement: str, released: bool) -> None:
    """Once it is given: a second person has read it, or it is on its way."""
    operation = ask(seller=deal.seller, team=deal.team)
    pause = Continuation.objects.create(
        operation=operation,
        generation=1,
        kind="input",
        descriptor="{}",
        expires_at=clock.now() + timedelta(days=1),
        request_text="{}",
        answer={"text": "Sweden."},
        answered_by="human:a",
        answered_at=clock.now(),
        released_at=clock.now() if released else None,
    )
    make_question("answer", operation, team=deal.team)
    if statement == "released_at = null" and not released:
        role.execute(f"update tasks_app_continuation set {statement}")  # as it is
        return
    with pytest.raises(errors.InsufficientPrivilege, match="frozen"):
        role.execute(f"update tasks_app_continuation set {statement}")
    assert Continuation.objects.get(pk=pause.pk).answer == {"text": "Sweden."}
