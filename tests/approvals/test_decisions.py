"""Decisions of people: who may, once, on what they were shown; waiting never approves."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock, ids
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.presenters import opened_words
from tasks_app.approvals.services import (
    DecisionRefusedError,
    approval_decide,
    approval_void,
    approvals_expire_due,
    evidence_digest,
)
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tests.approvals.conftest import Desk
from tests.database import Database
from tests.factories import make_deal, make_team, make_user
from tests.lifecycle.entities import trail, written
from tests.lifecycle.threads import at_once
from tests.rounds import rounds

db = pytest.mark.django_db


def decide(
    approval: Approval, user: User, verdict: str = "approve", comment: str = "", **more: Any
) -> Approval:
    return approval_decide(approval_id=approval.pk, user=user, verdict=verdict, comment=comment, **more)


def refused(code: str, approval: Approval, user: User, *arguments: str, **more: Any) -> None:
    """The decision is refused with that code, and leaves nothing behind."""
    status = Approval.objects.get(pk=approval.pk).status
    before = (written(), Decision.objects.count())
    with pytest.raises(DecisionRefusedError) as refusal:
        decide(approval, user, *arguments, **more)
    assert refusal.value.code == code
    assert (written(), Decision.objects.count()) == before
    assert Approval.objects.get(pk=approval.pk).status == status


@db
def test_an_approval_is_decided_once_with_its_effect(desk: Desk) -> None:
    user = make_user("Approver")
    approval = desk.ask()
    decide(approval, user, comment="  Good price  ", expected_digest=approval.evidence_digest)
    approval.refresh_from_db()
    decision = Decision.objects.get()
    assert approval.status == "approved"
    assert (decision.actor, decision.verdict, decision.comment) == (actor_key(user), "approve", "Good price")
    assert (decision.actor_name, decision.evidence_digest) == (str(user), approval.evidence_digest)
    (outcome,) = desk.applied
    assert (outcome.answer, outcome.actor, outcome.comment) == ("approved", actor_key(user), "Good price")
    assert [a.pk for a in desk.closed] == [approval.pk]
    entry = trail(approval)[-1]
    assert (entry.actor, entry.reason, entry.to_status) == (actor_key(user), "Good price", "approved")
    assert trail(approval)[0].metadata == {"evidence_digest": approval.evidence_digest}
    assert verify_entity("approval", approval.pk).ok


@db
def test_ones_own_request_is_somebody_elses_to_decide(desk: Desk) -> None:
    user = make_user("Administrator")
    approval = desk.ask(requested_by=user)
    assert trail(approval)[0].actor == approval.opened_by == "system", "nobody acted"
    assert opened_words(approval, {actor_key(user): str(user)}) == f"Flightdeck, for {user}"
    refused("own_request", approval, user)
    refused("own_request", approval, user, "reject", "No")
    user.is_superuser = True
    user.save()
    refused("own_request", approval, User.objects.get(pk=user.pk))
    assert decide(approval, make_user("Approver")).status == "approved"


@db
@pytest.mark.parametrize("role", ["Buyer", "Ad Ops", "Finance", "Auditor", "Integration"])
def test_without_the_right_nothing_is_decided(desk: Desk, role: str) -> None:
    refused("no_right", desk.ask(), make_user(role))


@db
@pytest.mark.parametrize(
    "flag", [{"is_service": True}, {"is_active": False}, {"is_service": True, "is_superuser": True}]
)
def test_machines_and_those_switched_off_do_not_decide(desk: Desk, flag: dict[str, bool]) -> None:
    user = make_user("Approver")
    User.objects.filter(pk=user.pk).update(**flag)
    refused("no_right", desk.ask(), User.objects.get(pk=user.pk))


@db
def test_nobody_decides_twice(desk: Desk) -> None:
    user = make_user("Approver")
    approval = desk.ask(quorum=2)
    decide(approval, user)
    refused("already_decided", approval, user)
    refused("already_decided", approval, user, "reject", "After all")


@db
@pytest.mark.parametrize("how", ["approved", "rejected", "expired", "voided"])
def test_what_is_closed_stays_closed(desk: Desk, how: str) -> None:
    approval = desk.ask()
    transition(approval, how, actor="system")
    refused("not_open", approval, make_user("Approver"))


@db
def test_past_its_deadline_it_is_open_to_nobody(desk: Desk) -> None:
    approval = desk.ask()
    with clock.injected(lambda: approval.due_at):
        refused("not_open", approval, make_user("Approver"))
    with clock.injected(lambda: approval.due_at - timedelta(microseconds=1)):
        assert decide(approval, make_user("Approver")).status == "approved"


@db
def test_another_teams_question_is_not_found(desk: Desk) -> None:
    approval = desk.ask()
    stranger = make_user("Approver", team=make_team("Rivals"))
    refused("not_found", approval, stranger)
    with pytest.raises(DecisionRefusedError) as nothing:
        approval_decide(approval_id=ids.new_id(), user=stranger, verdict="approve")
    with pytest.raises(DecisionRefusedError) as other:
        decide(approval, stranger)
    assert (nothing.value.code, str(nothing.value)) == (other.value.code, str(other.value))


@db
@pytest.mark.parametrize("comment", ["", "   ", "\n\t"])
def test_a_rejection_says_why(desk: Desk, comment: str) -> None:
    user = make_user("Approver")
    approval = desk.ask()
    refused("comment", approval, user, "reject", comment)
    decide(approval, user, "reject", "Too dear")
    (outcome,) = desk.applied
    assert (outcome.answer, outcome.comment) == ("rejected", "Too dear")
    assert trail(approval)[-1].reason == "Too dear"


@db
@pytest.mark.parametrize("verdict", ["", "approved", "APPROVE", "maybe"])
def test_a_verdict_is_approve_or_reject(desk: Desk, verdict: str) -> None:
    with pytest.raises(ValueError, match="approve or reject"):
        decide(desk.ask(), make_user("Approver"), verdict)
    assert not Decision.objects.exists()


@db
def test_a_quorum_of_two_needs_two_people(desk: Desk) -> None:
    approval = desk.ask(quorum=2)
    assert decide(approval, make_user("Approver")).status == "open"
    assert (desk.applied, desk.closed) == ([], [])
    assert decide(approval, make_user("Administrator")).status == "approved"
    assert len(desk.applied) == len(desk.closed) == 1


@db
def test_one_no_ends_a_quorum_of_two(desk: Desk) -> None:
    approval = desk.ask(quorum=2)
    decide(approval, make_user("Approver"))
    decide(approval, make_user("Approver"), "reject", "No")
    assert [outcome.answer for outcome in desk.applied] == ["rejected"]


@db
def test_a_changed_subject_voids_and_asks_anew(desk: Desk) -> None:
    user = make_user("Approver")
    approval = desk.ask()
    desk.version = 2
    with pytest.raises(DecisionRefusedError, match="asked anew") as changed:
        decide(approval, user)
    assert changed.value.code == "changed"
    assert Approval.objects.get(pk=approval.pk).status == "voided"
    assert not Decision.objects.exists()
    assert desk.applied == []
    assert [a.pk for a in desk.closed] == [approval.pk]
    anew = Approval.objects.get(status="open")
    assert (anew.subject_version, anew.subject_id) == (2, approval.subject_id)
    assert anew.evidence_digest != approval.evidence_digest
    assert decide(anew, user).status == "approved"


@db
def test_a_subject_that_is_gone_voids_and_is_not_asked_again(desk: Desk) -> None:
    approval = desk.ask()
    desk.version = None
    with pytest.raises(DecisionRefusedError, match="is gone"):
        decide(approval, make_user("Approver"))
    assert Approval.objects.get().status == "voided"
    assert [a.pk for a in desk.closed] == [approval.pk]


@db
def test_another_digest_than_the_one_shown_decides_nothing(desk: Desk) -> None:
    approval = desk.ask()
    refused("changed", approval, make_user("Approver"), expected_digest="0" * 64)


@db
def test_an_effect_that_fails_takes_the_decision_back(desk: Desk) -> None:
    def fails() -> None:
        raise InvalidTransitionError("deal", "x", "quoted", "accepted", "moved meanwhile")

    approval = desk.ask()
    desk.effect = fails
    with pytest.raises(InvalidTransitionError):
        decide(approval, make_user("Approver"))
    assert Approval.objects.get().status == "open"
    assert not Decision.objects.exists()
    assert len(trail(approval)) == 1
    assert desk.closed == []


@db
def test_expiry_never_approves(desk: Desk) -> None:
    late, later = desk.ask(), desk.ask(subject_id=ids.new_id(), due_at=clock.now() + timedelta(days=9))
    assert approvals_expire_due() == 0
    with clock.injected(lambda: late.due_at):
        assert approvals_expire_due() == 1
        assert approvals_expire_due() == 0
    assert {a.pk: a.status for a in Approval.objects.all()} == {late.pk: "expired", later.pk: "open"}
    (outcome,) = desk.applied
    assert (outcome.answer, outcome.actor) == ("expired", "system")
    assert [a.pk for a in desk.closed] == [late.pk]


@db
def test_half_a_quorum_expires_too(desk: Desk) -> None:
    approval = desk.ask(quorum=2)
    decide(approval, make_user("Approver"))
    with clock.injected(lambda: approval.due_at):
        approvals_expire_due()
    assert Approval.objects.get().status == "expired"
    assert [outcome.answer for outcome in desk.applied] == ["expired"]


@db
def test_one_expiry_that_fails_stops_no_other(desk: Desk) -> None:
    bad, good = desk.ask(), desk.ask(subject_id=ids.new_id(), due_at=clock.now() + timedelta(days=2))
    failures = iter([RuntimeError("its effect is broken")])

    def once() -> None:
        for failure in failures:
            raise failure

    desk.effect = once
    with clock.injected(lambda: good.due_at):
        assert approvals_expire_due() == 1
        assert {a.pk: a.status for a in Approval.objects.all()} == {bad.pk: "open", good.pk: "expired"}
        assert approvals_expire_due() == 0, "it was put back for a while"
    with clock.injected(lambda: good.due_at + timedelta(hours=1)):
        assert approvals_expire_due() == 1


@db
def test_withdrawn_is_closed_without_an_effect(desk: Desk) -> None:
    approval = desk.ask()
    approval_void(approval=approval, reason="Cancelled")
    assert (Approval.objects.get().status, desk.applied) == ("voided", [])
    assert [a.pk for a in desk.closed] == [approval.pk]


@db
def test_the_same_question_is_asked_once(desk: Desk) -> None:
    approval = desk.ask()
    assert desk.ask().pk == approval.pk
    decide(approval, make_user("Approver"))
    assert desk.ask().pk != approval.pk


@db
@pytest.mark.parametrize(
    "evidence",
    [
        {"gross": Decimal("10.50"), "n": 1, "none": None, "flag": True, "list": [{"a": "ü"}]},
        {"impressions": 2**53 + 1, "deep": [{"n": -(2**80)}]},
        {"text": "a\x00b\ud800"},
        {},
    ],
)
def test_the_digest_is_of_what_is_kept(desk: Desk, evidence: dict[str, Any]) -> None:
    approval = desk.ask(evidence=evidence)
    stored = Approval.objects.get(pk=approval.pk)
    assert stored.evidence_digest == evidence_digest(evidence) == evidence_digest(stored.evidence)
    assert evidence_digest({**evidence, "more": 1}) != stored.evidence_digest


@db
def test_evidence_holds_no_floats(desk: Desk) -> None:
    with pytest.raises(TypeError, match="cannot be recorded exactly"):
        desk.ask(evidence={"cpm": 1.5})
    assert not Approval.objects.exists()


@db
@pytest.mark.parametrize(("verdict", "to"), [("approve", "accepted"), ("reject", "cancelled")])
def test_a_deal_is_decided_by_an_approver_and_nobody_more(verdict: str, to: str) -> None:
    """The whole way: the person's own right moves the deal, and the deal's trail names the person."""
    user = make_user("Approver")
    deal = make_deal()
    decide(ask_deal(deal), user, verdict, "As discussed")
    found = Deal.objects.get(pk=deal.pk)
    assert found.status == to
    entry = trail(found)[-1]
    assert (entry.actor, entry.reason) == (actor_key(user), "As discussed")
    assert verify_entity("deal", deal.pk).ok


@db
def test_a_deal_that_moved_is_asked_anew() -> None:
    deal = make_deal()
    approval = ask_deal(deal)
    for status in ("negotiating", "quoted"):
        transition(deal, status, actor="system")
    with pytest.raises(DecisionRefusedError, match="asked anew"):
        decide(approval, make_user("Approver"))
    assert Approval.objects.get(status="open").subject_version == 3
    assert Deal.objects.get(pk=deal.pk).status == "quoted"


def test_two_people_at_once_decide_once(committed_db: Database, desk: Desk) -> None:
    one, other = make_user("Approver"), make_user("Approver")
    for _ in range(rounds(3, 8)):
        approval = desk.ask(subject_id=ids.new_id())
        desk.applied.clear()
        answers = at_once(partial(decide, approval, one), partial(decide, approval, other, "reject", "No"))
        codes = [answer.code for answer in answers if isinstance(answer, DecisionRefusedError)]
        assert codes == ["not_open"], answers
        assert len(desk.applied) == Decision.objects.filter(approval=approval).count() == 1
        ends = AuditEntry.objects.filter(entity_id=approval.pk, seq__gt=1)
        assert [entry.to_status for entry in ends] == [desk.applied[0].answer]


def test_two_people_at_once_make_a_quorum_of_two(committed_db: Database, desk: Desk) -> None:
    one, other = make_user("Approver"), make_user("Approver")
    for _ in range(rounds(3, 8)):
        approval = desk.ask(subject_id=ids.new_id(), quorum=2)
        desk.applied.clear()
        answers = at_once(partial(decide, approval, one), partial(decide, approval, other))
        assert sorted(answer.status for answer in answers) == ["approved", "open"]
        assert len(desk.applied) == 1


def test_one_person_twice_at_once_counts_once(committed_db: Database, desk: Desk) -> None:
    user = make_user("Approver")
    approval = desk.ask(quorum=2)
    answers = at_once(partial(decide, approval, user), partial(decide, approval, user))
    codes = [answer.code for answer in answers if isinstance(answer, DecisionRefusedError)]
    assert codes == ["already_decided"]
    assert (Approval.objects.get().status, Decision.objects.count()) == ("open", 1)


def test_expiry_and_a_decision_at_once_leave_one_end(committed_db: Database, desk: Desk) -> None:
    user = make_user("Approver")
    for _ in range(rounds(3, 8)):
        approval = desk.ask(subject_id=ids.new_id())
        Approval.objects.filter(pk=approval.pk).update(due_at=clock.now() + timedelta(milliseconds=5))
        desk.applied.clear()

        def expire() -> int:
            while not (done := approvals_expire_due()) and Approval.objects.filter(status="open").exists():
                pass
            return done

        at_once(partial(decide, approval, user), expire)
        ends = AuditEntry.objects.filter(entity_id=approval.pk, seq__gt=1)
        assert [entry.to_status for entry in ends] == [desk.applied[0].answer]
        assert len(desk.applied) == 1


def test_the_same_question_asked_twice_at_once_is_one(committed_db: Database, desk: Desk) -> None:
    for _ in range(rounds(3, 8)):
        subject = ids.new_id()
        one, other = at_once(partial(desk.ask, subject_id=subject), partial(desk.ask, subject_id=subject))
        assert one.pk == other.pk, (one, other)
        assert Approval.objects.filter(subject_id=subject).count() == 1
