"""E-mail: one message for each notification and person who asked for it, however often it is delivered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from tasks_app.events.bus import subscribers
from tasks_app.events.delivery import deliver_new
from tasks_app.events.models import EventDelivery
from tasks_app.events.publishing import events_publish
from tasks_app.events.selectors import deliveries_visible
from tasks_app.ids import new_id
from tasks_app.lifecycle.models import OutboxEvent
from tasks_app.lifecycle.names import EntityName, namer_register
from tasks_app.notifications import mail
from tasks_app.notifications.mail import TOLD, message
from tasks_app.notifications.models import Notification, NotificationMail
from tasks_app.notifications.services import About, notify, user_mail_set
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION
from tests.database import Database
from tests.events.parts import relay
from tests.factories import make_deal, make_team, make_user
from tests.notifications.post_office import PostOffice, mailing
from tests.operations.making import stand

NOTIFICATIONS = "/admin/tasks_app/notification/"


@pytest.fixture
def office(committed_db: Database, settings: Any) -> Iterator[PostOffice]:
    """A database that commits, and a mail server of our own."""
    with mailing(settings) as server:
        yield server


def reader(name: str, role: str = "Buyer", **fields: object) -> User:
    """Somebody who asked to be mailed."""
    user = make_user(role, name=name)
    User.objects.filter(pk=user.pk).update(email=f"{name}@example.com", mail_notifications=True)
    User.objects.filter(pk=user.pk).update(**fields)
    return user


def test_one_message_for_each_who_asked_and_is_told(office: PostOffice) -> None:
    reader("asked")
    reader("also")
    reader("never", mail_notifications=False)
    reader("gone", is_active=False)
    reader("robot", is_service=True)
    reader("nowhere", email="")
    elsewhere = reader("elsewhere")
    elsewhere.teams.clear()

    notify(kind="test", title="Told", body="In full.", team=make_team())
    relay()

    assert sorted(office.recipients) == ["also@example.com", "asked@example.com"]
    assert NotificationMail.objects.count() == 2


def test_what_is_for_a_right_goes_to_who_holds_it(office: PostOffice) -> None:
    reader("ops", "Ad Ops")
    reader("buyer", "Buyer")
    reader("root", "Buyer", is_superuser=True)
    notify(kind="test", title="Told", right=STEER_OPERATION)
    relay()
    assert sorted(office.recipients) == ["ops@example.com", "root@example.com"]


def test_the_message_says_what_where_and_why(office: PostOffice, settings: Any) -> None:
    settings.PUBLIC_URL = "https://desk.example"
    reader("asked", is_staff=True)
    deal = make_deal()
    notify(
        kind="test",
        title="Norrland\r\nBcc: everybody@example.com asks",
        body="Awaited: an answer.",
        level="warning",
        about=About(type="deal", id=deal.pk),
        team=make_team(),
    )
    relay()
    ((_, message),) = office.taken
    assert message["Subject"] == "Warning: Norrland Bcc: everybody@example.com asks"
    assert message["Bcc"] is None
    assert message["Auto-Submitted"] == "auto-generated"
    text = message.get_payload(decode=True)
    assert isinstance(text, bytes)
    lines = text.decode().split()
    assert f"https://desk.example/admin/orders/deal/{deal.pk}/change/" in lines
    assert "https://desk.example/admin/tasks_app/notification/" in lines
    assert "Awaited: an answer." in text.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("role", "fields", "leads"),
    [
        (
            "Ad Ops",
            {"is_staff": True},
            ["/admin/tasks_app/webhookdelivery/", NOTIFICATIONS],
        ),
        ("Buyer", {"is_staff": True}, [NOTIFICATIONS] * 2),  # has no right to read those
        ("Ad Ops", {"is_staff": False}, []),  # uses the API alone
        ("Ad Ops", {"is_staff": True, "is_active": False}, []),
    ],
)
def test_it_leads_nobody_where_they_may_not_go(
    role: str, fields: dict[str, bool], leads: list[str], settings: Any
) -> None:
    settings.PUBLIC_URL = "https://desk.example"
    namer_register("test_refused", lambda ids: {one: EntityName(reference="R", link=leads_to) for one in ids})
    leads_to = "/admin/tasks_app/webhookdelivery/"
    reader("asked", role, **fields)
    notify(kind="test", title="Told", about=About(type="test_refused", id=new_id()), team=make_team())
    body = message([Notification.objects.get()], User.objects.get(username="asked")).body
    assert re.findall(r"https://desk\.example(\S*)", str(body)) == leads


def test_who_has_it_is_not_mailed_again_when_it_is_retried_for_another(office: PostOffice) -> None:
    reader("first")
    reader("second")
    office.refused = {"second@example.com"}
    notify(kind="test", title="Told", team=make_team())
    relay()
    assert office.recipients == ["first@example.com"]
    delivery = EventDelivery.objects.get(subscriber="mail")
    assert delivery.error == "MailNotTakenError: 1 of 2 messages were not taken"
    assert "example.com" not in delivery.error, "whom it was for stays out of what operators see"

    office.refused = set()
    EventDelivery.objects.update(due_at=delivery.created_at)
    relay()
    assert office.recipients == ["first@example.com", "second@example.com"]
    assert not EventDelivery.objects.exists()


def test_a_mail_server_that_is_away_loses_nothing(office: PostOffice, settings: Any) -> None:
    reader("asked")
    settings.EMAIL_PORT = 1
    notify(kind="test", title="Told", team=make_team())
    relay()
    assert EventDelivery.objects.get(subscriber="mail").due_at is not None
    settings.EMAIL_PORT = office.port
    EventDelivery.objects.update(due_at=Notification.objects.get().at)
    relay()
    assert office.recipients == ["asked@example.com"]


def test_a_slow_mail_server_takes_them_bit_by_bit(office: PostOffice, monkeypatch: Any) -> None:
    """All at once would hold up every other event; and as often as it takes, not twelve times."""
    monkeypatch.setattr(mail, "_TOGETHER_S", 0.0)
    for number in range(20):
        reader(f"asked-{number}")
    notify(kind="test", title="Told", team=make_team())
    while events_publish():
        pass
    deliver_new(next(one for one in subscribers() if one.name == "mail"))
    held = EventDelivery.objects.get(subscriber="mail")
    assert (len(office.recipients), held.attempts, held.gave_up_at) == (1, 0, None)
    relay()
    assert sorted(office.recipients) == sorted(f"asked-{number}@example.com" for number in range(20))
    assert not EventDelivery.objects.exists()


def test_one_that_hangs_is_tried_for_a_while_alone(office: PostOffice, monkeypatch: Any) -> None:
    monkeypatch.setattr(mail, "_TOGETHER_S", 0.0)
    reader("asked")
    reader("also")
    office.refused = {"asked@example.com", "also@example.com"}
    notify(kind="test", title="Told", team=make_team())
    relay()
    held = EventDelivery.objects.get(subscriber="mail")
    assert (held.attempts, held.error) == (1, "MailNotTakenError: 2 of 2 messages were not taken")


def test_what_was_rolled_back_is_not_mailed(office: PostOffice) -> None:
    reader("asked")
    with transaction.atomic():
        notify(kind="test", title="Told", team=make_team())
        transaction.set_rollback(True)
    relay()
    assert office.taken == []


def test_no_transaction_is_open_while_the_mail_server_is_talked_to(office: PostOffice) -> None:
    reader("asked")
    open_then: list[int] = []

    def look() -> None:
        with connection.cursor() as cursor:  # of the mail server's own thread
            cursor.execute(
                "select count(*) from pg_stat_activity"
                " where datname = current_database() and state like 'idle in transaction%'"
            )
            open_then.append(cursor.fetchone()[0])
        connection.close()

    office.on_data = look
    notify(kind="test", title="Told", team=make_team())
    relay()
    assert open_then == [0]


@pytest.mark.django_db
def test_a_person_says_whether_to_be_mailed() -> None:
    user = make_user("Buyer")
    assert not user.mail_notifications, "nobody is mailed unasked"
    user_mail_set(user=user, wanted=True)
    user.refresh_from_db()
    assert user.mail_notifications


@pytest.mark.django_db
def test_a_key_said_twice_is_one_event() -> None:
    assert notify(kind="test", title="once", right=STEER_OPERATION, key="k")
    assert not notify(kind="test", title="once", right=STEER_OPERATION, key="k")
    assert OutboxEvent.objects.filter(type=TOLD).count() == 1


def test_operators_see_what_was_not_taken_and_superusers_see_all(office: PostOffice) -> None:
    reader("asked")
    office.refused = {"asked@example.com"}
    notify(kind="test", title="Told", team=make_team())
    operation = stand(S.SUBMITTED)
    relay()
    EventDelivery.objects.create(
        subscriber="another",
        event=OutboxEvent.objects.filter(entity_id=operation.pk).latest("id"),
        position=1,
        entity_type="operation",
        entity_id=operation.pk,
    )
    root = User.objects.create_superuser("root", password="unused-in-this-test")
    seen = {
        name: sorted(deliveries_visible(user).values_list("entity_type", flat=True))
        for name, user in {
            "operators": make_user("Ad Ops"),
            "auditors": make_user("Auditor"),
            "strangers": make_user("Ad Ops", team=make_team("Another")),
            "root": root,
        }.items()
    }
    assert seen == {
        "operators": ["notification", "operation"],
        "auditors": ["operation"],
        "strangers": ["notification"],
        "root": ["notification", "operation"],
    }
