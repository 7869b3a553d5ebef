"""A team's chat is posted what the team is told: once each, again after a failure, the URL never seen."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from tasks_app import clock
from tasks_app.events.held import delivery_retry
from tasks_app.events.models import EventDelivery
from tasks_app.ids import new_id
from tasks_app.notifications.bundles import WINDOW
from tasks_app.notifications.models import Notification, TeamWebhook, TeamWebhookSent
from tasks_app.notifications.services import About, notify
from tasks_app.notifications.team_webhook import (
    NotPostedError,
    TeamWebhookRefusedError,
    team_webhook_set,
    team_webhook_test,
)
from tasks_app.people.models import Team, User
from tasks_app.people.roles import DECIDE, STEER_OPERATION
from tests.database import Database
from tests.events.parts import relay
from tests.factories import make_deal, make_team, make_user
from tests.sellers.receiver import Receiver
from tests.ui.pages import send

SECRET = "T0SECRET/B0SECRET/verysecretpart"
BACKEND = "tasks_app.people.holders.RoleBackend"


@pytest.fixture
def chat(committed_db: Database) -> Iterator[Receiver]:
    relay()  # subscribers begin with the first numbering
    with Receiver() as receiver:
        yield receiver


def url_of(chat: Receiver) -> str:
    return chat.url(SECRET)


def hook_to(chat: Receiver, **said: Any) -> TeamWebhook:
    said = {"team": make_team(), "level": "info", "allow_private": True, "url": url_of(chat), **said}
    return team_webhook_set(user=make_user("Administrator"), **said)


def texts(chat: Receiver) -> list[str]:
    assert all(set(one.content) == {"text"} for one in chat.deliveries)
    return [one.content["text"] for one in chat.deliveries]


def test_what_a_team_is_told_is_posted_once(chat: Receiver) -> None:
    hook_to(chat)
    deal = make_deal()
    notify(
        kind="test",
        title="A <b>deal</b> & more",
        body="Read it.",
        level="warning",
        about=About(type="deal", id=deal.pk),
        team=make_team(),
    )
    relay()
    relay()
    (text,) = texts(chat)
    assert text == (
        "Warning: A &lt;b&gt;deal&lt;/b&gt; &amp; more\nRead it.\n"
        f"http://127.0.0.1:8000/admin/orders/deal/{deal.pk}/change/"
    )
    assert chat.deliveries[0].headers["Content-Type"].startswith("application/json")
    assert TeamWebhookSent.objects.count() == 1
    assert TeamWebhook.objects.get().sent_at is not None


def test_only_the_teams_own_and_loud_enough(chat: Receiver) -> None:
    hook_to(chat, level="warning")
    rivals, person = Team.objects.create(name="Rivals"), make_user("Approver")
    notify(kind="test", title="quiet", team=make_team())
    notify(kind="test", title="theirs", level="alarm", team=rivals)
    notify(kind="test", title="operators", level="alarm", right=STEER_OPERATION)
    notify(kind="test", title="personal", level="alarm", person=person)
    notify(kind="test", title="for deciders", level="alarm", team=make_team(), right=DECIDE)
    relay()
    assert texts(chat) == ["Alarm: for deciders"]


def test_news_of_a_campaign_is_one_post_as_far_as_it_fits(chat: Receiver) -> None:
    hook_to(chat)
    about = About(type="campaign", id=new_id())
    for title, body in (("First", ""), ("Second", ""), ("Third", "x" * 2999)):
        notify(kind="test", title=title, body=body, about=about, team=make_team())
    relay()
    assert texts(chat) == []
    with clock.injected(lambda: datetime.now(UTC) + WINDOW + timedelta(seconds=1)):
        relay()
    together, alone = texts(chat)
    assert together == "First\nSecond"
    assert alone.startswith("Third\n")


def test_switched_off_it_is_posted_nothing(chat: Receiver) -> None:
    hook_to(chat, active=False)
    notify(kind="test", title="quiet", team=make_team())
    relay()
    assert texts(chat) == []


def test_what_the_chat_refuses_is_posted_again(chat: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    hook, chat.refuse = hook_to(chat), 1
    notify(kind="test", title="Hello", team=make_team())
    with caplog.at_level(logging.DEBUG):
        relay()
    hook.refresh_from_db()
    assert hook.failure == "answered HTTP 503"
    delivery = EventDelivery.objects.get(subscriber="team_webhooks")
    assert "503" in delivery.error
    assert SECRET not in caplog.text + delivery.error + hook.failure

    later = clock.now() + timedelta(minutes=2)
    with clock.injected(lambda: later):
        EventDelivery.objects.update(due_at=later)
        relay()
    assert texts(chat) == ["Hello", "Hello"]
    hook.refresh_from_db()
    assert (hook.failed_at, hook.failure) == (None, "")


def test_a_chat_that_failed_is_left_alone_a_while(chat: Receiver) -> None:
    hook_to(chat)
    chat.refuse = 1
    for title in ("one", "two", "three"):
        notify(kind="test", title=title, team=make_team())
    relay()
    assert len(chat.deliveries) == 1, "the others wait, and cost no time-out each"
    assert TeamWebhookSent.objects.count() == 0


def test_a_chat_that_limits_its_rate_is_told_everything_in_time(chat: Receiver) -> None:
    """One a second after a burst of five, as chats do: what waits meanwhile is not given up."""
    hook_to(chat)
    now = clock.now()
    full_at = now  # of the allowance

    def busy() -> int | None:
        nonlocal full_at
        full_at = max(full_at, now)
        if full_at - now > timedelta(seconds=4):
            return 2
        full_at += timedelta(seconds=1)
        return None

    chat.busy = busy
    for number in range(40):
        notify(kind="test", title=f"number {number}", team=make_team())
    with clock.injected(lambda: now):
        for _ in range(400):
            relay()
            if TeamWebhookSent.objects.count() == 40:
                break
            now += timedelta(seconds=2)
    assert TeamWebhookSent.objects.count() == 40
    assert not EventDelivery.objects.filter(subscriber="team_webhooks").exists()
    assert TeamWebhook.objects.get().again_at is None


@pytest.mark.parametrize(("told", "waits"), [(7, 7), (100_000, 3600)])
def test_a_chat_is_left_alone_as_long_as_it_asks_for(chat: Receiver, told: int, waits: int) -> None:
    hook_to(chat)
    chat.busy = lambda: told
    before = clock.now()
    for title in ("one", "two"):
        notify(kind="test", title=title, team=make_team())
    relay()
    again_at = TeamWebhook.objects.get().again_at
    assert again_at is not None
    assert before + timedelta(seconds=waits) <= again_at <= clock.now() + timedelta(seconds=waits)
    waiting = EventDelivery.objects.filter(subscriber="team_webhooks").order_by("position")
    assert [one.attempts for one in waiting] == [1, 0], "only what was tried has cost one"
    assert waiting[1].due_at is not None
    looked = clock.now() + timedelta(minutes=5)
    assert waiting[1].due_at <= min(again_at, looked), "looked at sooner where somebody may have mended it"
    assert waiting[1].due_at >= min(again_at, before + timedelta(minutes=5)), "and not every minute"


def test_a_chat_that_stays_away_is_given_up_after_a_day(chat: Receiver) -> None:
    """Nobody wants what is older than that, and its events are not kept for it."""
    hook_to(chat)
    chat.busy = lambda: 3600
    for number in range(30):
        notify(kind="test", title=f"number {number}", team=make_team())
    now = clock.now()
    with clock.injected(lambda: now):
        for _ in range(40):
            relay()
            now += timedelta(hours=1)
    waiting = EventDelivery.objects.filter(subscriber="team_webhooks")
    assert waiting.count() == 30
    assert not waiting.filter(gave_up_at=None).exists()


@pytest.mark.parametrize("tested", [False, True], ids=["set_anew", "tested"])
def test_what_waits_is_posted_once_the_webhook_is_mended(chat: Receiver, tested: bool) -> None:
    hook_to(chat)
    chat.busy = lambda: 3600
    for title in ("one", "two"):
        notify(kind="test", title=title, team=make_team())
    relay()
    chat.busy = None
    if tested:
        team_webhook_test(hook=TeamWebhook.objects.get())
    else:
        hook_to(chat)
    relay()
    assert texts(chat)[-1] == "two", "what failed itself has its back-off"
    EventDelivery.objects.update(due_at=clock.now())
    relay()
    assert texts(chat)[-2:] == ["two", "one"]


def test_a_failure_of_where_it_led_before_does_not_stop_it(chat: Receiver) -> None:
    """An administrator sets it anew while a post is on its way to the old address."""
    hook_to(chat)
    notify(kind="test", title="Hello", team=make_team())

    def set_anew() -> int:
        hook_to(chat)
        connection.close()  # the thread's that answers
        return 3600

    chat.busy = set_anew
    relay()
    hook = TeamWebhook.objects.get()
    assert (hook.failure, hook.failed_at, hook.again_at) == ("", None, None)


def test_what_a_person_tries_again_waits_its_turn(chat: Receiver) -> None:
    """After a day's outage, at a chat that limits its rate: what comes after its pause is not given up."""
    hook_to(chat)
    chat.busy = lambda: 3600
    for title in ("one", "two"):
        notify(kind="test", title=title, team=make_team())
    now = clock.now()
    with clock.injected(lambda: now):
        for _ in range(40):
            relay()
            now += timedelta(hours=1)
        given_up = EventDelivery.objects.exclude(gave_up_at=None)
        assert given_up.count() == 2
        for delivery in given_up:
            delivery_retry(delivery_id=delivery.pk, user=make_user("Administrator"))
        relay()
        assert not given_up.all().exists()
        chat.busy = None
        now += timedelta(hours=2)
        relay()
    assert TeamWebhookSent.objects.count() == 2


