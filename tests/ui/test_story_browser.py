"""One campaign through the real site, from a seller that Ad Ops add to a booked deal; the pages change by
themselves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connections
from django.test import Client
from playwright.sync_api import Browser, Page, expect
from pytest_django.plugin import DjangoDbBlocker

from config.processes import ProcessGroup
from orders.models import Deal
from tasks_app import days
from tasks_app.approvals.models import Approval
from tasks_app.people.models import User
from tests.database import Database, TestServer, point_django_at
from tests.factories import make_advertiser, make_user
from tests.fake_seller.driver import FakeSeller
from tests.ui.browser import ROOT, Desk, serving
from tests.ui.pages import list_of, page_of

pytestmark = pytest.mark.browser
_PEOPLE = ("Buyer", "Approver", "Ad Ops")


@pytest.fixture
def seller(tmp_path: Path) -> Iterator[FakeSeller]:
    """Says that it was asked, and confirms when it is asked again."""
    with FakeSeller(tmp_path, mode="submitted") as process:
        yield process


@pytest.fixture
def site(
    database_server: TestServer,
    template_database: Database,
    django_db_setup: Database,
    django_db_blocker: DjangoDbBlocker,
    chromium: Browser,
) -> Iterator[Desk]:
    """Web and workers as delivered, polling twenty times as often, and a browser."""
    database = database_server.create(template=template_database)
    env = {**database.env, "FLIGHTDECK_POLL_SCALE": "0.05", "FLIGHTDECK_EVENT_TICK_S": "1"}
    try:
        with ProcessGroup() as group, django_db_blocker.unblock():
            point_django_at(database.urls.app)
            _settle_in()
            group.start("worker", [sys.executable, "manage.py", "worker"], env=env, cwd=ROOT)
            url = serving(group, env)
            yield Desk(url=url, browser=chromium, login=_login)
    finally:
        connections.close_all()
        point_django_at(django_db_setup.urls.app)
        database_server.drop(database.name)


def _settle_in() -> None:
    """Make the people of one team, and their client."""
    make_advertiser()
    for role in _PEOPLE:
        person = make_user(role, name=role.lower())
        person.is_staff = True
        person.save()


def _login(role: str) -> Client:
    client = Client()
    client.force_login(
        User.objects.get(username=role.lower()), backend="tasks_app.people.holders.RoleBackend"
    )
    return client


def test_from_a_new_seller_to_a_booked_deal(site: Desk, seller: FakeSeller) -> None:
    with site.looking("Ad Ops") as ops:
        _add_seller(ops, seller)
    with site.looking("Buyer") as buyer, site.looking("Approver") as approver:
        _submit(buyer)
        campaign = buyer.url
        expect(buyer.locator("#live-page")).to_contain_text("Norrland")
        expect(buyer.locator(".fd-head")).to_contain_text("Awaiting approval")
        assert seller.books() == [], "nothing is bought before somebody has decided"
        _decide(approver)
        # Neither page is loaded again: what the seller says is shown as it comes.
        expect(buyer.locator(".fd-head")).to_contain_text("Completed")
        expect(buyer.locator("#live-page")).to_contain_text("1 booked")
        assert buyer.url == campaign
        assert buyer.evaluate("window.loadedOnce === true")
        deal = Deal.objects.get()
        assert (deal.status, len(seller.books())) == ("booked", 1)
        buyer.goto(page_of(deal))
        expect(buyer.locator(".fd-head")).to_contain_text(deal.media_buy_id)


def _add_seller(page: Page, seller: FakeSeller) -> None:
    """Add the seller from Today, with a mistake on the way, and ask it for the client's account."""
    page.goto("/admin/")
    page.get_by_role("link", name="Add seller").click()
    page.fill("[name=name]", "Norrland")
    page.fill("[name=url]", seller.url)
    page.fill("[name=token]", "not-the-token")
    page.check("[name=allow_private]")
    page.get_by_role("button", name="Ask and add the seller").click()
    expect(page.locator("#id_token_error")).to_contain_text("does not accept our token")
    expect(page.locator("[name=url]")).to_have_value(seller.url)
    page.fill("[name=token]", seller.token)
    page.get_by_role("button", name="Ask and add the seller").click()
    expect(page.locator("#seller-answers")).to_contain_text("1 listed.")
    expect(page.locator("#seller-ready")).to_contain_text("Before the first order")
    page.get_by_role("button", name="Ask Norrland for an account").click()
    expect(page.locator("#seller-ready")).to_contain_text("Ready to buy")


def _submit(page: Page) -> None:
    """Fill in the form of a short campaign that one person may decide on, with a mistake on the way."""
    first = days.today() + timedelta(days=20)
    page.goto("/admin/campaigns/campaign/submit/")
    page.fill("[name=name]", "Cold brew, spring")
    page.select_option("[name=advertiser]", label="Lindqvist Coffee (Halden & Marsh)")
    page.fill("[name=total]", "20,000.00")
    page.fill("[name=start]", first.isoformat())
    page.fill("[name=end]", (first - timedelta(days=1)).isoformat())
    page.locator("[name=channel]").first.select_option("display")
    page.locator("[data-rows=channel]").get_by_role("button", name="Remove").last.click()
    expect(page.locator("[name=share]")).to_have_value("100")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#content")).to_contain_text("before it starts")
    expect(page.locator("[name=name]")).to_have_value("Cold brew, spring")
    page.fill("[name=end]", (first + timedelta(days=20)).isoformat())
    expect(page.locator("#brief-preview")).to_contain_text("Flightdeck asks Norrland for offers.")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/change/")
    page.evaluate("window.loadedOnce = true")


def _decide(page: Page) -> None:
    """By keyboard alone: the queue's first line, approve, confirm."""
    page.goto(list_of(Approval))
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/change/**")
    page.keyboard.press("a")
    expect(page.locator("#confirm")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("ul.fd-messages")).to_contain_text("your approval is recorded")
