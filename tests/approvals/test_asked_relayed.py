"""It is the relay that tells who asked: after the commit, once."""

from __future__ import annotations

from orders.questions import ask_deal
from tasks_app.approvals.services import approval_decide
from tasks_app.events.models import EventSubscription
from tasks_app.notifications.models import Notification
from tasks_app.people.actors import actor_key
from tests.database import Database
from tests.events.parts import relay
from tests.factories import make_deal, make_user


def test_a_rejection_reaches_who_asked_once(committed_db: Database) -> None:
    relay()
    asker, approver = make_user("Buyer"), make_user("Approver")
    approval = ask_deal(make_deal(requested_by=actor_key(asker)))
    approval_decide(approval_id=approval.pk, user=approver, verdict="reject", comment="Not this month")
    assert not Notification.objects.filter(person=asker).exists()
    relay()
    note = Notification.objects.get(person=asker)
    assert note.body.endswith("Reason: Not this month")
    EventSubscription.objects.filter(pk="asked").update(position=0)
    relay()
    assert Notification.objects.filter(person=asker).count() == 1
