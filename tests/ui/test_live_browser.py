"""The pages of campaigns and deals in a real browser: a seller answers, and the page changes by itself."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from campaigns.models import Campaign
from orders.models import Deal, DealStatus
from tasks_app.adcp.types import Seen
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tests.operations.making import observed
from tests.ui.browser import WIDE, Desk, looks
from tests.ui.pages import list_of, page_of
from tests.ui.seed_parts import bought

pytestmark = pytest.mark.browser


def lindqvist() -> Campaign:
    return Campaign.objects.get(name="Lindqvist Cold Brew")


def waiting(seller: str) -> Deal:
    return Deal.objects.select_related("seller").get(
        campaign_id=lindqvist().pk, seller__slug=seller, status=DealStatus.BOOKING
    )


def answers(deal: Deal, status: str, payload: dict[str, Any] | None, message: str = "As it is.") -> None:
    """The seller's word about its purchase comes by poll, and is published."""
    operation = Operation.objects.get(subject_id=deal.pk, task_type="create_media_buy")
    seen = Seen(kind="answer", status=status, payload=payload, task_id=operation.task_id, message=message)
    observed(operation_id=operation.pk, seen=seen, channel="poll")
    publish(operation_id=operation.pk)


def loaded_once(page: Page) -> bool:
    return bool(page.evaluate("window.loadedOnce === true"))


def opened(page: Page, about: Campaign | Deal) -> None:
    """Its page, with its stream open."""
    with page.expect_response(re.compile(r"/changes/$")):
        page.goto(page_of(about))
    page.evaluate("window.loadedOnce = true")


def test_a_campaigns_page_changes_by_itself_and_keeps_what_a_person_has_in_hand(desk: Desk) -> None:
    deal = waiting("cobalt")
    with desk.looking("Buyer") as page, desk.looking("Finance") as other:
        opened(page, lindqvist())
        opened(other, deal)
        expect(page.locator(".chain")).to_contain_text("1 booked, 2 waiting")
        expect(other.locator("#explained")).to_contain_text("Booking")
        page.click("#a-cancel summary")
        page.fill("#f-cancel", "half a reas")
        answers(deal, "working", None, "The sales desk has it.")
        expect(page.locator("#live-page")).to_contain_text("Cobalt Bay TV works on it")
        answers(deal, "completed", bought(deal, "cob-1"))
        expect(page.locator(".chain")).to_contain_text("2 booked, 1 waiting")
        expect(page.locator("#live-page")).to_contain_text("Cobalt Bay TV booked the deal")
        expect(other.locator(".fd-head")).to_contain_text("Booked")
        expect(other.locator(".fd-head")).to_contain_text("cob-1")
        expect(other.locator("#explained")).to_contain_text("Booked")
        assert page.input_value("#f-cancel") == "half a reas", "what is being written is left alone"
        expect(page.locator("#f-cancel")).to_be_focused()
        assert loaded_once(page)
        assert loaded_once(other)


def test_what_it_waits_for_is_told_before_anything_is_scrolled(desk: Desk) -> None:
    with desk.looking("Finance") as page:
        for about in (lindqvist(), waiting("quill")):
            page.goto(page_of(about))
            expect(page.locator("#explained")).to_contain_text("If nobody does")
            box = page.locator("#explained").bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= WIDE[1]


def test_without_the_stream_it_asks_now_and_then(desk: Desk) -> None:
    deal = waiting("quill")
    with desk.looking("Finance") as page:
        page.route("**/changes/", lambda route: route.fulfill(status=204))
        page.goto(page_of(deal))
        page.evaluate("window.loadedOnce = true")
        answers(deal, "working", None, "The studio has it.")
        expect(page.locator("#live-page")).to_contain_text("Working")
        assert loaded_once(page)


def test_updates_can_be_paused(desk: Desk) -> None:
    deal = waiting("quill")
    with desk.looking("Finance") as page, desk.looking("Finance") as other:
        opened(page, deal)
        opened(other, deal)
        page.click("#live-pause")
        expect(page.locator("#live-pause")).to_have_attribute("aria-pressed", "true")
        asked: list[str] = []
        # The bell asks for itself every 15 s.
        page.on("request", lambda request: asked.append(request.url) if "/live/" in request.url else None)
        answers(deal, "input-required", None, "Which of the two studios?")
        expect(other.locator("#live-page")).to_contain_text("Which of the two studios?")
        assert asked == []
        page.click("#live-pause")
        expect(page.locator("#live-page")).to_contain_text("Which of the two studios?")


def test_where_the_session_has_ended_it_goes_to_the_login(desk: Desk) -> None:
    with desk.looking("Finance") as page:
        opened(page, waiting("quill"))
        page.context.clear_cookies()
        answers(waiting("quill"), "working", None, "The studio has it again.")
        page.wait_for_url("**/login/**")


def test_a_deal_is_withdrawn_from_its_page(desk: Desk) -> None:
    deal = Deal.objects.filter(status=DealStatus.QUOTED).order_by("-id")[0]
    with desk.looking("Buyer") as page:
        page.goto(page_of(deal))
        page.click("a:text('Withdraw deal…')")
        expect(page.locator("#f-withdraw")).to_be_focused()
        page.fill("#f-withdraw", "the client withdrew")
        page.check("#s-withdraw")
        page.click("#a-withdraw button")
        expect(page.locator("ul.fd-messages")).to_contain_text(f"{deal.reference} is withdrawn")
        expect(page.locator(".fd-head")).to_contain_text("Cancelled")
    with desk.looking("Finance") as page:
        page.goto(page_of(Deal.objects.filter(status=DealStatus.QUOTED)[0]))
        assert page.locator("form[method=post] input[name=act]").count() == 0


def test_the_pages_fit_and_complain_of_nothing(desk: Desk) -> None:
    pages = [page_of(one) for one in (*Campaign.objects.all(), *Deal.objects.all())]
    with desk.looking("Administrator") as page:
        for address in (*pages, f"{list_of(Campaign)}submit/"):
            answer = page.goto(address)
            assert answer is not None
            assert answer.ok, address
            for width, *_ in looks(page):
                assert page.evaluate("document.documentElement.scrollWidth") <= width, address
