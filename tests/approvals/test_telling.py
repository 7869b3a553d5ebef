"""Who may decide is told that a question waits, and reminded: once, the right people, many at once as one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tasks_app import clock, ids
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.approvals.telling import approvals_remind, approvals_tell
from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import (
    mail_recipients,
    notifications_of,
    subject_links,
    unread_count,
)
from tasks_app.people.actors import actor_key
from tasks_app.people.models import Team, User
from tests.approvals.conftest import Desk
from tests.factories import make_team, make_user

pytestmark = pytest.mark.django_db
QUEUE = "/admin/tasks_app/approval/"


def asked(desk: Desk, by: User | str = "system", team: Team | None = None) -> Approval:
    return desk.ask(requested_by=by, team=team or make_team(), subject_id=ids.new_id(), title="Buy it?")


def titles(viewer: User) -> list[str]:
    assert unread_count(viewer) == notifications_of(viewer).count(), "the bell shows what the list shows"
    return [note.title for note in notifications_of(viewer)]


def test_those_of_the_team_who_may_decide_are_told_once_and_not_who_asked(desk: Desk) -> None:
    team = make_team()
    approver, asker = make_user("Approver"), make_user("Approver")
    buyer, stranger = make_user("Buyer"), make_user("Approver")
    stranger.teams.set([Team.objects.create(name="Elsewhere")])
    for user in (approver, asker, buyer):
        user.teams.set([team])
        User.objects.filter(pk=user.pk).update(mail_notifications=True, email=f"{user.pk}@example.com")
    approval = asked(desk, asker, team)

    assert (approvals_tell(), approvals_tell()) == (1, 0)

    assert titles(approver) == ["Buy it?: waits for a decision"]
    assert titles(asker) == titles(buyer) == titles(stranger) == []
    (note,) = Notification.objects.all()
    assert list(mail_recipients(note)) == [approver]
    assert subject_links([note]) == {note.pk: f"{QUEUE}{approval.pk}/change/"}
    assert "/admin/" not in note.body, "a mail says where to look to those who may go there"
    assert approval.reference in note.body


@pytest.mark.parametrize("part", ["asked", "retried", "both"])
def test_who_asked_or_set_it_off_is_not_told_to_decide_and_others_are(desk: Desk, part: str) -> None:
    team = make_team()
    concerned, retrier, approver = (make_user("Approver") for _ in range(3))
    for user in (concerned, retrier, approver):
        user.teams.set([team])
        User.objects.filter(pk=user.pk).update(mail_notifications=True, email=f"{user.pk}@example.com")
    approval = asked(desk, "system" if part == "retried" else concerned, team)
    asked(desk, approval.requested_by if part == "retried" else concerned, team)
    set_off = [actor_key(retrier), *([] if part == "asked" else [actor_key(concerned)])]
    Approval.objects.filter(pk=approval.pk).update(set_off_by=set_off)

    approvals_tell()

    (note,) = Notification.objects.filter(subject_id=approval.pk)
    assert note.title in titles(approver)
    for user in (concerned, retrier):
        assert unread_count(user) == notifications_of(user).count()
        assert not notifications_of(user).filter(pk=note.pk).exists()
    assert list(mail_recipients(note)) == [approver]


def test_many_at_once_are_one_digest_that_leads_to_the_queue(desk: Desk) -> None:
    asker, team = make_user("Approver"), make_team()
    for _ in range(30):
        asked(desk, "system", team)
    asked(desk, asker, team)

    assert approvals_tell() == 31

    digest, single = Notification.objects.order_by("id")
    assert (digest.title, single.title) == (
        "30 questions: wait for a decision",
        "Buy it?: waits for a decision",
    )
    assert "And 10 more." in digest.body
    assert subject_links([digest]) == {digest.pk: QUEUE}


def test_a_reminder_comes_once_before_the_deadline_and_not_for_what_is_decided(desk: Desk) -> None:
    approver, team = make_user("Approver"), make_team()
    approver.teams.set([team])
    open_one, decided = asked(desk, "system", team), asked(desk, "system", team)
    approvals_tell()
    approval_decide(approval_id=decided.pk, user=approver, verdict="approve")

    early, late = open_one.due_at - timedelta(hours=4, minutes=1), open_one.due_at - timedelta(hours=4)
    with clock.injected(lambda: early):
        assert approvals_remind() == 0
    with clock.injected(lambda: late):
        assert (approvals_remind(), approvals_remind()) == (1, 0)

    note = Notification.objects.get(kind="approval_reminder")
    assert (note.title, note.level) == ("Buy it?: still waits for a decision", "warning")
    assert open_one.reference in note.body


def test_a_short_question_is_reminded_of_in_its_last_quarter(desk: Desk) -> None:
    approval = asked(desk)
    Approval.objects.filter(pk=approval.pk).update(due_at=approval.created_at + timedelta(hours=2))
    approvals_tell()

    with clock.injected(lambda: approval.created_at + timedelta(minutes=89)):
        assert approvals_remind() == 0
    with clock.injected(lambda: approval.created_at + timedelta(minutes=91)):
        assert approvals_remind() == 1
    with clock.injected(lambda: approval.created_at + timedelta(hours=3)):
        assert approvals_remind() == 0
