"""What the application's role may do in the database: declared as data, and applied to whatever is there.

Each storey declares its tables and the functions that run as the owner (`rights_register`); what is not
declared the role may read, and nothing else. `rights_differences` compares a database with that,
`rights_apply` makes it so; both may be repeated. They run as the tables' owner: after every `migrate`, and by
whoever sets a database up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper
from psycopg import sql

WRITES = ("insert", "update", "delete", "truncate", "references", "trigger")
# Makes an entry of whatever it is told: the functions that also make the change call it, as the owner.
WITHHELD = frozenset({"fd_audit_append"})


@dataclass(frozen=True, kw_only=True)
class May:
    """What the role may write in one table, each with its reason; empty: it may not. `columns`: the only ones
    that it may update; none named: all of them."""

    insert: str = ""
    update: str = ""
    delete: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """What a database has otherwise, in a sentence, and the statement that mends it."""

    says: str
    statement: sql.Composable


_Held = tuple[str, str | None]  # a right, and the column where it is one's alone
_tables: dict[str, May] = {}
_doors: dict[str, str] = {}


def rights_register(*, tables: Mapping[str, May], doors: Mapping[str, str]) -> None:
    """Declare what the role may write and call.

    Args:
        tables: By table, what the role may write in it.
        doors: By function that runs as the owner, the reason why the role may call it.
    """
    _tables.update(tables)
    _doors.update(doors)


def tables_declared() -> Mapping[str, May]:
    return _tables


def doors_declared() -> Mapping[str, str]:
    """Functions that run as the owner, by name, each with the reason why the role may call it."""
    return _doors


def rights_apply(cursor: CursorWrapper, role: str) -> list[Difference]:
    """Make the connected database as declared for `role`; answers what was different. The cursor is the
    owner's, in a transaction."""
    found = rights_differences(cursor, role)
    for difference in found:
        cursor.execute(difference.statement)
    return found


def rights_differences(cursor: CursorWrapper, role: str) -> list[Difference]:
    """What `role` and PUBLIC may do in the connected database that is not as declared."""
    return [
        *_of_database(cursor, role),
        *_of_schema(cursor, role),
        *_of_new_functions(cursor),
        *_of_functions(cursor, role),
        *_of_tables(cursor, role),
        *_of_sequences(cursor, role),
    ]


def lifecycle_doors(*entities: str) -> dict[str, str]:
    """The functions by which entities of these names are born and move (migrations/sql/entity.sql)."""
    doors = {}
    for entity in entities:
        doors[f"fd_birth_{entity}"] = f"the first entry of {entity} rows, as they were inserted"
        doors[f"fd_note_{entity}"] = (
            f"what changes of a {entity} without its status, with its entry and event"
        )
        doors[f"fd_move_{entity}"] = f"a {entity} along a declared edge, with its entry and event"
        doors[f"fd_move_many_{entity}"] = f"many {entity} rows along one edge, each with its entry and event"
    return doors


def rights_after_migrate(using: str, **_: Any) -> None:
    """What every `migrate` ends with; nothing where the role is the owner itself, or is not there."""
    connection = connections[using]
    with transaction.atomic(using), connection.cursor() as cursor:
        if role_applies(cursor, settings.DB_ROLE):
            rights_apply(cursor, settings.DB_ROLE)


def role_applies(cursor: CursorWrapper, role: str) -> bool:
    """Whether there is such a role, and the connected one is another that owns our tables."""
    cursor.execute("select count(*) from pg_roles where rolname = %s and rolname <> current_user", [role])
    return bool(cursor.fetchone()[0])


