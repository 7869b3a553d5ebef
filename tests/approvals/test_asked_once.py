"""Who asks and who decides at the same moment: a question that has its answer is not put once more.

Seen once: approved in part, then by the second person in a batch, a deal was asked about again while the step
that waits for it looked on; the twin, with the same digest, held the money until somebody saw it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal

import pytest
from django.db import connection, connections, transaction

from orders import questions
from orders.models import Deal, DealStatus
from orders.questions import ask_undecided
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policy_models import ApprovalPolicy
from tasks_app.approvals.services import approval_decide
from tasks_app.approvals.together import batch_decide
from tests.approvals.test_in_part import make_campaign, recommended
from tests.database import Database
from tests.factories import make_user
from tests.support import PATIENCE_S, until


def waiting_at_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("select pg_stat_clear_snapshot()")  # a transaction reads the activity once
        cursor.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


def test_the_last_word_while_its_step_asks_again(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ApprovalPolicy.objects.create(
        key="two", name="Two", rule="always", kinds=["deal"], actor="system", reason="A test", quorum=2
    )
    first = recommended(campaign=make_campaign("220000"))
    in_part = approval_decide(
        approval_id=first.pk, user=make_user("Approver"), verdict="approve", budgets={1: Decimal(50000)}
    )
    second = make_user("Approver")

    def decide() -> None:
        try:
            batch_decide(shown={in_part.pk: in_part.evidence_digest}, user=second, verdict="approve")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        deciding = meanwhile(monkeypatch, lambda: pool.submit(decide))
        with transaction.atomic():
            asked = ask_undecided(first.subject_id)  # as the step does that the approval in part has woken
        deciding[0].result(PATIENCE_S)

    assert asked == in_part
    assert Deal.objects.get(pk=first.subject_id).status == DealStatus.ACCEPTED
    assert sorted(Approval.objects.values_list("status", flat=True)) == ["approved", "voided"]


def meanwhile(patch: pytest.MonkeyPatch, begin: Callable[[], Future[None]]) -> list[Future[None]]:
    """Between the look at the deal and the question: somebody decides, until it is done or has to wait."""
    begun: list[Future[None]] = []
    ask = questions.booking_question

    def asked(deal: Deal) -> questions.Question:
        if not begun:
            begun.append(begin())
            until(lambda: begun[0].done() or waiting_at_a_lock())
        return ask(deal)

    patch.setattr(questions, "booking_question", asked)
    return begun


def test_what_is_decided_is_not_asked_about(committed_db: Database) -> None:
    first = recommended(campaign=make_campaign("220000"))
    for _ in range(first.quorum):
        approval_decide(approval_id=first.pk, user=make_user("Approver"), verdict="approve")
    with transaction.atomic():
        assert ask_undecided(first.subject_id) is None
