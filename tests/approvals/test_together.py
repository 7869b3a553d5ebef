"""Several questions decided with one word: what the database refuses of one holds up no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from orders.models import Deal
from tasks_app import ids
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.together import approvals_decide
from tasks_app.lifecycle.verify import verify_entity
from tests.approvals.conftest import Desk
from tests.database import Database
from tests.factories import make_deal, make_user


def sql(statement: str) -> Callable[[], None]:
    def execute() -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    return execute


FORGED = "update orders_deal set status = 'accepted', version = version + 1"
REFUSED = {
    "at once: no declared edge": "update orders_deal set status = 'booked', version = version + 1",
    "at the commit: no entry": FORGED,
    "by a rule that is not the lifecycle's": "insert into tasks_app_team select * from tasks_app_team",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_postgresql_refuses_of_one_is_told_for_it_and_the_next_follows(
    committed_db: Database, desk: Desk, what: str
) -> None:
    deal, user = make_deal(), make_user("Approver")
    three = [desk.ask(subject_id=ids.new_id()) for _ in range(3)]
    effects = iter([lambda: None, sql(REFUSED[what]), lambda: None])
    desk.effect = lambda: next(effects)()

    done = approvals_decide(
        shown={one.pk: one.evidence_digest for one in three}, user=user, verdict="approve"
    )

    assert [(one.approval_id, one.refusal is None) for one in done] == [
        (three[0].pk, True),
        (three[1].pk, False),
        (three[2].pk, True),
    ]
    assert "database refused" in str(done[1].refusal)
    left = Approval.objects.get(status=ApprovalStatus.OPEN)
    assert left.pk == three[1].pk
    assert set(Decision.objects.values_list("approval", flat=True)) == {three[0].pk, three[2].pk}
    assert Deal.objects.get(pk=deal.pk).status == "quoted"
    assert all(verify_entity("approval", one.pk).ok for one in three)


@pytest.mark.django_db
def test_one_that_changed_is_asked_anew_and_the_others_are_decided(desk: Desk) -> None:
    user = make_user("Approver")
    first, second = desk.ask(subject_id=ids.new_id()), desk.ask(subject_id=ids.new_id())

    done = approvals_decide(
        shown={first.pk: "0" * 64, second.pk: second.evidence_digest}, user=user, verdict="approve"
    )

    assert "not what you were shown" in str(done[0].refusal)
    assert done[1].refusal is None
    assert Approval.objects.get(pk=second.pk).status == ApprovalStatus.APPROVED