def test_what_a_seller_says_is_no_mark_up(chat: Receiver) -> None:
    """Of Slack, nor of Mattermost: it calls nobody, and no link stands under other words."""
    hook_to(chat)
    said = "@channel, _@here_: [Approve now](https://evil.example) <!channel> <https://evil.example|Approve>"
    notify(kind="test", title=said, body=f"{said} or mail ads@example.com", team=make_team())
    relay()
    (text,) = texts(chat)
    assert not re.search(r"@(channel|here)|\]\(|<", text)
    assert "ads@example.com" in text


@pytest.mark.parametrize("said", ["[Approve][1]", "[1]: https://evil.example", "__@all__", "a.@all", "-@all"])
def test_no_mark_up_in_further_forms(chat: Receiver, said: str) -> None:
    hook_to(chat)
    notify(kind="test", title=said, team=make_team())
    relay()
    (text,) = texts(chat)
    assert said not in text
    assert said in text.replace("\u200b", "")


def test_the_url_is_encrypted_and_shown_nowhere(chat: Receiver, client: Client) -> None:
    hook = hook_to(chat)
    with connection.cursor() as cursor:
        cursor.execute("select t::text from tasks_app_teamwebhook t")
        stored = cursor.fetchone()[0]
    administrator = make_user("Administrator")
    User.objects.filter(pk=administrator.pk).update(is_staff=True)
    client.force_login(User.objects.get(pk=administrator.pk), backend=BACKEND)
    page = client.get(reverse("admin:tasks_app_teamwebhook_changelist")).content.decode()
    for seen in (stored, page, repr(hook), str(hook), json.dumps(str(vars(hook)["host"]))):
        assert SECRET not in seen
    assert "127.0.0.1" in page


