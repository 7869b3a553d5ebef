"""Somebody in psql as the application's role, and a deal that nothing may happen to."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from orders.models import Deal
from tasks_app.lifecycle.verify import verify_entity
from tests.database import Database
from tests.factories import make_deal

COPY = "insert into orders_deal select (jsonb_populate_record(d, %s)).* from orders_deal d where d.id = %s"


@pytest.fixture
def deal(committed_db: Database) -> Deal:
    return make_deal()


@pytest.fixture
def role(committed_db: Database, deal: Deal) -> Iterator[psycopg.Connection]:
    """Somebody in psql, as the application's role."""
    with psycopg.connect(committed_db.urls.app, autocommit=True) as connection:
        yield connection


@pytest.fixture
def app(role: psycopg.Connection, owner: psycopg.Connection) -> psycopg.Connection:
    """The same, to whom somebody gave back a right to write deals: the triggers refuse all the same."""
    owner.execute("grant update on orders_deal to flightdeck_app")
    return role


@pytest.fixture
def owner(committed_db: Database, deal: Deal) -> Iterator[psycopg.Connection]:
    """Somebody in psql as the role that owns tables and functions: the triggers are on for him, too."""
    with psycopg.connect(committed_db.urls.owner, autocommit=True) as connection:
        yield connection


@pytest.fixture
def with_temporary(app: psycopg.Connection, owner: psycopg.Connection) -> psycopg.Connection:
    """The application's role, to whom somebody gave a right to temporary tables all the same."""
    database = sql.Identifier(app.info.dbname)
    owner.execute(sql.SQL("grant temporary on database {} to flightdeck_app").format(database))
    return app


def unchanged(deal: Deal) -> None:
    stored = Deal.objects.get(pk=deal.pk)
    assert (stored.status, stored.version) == (deal.status, deal.version)
    assert verify_entity("deal", deal.pk).ok


def in_one_transaction(connection: psycopg.Connection, *statements: str) -> None:
    with connection.transaction():
        for statement in statements:
            connection.execute(statement)
