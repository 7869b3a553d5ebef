"""Several questions decided with one word: what the database refuses of one holds up no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from orders.models import Deal
from tasks_app import ids
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.together import batch_decide, report_of
from tasks_app.lifecycle.verify import verify_entity
from tests.approvals.conftest import Desk
from tests.database import Database
from tests.factories import make_deal, make_user


def sql(statement: str) -> Callable[[], None]:
    def execute() -> None:
        with connection.cursor() as cursor:  # as the owner, whom the triggers refuse, too
            cursor.execute("select testing.as_owner(%s)", [statement])

    return execute


FORGED = "update orders_deal set status = 'accepted', version = version + 1"
REFUSED = {
    "at once: no declared edge": (
        "update orders_deal set status = 'booked', version = version + 1",
        "was not moved from quoted to booked",
    ),
    "at the commit: no entry": (FORGED, "has no audit entry in this transaction"),
    "by a rule that is not the lifecycle's": (
        "insert into tasks_app_team select * from tasks_app_team",
        "database refused",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_postgresql_refuses_of_one_is_told_for_it_and_the_next_follows(
    committed_db: Database, desk: Desk, what: str
) -> None:
    deal, user = make_deal(), make_user("Approver")
    three = [desk.ask(subject_id=ids.new_id()) for _ in range(3)]
    statement, words = REFUSED[what]
    effects = iter([lambda: None, sql(statement), lambda: None])
    desk.effect = lambda: next(effects)()

    shown = {one.pk: one.evidence_digest for one in three}
    done = report_of(batch_decide(shown=shown, user=user, verdict="approve"), user)

    assert [(one.approval_id, one.code == "") for one in done] == [
        (three[0].pk, True),
        (three[1].pk, False),
        (three[2].pk, True),
    ]
    assert words in done[1].message
    left = Approval.objects.get(status=ApprovalStatus.OPEN)
    assert left.pk == three[1].pk
    assert set(Decision.objects.values_list("approval", flat=True)) == {three[0].pk, three[2].pk}
    assert Deal.objects.get(pk=deal.pk).status == "quoted"
    assert all(verify_entity("approval", one.pk).ok for one in three)


@pytest.mark.django_db
def test_one_that_changed_is_asked_anew_and_the_others_are_decided(desk: Desk) -> None:
    user = make_user("Approver")
    first, second = desk.ask(subject_id=ids.new_id()), desk.ask(subject_id=ids.new_id())

    shown = {first.pk: "0" * 64, second.pk: second.evidence_digest}
    done = report_of(batch_decide(shown=shown, user=user, verdict="approve"), user)

    assert "not what you were shown" in done[0].message
    assert (done[1].code, done[1].left) == ("", ApprovalStatus.APPROVED)
    assert Approval.objects.get(pk=second.pk).status == ApprovalStatus.APPROVED
