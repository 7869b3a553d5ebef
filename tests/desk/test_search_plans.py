"""Every look-up of the global search is answered by an index: shown by the plans of the queries it makes."""

from __future__ import annotations

import re
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tasks_app.desk.search import search
from tasks_app.people.models import User
from tests.factories import make_user

pytestmark = pytest.mark.django_db
# Few rows by nature: sellers, and what people and rights are made of.
_SMALL = re.compile(
    r"Seq Scan on (tasks_app_(seller|user|team|user_teams|user_groups)|auth_\w+|django_\w+)\b"
)
_INDEXES = {
    "operation_a2a_task", "operation_a2a_context", "operation_po_number", "task_once_per_seller",
    "media_buy_once_per_seller", "line_package", "campaign_by_name", "advertiser_by_name",
    "account_by_seller_id", "finding_by_id",
}  # fmt: skip


def plans(text: str, viewer: User) -> str:
    """The plans of all queries of a search, when tables are large."""
    with CaptureQueriesContext(
        connection,
    ) as made:
        search(text, viewer)
    told = []
    with connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off")
        for query in made.captured_queries:
            cursor.execute(f"explain {query['sql']}")
            told.append("\n".join(row[0] for row in cursor.fetchall()))
    return "\n".join(told)


@pytest.mark.parametrize("text", ["a2a-ctx-4471", "DEAL-2026-000864", str(uuid.UUID(int=7))])
@pytest.mark.parametrize("role", ["Administrator", "superuser"])
def test_every_look_up_has_an_index(text: str, role: str) -> None:
    viewer = make_user("Administrator")
    viewer.is_superuser = role == "superuser"
    told = plans(text, viewer)
    scanned = [line for line in told.splitlines() if "Seq Scan" in line and not _SMALL.search(line)]
    assert scanned == []


def test_the_indexes_that_large_tables_are_looked_up_by_are_there() -> None:
    """Of hardly any rows another index is as good, so that a plan names these only sometimes."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid where i.indisvalid"
        )
        valid = {row[0] for row in cursor.fetchall()}
    assert valid >= _INDEXES
