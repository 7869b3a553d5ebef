"""The first hour through the real site: from an empty database to a booked deal; the pages change by
themselves."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pyotp
import pytest
from django.db import connections
from django.test import Client
from playwright.sync_api import Browser, Page, expect
from pytest_django.plugin import DjangoDbBlocker

from config.processes import ProcessGroup
from orders.models import Deal
from tasks_app import days
from tasks_app.approvals.models import Approval
from tasks_app.people.first_administrator import make_one_time_address
from tasks_app.people.models import House, User
from tests.database import Database, TestServer, point_django_at
from tests.fake_seller.driver import FakeSeller
from tests.ui.browser import ROOT, Desk, serving
from tests.ui.pages import list_of, page_of

pytestmark = pytest.mark.browser
PASSWORD = "an entirely different staple of words"


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
    """Web and workers as delivered on an empty database, polling twenty times as often, and a browser."""
    database = database_server.create(template=template_database)
    env = {
        **database.env,
        "FLIGHTDECK_POLL_SCALE": "0.05",
        "FLIGHTDECK_EVENT_TICK_S": "1",
        "FLIGHTDECK_SECOND_FACTOR_ROLES": "Approver,Administrator",  # as delivered
    }
    try:
        with ProcessGroup() as group, django_db_blocker.unblock():
            point_django_at(database.urls.app)
            House.objects.all().delete()
            group.start("worker", [sys.executable, "manage.py", "worker"], env=env, cwd=ROOT)
            url = serving(group, env)
            yield Desk(url=url, browser=chromium, login=_login)
    finally:
        connections.close_all()
        point_django_at(django_db_setup.urls.app)
        database_server.drop(database.name)


def _login(mail: str) -> Client:
    client = Client()
    client.force_login(User.objects.get(username=mail), backend="tasks_app.people.holders.RoleBackend")
    return client


def test_from_an_empty_database_to_a_booked_deal(site: Desk, seller: FakeSeller) -> None:
    with site.looking(None) as ada:
        _become_administrator(ada)
        _name_the_house(ada)
        _add_team_and_advertiser(ada)
        link = _invite_approver(ada)
        _add_seller(ada, seller)
        ada.goto("/admin/")
        expect(ada.locator("#first-steps")).to_contain_text("Submit the first brief")
        ada.get_by_role("link", name="Submit the first brief").click()
        _submit(ada)
        campaign = ada.url
        expect(ada.locator("#live-page")).to_contain_text("Norrland")
        expect(ada.locator(".fd-head")).to_contain_text("Awaiting approval")
        assert seller.books() == [], "nothing is bought before somebody has decided"
        with site.looking(None) as noor:
            _set_password(noor, link)
            _decide(noor)
        # The page is not loaded again: what the seller says is shown as it comes.
        expect(ada.locator(".fd-head")).to_contain_text("Completed")
        expect(ada.locator("#live-page")).to_contain_text("1 booked")
        assert ada.url == campaign
        assert ada.evaluate("window.loadedOnce === true")
        deal = Deal.objects.get()
        assert (deal.status, len(seller.books())) == ("booked", 1)
        ada.goto(page_of(deal))
        expect(ada.locator(".fd-head")).to_contain_text(deal.media_buy_id)
        ada.goto("/admin/")
        expect(ada.locator("#first-steps")).to_have_count(0)


def _become_administrator(page: Page) -> None:
    """Open the one-time address, with a mistake on the way."""
    page.goto(urlsplit(make_one_time_address()).path)
    page.fill("[name=first_name]", "Ada")
    page.fill("[name=last_name]", "Okafor")
    page.fill("[name=email]", "ada@halden.example")
    page.select_option("[name=time_zone]", "Europe/Berlin")
    page.fill("[name=password]", PASSWORD)
    page.fill("[name=again]", "something else")
    page.get_by_role("button", name="Create the login").click()
    expect(page.locator("#id_again_error")).to_contain_text("differ")
    page.fill("[name=password]", PASSWORD)
    page.fill("[name=again]", PASSWORD)
    page.get_by_role("button", name="Create the login").click()
    _set_up_second_factor(page)
    expect(page.locator("#first-steps")).to_contain_text("Name the house")


def _name_the_house(page: Page) -> None:
    page.get_by_role("link", name="Name the house").click()
    page.fill("[name=name]", "Halden & Marsh")
    page.fill("[name=domain]", "haldenmarsh.example")
    page.select_option("[name=currency]", "USD")
    expect(page.locator("[name=time_zone]")).to_have_value("Europe/Berlin")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#first-steps")).to_contain_text("Add a team")


def _add_team_and_advertiser(page: Page) -> None:
    page.get_by_role("link", name="Add a team").click()
    page.fill("[name=name]", "Northern Europe")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("link", name="Add an advertiser").click()
    page.fill("[name=name]", "Lindqvist Coffee")
    page.fill("[name=brand_domain]", "lindqvist.example")
    page.get_by_role("button", name="Save", exact=True).click()


def _invite_approver(page: Page) -> str:
    """Add the person who decides, and return the path of the link that sets their password."""
    page.get_by_role("link", name="Invite an approver").click()
    page.fill("[name=first_name]", "Noor")
    page.fill("[name=last_name]", "Haddad")
    page.fill("[name=email]", "noor@halden.example")
    page.select_option("[name=groups]", label="Approver")
    page.select_option("[name=memberships-0-team]", label="Northern Europe")
    page.get_by_role("button", name="Save", exact=True).click()
    link = re.search(r"(/admin/set-password/\S+)", page.locator("ul.fd-messages").inner_text())
    assert link is not None
    return link[1]


def _set_password(page: Page, link: str) -> None:
    page.goto(link)
    page.fill("[name=new_password1]", PASSWORD)
    page.fill("[name=new_password2]", PASSWORD)
    page.get_by_role("button", name="Set the password").click()
    _set_up_second_factor(page)


def _set_up_second_factor(page: Page) -> None:
    secret = re.sub(r"\s", "", page.locator(".fd-secret").inner_text())
    page.fill("[name=code]", pyotp.TOTP(secret).now())
    page.get_by_role("button", name="Set up").click()
    page.wait_for_url("**/admin/account/")
    page.goto("/admin/")


def _add_seller(page: Page, seller: FakeSeller) -> None:
    """Add the seller from Today, with a mistake on the way, and ask it for the client's account."""
    page.get_by_role("link", name="Add a seller").click()
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
    page.fill("[name=name]", "Cold brew, spring")
    page.select_option("[name=advertiser]", label="Lindqvist Coffee (Northern Europe)")
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