def _of_database(cursor: CursorWrapper, role: str) -> Iterator[Difference]:
    """No tables of its own, temporary ones least of all: they are found before all others."""
    cursor.execute(
        "select current_database(), coalesce(r.rolname, 'public'), lower(a.privilege_type)"
        "  from pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a"
        "  left join pg_roles r on r.oid = a.grantee"
        " where d.datname = current_database() and a.privilege_type in ('TEMPORARY', 'CREATE')"
        "   and (a.grantee = 0 or r.rolname = %s)",
        [role],
    )
    for database, grantee, right in cursor.fetchall():
        statement = sql.SQL("revoke {right} on database {database} from {grantee}").format(
            right=sql.SQL(right), database=sql.Identifier(database), grantee=_grantee(grantee)
        )
        yield Difference(f"{grantee} may make {right} tables or schemas in {database}", statement)


def _of_schema(cursor: CursorWrapper, role: str) -> Iterator[Difference]:
    """The role comes in, to the database and to our schema, and makes nothing there."""
    cursor.execute(
        "select current_database(), has_database_privilege(%s, current_database(), 'connect'),"
        "       has_schema_privilege(%s, 'public', 'usage'),"
        "       exists (select from aclexplode(n.nspacl) a where a.grantee = 0"
        "                and a.privilege_type = 'CREATE'),"
        "       exists (select from aclexplode(n.nspacl) a where a.grantee = %s::regrole"
        "                and a.privilege_type = 'CREATE')"
        "  from pg_namespace n where n.nspname = 'public'",
        [role, role, _quoted(role)],
    )
    database, connects, uses, everybody, makes = cursor.fetchone()
    names = {"role": sql.Identifier(role), "database": sql.Identifier(database)}
    for differs, said, statement in (
        (
            not connects,
            f"{role} may not connect to {database}",
            "grant connect on database {database} to {role}",
        ),
        (not uses, f"{role} may not use the schema public", "grant usage on schema public to {role}"),
        (
            everybody,
            "PUBLIC may make tables in the schema public",
            "revoke create on schema public from public",
        ),
        (makes, f"{role} may make tables in the schema public", "revoke create on schema public from {role}"),
    ):
        if differs:
            yield Difference(said, sql.SQL(statement).format(**names))


def _of_new_functions(cursor: CursorWrapper) -> Iterator[Difference]:
    """PostgreSQL lets everybody call a new function, unless its maker says otherwise once."""
    cursor.execute(
        "select exists (select from pg_default_acl where defaclrole = current_user::regrole"
        "   and defaclnamespace = 0 and defaclobjtype = 'f')"
    )
    if not cursor.fetchone()[0]:
        statement = sql.SQL("alter default privileges revoke execute on functions from public")
        yield Difference("PUBLIC may call functions that are still to be made", statement)


def _of_functions(cursor: CursorWrapper, role: str) -> Iterator[Difference]:
    cursor.execute(
        "select p.oid::regprocedure::text, p.proname, p.prosecdef, p.prorettype = 'trigger'::regtype,"
        "       exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
        "                where a.grantee = 0),"
        "       exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
        "                where a.grantee = %s::regrole)"
        "  from pg_proc p"
        " where p.pronamespace = 'public'::regnamespace and p.proname like 'fd\\_%%' order by 1",
        [_quoted(role)],
    )
    for signature, name, definer, trigger, everybody, ours in cursor.fetchall():
        names = {"function": sql.SQL(signature), "role": sql.Identifier(role)}
        wanted = name in _doors if definer else not trigger and name not in WITHHELD
        if everybody:
            statement = sql.SQL("revoke execute on function {function} from public").format(**names)
            yield Difference(f"PUBLIC may call {signature}", statement)
        if ours != wanted:
            verb = "grant execute on function {function} to {role}"
            if ours:
                verb = "revoke execute on function {function} from {role}"
            said = f"{role} {'may' if ours else 'may not'} call {signature}"
            yield Difference(said, sql.SQL(verb).format(**names))


