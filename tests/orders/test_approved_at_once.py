"""What was approved is compared, and a change decided on, under the deal's lock: what another process does at
that moment comes before or after, never in between."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from django.db import connections, transaction

from orders.models import Deal
from orders.services import deal_locked
from tasks_app.approvals import kinds
from tasks_app.approvals.kinds import kind_of
from tasks_app.approvals.models import Approval
from tasks_app.operations.dispatch import claim_one
from tests.database import Database
from tests.orders.live import booked
from tests.orders.test_approved import asked_change, decided, open_question, released


def somebody_else(act: Callable[[], Any]) -> Any:
    """What another process gets at this moment."""

    def run() -> Any:
        try:
            with transaction.atomic():
                return act()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(run).result()


def is_free(deal: Deal) -> bool:
    rows = Deal.objects.filter(pk=deal.pk).select_for_update(no_key=True, skip_locked=True)
    return bool(somebody_else(rows.exists))


def test_nothing_leaves_while_somebody_has_the_deal(committed_db: Database) -> None:
    deal, operation = released()
    with transaction.atomic():
        deal_locked(deal.pk)
        assert somebody_else(lambda: claim_one(operation_id=operation.pk)) is None
    operation.refresh_from_db()
    assert operation.send_at is not None
    assert not Approval.objects.filter(status="open").exists()
    assert claim_one(operation_id=operation.pk) is not None


def test_a_change_is_decided_on_under_the_deal_s_lock(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    deal = booked()
    with transaction.atomic():
        asked_change(deal)
    kind, free = kind_of(open_question()), []

    def version(approval: Approval) -> int | None:
        found = kind.version(approval)
        free.append(is_free(deal))
        return found

    monkeypatch.setitem(kinds._kinds, kind.name, replace(kind, version=version))
    assert decided().status == "approved"
    assert free == [False]
