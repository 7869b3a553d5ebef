"""The two roles and the database they share: one owns and migrates, the other runs the product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import psycopg
from psycopg import sql

from .addresses import APP_ROLE, DATABASE, OWNER_ROLE

# Settings of the application's role (milliseconds where PostgreSQL takes a number): a wait for a lock and an
# abandoned transaction end by themselves. A host that has gone, or cannot be reached, lets go of what its
# connections hold (a session's locks: no transaction is open) half a minute later, not two hours; of a Unix
# socket these say nothing. deadlock_timeout may be set by a superuser only, hence here.
APP_SETTINGS = {
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "60s",
    "deadlock_timeout": "50ms",
    "tcp_keepalives_idle": "10s",
    "tcp_keepalives_interval": "5s",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": "30s",
}
APP_SETTINGS_17 = {"transaction_timeout": "120s"}


_LOCK = 0xF117_0725  # of roles, which all databases of a server share


def ensure_roles(admin: psycopg.Connection, passwords: Mapping[str, str]) -> None:
    """Both roles, with these passwords and no privilege. ``admin``: a superuser in autocommit, connected to
    ``postgres``. Who does so at the same time waits: PostgreSQL would refuse one of them."""
    admin.execute("select pg_advisory_lock(%s)", [_LOCK])
    try:
        _ensure_roles(admin, passwords)
    finally:
        admin.execute("select pg_advisory_unlock(%s)", [_LOCK])


def _ensure_roles(admin: psycopg.Connection, passwords: Mapping[str, str]) -> None:
    known = {name for (name,) in admin.execute("select rolname from pg_roles").fetchall()}
    for role in (OWNER_ROLE, APP_ROLE):
        if role not in known:
            admin.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
        rights = "login nosuperuser nocreatedb nocreaterole noreplication nobypassrls inherit"
        admin.execute(sql.SQL("alter role {} with " + rights).format(sql.Identifier(role)))
        admin.execute(password_statement(admin, role, passwords[role]))
    for name, value in app_settings(admin).items():
        admin.execute(setting_statement(APP_ROLE, name, value))


def password_statement(admin: psycopg.Connection, role: str, password: str) -> sql.Composed:
    """Hashed here, so that the server's log and statistics never see the password."""
    verifier = admin.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    statement = sql.SQL("alter role {} password {}")
    return statement.format(sql.Identifier(role), sql.Literal(verifier.decode()))


def app_settings(connection: psycopg.Connection) -> dict[str, str]:
    """What the application's role has of its own, by name; the server's version decides."""
    newer = APP_SETTINGS_17 if connection.info.server_version >= 170000 else {}
    return {**APP_SETTINGS, **newer}


def setting_statement(role: str, name: str, value: str) -> sql.Composed:
    statement = sql.SQL("alter role {} set {} = {}")
    return statement.format(sql.Identifier(role), sql.Identifier(name), sql.Literal(value))


def ensure_database(admin: psycopg.Connection, name: str = DATABASE, *, template: str | None = None) -> None:
    """The database, owned by the owner, open to the application's role and nobody else.

    A database made from ``template`` brings the grants inside it along. Call `grant_inside` on a new one.
    """
    if admin.execute("select 1 from pg_database where datname = %s", [name]).fetchone() is None:
        source = sql.SQL(" template {}").format(sql.Identifier(template)) if template else sql.SQL("")
        names = (sql.Identifier(name), sql.Identifier(OWNER_ROLE))
        admin.execute(sql.SQL("create database {} owner {}").format(*names) + source)
    for statement in _database_grants(name):
        admin.execute(statement)


def _database_grants(name: str) -> Iterator[sql.Composed]:
    names = {"database": sql.Identifier(name), "app": sql.Identifier(APP_ROLE)}
    yield sql.SQL("revoke all on database {database} from public").format(**names)
    yield sql.SQL("revoke all on database {database} from {app}").format(**names)
    yield sql.SQL("grant connect on database {database} to {app}").format(**names)


def grant_inside(admin: psycopg.Connection) -> None:
    """In the connected database: what the owner makes the application may use; migrations take some back."""
    names = {"owner": sql.Identifier(OWNER_ROLE), "app": sql.Identifier(APP_ROLE)}
    default = "alter default privileges for role {owner} in schema public grant "
    for statement in (
        "revoke all on schema public from public",
        "grant usage on schema public to {app}",
        default + "select on tables to {app}",  # what it writes is declared: tasks_app.database_rights
        default + "usage on sequences to {app}",
        default + "execute on functions to {app}",
    ):
        admin.execute(sql.SQL(statement).format(**names))
