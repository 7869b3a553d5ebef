"""In a real browser: the search box by keyboard, the card of explanations, saving a filter."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from orders.models import Deal
from tasks_app.desk.saved import SavedFilter
from tests.ui.browser import NARROW
from tests.ui.pages import list_of, page_of

pytestmark = pytest.mark.browser


def test_a_quoted_id_opens_by_keyboard_alone(desk: Any) -> None:
    deal = Deal.objects.exclude(media_buy_id="").earliest("pk")
    with desk.looking("Buyer") as page:
        page.goto(reverse("admin:index"))
        page.keyboard.press("Control+k")
        page.fill("#search-input-command", deal.media_buy_id)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{page_of(deal)}")

        page.keyboard.press("Control+k")
        page.fill("#search-input-command", deal.seller.name[:4].lower())
        expect(page.locator("#command-results-list li").first).to_be_visible()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{page_of(deal.seller)}")


def test_the_card_of_explanations_comes_by_itself(desk: Any) -> None:
    deal = Deal.objects.earliest("pk")
    with desk.looking("Finance", size=NARROW, dark=True) as page:
        page.goto(page_of(deal))
        expect(page.get_by_text("If nobody does")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_a_filter_is_saved_from_the_list(desk: Any) -> None:
    with desk.looking("Finance") as page:
        page.goto(f"{list_of(Deal)}?view=ended")
        page.get_by_text("Save this filter").click()
        page.fill("#sf-name", "What has ended")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("link", name="What has ended")).to_be_visible()
    assert SavedFilter.objects.get(name="What has ended").query == "view=ended"
