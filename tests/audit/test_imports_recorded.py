"""A birth outside the initial status needs its recorded import: what the entry says of itself is no proof."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import transaction
from psycopg.types.json import Jsonb

from tasks_app import clock
from tasks_app.lifecycle.imports import import_record
from tasks_app.lifecycle.replay import entity_at
from tasks_app.lifecycle.verify import verify_entity, verify_trail
from tests.audit.trails import deal_with_trail, rehash, rewrite

pytestmark = pytest.mark.all_cases

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


def _recorded(rows: int) -> str:
    with transaction.atomic():
        return str(import_record(source="a file", actor="system", rows=rows).pk)


def test_a_recorded_import_does(superuser: psycopg.Connection) -> None:
    import_id, deal = _recorded(1), deal_with_trail()
    cut(superuser, deal, import_id)
    assert verify_entity("deal", deal.pk).ok
    assert [found.verification.ok for found in verify_trail() if found.entity_id == deal.pk] == [True]


def test_a_host_whose_clock_is_ahead_of_the_databases_imports_all_the_same(
    superuser: psycopg.Connection,
) -> None:
    with clock.injected(lambda: datetime.now(UTC) + timedelta(seconds=5)):
        import_id = _recorded(1)
    deal = deal_with_trail()
    cut(superuser, deal, import_id)
    assert verify_entity("deal", deal.pk).ok


@pytest.mark.parametrize("days", [-2, 2])
def test_one_of_another_time_does_not(superuser: psycopg.Connection, days: int) -> None:
    """Every media buy that somebody takes over records an import: there are always some."""
    with clock.injected(lambda: datetime.now(UTC) + timedelta(days=days)):
        import_id = _recorded(1)
    deal = deal_with_trail()
    cut(superuser, deal, import_id)
    assert "is no declared edge" in verify_entity("deal", deal.pk).problem


def test_one_explains_as_many_births_as_it_was_of(superuser: psycopg.Connection) -> None:
    import_id, first = _recorded(2), deal_with_trail()
    shared = {"seller": first.seller, "account": first.account}
    deals = [first, deal_with_trail(**shared), deal_with_trail(**shared)]
    for deal in deals[:2]:
        cut(superuser, deal, import_id)
    assert all(found.verification.ok for found in verify_trail())
    cut(superuser, deals[2], import_id)
    wrong = [found for found in verify_trail() if not found.verification.ok]
    assert [one.verification.broken_at for one in wrong] == [1]
    assert "fewer than cite it" in wrong[0].verification.problem


def test_a_moment_outside_the_calendar_can_be_replayed(superuser: psycopg.Connection) -> None:
    deal = deal_with_trail()
    rewrite(superuser, deal, seq=2, at="294000-01-01 00:00+00")
    entity_at("deal", deal.pk)
