"""Signing in with a second factor in a real browser: an app is set up, then asked for, on pages that can be
read."""

from __future__ import annotations

import re

import pyotp
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from demo.run import SECOND_FACTOR_ROLE
from tasks_app.people.models import User
from tests.ui.browser import Desk

pytestmark = pytest.mark.browser
PASSWORD = "correct horse battery staple"


def test_somebody_of_a_role_that_needs_one_signs_in(strict_desk: Desk) -> None:
    ines = User.objects.filter(groups__name=SECOND_FACTOR_ROLE).earliest("date_joined")
    ines.set_password(PASSWORD)
    ines.save()
    with strict_desk.looking(None) as page:
        sign_in(page, ines)
        expect(page).to_have_url(re.compile("/admin/account/second-factor/new/"))
        is_readable(page, page.get_by_role("button", name="Set up"))
        secret = re.sub(r"\s", "", page.locator(".fd-secret").inner_text())
        page.fill("input[name=code]", pyotp.TOTP(secret).now())
        page.get_by_role("button", name="Set up").click()
        expect(page).to_have_url(re.compile("/admin/account/$"))
        codes = page.locator("li", has_text=re.compile(r"^[0-9a-f]{5}(-[0-9a-f]{5}){3}$"))
        recovery = codes.first.inner_text()

        page.context.clear_cookies()
        sign_in(page, ines)
        expect(page).to_have_url(re.compile("/admin/account/second-factor/[?]"))
        is_readable(page, page.get_by_role("button", name="Continue"))
        page.fill("input[name=code]", recovery)
        page.get_by_role("button", name="Continue").click()
        expect(page).to_have_url(re.compile("/admin/$"))


def sign_in(page: Page, user: User) -> None:
    page.goto("/admin/")
    page.fill("input[name=username]", user.username)
    page.fill("input[name=password]", PASSWORD)
    page.press("input[name=password]", "Enter")


def is_readable(page: Page, button: Locator) -> None:
    """Our stylesheets are there, the button is seen, and axe-core finds nothing."""
    sheets = page.evaluate("[...document.styleSheets].map((one) => one.href || '')")
    assert any("desk/" in sheet for sheet in sheets), sheets
    expect(button).to_be_visible()
    colours = button.evaluate("(one) => [getComputedStyle(one).color, getComputedStyle(one).backgroundColor]")
    assert "rgba(0, 0, 0, 0)" not in colours
    assert colours[0] != colours[1]
    found = Axe().run(page).response["violations"]
    assert [one["id"] for one in found] == []
