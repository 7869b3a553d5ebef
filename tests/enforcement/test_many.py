"""transition_many: one statement for many rows, the same trail as one by one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext

from orders.models import Deal
from tasks_app import clock
from tasks_app.lifecycle import guards
from tasks_app.lifecycle.errors import InvalidTransitionError, UnknownStatusError
from tasks_app.lifecycle.models import AuditEntry, LifecycleRule, OutboxEvent
from tasks_app.lifecycle.transitions import transition, transition_many
from tasks_app.lifecycle.verify import verify_entity
from tests.factories import make_deal, make_seller, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def deals() -> list[Deal]:
    return [make_deal(seller=make_seller(f"Seller {i}"), account=False) for i in range(4)]


def test_every_row_that_may_moves_in_one_statement(deals: list[Deal]) -> None:
    transition(deals[0], "accepted", actor="system")
    with CaptureQueriesContext(
        connection,
    ) as ran:
        moved = transition_many(Deal.objects.all(), "expired", actor="system", metadata={"sweep": "1"})
    assert moved == 3
    assert len([q for q in ran if "fd_move_many" in q["sql"]]) == 1
    assert sorted(Deal.objects.values_list("status", flat=True)) == [
        "accepted",
        "expired",
        "expired",
        "expired",
    ]
    for deal in deals:
        assert verify_entity("deal", deal.pk).ok
    entry = AuditEntry.objects.filter(entity_id=deals[1].pk).latest("seq")
    assert (entry.reason, entry.metadata, entry.seq) == ("Quote expired", {"sweep": "1"}, 2)
    assert OutboxEvent.objects.filter(type="deal.expired").count() == 3


def test_changes_move_with_the_status_and_stand_in_the_trail(deals: list[Deal]) -> None:
    assert (
        transition_many(Deal.objects.all(), "failed", actor="system", changes={"media_buy_status": "gone"})
        == 4
    )
    assert set(Deal.objects.values_list("media_buy_status", flat=True)) == {"gone"}
    entry = AuditEntry.objects.filter(entity_id=deals[0].pk).latest("seq")
    assert entry.changes == {"media_buy_status": ["", "gone"]}
    assert verify_entity("deal", deals[0].pk).ok


def test_refusals_change_nothing(deals: list[Deal]) -> None:
    person = make_user("Approver")
    with pytest.raises(UnknownStatusError):
        transition_many(Deal.objects.all(), "pending_manual", actor="system")
    with pytest.raises(InvalidTransitionError, match="people move one at a time"):
        transition_many(Deal.objects.all(), "cancelled", actor=person)
    with pytest.raises(InvalidTransitionError, match="offers no queryset filter"):
        transition_many(Deal.objects.all(), "booking", actor="system")
    assert set(Deal.objects.values_list("status", flat=True)) == {"quoted"}
    assert AuditEntry.objects.filter(entity_type="deal").count() == 4


def test_a_guard_with_a_filter_lets_only_its_rows_pass(
    deals: list[Deal], monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_euro(_id: str, _from: str, _to: str, context: Any) -> bool:
        return bool(context["entity"].currency == "EUR")

    only_euro.as_filter = lambda: Q(currency="EUR")  # type: ignore[attr-defined]
    monkeypatch.setattr(guards, "_guards", {("deal", "quoted", "negotiating"): [only_euro]})
    Deal.objects.filter(pk=deals[0].pk).update(currency="EUR")
    assert transition_many(Deal.objects.all(), "negotiating", actor="system") == 1
    deals[1].refresh_from_db()
    with pytest.raises(InvalidTransitionError, match="guard condition failed"):
        transition(deals[1], "negotiating", actor="system")


def test_an_attached_rule_holds_and_is_recorded(deals: list[Deal]) -> None:
    guards.guard_name("test.never", lambda *_: "never on a Friday")
    try:
        with pytest.raises(ValueError, match="there is no guard"):
            guards.rule_add(
                entity="deal",
                from_status="quoted",
                to_status="negotiating",
                guard="x",
                actor="system",
                reason="y",
            )
        rule = guards.rule_add(
            entity="deal",
            from_status="quoted",
            to_status="negotiating",
            guard="test.never",
            actor="system",
            reason="Policy 7",
        )
        assert (rule.actor, rule.reason) == ("system", "Policy 7")
        with pytest.raises(InvalidTransitionError, match="never on a Friday"):
            transition(deals[0], "negotiating", actor="system")
    finally:
        guards._named.pop("test.never")
        guards.rules_reload()
    with pytest.raises(InvalidTransitionError, match="is not known to this version"):
        transition(deals[0], "negotiating", actor="system")


def test_a_rule_that_another_process_attached_holds_once_rules_are_read_again(
    deals: list[Deal], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 0.0
    monkeypatch.setattr(guards, "time", SimpleNamespace(monotonic=lambda: seconds))
    guards.rules_reload()
    transition(deals[0], "negotiating", actor="system")
    LifecycleRule.objects.create(
        entity="deal", from_status="quoted", to_status="negotiating", guard="of another version",
        actor="system", reason="Policy 8", at=clock.now(),
    )  # fmt: skip

    seconds = guards._RULES_KEEP_S - 0.1
    transition(deals[1], "negotiating", actor="system")
    seconds = guards._RULES_KEEP_S
    with pytest.raises(InvalidTransitionError, match="is not known to this version"):
        transition(deals[2], "negotiating", actor="system")


@pytest.fixture(autouse=True)
def _fresh_rules() -> Any:
    yield
    guards.rules_reload()
