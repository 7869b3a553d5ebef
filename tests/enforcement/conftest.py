"""Somebody in psql as the application's role, and a deal that nothing may happen to."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from orders.models import Deal
from tasks_app.lifecycle.verify import verify_entity
from tests.database import Database
from tests.factories import make_deal

COPY = "insert into orders_deal select (jsonb_populate_record(d, %s)).* from orders_deal d where d.id = %s"


@pytest.fixture
def deal(committed_db: Database) -> Deal:
    return make_deal()


@pytest.fixture
def app(committed_db: Database, deal: Deal) -> Iterator[psycopg.Connection]:
    """Somebody in psql, as the application's role."""
    with psycopg.connect(committed_db.urls.app, autocommit=True) as connection:
        yield connection


@pytest.fixture
def owner(committed_db: Database, deal: Deal) -> Iterator[psycopg.Connection]:
    """Somebody in psql as the role that owns tables and functions: the triggers are on for him, too."""
    with psycopg.connect(committed_db.urls.owner, autocommit=True) as connection:
        yield connection


def unchanged(deal: Deal) -> None:
    stored = Deal.objects.get(pk=deal.pk)
    assert (stored.status, stored.version) == (deal.status, deal.version)
    assert verify_entity("deal", deal.pk).ok


def in_one_transaction(connection: psycopg.Connection, *statements: str) -> None:
    with connection.transaction():
        for statement in statements:
            connection.execute(statement)
