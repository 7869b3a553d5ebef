"""The two roles on one’s own PostgreSQL: what is otherwise than DATABASE_URL and MIGRATE_DATABASE_URL want,
and the statements that make it so (manage.py database_roles)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

import psycopg
from psycopg import sql

from .addresses import DatabaseUrls
from .roles import app_settings, password_statement, setting_statement


@dataclass(frozen=True)
class Wanted:
    """The two roles and the database that DATABASE_URL and MIGRATE_DATABASE_URL name."""

    owner: str
    app: str
    database: str
    passwords: Mapping[str, str] = field(repr=False)

    @classmethod
    def by(cls, urls: DatabaseUrls) -> Wanted:
        """Raises ValueError: a URL leaves out what is to be made, or they name two databases."""
        owner, app = urlsplit(urls.owner), urlsplit(urls.app)
        for name, url in (("MIGRATE_DATABASE_URL", owner), ("DATABASE_URL", app)):
            if url.scheme not in ("postgres", "postgresql") or not url.username or len(url.path) < 2:
                raise ValueError(f"{name} must be postgresql://role:password@host/database")
        if owner.path != app.path:
            raise ValueError("DATABASE_URL and MIGRATE_DATABASE_URL name two databases")
        passwords = {_login(part): unquote(part.password) for part in (owner, app) if part.password}
        return cls(_login(owner), _login(app), unquote(owner.path.lstrip("/")), passwords)


def _login(url: SplitResult) -> str:
    return unquote(url.username or "")


@dataclass(frozen=True)
class RoleDifference:
    """What a server has otherwise, in a sentence, and the statement that mends it. `superuser`: nobody else
    may, and it can be done without; `to_owner`: it gives the owner something."""

    says: str
    statement: sql.Composed
    superuser: bool = False
    to_owner: bool = False


def role_differences(connection: psycopg.Connection, wanted: Wanted) -> list[RoleDifference]:
    """Roles and database that are not as they should be; anybody who is signed in may ask. What is inside the
    database: `owner_differences`."""
    known = {name: rest for name, *rest in connection.execute(_ROLES).fetchall()}
    found = []
    for role in (wanted.owner, wanted.app):
        name = sql.Identifier(role)
        if role not in known:
            made = sql.SQL("create role {} login").format(name)
            found.append(RoleDifference(f"There is no role {role}", made))
        elif not known[role][0]:
            mended = sql.SQL("alter role {} login").format(name)
            found.append(RoleDifference(f"{role} may not sign in", mended))
    _, *above = known.get(wanted.app, (True, False, False, False, False, False))
    for right, has in zip(RIGHTS_ABOVE, above, strict=True):
        if has:
            less = sql.SQL("alter role {} no" + right).format(sql.Identifier(wanted.app))
            found.append(RoleDifference(f"{wanted.app} is {right}", less))
    if {wanted.owner, wanted.app} <= known.keys() and _is_member(connection, wanted):
        names = (sql.Identifier(wanted.owner), sql.Identifier(wanted.app))
        out = sql.SQL("revoke {} from {}").format(*names)
        found.append(RoleDifference(f"{wanted.app} is a member of {wanted.owner}", out))
    return [
        *found,
        *_settings_differences(connection, wanted.app),
        *_database_differences(connection, wanted),
    ]


# What a role of PostgreSQL may do to the whole server, in the order of `_ROLES`; the application none of it.
RIGHTS_ABOVE = ("superuser", "createdb", "createrole", "replication", "bypassrls")
_ROLES = """
select rolname, rolcanlogin, rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls from pg_roles
"""
ABOVE_OF_ROLE = f"select roles.* from ({_ROLES}) roles where rolname = %(role)s"  # noqa: S608 (our own words)


def _is_member(connection: psycopg.Connection, wanted: Wanted) -> bool:
    query = "select exists (select from pg_auth_members where roleid = %s::regrole and member = %s::regrole)"
    names = [sql.Identifier(name).as_string(connection) for name in (wanted.owner, wanted.app)]
    (found,) = connection.execute(query, names).fetchone() or (False,)
    return bool(found)


def _settings_differences(connection: psycopg.Connection, app: str) -> Iterator[RoleDifference]:
    row = connection.execute(
        "select s.setconfig from pg_db_role_setting s join pg_roles r on r.oid = s.setrole"
        " where r.rolname = %s and s.setdatabase = 0",
        [app],
    ).fetchone()
    held = set(row[0]) if row else set()
    for name, value in app_settings(connection).items():
        if f"{name}={value}" not in held:
            says = f"{app} has not {name} = {value}"
            yield RoleDifference(
                says, setting_statement(app, name, value), superuser=name == "deadlock_timeout"
            )


def _database_differences(connection: psycopg.Connection, wanted: Wanted) -> Iterator[RoleDifference]:
    query = "select pg_get_userbyid(datdba) from pg_database where datname = %s"
    row = connection.execute(query, [wanted.database]).fetchone()
    names = (sql.Identifier(wanted.database), sql.Identifier(wanted.owner))
    if row is None:
        made = sql.SQL("create database {} owner {}").format(*names)
        yield RoleDifference(f"There is no database {wanted.database}", made, to_owner=True)
    elif row[0] != wanted.owner:
        given = sql.SQL("alter database {} owner to {}").format(*names)
        yield RoleDifference(f"The database {wanted.database} belongs to {row[0]}", given, to_owner=True)


def owner_differences(connection: psycopg.Connection, wanted: Wanted) -> list[RoleDifference]:
    """In the connected database: schema, tables and functions that belong to another than the owner, and
    groups that bring the application's role rights of theirs."""
    found = connection.execute(_FOREIGN, {"owner": wanted.owner}).fetchall()
    owner = sql.Identifier(wanted.owner)
    foreign = [
        RoleDifference(
            f"{name} belongs to {whose}",
            sql.SQL(f"alter {kind} {name} owner to {{}}").format(owner),
            to_owner=True,
        )
        for kind, name, whose in found
    ]
    return [*foreign, *_group_differences(connection, wanted)]


