"""Notifications of one campaign within ten minutes come as one, and in the reader's time zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.ids import new_id
from tasks_app.notifications.bundles import WINDOW, bundles
from tasks_app.notifications.models import Notification, NotificationMail, NotificationRead
from tasks_app.notifications.moments import moment_token
from tasks_app.notifications.services import About, notify
from tests.database import Database
from tests.events.parts import relay
from tests.factories import make_deal, make_team, make_user
from tests.notifications.post_office import PostOffice, mailing
from tests.notifications.test_mail import reader
from tests.notifications.test_pages import PAGE, client_of
from tests.ui.pages import read as text_of_page

NOON = datetime(2026, 11, 18, 17, tzinfo=UTC)


@pytest.fixture
def office(committed_db: Database, settings: Any) -> Iterator[PostOffice]:
    with mailing(settings) as server:
        yield server


def tell(about: About, title: str, level: str = "info") -> None:
    body = f"By {moment_token(NOON)}."
    notify(kind="test", title=title, body=body, level=level, about=about, team=make_team())


def payloads(office: PostOffice) -> list[tuple[str, str]]:
    """Return subject and text of each message."""
    return [(str(m["Subject"]), m.get_payload(decode=True).decode()) for _, m in office.taken]  # type: ignore[union-attr]


def test_news_of_a_campaign_is_mailed_as_one_after_ten_minutes(office: PostOffice) -> None:
    reader("asked", time_zone="America/New_York")
    campaign = new_id()
    deal = make_deal(campaign_id=campaign)
    tell(About(type="campaign", id=campaign), "Research began")
    tell(About(type="deal", id=deal.pk), "A deal is quoted")
    relay()
    assert office.taken == []
    with clock.injected(lambda: datetime.now(UTC) + WINDOW + timedelta(seconds=1)):
        relay()
    ((subject, text),) = payloads(office)
    assert subject == "Research began (and 1 more of this campaign)"
    assert text.index("Research began") < text.index("A deal is quoted")
    assert text.count("12:00 New York") == 2


def test_a_warning_goes_at_once_and_takes_along_what_waits(office: PostOffice) -> None:
    reader("asked")
    campaign = new_id()
    tell(About(type="campaign", id=campaign), "Research began")
    tell(About(type="campaign", id=new_id()), "Of another campaign")
    tell(About(type="campaign", id=campaign), "The seller failed", "alarm")
    relay()
    ((subject, text),) = payloads(office)
    assert subject == "Alarm: The seller failed (and 1 more of this campaign)"
    assert "Research began" in text
    assert "Of another campaign" not in text
    assert NotificationMail.objects.count() == 2


@pytest.mark.django_db
def test_the_list_shows_a_bundle_as_one_row_that_is_read_at_once() -> None:
    user, campaign = make_user("Buyer"), new_id()
    for title in ("One", "Two"):
        tell(About(type="campaign", id=campaign), title)
    tell(About(type="campaign", id=new_id()), "Apart")
    client = client_of(user)
    assert [len(row.texts) for row in client.get(PAGE).context["rows"]] == [1, 2]
    ids = list(Notification.objects.filter(campaign_id=campaign).values_list("pk", flat=True))
    client.post(PAGE, {"read": [str(pk) for pk in ids]})
    assert NotificationRead.objects.filter(user=user).count() == 2
    assert "Apart" in text_of_page(client, PAGE)


def test_a_bundle_lasts_ten_minutes_from_its_newest() -> None:
    campaign = new_id()
    at = [NOON - timedelta(minutes=minutes) for minutes in (0, 4, 10, 11, 15)]
    notes = [Notification(campaign_id=campaign, at=one, title="N", level="info") for one in at]
    assert [len(one) for one in bundles(notes)] == [3, 2]
    assert [len(one) for one in bundles([Notification(title="N", at=one) for one in at])] == [1] * 5
