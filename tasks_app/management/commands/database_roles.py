"""`manage.py database_roles`: both roles, the database and their rights, on one's own PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.conf import settings
from django.core.management.base import CommandParser
from django.db import connection, transaction

from config.postgres.own_roles import (
    RoleDifference,
    Wanted,
    owner_differences,
    owner_lent,
    role_differences,
    sign_in_given,
)
from tasks_app.database_rights import rights_apply, rights_differences
from tasks_app.installation import roles_lacks
from tasks_app.management.base import DeskCommand, refuse

_NEEDS_ADMIN = "set ADMIN_DATABASE_URL to whoever may make roles and databases"


class Command(DeskCommand):
    help = (
        "Makes the two roles and the database that DATABASE_URL and MIGRATE_DATABASE_URL name, with the"
        " passwords in them, and gives the application's role the rights it needs and no others. May be run"
        " again. ADMIN_DATABASE_URL (in the environment) connects as whoever may make roles and databases;"
        " without it only the rights inside the database are mended, as the owner."
    )
    exit_codes = "Exit code 0: all is as it should be; 1: --check found what differs; 2: refused."
    whole = False

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="change nothing: tell what differs")

    def run(self, **options: Any) -> None:
        for lack in roles_lacks():
            refuse(lack)
        try:
            wanted = Wanted.by(settings.DATABASE_URLS)
            if options["check"]:
                self._tell(_differing(wanted))
            else:
                self._made(_make(wanted))
        except ValueError as error:
            refuse(str(error))
        except psycopg.Error as error:
            refuse(f"PostgreSQL refused: {str(error).strip()}{'' if _admin() else f' ({_NEEDS_ADMIN})'}")

    def _tell(self, found: list[str]) -> None:
        self.answer({"differs": found}, found or ["All is as it should be."])
        if found:
            self.found(f"{len(found)} things differ: manage.py database_roles mends them.")

    def _made(self, found: list[str]) -> None:
        lines = [f"mended: {says}" for says in found] or ["All was as it should be."]
        self.answer({"mended": found}, lines)


def _differing(wanted: Wanted) -> list[str]:
    """Asked as the administrator where one is given, else as the owner; then inside, and of each URL."""
    with _signed_in(_admin() or settings.DATABASE_URLS.owner) as one:
        found = role_differences(one, wanted)
    if any(says.says.startswith("There is no") for says in found):
        return [one.says for one in found]
    with _signed_in(settings.DATABASE_URLS.owner) as owner:
        found += owner_differences(owner, wanted)
    with connection.cursor() as cursor:
        inside = [one.says for one in rights_differences(cursor, wanted.app)]
    return [*(one.says for one in found), *inside, *_turned_away()]


def _make(wanted: Wanted) -> list[str]:
    admin = _admin()
    with _signed_in(admin or settings.DATABASE_URLS.owner) as one:
        said = _mend(one, wanted, role_differences(one, wanted), may=bool(admin))
        if admin:
            sign_in_given(one, wanted)
    with _signed_in(admin or settings.DATABASE_URLS.owner, database=wanted.database) as one:
        said += _mend(one, wanted, owner_differences(one, wanted), may=bool(admin))
    with transaction.atomic(), connection.cursor() as cursor:
        said += [one.says for one in rights_apply(cursor, wanted.app)]
    for turned_away in _turned_away():
        refuse(turned_away)
    return said


def _mend(admin: psycopg.Connection, wanted: Wanted, found: list[RoleDifference], *, may: bool) -> list[str]:
    """In order: roles first, so that what is given to the owner finds it."""
    said = []
    for one in found:
        if not may and not one.superuser:
            refuse(f"{one.says}: {_NEEDS_ADMIN}.")
        if one.to_owner:
            owner_lent(admin, wanted)
        try:
            admin.execute(one.statement)
        except psycopg.errors.InsufficientPrivilege:
            if not one.superuser:
                raise
            continue  # a wish that only a superuser grants
        said.append(one.says)
    return said


def _turned_away() -> Iterator[str]:
    """Whether the application can come in as its URL says."""
    try:
        with _signed_in(settings.DATABASE_URLS.app):
            return
    except psycopg.OperationalError as error:
        yield f"DATABASE_URL cannot sign in: {str(error).strip()}"


@contextmanager
def _signed_in(url: str, *, database: str | None = None) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True, connect_timeout=10, dbname=database) as one:
        yield one


def _admin() -> str:
    return os.environ.get("ADMIN_DATABASE_URL", "").strip()
