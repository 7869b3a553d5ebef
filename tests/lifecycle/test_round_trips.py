"""Changes come back from the database as they went, and stand exactly in the trail."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction

from orders.models import Deal, DealStatus
from tasks_app.lifecycle.transitions import transition
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Account
from tests.factories import make_account, make_advertiser, make_deal, make_seller
from tests.lifecycle.entities import make_campaign, make_operation, trail, written
from tests.owning import any_column

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def of_any_kind(db: None) -> None:
    for entity in ("campaign", "deal", "operation"):
        any_column(entity)


def stored(deal: Deal) -> dict[str, Any]:
    return Deal.objects.filter(pk=deal.pk).values().get()


# What comes back from the database after a transition wrote it.
ROUND_TRIPS: list[tuple[str, Any, Any]] = [
    ("error", {"code": "X", "n": 0.1, "none": None, "deep": [{"a": [1, 2.5, True]}]}, None),
    ("result", {}, None),
    ("result", [], None),
    ("result", "text", None),
    ("result", 0, None),
    ("result", False, None),
    ("result", None, None),
    ("result", {"big": 2**70, "small": 1e-9, "whole": 1.0, "quote": "'\"\\ %s $1 {0}"}, None),
    ("message", "naïve — 漢字 \U0001f680\n\t'; drop table orders_deal; --", None),
    ("message", "", None),
    ("message", "a\x00b\ud800c", "a\ufffdb\ufffdc"),
    ("result", {"k\x00": "v\x00"}, {"k\ufffd": "v\ufffd"}),
    ("attempts", 3, None),
    ("settled_at", datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), None),
    ("settled_at", None, None),
    ("task_id", "task'; --", None),
]


@pytest.mark.parametrize(("name", "value", "comes_back"), ROUND_TRIPS)
def test_changes_come_back_as_they_went(name: str, value: Any, comes_back: Any) -> None:
    operation = make_operation()
    transition(operation, "calling_adcp", actor="system", changes={name: value})
    found = Operation.objects.get(pk=operation.pk)
    wanted = value if comes_back is None else comes_back
    assert getattr(found, name) == wanted
    assert type(getattr(found, name)) is type(wanted)
    assert verify_entity("operation", operation.pk).ok


def test_several_changes_at_once_and_foreign_keys() -> None:
    deal = make_deal(account=False)
    account = make_account(make_advertiser(), deal.seller)
    transition(
        deal,
        DealStatus.ACCEPTED,
        actor="system",
        changes={"account": account, "revision": 4, "valid_actions": ["cancel"], "zone": "UTC"},
    )
    found = Deal.objects.get(pk=deal.pk)
    assert (found.account, found.revision, found.valid_actions, found.zone) == (account, 4, ["cancel"], "UTC")
    assert trail(deal)[-1].changes["account_id"] == [None, str(account.pk)]
    transition(deal, DealStatus.CANCELLED, actor="system", changes={"account": None})
    assert Deal.objects.get(pk=deal.pk).account is None
    assert Account.objects.filter(pk=account.pk).exists()


@pytest.mark.parametrize("amount", ["0.0001", "1.2300", "12345678901234.5678", None])
def test_decimals_are_exact(amount: str | None) -> None:
    """The value before stands in the trail as a number: it is read back exactly, not as a float."""
    exact = Decimal(amount) if amount else None
    campaign = make_campaign(budget=exact)
    transition(campaign, "brief_received", actor="system", changes={"budget": Decimal("99999999999999.9999")})
    assert type(campaign).objects.get(pk=campaign.pk).budget == Decimal("99999999999999.9999")
    assert verify_entity("campaign", campaign.pk).ok


def test_encrypted_columns_stay_out_of_the_trail() -> None:
    operation = make_operation(
        "buy", task_type="create_media_buy", seller=make_seller(webhook_mode="rfc9421")
    )
    row = Operation.objects.filter(pk=operation.pk).values("webhook_token", "request_text").get()
    for name in row:
        with pytest.raises(TypeError, match="cannot be written with a status change"):
            transition(operation, "calling_adcp", actor="system", changes={name: "known"})
    transition(operation, "calling_adcp", actor="system", changes={"attempts": 1})
    # Written back with the row, an encrypted column keeps its text.
    assert Operation.objects.filter(pk=operation.pk).values("webhook_token", "request_text").get() == row
    kept = " ".join(str(entry.changes) + str(entry.metadata) for entry in trail(operation))
    assert operation.webhook_token
    assert operation.webhook_token not in kept


def test_large_values_are_named_by_digest() -> None:
    operation = make_operation()
    transition(operation, "calling_adcp", actor="system", changes={"result": {"products": ["x" * 5000]}})
    _, after = trail(operation)[-1].changes["result"]
    assert set(after) == {"sha256", "bytes"}
    assert Operation.objects.get(pk=operation.pk).result == {"products": ["x" * 5000]}
    assert verify_entity("operation", operation.pk).ok


def test_a_field_that_is_not_there_is_refused_before_anything_is_written() -> None:
    deal = make_deal()
    before = written()
    for name in ("nothing", "status = 'booked' --", 'terms" = 1'):
        with pytest.raises(Exception, match="has no field named"):
            transition(deal, DealStatus.ACCEPTED, actor="system", changes={name: 1})
    assert (stored(deal)["status"], written()) == ("quoted", before)


def test_a_change_that_breaks_a_rule_of_the_table_changes_nothing() -> None:
    deal = make_deal()
    row, before = stored(deal), written()
    with pytest.raises(Exception, match="deal_flight"), transaction.atomic():
        transition(deal, DealStatus.ACCEPTED, actor="system", changes={"end_at": deal.start_at})
    assert (stored(deal), written(), deal.status) == (row, before, "quoted")