def _group_differences(connection: psycopg.Connection, wanted: Wanted) -> Iterator[RoleDifference]:
    for direct, group in connection.execute(GROUPS_WITH_RIGHTS, {"role": wanted.app}).fetchall():
        if group == wanted.owner:
            continue
        names = (sql.Identifier(direct), sql.Identifier(wanted.app))
        through = "" if direct == group else f" through {direct}"
        yield RoleDifference(
            f"{wanted.app} has the rights of {group}{through}", sql.SQL("revoke {} from {}").format(*names)
        )


# Each group that a role is in, by the membership that leads there, where it may do something to the server
# or holds something in the connected database. Those that only let a role sign in hold nothing.
GROUPS_WITH_RIGHTS = """
with recursive above(direct, id) as (
    select m.roleid, m.roleid from pg_auth_members m join pg_roles r on r.oid = m.member
     where r.rolname = %(role)s
    union select above.direct, m.roleid from pg_auth_members m join above on m.member = above.id
)
select pg_get_userbyid(above.direct)::text, g.rolname::text from above join pg_roles g on g.oid = above.id
 where g.rolsuper or g.rolcreatedb or g.rolcreaterole or g.rolreplication or g.rolbypassrls
    or starts_with(g.rolname, 'pg_')
    or exists (select from pg_shdepend d where d.refclassid = 'pg_authid'::regclass and d.refobjid = g.oid
                and d.dbid = (select oid from pg_database where datname = current_database()))
 order by 2, 1
"""


# Sequences of columns go with their tables, and types with theirs.
_FOREIGN = """
select 'schema', n.nspname::text, pg_get_userbyid(n.nspowner) from pg_namespace n
 where n.nspname = 'public' and not pg_has_role(%(owner)s, n.nspowner, 'member')
union all
select case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence'
       else 'table' end, c.oid::regclass::text, pg_get_userbyid(c.relowner)
  from pg_class c
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S')
   and pg_get_userbyid(c.relowner) <> %(owner)s
   and not exists (select from pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i', 'e'))
union all
select 'routine', p.oid::regprocedure::text, pg_get_userbyid(p.proowner)
  from pg_proc p
 where p.pronamespace = 'public'::regnamespace and pg_get_userbyid(p.proowner) <> %(owner)s
   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
 order by 2
"""


def sign_in_given(admin: psycopg.Connection, wanted: Wanted) -> None:
    """Both roles' passwords as their URLs have them."""
    for role, password in wanted.passwords.items():
        admin.execute(password_statement(admin, role, password))


def owner_lent(admin: psycopg.Connection, wanted: Wanted) -> None:
    """Who is no superuser gives a database to a role only as its member."""
    (above,) = admin.execute("select rolsuper from pg_roles where rolname = current_user").fetchone() or (0,)
    if not above:
        admin.execute(sql.SQL("grant {} to current_user").format(sql.Identifier(wanted.owner)))
