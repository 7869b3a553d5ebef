"""The bell of every page, and the list of what one is told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tasks_app import clock
from tasks_app.ids import first_id_at
from tasks_app.notifications import selectors
from tasks_app.notifications.models import Notification, NotificationRead
from tasks_app.notifications.selectors import RECENT, notifications_of, notifications_unread, unread_count
from tasks_app.notifications.services import About, notifications_forget, notifications_mark_read, notify
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION
from tests.factories import make_deal, make_team, make_user
from tests.ui.pages import read

pytestmark = pytest.mark.django_db
PAGE = reverse("admin:tasks_app_notification_changelist")
_BACKEND = "tasks_app.people.holders.RoleBackend"


def client_of(user: User) -> Client:
    User.objects.filter(pk=user.pk).update(is_staff=True)
    client = Client()
    client.force_login(user, backend=_BACKEND)
    return client


def bell(client: Client, address: str = PAGE) -> str:
    page = client.get(address).content.decode()
    return page.split('aria-label="Notifications: ')[1].split('"')[0]


def test_the_bell_counts_what_this_person_has_not_read() -> None:
    mine, other = make_user("Buyer"), make_user("Finance")
    client = client_of(mine)
    assert bell(client) == "none unread"
    notify(kind="test", title="one", team=make_team())
    notify(kind="test", title="two", team=make_team())
    notify(kind="test", title="theirs", team=make_team("Another"))
    notify(kind="test", title="operators'", right=STEER_OPERATION)
    assert bell(client, reverse("admin:index")) == "2 unread"
    client.post(PAGE, {"read": "all"})
    assert bell(client) == "none unread"
    assert bell(client_of(other)) == "2 unread"
    assert bell(client_of(make_user("Ad Ops"))) == "3 unread"


def test_the_bell_costs_one_query_and_looks_at_so_many(django_assert_num_queries: Any) -> None:
    user = make_user("Ad Ops")
    Notification.objects.bulk_create(
        Notification(kind="test", title=str(n), level="info", team=make_team()) for n in range(RECENT + 20)
    )
    user.get_all_permissions()
    with django_assert_num_queries(1):
        assert unread_count(user) == RECENT
    assert bell(client_of(user)) == "99+ unread"
    root = User.objects.create_superuser("root", password="unused-in-this-test")
    assert unread_count(root) == RECENT


def test_the_bell_counts_as_the_list_does() -> None:
    user = make_user("Administrator")
    user.teams.add(make_team("Second"))
    for team in ("Second", "Third", "Halden & Marsh"):
        notify(kind="test", title=team, team=make_team(team))
    for right in (STEER_OPERATION, "tasks_app.nobody_holds_it"):
        notify(kind="test", title=right, right=right)
    told = notifications_of(user)
    assert unread_count(user) == notifications_unread(told, user).count() == 3


def test_the_list_shows_whole_texts_and_leads_to_what_they_tell_of() -> None:
    deal = make_deal()
    about = About(type="deal", id=deal.pk)
    notify(
        kind="test",
        title="Asked <b>",
        body="First line.\nSecond.",
        team=make_team(),
        level="warning",
        about=about,
    )
    client = client_of(make_user("Buyer"))
    shown = client.get(PAGE).content.decode()
    assert "Asked &lt;b&gt;" in shown
    assert f'href="/admin/orders/deal/{deal.pk}/change/"' in shown
    page = read(client, PAGE)
    assert "Warning" in page
    assert "First line. Second." in page


def test_views_and_marking_one() -> None:
    user = make_user("Buyer")
    client = client_of(user)
    for title, level in (("calm", "info"), ("loud", "alarm")):
        notify(kind="test", title=title, level=level, team=make_team())
    calm = Notification.objects.get(title="calm")
    assert client.post(PAGE, {"read": str(calm.pk)}).status_code == 302
    assert "calm" not in read(client, PAGE)
    assert "calm" in read(client, f"{PAGE}?view=all")
    assert "calm" not in read(client, f"{PAGE}?view=alarms")
    assert "loud" in read(client, f"{PAGE}?view=alarms")
    assert "loud" in read(client, f"{PAGE}?view=nonsense&before=nonsense")


def test_pages_go_back_in_time() -> None:
    for number in range(60):
        notify(kind="test", title=f"number {number:02d}", team=make_team())
    client = client_of(make_user("Buyer"))
    first = client.get(PAGE).content.decode()
    assert "number 59" in first
    assert "number 09" not in first
    older = first.split('class="fd-pages"><a class="go" href="')[1].split('"')[0].replace("&amp;", "&")
    second = client.get(f"{PAGE}{older}").content.decode()
    assert "number 09" in second
    assert "number 10" not in second
    assert "Older</a>" not in second
    newest = second.split('class="fd-pages"><a class="go" href="')[1].split('"')[0].replace("&amp;", "&")
    assert client.get(f"{PAGE}{newest}").content.decode().count("number ") == first.count("number ")


def test_anothers_notification_is_neither_shown_nor_marked() -> None:
    notify(kind="test", title="theirs", team=make_team("Another"))
    note = Notification.objects.get()
    client = client_of(make_user("Buyer"))
    assert "theirs" not in read(client, f"{PAGE}?view=all")
    for said in (str(note.pk), "all"):
        assert client.post(PAGE, {"read": said}).status_code == 302
    assert not NotificationRead.objects.exists(), "who comes to that team later has not read it"
    other = make_user("Buyer", team=make_team("Another"))
    assert "theirs" in read(client_of(other), PAGE)
    client_of(other).post(PAGE, {"read": str(note.pk)})
    assert NotificationRead.objects.get().user == other
    alone = client.get(reverse("admin:tasks_app_notification_change", args=[note.pk]))
    assert alone.headers["Location"] == PAGE


@pytest.mark.parametrize("said", [{}, {"read": "nonsense"}, {"mail": "maybe"}])
def test_a_post_that_says_nothing_is_refused(said: dict[str, str]) -> None:
    assert client_of(make_user("Buyer")).post(PAGE, said).status_code == 400


def test_each_person_says_whether_to_be_mailed(settings: Any) -> None:
    user = make_user("Buyer")
    client = client_of(user)
    assert "You are told here only." in read(client, PAGE)
    assert "You have no e-mail address here." in read(client, PAGE)
    client.post(PAGE, {"mail": "on"})
    user.refresh_from_db()
    assert user.mail_notifications
    assert "You are mailed too" in read(client, PAGE)
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    assert "This installation sends no e-mail." in read(client, PAGE)
    client.post(PAGE, {"mail": "off"})
    user.refresh_from_db()
    assert not user.mail_notifications


def test_who_is_not_signed_in_or_not_staff_is_told_nothing() -> None:
    assert Client().get(PAGE).status_code == 302
    assert "Notifications:" not in Client().get(reverse("admin:login")).content.decode()
    client = Client()
    client.force_login(make_user("Integration"), backend=_BACKEND)
    assert client.get(PAGE).status_code == 302


def test_old_ones_are_forgotten(settings: Any) -> None:
    notify(kind="test", title="new", team=make_team())
    moment = clock.now() - settings.NOTIFICATION_KEEP - timedelta(minutes=1)
    Notification.objects.create(
        id=first_id_at(moment), at=moment, kind="test", title="old", level="info", team=make_team()
    )
    assert notifications_forget() == 1
    assert [note.title for note in Notification.objects.all()] == ["new"]
    assert notifications_forget() == 0


def test_the_unread_are_looked_for_among_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    user = make_user("Buyer")
    for title in ("first", "second", "third"):
        notify(kind="test", title=title, team=make_team())
    monkeypatch.setattr(selectors, "UNREAD_LATEST", 2)
    assert [note.title for note in selectors.unread_latest(user)] == ["third", "second"]
    assert notifications_mark_read(user=user) == 3, "all means all"
    assert not selectors.unread_latest(user).exists()


def test_the_bell_asks_for_itself_and_changes_only_with_the_count() -> None:
    mine = make_user("Buyer")
    client = client_of(mine)
    page = client.get(PAGE).content.decode()
    asks = page.split('id="bell"')[1].split('hx-get="')[1].split('"')[0].replace("&amp;", "&")

    assert client.get(asks).status_code == 204
    notify(kind="test", title="one", team=make_team())
    answer = client.get(asks)
    assert answer.status_code == 200
    assert 'aria-label="Notifications: 1 unread"' in answer.content.decode()
    assert "no-store" in answer["Cache-Control"] or "no-cache" in answer["Cache-Control"]
    assert client.post(asks).status_code == 405
    assert Client().get(asks).status_code == 204, "the next page tells that one is signed out, not the bell"


def test_asking_for_the_bell_reads_little(django_assert_max_num_queries: Any) -> None:
    client = client_of(make_user("Ad Ops"))
    notify(kind="test", title="one", team=make_team())
    with django_assert_max_num_queries(6):
        assert client.get(reverse("bell")).status_code == 200


def test_what_one_person_is_told_nobody_else_sees() -> None:
    mine, other, root = make_user("Buyer"), make_user("Buyer"), make_user("Administrator")
    User.objects.filter(pk=root.pk).update(is_superuser=True)
    root = User.objects.get(pk=root.pk)
    notify(kind="test", title="for you", person=mine, key="once")
    notify(kind="test", title="for you", person=mine, key="once")
    for user, count in ((mine, 1), (other, 0), (root, 0)):
        assert notifications_of(user).count() == unread_count(user) == count
    assert notifications_mark_read(user=mine) == 1
    assert unread_count(mine) == 0


def test_for_one_person_is_for_nobody_else() -> None:
    person = make_user("Buyer")
    for wrong in ({"team": make_team()}, {"right": STEER_OPERATION}):
        with pytest.raises(ValueError, match="nobody else"):
            notify(kind="test", title="x", person=person, **wrong)
    with pytest.raises(ValueError, match="for a team"):
        notify(kind="test", title="x")
    assert not Notification.objects.exists()
