"""A decision is on what would be shown now: whoever writes another approval, or another evidence into one,
gets no decision on it. Every kind of question, every field of what it shows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from orders.models import Deal
from tasks_app.approvals.kinds import kind_of
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.question import evidence_digest, is_as_shown
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tests.factories import make_user
from tests.orders.asking import ASKED, asked

pytestmark = pytest.mark.django_db

# What stands in the question alone, and is carried out, or shown, as it stands there.
SAID_HERE = {
    "settle_by_hand": {"end", "reason", "evidence", "result"},
    "overdue": {"stop_because"},
    "risk_gate": {"gates", "why"},
    "kill_switch": {"gates", "why"},
}
MOVING = {"account_status", "last_message"}
# Leads to what is shown: another one leads to something else, or to nothing.
LEADS = "operation_id"


def refused(approval: Approval) -> str:
    with pytest.raises(DecisionRefusedError) as error:
        approval_decide(
            approval_id=approval.pk, user=make_user("Approver"), verdict="approve", comment="As shown."
        )
    return error.value.code


def forge(approval: Approval, **columns: Any) -> Approval:
    """As somebody writes it who may write approvals: with the digest of what it shows."""
    if "evidence" in columns:
        columns["evidence_digest"] = evidence_digest(columns["evidence"])
    Approval.objects.filter(pk=approval.pk).update(**columns)
    return Approval.objects.get(pk=approval.pk)


@pytest.mark.parametrize("what", ASKED)
def test_no_field_is_forged_and_what_nobody_touched_is_as_it_was_shown(what: str) -> None:
    approval = asked(what, make_user("Administrator"))
    untouched = Approval.objects.get(pk=approval.pk)
    assert is_as_shown(untouched, kind_of(untouched).asks(untouched))
    for name in approval.evidence.keys() - SAID_HERE.get(approval.kind, set()) - MOVING - {LEADS}:
        forged = forge(approval, evidence={**approval.evidence, name: "forged"})
        assert not is_as_shown(forged, kind_of(forged).asks(forged)), name
        without = {key: value for key, value in approval.evidence.items() if key != name}
        forged = forge(approval, evidence=without)
        assert not is_as_shown(forged, kind_of(forged).asks(forged)), name
    forged = forge(approval, evidence={**approval.evidence, "also": "forged"})
    assert not is_as_shown(forged, kind_of(forged).asks(forged))
    forge(approval, evidence=approval.evidence)
    for column, value in (
        ("title", "Lunch"),
        ("amount", Decimal(1)),
        ("currency", "XTS"),
        ("quorum", 0),
        ("evidence_digest", "0" * 64),
    ):
        forged = forge(approval, **{column: value})
        assert not is_as_shown(forged, kind_of(forged).asks(forged)), column
        forge(approval, **{column: getattr(approval, column)})


def test_a_deal_of_ten_thousand_is_not_approved_as_one_of_ten() -> None:
    approval = asked("a deal", make_user("Administrator"))
    deal = Deal.objects.get(pk=approval.subject_id)
    forged = forge(approval, evidence={**approval.evidence, "gross": "10.00"}, amount=Decimal(10))

    assert refused(forged) == "changed"

    assert not Decision.objects.exists()
    assert Deal.objects.get(pk=deal.pk).status == deal.status
    again = Approval.objects.get(status="open")
    assert (again.replaces, again.evidence, again.amount) == (forged, approval.evidence, approval.amount)


def test_what_is_no_column_of_the_deal_s_counts_too() -> None:
    """Who pays, by which account, at whose terms: the deal's version does not rise with that."""
    approval = asked("a deal", make_user("Administrator"))
    deal = Deal.objects.select_related("account").get(pk=approval.subject_id)
    assert deal.account is not None
    deal.account.payment_terms = "prepaid"
    deal.account.save()

    assert refused(approval) == "changed"

    again = Approval.objects.get(status="open")
    assert again.evidence["payment_terms"] == "prepaid"


def test_the_kill_switch_is_not_passed_by_the_question_about_another_gate() -> None:
    """A question with one approver that names the switch: the switch has two, and a question of its own."""
    approval = asked("a purchase at a gate", make_user("Administrator"))
    forged = forge(approval, evidence={**approval.evidence, "gates": ["kill_switch", "seller"]})
    assert not is_as_shown(forged, kind_of(forged).asks(forged))
