"""The bell in a real browser: what is told while a page is open is counted without loading it again."""

from __future__ import annotations

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from tasks_app.notifications.bell import EVERY_S
from tasks_app.notifications.selectors import unread_count
from tasks_app.notifications.services import notify
from tasks_app.people.models import User
from tests.ui.browser import Desk

pytestmark = pytest.mark.browser


def test_the_bell_counts_while_the_page_is_open(desk: Desk) -> None:
    maya = User.objects.filter(groups__name="Approver").earliest("date_joined")
    before = unread_count(maya)
    with desk.looking("Approver") as page:
        page.clock.install()
        page.goto(reverse("admin:tasks_app_approval_changelist"))
        page.evaluate("window.loadedOnce = true")
        notify(kind="test", title="Something for you", person=maya)
        page.clock.fast_forward(EVERY_S * 1000)
        expect(page.locator("#bell")).to_contain_text(f"{before + 1} unread")
        assert page.evaluate("window.loadedOnce"), "the page itself was never loaded again"
        expect(page.locator("#bell")).to_have_count(1)