def test_an_administrator_sets_it_and_sends_a_test(chat: Receiver, client: Client) -> None:
    administrator = make_user("Administrator")
    User.objects.filter(pk=administrator.pk).update(is_staff=True)
    client.force_login(User.objects.get(pk=administrator.pk), backend=BACKEND)
    page = reverse("admin:tasks_app_teamwebhook_changelist")
    form = {
        "team": str(make_team().pk),
        "url": url_of(chat),
        "level": "info",
        "active": "on",
        "allow_private": "on",
    }
    assert "kept" in send(client, page, form, follow=True).content.decode()
    hook = TeamWebhook.objects.get()
    assert "took the test" in client.post(page, {"test": str(hook.pk)}, follow=True).content.decode()
    chat.refuse = 1
    assert "answered HTTP 503" in client.post(page, {"test": str(hook.pk)}, follow=True).content.decode()
    assert "This is a test." in texts(chat)[0]
    changed = {**form, "url": "", "level": "alarm"}
    send(client, f"{page}?team={form['team']}", changed)
    hook.refresh_from_db()
    assert (hook.url, hook.level) == (url_of(chat), "alarm"), "an empty field keeps the URL"


def test_one_that_is_there_is_changed_from_what_it_is(chat: Receiver, client: Client) -> None:
    """Somebody who wants another level alone switches nothing on again, and nothing off."""
    administrator, hook = make_user("Administrator", is_staff=True), hook_to(chat, active=False)
    client.force_login(administrator, backend=BACKEND)
    page = reverse("admin:tasks_app_teamwebhook_changelist")
    assert f'href="?team={hook.team_id}"' in client.get(page).content.decode()
    drawn = client.get(page, {"team": str(hook.team_id)}).content.decode()
    assert f'<input type="hidden" name="team" value="{hook.team_id}">' in drawn
    assert 'name="active">' in drawn
    assert 'name="allow_private" checked>' in drawn
    assert '<select id="team"' not in client.get(page).content.decode(), "no team is without one"


@pytest.mark.django_db
@pytest.mark.parametrize("role", ["Buyer", "Approver", "Ad Ops", "Finance", "Auditor"])
def test_nobody_else_sees_or_sets_it(client: Client, role: str) -> None:
    user = make_user(role)
    User.objects.filter(pk=user.pk).update(is_staff=True)
    client.force_login(User.objects.get(pk=user.pk), backend=BACKEND)
    page = reverse("admin:tasks_app_teamwebhook_changelist")
    form = {"team": str(make_team().pk), "url": "https://chat.example/x", "level": "info"}
    assert client.get(page).status_code == client.post(page, form).status_code == 403
    with pytest.raises(TeamWebhookRefusedError):
        team_webhook_set(user=user, team=make_team(), url="https://chat.example/x", level="info")
    assert not TeamWebhook.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://chat.example/x",
        "http://chat.example/x",
        "https://user:word@chat.example/x",
        "https:///x",
        "nonsense",
    ],
)
def test_an_address_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(TeamWebhookRefusedError) as error:
        team_webhook_set(user=make_user("Administrator"), team=make_team(), url=url, level="info")
    assert "word@" not in str(error.value)
    assert not TeamWebhook.objects.exists()


def test_a_private_address_is_not_connected_to_unless_allowed(chat: Receiver) -> None:
    hook = team_webhook_set(
        user=make_user("Administrator"),
        team=make_team(),
        url=url_of(chat).replace("http://", "https://"),
        level="info",
    )
    with pytest.raises(NotPostedError, match="private"):
        team_webhook_test(hook=hook)
    assert chat.deliveries == []
    assert Notification.objects.count() == 0
