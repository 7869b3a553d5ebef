"""What an installation needs before anything of it starts, outside debug: the database refuses what the
application may not do, and every process can read what others encrypted.

Each lack is one sentence that says what to set. Processes stop with it (web, workers, commands, `migrate`);
`check --deploy` names them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import OperationalError, connection

from config.postgres.own_roles import ABOVE_OF_ROLE, GROUPS_WITH_RIGHTS, RIGHTS_ABOVE
from tasks_app.field_keys import FieldKey, field_key_keep, field_key_missing
from tasks_app.migration_files import digest_problem

_MAKES = "manage.py database_roles makes both roles"
_OWNER_WORKS = (
    "FLIGHTDECK_DB_LOGIN is owner: this process would work as the owner, and no refusal of the database would"
    " hold; unset it (the commands that need the owner set it themselves)."
)


def start_lacks(*, as_owner: bool = False) -> list[str]:
    """What stops this process; where nothing does, its key is kept. One that works as the owner (`migrate`)
    wants the application's role to be there, any other to work as it. Raises OperationalError."""
    if problem := digest_problem():
        return [problem]
    if settings.DEBUG:
        return []
    if settings.DB_LOGIN == "owner":
        lacks = [] if as_owner else [_OWNER_WORKS]
        return [*lacks, *roles_lacks()] or [*_role_made()]
    lacks = [*_one_role()] or [*_standing(), *_name(), *_keys()]
    if not lacks:
        field_key_keep()
    return lacks


def roles_lacks() -> list[str]:
    """What `database_roles` has to be told first."""
    return [*_no_owner(), *_one_role(), *_name()]


@register(Tags.security, deploy=True)
def installation_is_whole(**_: Any) -> list[CheckMessage]:
    """All that would stop a start; of the database where it can be asked."""
    lacks = roles_lacks()
    try:
        lacks += [*_standing(), *_keys()]
    except OperationalError as error:
        if not settings.DATABASE_URLS.embedded:
            lacks.append(f"The database of DATABASE_URL does not answer: {str(error).strip()}")
    return [Error(lack, id="installation.E001") for lack in dict.fromkeys(lacks)]


def role_of(url: str) -> str:
    """Whom a database's URL connects as; empty where it leaves that to the environment."""
    return unquote(urlsplit(url).username or "")


def _no_owner() -> Iterator[str]:
    urls = settings.DATABASE_URLS
    if urls.owner == urls.app:
        yield (
            "MIGRATE_DATABASE_URL is not set, or is DATABASE_URL again: the application's role would own its"
            f" tables, and no refusal of the database would hold; give another role's there ({_MAKES})."
        )


def _one_role() -> Iterator[str]:
    urls = settings.DATABASE_URLS
    role = role_of(urls.app)
    if urls.owner != urls.app and role and role == role_of(urls.owner):
        yield (
            f"DATABASE_URL and MIGRATE_DATABASE_URL both connect as {role}: the application's role would own"
            f" its tables, and no refusal of the database would hold; set them to two roles ({_MAKES})."
        )


def _name() -> Iterator[str]:
    role = role_of(settings.DATABASE_URLS.app)
    if role and role != settings.DB_ROLE:
        yield (
            f"DATABASE_URL connects as {role} and FLIGHTDECK_DB_ROLE says {settings.DB_ROLE}: set one to the"
            " other, or migrations give the rights to a role that nobody works as."
        )


def _role_made() -> Iterator[str]:
    """As the owner."""
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from pg_roles where rolname = %s", [settings.DB_ROLE])
        if not cursor.fetchone()[0]:
            yield (
                f"The database has no role {settings.DB_ROLE} (FLIGHTDECK_DB_ROLE): make it with"
                " manage.py database_roles, or set the name of the one there is."
            )


def _standing() -> Iterator[str]:
    """As the application's role: another than the owner, or whoever is as good as he."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select current_user, has_schema_privilege('public', 'create') or exists (select from pg_class c"
            "  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')"
            "    and pg_has_role(c.relowner, 'member'))"
        )
        role, owns = cursor.fetchone()
        cursor.execute(GROUPS_WITH_RIGHTS, {"role": role})
        groups = sorted({group for _, group in cursor.fetchall()})
        cursor.execute(ABOVE_OF_ROLE, {"role": role})
        _, _, *above = cursor.fetchone()
    rights = [right for right, has in zip(RIGHTS_ABOVE, above, strict=True) if has]
    if owns:
        yield (
            f"DATABASE_URL connects as {role}, who owns tables or may make some, so that no refusal of the"
            " database holds: set MIGRATE_DATABASE_URL to that role, and DATABASE_URL and FLIGHTDECK_DB_ROLE"
            f" to another ({_MAKES})."
        )
        return
    if groups:
        yield (
            f"DATABASE_URL connects as {role}, who has the rights of {', '.join(groups)} too, more than the"
            " application may have: take it out of there (manage.py database_roles does)."
        )
    if rights:
        yield (
            f"DATABASE_URL connects as {role}, who is {', '.join(rights)}, more than the application may be:"
            " take that from it (manage.py database_roles does)."
        )
    if role != settings.DB_ROLE and not role_of(settings.DATABASE_URLS.app):
        said = f"DATABASE_URL connects as {role} and FLIGHTDECK_DB_ROLE says {settings.DB_ROLE}"
        yield f"{said}: set one to the other."


def _keys() -> Iterator[str]:
    """Asked as the application's role."""
    table = FieldKey._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute("select has_table_privilege(to_regclass(%s), 'insert')", [f"public.{table}"])
        (may,) = cursor.fetchone()
    if may is None:
        yield "The database is not migrated: run manage.py migrate."
    elif not may:
        yield f"{settings.DB_ROLE} has not the rights it needs: manage.py database_roles gives them."
    elif field_key_missing():
        yield (
            "This process lacks a key that encrypted columns are under: set FLIGHTDECK_SECRET_KEY and"
            " FLIGHTDECK_FIELD_KEYS to the same on every machine (without them each makes its own in var/)."
        )
