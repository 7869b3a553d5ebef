"""A conflict's own page is a way in to its decision too: with every reason to refuse that it can meet."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from orders.models import Deal
from tasks_app.approvals.models import Approval, Decision
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.conflict import Conflict
from tests.approvals.test_entry_points import REASONS, Try, page_client
from tests.factories import make_user
from tests.orders.late import booking, bought, say

pytestmark = pytest.mark.django_db
# What its form does not say (for whom) or cannot meet (a conflict never moves on) is left out.
_MET = (
    "own",
    "twice",
    "another_digest",
    "no_right",
    "another_team",
    "closed",
    "expired",
    "service_account",
    "switched_off",
    "no_reason",
    "delegate_of_the_requester",
    "stood_in_for_already",
)


@pytest.fixture
def one() -> Try:
    """A seller's contradiction that two must decide on, and somebody who may."""
    deal, operation = booking()
    say(operation, "completed", bought(deal))
    say(operation, "rejected", channel="webhook")
    asked = Approval.objects.filter(kind="conflict")
    asked.update(quorum=2)
    return Try(approval=asked.get(), user=make_user("Approver"), comment="Their letter says so.")


def conflict_page(one: Try) -> int:
    form = {
        "choice": "keep" if one.verdict == "approve" else "take",
        "reason": one.comment,
        "digest": one.shown,
    }
    address = reverse("admin:tasks_app_conflict_change", args=[one.approval.subject_id])
    return page_client(one.user).post(address, form).status_code


def state(one: Try) -> tuple[Any, ...]:
    conflict = Conflict.objects.get(pk=one.approval.subject_id)
    return (
        list(Decision.objects.values_list("pk", flat=True)),
        (conflict.resolution, conflict.resolved_by, conflict.reason),
        Approval.objects.filter(status__in=("approved", "rejected")).count(),
        list(Deal.objects.values_list("status", "version")),
        AuditEntry.objects.filter(entity_type="deal").count(),
    )


@pytest.mark.parametrize("reason", _MET)
def test_a_refused_decision_changes_nothing(one: Try, reason: str) -> None:
    REASONS[reason](one)
    before = state(one)

    conflict_page(one)

    assert state(one) == before


def test_where_nothing_speaks_against_it_it_decides(one: Try) -> None:
    assert conflict_page(one) == 302

    decision = Decision.objects.get(approval=one.approval)
    assert (decision.actor, decision.verdict) == (f"human:{one.user.pk}", "approve")
    assert decision.evidence_digest == one.approval.evidence_digest
    assert Conflict.objects.get().resolved_at is None, "a second person decides with them"
