"""The thread of an approval: who may speak, who is told, and that it stays as it was said."""

from __future__ import annotations

import pytest

from orders.questions import ask_deal
from tasks_app.approvals.claims import approval_claim
from tasks_app.approvals.notes import LONGEST, approval_comment, thread_of
from tasks_app.approvals.records import ApprovalNote
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import mail_recipients, notifications_of, unread_count
from tasks_app.people.models import Membership, User
from tests.approvals.conftest import Desk
from tests.factories import make_advertiser, make_deal, make_team, make_user

pytestmark = pytest.mark.django_db


def told(user: User) -> list[tuple[str, str]]:
    return [(note.title, note.body) for note in notifications_of(user)]


def test_whoever_takes_part_is_told_and_nobody_else(desk: Desk) -> None:
    asker, holder, decider, speaker, other = (make_user("Approver", name=n) for n in "abcde")
    approval = desk.ask(requested_by=asker, quorum=2)
    approval_claim(approval_id=approval.pk, user=holder)
    approval_decide(approval_id=approval.pk, user=decider, verdict="approve")

    approval_comment(approval_id=approval.pk, user=speaker, body="  Is that the whole hold?  ")

    said = [(f"d on {approval.reference}: May it?", "Is that the whole hold?")]
    assert told(asker) == told(holder) == told(decider) == said
    assert told(speaker) == told(other) == []
    approval_comment(approval_id=approval.pk, user=asker, body="Yes.")
    assert told(speaker) == [(f"a on {approval.reference}: May it?", "Yes.")]
    assert [note.body for note in thread_of(approval) if note.kind == "comment"] == [
        "Is that the whole hold?",
        "Yes.",
    ]


def test_who_left_the_team_is_told_no_more(desk: Desk) -> None:
    asker = make_user("Buyer")
    approval = desk.ask(requested_by=asker)
    asker.teams.set([make_team("Elsewhere")])
    approval_comment(approval_id=approval.pk, user=make_user("Approver"), body="Hm.")
    assert told(asker) == []


def test_who_left_the_team_reads_no_more_of_what_was_said(desk: Desk) -> None:
    asker = make_user("Buyer")
    approval = desk.ask(requested_by=asker)
    approval_comment(approval_id=approval.pk, user=make_user("Approver"), body="They pay less.")
    assert [body for _, body in told(asker)] == ["They pay less."]
    assert unread_count(asker) == 1

    asker.teams.set([make_team("Elsewhere")])
    asker = User.objects.get(pk=asker.pk)
    assert told(asker) == []
    assert unread_count(asker) == 0


def test_nor_who_has_another_advertiser_of_it_now() -> None:
    deal, other = make_deal(), make_advertiser("Other")
    mine, approval, approver = deal.advertiser, ask_deal(deal), make_user("Approver")
    approval_comment(approval_id=approval.pk, user=approver, body="Hm.")
    approval_comment(approval_id=approval.pk, user=make_user("Approver"), body="They pay less.")
    seat = Membership.objects.get(user=approver)
    for seen, bodies in ((mine, ["They pay less."]), (other, [])):
        seat.every_advertiser = False
        seat.save()
        seat.advertisers.set([seen])
        viewer = User.objects.get(pk=approver.pk)
        assert [body for _, body in told(viewer)] == bodies
        assert unread_count(viewer) == len(bodies)


def test_what_one_person_is_told_is_not_their_teams(desk: Desk) -> None:
    asker, other = make_user("Buyer"), make_user("Buyer")
    approval = desk.ask(requested_by=asker)
    approval_comment(approval_id=approval.pk, user=make_user("Approver"), body="They pay less.")
    assert told(other) == []
    assert unread_count(other) == 0
    User.objects.update(mail_notifications=True, email="a@example.com")
    assert list(mail_recipients(Notification.objects.get())) == [asker]


def test_it_is_said_after_the_end_too(desk: Desk) -> None:
    approval, user = desk.ask(), make_user("Approver")
    approval_decide(approval_id=approval.pk, user=user, verdict="approve")
    approval_comment(approval_id=approval.pk, user=make_user("Auditor"), body="Why so fast?")
    assert thread_of(approval).count() == 1


@pytest.mark.parametrize("body", ["", "  \n", "x" * (LONGEST + 1)])
def test_a_comment_has_words(desk: Desk, body: str) -> None:
    approval = desk.ask()
    with pytest.raises(DecisionRefusedError) as error:
        approval_comment(approval_id=approval.pk, user=make_user("Buyer"), body=body)
    assert error.value.code == "comment"
    assert not ApprovalNote.objects.exists()


def test_what_no_database_holds_is_replaced(desk: Desk) -> None:
    note = approval_comment(approval_id=desk.ask().pk, user=make_user("Buyer"), body="a\x00b\ud800")
    assert ApprovalNote.objects.get(pk=note.pk).body == "a\ufffdb\ufffd"


def test_who_does_not_see_it_or_has_no_right_says_nothing(desk: Desk) -> None:
    approval, bare = desk.ask(), make_user("Buyer")
    bare.groups.clear()
    for code, user in {
        "not_found": make_user("Approver", team=make_team("Elsewhere")),
        "no_right": User.objects.get(pk=bare.pk),
    }.items():
        with pytest.raises(DecisionRefusedError) as error:
            approval_comment(approval_id=approval.pk, user=user, body="Hello")
        assert error.value.code == code
    assert not ApprovalNote.objects.exists()
