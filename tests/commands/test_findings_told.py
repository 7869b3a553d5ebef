"""What a finding of the reconciliation says that can be done about it, against doing it, by every role."""

from __future__ import annotations

import pytest
from django.db import transaction

from tasks_app import clock
from tasks_app.desk.explain import explain_row
from tasks_app.desk.items import lowered
from tasks_app.operations.comparison import Verdict
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.models import User
from tasks_app.people.roles import ROLES
from tasks_app.reconciliation import actions
from tasks_app.reconciliation.actions import ActionRefusedError, Chosen, finding_act
from tasks_app.reconciliation.models import ReconciliationFinding
from tests.factories import make_account, make_advertiser, make_deal, make_seller, make_team, make_user
from tests.operations.making import stand

pytestmark = pytest.mark.django_db
_NOT_OFFERED = ("That does not help here.", "It is resolved already.")


def _finding(kind: str, verdict: str, *, known: bool, resolved: bool = False) -> ReconciliationFinding:
    """`known`: it is about something of ours."""
    subject: dict[str, object] = {}
    if known and kind == "task":
        operation = stand(S.SUBMITTED)
        subject = {"subject_type": "operation", "subject_id": operation.pk, "seller": operation.seller}
    elif known:
        deal = make_deal()
        subject = {"subject_type": "deal", "subject_id": deal.pk, "seller": deal.seller}
    if not known:
        subject = {"seller": make_seller()}
        make_account(make_advertiser(), subject["seller"])  # type: ignore[arg-type]
    return ReconciliationFinding.objects.create(
        kind=kind,
        verdict=verdict,
        theirs="mb-theirs",
        digest="d" * 64,
        team=make_team(),
        told={"media_buy_id": "mb-theirs", "status": "active"} if kind == "media_buy" else {},
        resolution="seen" if resolved else "",
        resolved_at=clock.now() if resolved else None,
        **subject,
    )


def _refused(finding: ReconciliationFinding, action: str, user: User) -> str:
    """Why it may not be done; what it wants besides (an account, say) refuses nobody."""
    with transaction.atomic():
        try:
            finding_act(
                finding_id=finding.pk, action=action, chosen=Chosen(user=user, reason="Their letter says so.")
            )
        except ActionRefusedError as error:
            return str(error)
        finally:
            transaction.set_rollback(True)
    return ""


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("verdict", [one.value for one in Verdict])
@pytest.mark.parametrize("kind", ["task", "media_buy"])
def test_what_a_finding_says_can_be_done_can_and_nothing_else(kind: str, verdict: str, known: bool) -> None:
    finding = _finding(kind, verdict, known=known)
    told = explain_row("finding", finding.pk, make_user("Administrator"))
    (act,) = [one for one in told.who if one.does.startswith("on its page")]
    for role in ROLES:
        if role == "Integration":
            continue
        user = make_user(role)
        for name, action in actions._actions.items():
            refused = _refused(finding, name, user)
            can = not refused.startswith("You have no right") and refused not in _NOT_OFFERED
            said = lowered(action.label) in act.does.partition(": ")[2].split(", ")
            assert can == (said and role in act.roles), (role, name, refused)


def test_of_a_resolved_one_nothing_is_said_to_be_done() -> None:
    finding = _finding("task", "missing", known=True, resolved=True)
    assert explain_row("finding", finding.pk, make_user("Administrator")).who == ()
    assert {_refused(finding, name, make_user("Ad Ops")) for name in actions._actions} == {
        "It is resolved already."
    }
