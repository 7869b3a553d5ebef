"""A birth outside the initial status needs its recorded import: what the entry says of itself is no proof."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg
import pytest
from django.db import transaction
from psycopg.types.json import Jsonb

from tasks_app.lifecycle.imports import import_record
from tasks_app.lifecycle.replay import entity_at
from tasks_app.lifecycle.verify import verify_entity
from tests.audit.trails import deal_with_trail, rehash, rewrite

UNKNOWN = str(uuid.uuid4())


def cut(superuser: psycopg.Connection, deal: Any, import_id: object) -> None:
    """The trail cut to one entry that claims to be the birth of an import."""
    superuser.execute("delete from tasks_app_auditentry where entity_id = %s and seq < 3", [deal.pk])
    superuser.execute(
        "update tasks_app_auditentry set seq = 1, from_status = '', metadata = %s where entity_id = %s",
        [Jsonb({"imported": True, "import": import_id}), deal.pk],
    )
    rehash(superuser, deal)
    superuser.execute("alter table orders_deal disable trigger all")
    superuser.execute("update orders_deal set version = 1 where id = %s", [deal.pk])
    superuser.execute("alter table orders_deal enable trigger all")


@pytest.mark.parametrize("claimed", [UNKNOWN, "none", None, 7], ids=["unknown", "no-id", "null", "number"])
def test_an_import_that_was_never_recorded_explains_no_birth(
    superuser: psycopg.Connection, claimed: object
) -> None:
    deal = deal_with_trail()
    cut(superuser, deal, claimed)
    checked = verify_entity("deal", deal.pk)
    assert not checked.ok
    assert "is no declared edge" in checked.problem


def test_a_recorded_import_does(superuser: psycopg.Connection) -> None:
    deal = deal_with_trail()
    with transaction.atomic():
        recorded = import_record(source="a file", actor="system")
    cut(superuser, deal, str(recorded.pk))
    assert verify_entity("deal", deal.pk).ok


def test_a_moment_outside_the_calendar_can_be_replayed(superuser: psycopg.Connection) -> None:
    deal = deal_with_trail()
    rewrite(superuser, deal, seq=2, at="294000-01-01 00:00+00")
    entity_at("deal", deal.pk)