def _of_tables(cursor: CursorWrapper, role: str) -> Iterator[Difference]:
    """Each is read; written as declared; PUBLIC has nothing. Columns count where not all may be updated."""
    cursor.execute(
        "select c.relname, coalesce(r.rolname, 'public'), lower(a.privilege_type), null"
        "  from pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a"
        "  left join pg_roles r on r.oid = a.grantee"
        " where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')"
        "   and (a.grantee = 0 or r.rolname = %s)"
        " union all "
        "select c.relname, coalesce(r.rolname, 'public'), lower(a.privilege_type), t.attname"
        "  from pg_attribute t join pg_class c on c.oid = t.attrelid, aclexplode(t.attacl) a"
        "  left join pg_roles r on r.oid = a.grantee"
        " where c.relnamespace = 'public'::regnamespace and (a.grantee = 0 or r.rolname = %s)",
        [role, role],
    )
    held = defaultdict(set)
    for table, grantee, right, column in cursor.fetchall():
        held[table, grantee].add((right, column))
    cursor.execute(
        "select c.relname, array_agg(t.attname::text)"
        "  from pg_class c join pg_attribute t on t.attrelid = c.oid"
        " where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')"
        "   and t.attnum > 0 and not t.attisdropped group by 1 order by 1"
    )
    for table, columns in cursor.fetchall():
        wanted = {"public": set(), role: _wanted(table, columns)}
        for grantee, rights in wanted.items():
            if held[table, grantee] != rights:
                yield _granted(table, grantee, held[table, grantee], rights)


def _wanted(table: str, columns: Sequence[str]) -> set[_Held]:
    may = _tables.get(table, May())
    rights: set[_Held] = {("select", None)}
    rights |= {(right, None) for right in ("insert", "delete") if getattr(may, right)}
    if may.columns:
        rights |= {("update", column) for column in may.columns if column in columns}
    elif may.update:
        rights.add(("update", None))
    return rights


def _granted(table: str, grantee: str, held: set[_Held], wanted: set[_Held]) -> Difference:
    """Everything taken back, columns too, and what is wanted given: one statement after the other."""
    names = {"table": sql.Identifier("public", table), "grantee": _grantee(grantee)}
    statements = [sql.SQL("revoke all on {table} from {grantee}").format(**names)]
    for right, column in sorted(wanted, key=str):
        what = sql.SQL(right) if column is None else sql.SQL(right + " ({})").format(sql.Identifier(column))
        statements.append(sql.SQL("grant {what} on {table} to {grantee}").format(what=what, **names))
    more, less = _words(held - wanted), _words(wanted - held)
    said = "; ".join(filter(None, [f"may {more}" if more else "", f"may not {less}" if less else ""]))
    return Difference(f"{table}: {grantee} {said}", sql.SQL("; ").join(statements))


def _words(rights: set[_Held]) -> str:
    return ", ".join(sorted(right if column is None else f"{right} {column}" for right, column in rights))


def _of_sequences(cursor: CursorWrapper, role: str) -> Iterator[Difference]:
    """The next number is taken; none is set."""
    cursor.execute(
        "select c.relname, array_agg(lower(a.privilege_type)) filter (where r.rolname = %s) from pg_class c"
        "  cross join lateral aclexplode(coalesce(c.relacl, acldefault('s', c.relowner))) a"
        "  left join pg_roles r on r.oid = a.grantee"
        " where c.relnamespace = 'public'::regnamespace and c.relkind = 'S' group by 1 order by 1",
        [role],
    )
    for name, held in cursor.fetchall():
        if held != ["usage"]:
            names = {"sequence": sql.Identifier("public", name), "role": sql.Identifier(role)}
            statement = sql.SQL(
                "revoke all on sequence {sequence} from {role}; grant usage on sequence {sequence} to {role}"
            )
            yield Difference(f"{name}: {role} has {held or 'nothing'}, not usage", statement.format(**names))


def _grantee(name: str) -> sql.Composable:
    return sql.SQL("public") if name == "public" else sql.Identifier(name)


def _quoted(role: str) -> str:
    return '"' + role.replace('"', '""') + '"'
