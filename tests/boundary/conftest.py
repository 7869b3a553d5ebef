"""Recipes and actions for one test alone, a seller, and effects to ask for."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.operations.ordering import PLACE, Order
from tasks_app.people.models import User
from tests.factories import make_seller, make_team, make_user
from tests.jobs.conftest import Bench
from tests.jobs.conftest import bench as _bench

bench = pytest.fixture(_bench.__wrapped__)

__all__ = ["Bench", "answered", "asked", "bench", "purchase", "stopped"]


def purchase(**fields: Any) -> Order:
    """A purchase of the team's, with a seller that is there."""
    defaults: dict[str, Any] = {
        "kind": PLACE,
        "purpose": f"test:{uuid.uuid4()}",
        "arguments": {"po_number": "PO-1", "context": {"deal_id": "d-1"}},
        "team": make_team(),
    }
    seller = fields.pop("seller", None) or make_seller()
    return Order(seller=seller, **{**defaults, **fields})


def stopped(on: bool = True, **fields: Any) -> None:
    """The kill switch, turned by the system."""
    kill_switch_set(on=on, reason="A drill", actor="system", **fields)


def asked() -> Approval:
    """The one open question of a gate."""
    return Approval.objects.get(kind__in=("risk_gate", "kill_switch"), status="open")


def answered(verdict: str, *, user: User | None = None) -> Approval:
    """The one open question, decided by as many as it takes; the last word is the user's."""
    question = asked()
    others = [make_user("Approver") for _ in range(question.quorum - 1)] if verdict == "approve" else []
    for one in (*others, user or make_user("Approver")):
        question = approval_decide(approval_id=question.pk, user=one, verdict=verdict, comment="So be it.")
    return question
