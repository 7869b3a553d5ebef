"""Who asked for something hears of every kind of question what it was and what an answer decided: "what you
asked for" is said of what they asked for alone, and a question that is asked again has not ended."""

from __future__ import annotations

import pytest

from tasks_app import clock
from tasks_app.approvals.kinds import kind_names, kind_of
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import (
    approval_decide,
    approval_void,
    approvals_expire_due,
)
from tasks_app.people.models import User
from tests.approvals.test_asked import hand_over, told
from tests.factories import make_user
from tests.orders.asking import ASKED, asked, purchased
from tests.orders.late import overdue
from tests.support import undone

pytestmark = pytest.mark.django_db
WISHED = {"deal", "deal_change", "settle_by_hand", "seller_trust", "answer"}
_WHY = "As we said on the phone"


def open_like(question: Approval) -> bool:
    """Whether anything is open about the same."""
    about = Approval.objects.filter(subject_type=question.subject_type, subject_id=question.subject_id)
    return about.filter(status="open").exists()


def decided(question: Approval, verdict: str) -> User:
    """The last of as many as it takes."""
    while Approval.objects.filter(pk=question.pk, status="open").exists():
        person = make_user("Administrator")
        approval_decide(approval_id=question.pk, user=person, verdict=verdict, comment=_WHY)
    return person


def heard(question: Approval, asker: User) -> list[tuple[str, str]]:
    """(title, text) of what the asker hears of the question's end."""
    before = len(told(asker))
    hand_over(question.pk)
    return told(asker)[before:]


@pytest.mark.parametrize("what", ASKED)
def test_each_end_is_told_as_what_it_is(what: str) -> None:
    asker = make_user("Administrator", name="asker")
    question = asked(what, asker)
    each_answer_is_told_as_what_it_is(question, asker)
    what_nobody_decides_or_needs_to_is_told_once_it_has_ended(question, asker)


def each_answer_is_told_as_what_it_is(question: Approval, asker: User) -> None:
    kind, named = kind_of(question), f"{question.title} ({question.reference})"
    for verdict, status in (("approve", "approved"), ("reject", "rejected")):
        with undone():
            by = decided(question, verdict)
            ((title, body),) = heard(question, asker)
        if kind.wished:
            assert (title, body) == (
                f"{status.capitalize()}: {named}",
                f"What you asked for was {status} by {by}.\nReason: {_WHY}",
            )
        else:
            assert (title, body) == (
                f"Decided: {named}",
                f"It was decided by {by}: {kind.decided[status]}.\nReason: {_WHY}",
            )


def what_nobody_decides_or_needs_to_is_told_once_it_has_ended(question: Approval, asker: User) -> None:
    wished, named = kind_of(question).wished, f"{question.title} ({question.reference})"
    with undone():
        with clock.injected(lambda: question.due_at):
            approvals_expire_due()
        again, said = open_like(question), heard(question, asker)
    assert len(said) == (0 if again else 1), "asked again it has not ended"
    for title, body in said:
        assert title == f"Expired: {named}"
        assert "Nobody decided in time" in body
        assert ("What you asked for" in body) == wished
    approval_void(approval=Approval.objects.get(pk=question.pk), reason="The seller answered: completed")
    for title, body in heard(question, asker):
        assert title == f"Withdrawn: {named}"
        assert body.endswith("Reason: The seller answered: completed")
        assert ("What you asked for" in body) == wished


def test_a_buyer_whose_purchase_is_overdue_hears_what_people_decide_and_nothing_of_each_round() -> None:
    """The system asks in nobody's name: who asked for the deal is the one who hears of it."""
    asker = make_user("Buyer", name="asker")
    _, operation = purchased(asker)
    overdue(operation)
    first = Approval.objects.get(kind="overdue", status="open")
    assert first.requested_by == "system"
    with clock.injected(lambda: first.due_at):
        approvals_expire_due()
    second = Approval.objects.get(kind="overdue", status="open")
    by = decided(second, "approve")
    assert heard(first, asker) == [], "it was asked again, though that has ended by now"
    assert heard(second, asker) == [
        (
            f"Decided: {second.title} ({second.reference})",
            f"It was decided by {by}: it is waited for longer.\nReason: {_WHY}",
        ),
    ]


def test_every_kind_says_whose_question_it_is() -> None:
    """A new one fails here until it is what a person asked for, or says what each answer decides."""
    kinds = [kind_of(Approval(kind=name)) for name in kind_names()]
    assert {kind.name for kind in kinds if kind.wished} == WISHED
    for kind in kinds:
        assert kind.wished or {"approved", "rejected"} <= kind.decided.keys(), kind.name
        assert not (kind.wished and kind.decided), kind.name


def test_a_question_of_a_kind_that_nobody_knows_is_told_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    asker = make_user("Administrator", name="asker")
    question = asked("a purchase at a gate", asker)
    by = decided(question, "approve")
    monkeypatch.setattr("tasks_app.approvals.kinds._kinds", {})
    ((_, body),) = heard(question, asker)
    assert body == f"The question was approved by {by}.\nReason: {_WHY}"
