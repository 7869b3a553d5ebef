"""Explained: whoever a deal or its purchase really waits for, also after its end."""

from __future__ import annotations

import pytest

from tasks_app.approvals.models import Approval
from tasks_app.desk.explain import explain
from tests.factories import make_user
from tests.orders.late import booking, bought, fresh, give_up, say

pytestmark = pytest.mark.django_db


def test_a_purchase_that_the_seller_contradicts_waits_for_those_who_can_decide() -> None:
    deal, operation = booking()
    say(operation, "completed", bought(deal))
    say(operation, "rejected", channel="webhook")
    asked = Approval.objects.get(kind="conflict")
    Approval.objects.filter(pk=asked.pk).update(roles=["Administrator"])
    viewer, boss = make_user("Approver", name="able"), make_user("Administrator", name="boss")

    told = explain(operation.reference, viewer)

    assert "has said otherwise" in told.waiting_for
    assert [(who.does, who.people) for who in told.who] == [
        (f"decide on {asked.reference}", (boss.username,))
    ]
    assert told.deadline == asked.due_at


def test_a_deal_that_failed_and_was_bought_late_waits_for_people() -> None:
    deal, operation = booking()
    give_up(operation)
    say(operation, "completed", bought(deal))
    asked = Approval.objects.get(kind="unclaimed")
    viewer = make_user("Approver", name="able")
    assert fresh(deal).status == "failed"

    for named in (deal.reference, operation.reference):
        told = explain(named, viewer)
        assert asked.reference in told.waiting_for
        assert "able" in told.who[0].people
        assert told.deadline == asked.due_at
