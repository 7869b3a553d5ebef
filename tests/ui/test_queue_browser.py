"""The queue and an approval by keyboard, in a real browser: what a key leads to, another confirms."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.converge import observe
from tasks_app.operations.models import Operation
from tests.ui.browser import NARROW, WIDE, Desk
from tests.ui.pages import page_of

pytestmark = pytest.mark.browser
QUEUE = reverse("admin:tasks_app_approval_changelist")
PREVIEWED = (1440, 900)


def marked(page: Page) -> str:
    """The line that is marked."""
    return page.locator("tr[data-row].on").get_attribute("data-row") or ""


def opened(reference: str) -> Approval:
    return Approval.objects.get(reference=reference)


def test_j_and_k_move_and_the_preview_follows(desk: Desk) -> None:
    with desk.looking("Approver", size=PREVIEWED) as page:
        page.goto(QUEUE)
        first = marked(page)
        card = page.locator("[data-preview]:not([hidden])")
        expect(card).to_contain_text("With this seller before")
        page.keyboard.press("j")
        assert marked(page) != first
        expect(card).to_have_attribute("data-preview", marked(page))
        expect(card).to_contain_text(marked(page))
        page.keyboard.press("k")
        assert marked(page) == first
        expect(card).to_have_attribute("data-preview", first)


def test_x_selects_and_a_key_alone_decides_nothing(desk: Desk) -> None:
    with desk.looking("Approver", size=WIDE) as page:
        page.goto(QUEUE)
        bar = page.locator(".together")
        expect(bar).to_be_hidden()
        page.keyboard.press("x")
        expect(bar).to_contain_text("1 selected")
        page.keyboard.press("x")
        expect(bar).to_be_hidden()
        page.keyboard.press("j")
        page.keyboard.press("x")
        chosen = marked(page)
        page.keyboard.press("a")
        expect(page).to_have_url(re.compile("#approve$"))
        assert opened(chosen).status == ApprovalStatus.OPEN, "a key alone decides nothing"


def test_the_bar_decides_those_selected_with_one_comment_and_reports_each(desk: Desk) -> None:
    with desk.looking("Approver", size=WIDE) as page:
        page.goto(QUEUE)
        chosen = []
        for _ in range(2):
            page.keyboard.press("x")
            chosen.append(marked(page))
            page.keyboard.press("j")
        expect(page.locator(".together")).to_contain_text("2 selected")
        page.fill("#comment-all", "The client stopped both")
        page.locator(".together button[value=reject]").click()
        expect(page.locator("#content")).to_contain_text("2 of 2 rejected")
        for reference in chosen:
            expect(page.locator("#content")).to_contain_text(reference)
            decision = Decision.objects.get(approval__reference=reference)
            assert (decision.verdict, decision.comment) == ("reject", "The client stopped both")


def test_a_then_enter_approves(desk: Desk) -> None:
    with desk.looking("Approver") as page:
        page.goto(QUEUE)
        reference = marked(page)
        page.keyboard.press("Enter")
        expect(page.locator("#decision")).to_be_visible()
        page.keyboard.press("a")
        expect(page.locator("#confirm")).to_contain_text("Enter approves it")
        assert opened(reference).status == ApprovalStatus.OPEN
        page.keyboard.press("Escape")
        expect(page.locator("#confirm")).to_be_hidden()
        page.keyboard.press("a")
        page.keyboard.press("Enter")
        expect(page.locator("#content")).to_contain_text("Maya Lindgren approved")
        assert opened(reference).status == ApprovalStatus.APPROVED


def test_r_asks_why_and_ctrl_enter_rejects(desk: Desk) -> None:
    with desk.looking("Approver") as page:
        page.goto(QUEUE)
        reference = marked(page)
        page.keyboard.press("r")
        expect(page).to_have_url(re.compile("#reject$"))
        expect(page.locator("#comment")).to_be_focused()
        page.keyboard.type("Too dear, ask again")
        page.keyboard.press("Enter")  # a new line, not a decision
        assert opened(reference).status == ApprovalStatus.OPEN
        page.keyboard.press("Control+Enter")
        expect(page.locator("#content")).to_contain_text("Maya Lindgren rejected")
        assert opened(reference).status == ApprovalStatus.REJECTED
        assert Decision.objects.get(approval__reference=reference).comment.startswith("Too dear")


def test_c_claims_what_is_marked(desk: Desk) -> None:
    with desk.looking("Approver") as page:
        page.goto(QUEUE)
        reference = marked(page)
        page.keyboard.press("c")
        expect(page.locator("#content")).to_contain_text("You have it")
        assert opened(reference).claimed_by
        page.goto(f"{QUEUE}?view=claimed")
        assert marked(page) == reference


def test_1_and_2_choose_on_a_conflict_and_decide_nothing(desk: Desk) -> None:
    operation = Operation.objects.filter(status="completed", task_type="create_media_buy").latest("pk")
    seen = Seen(kind="answer", status="failed", payload=None, task_id=operation.task_id)
    observe(operation_id=operation.pk, seen=seen, channel="poll")
    conflict = Conflict.objects.get(operation=operation)
    with desk.looking("Approver") as page:
        page.goto(page_of(conflict))
        page.keyboard.press("2")
        expect(page.locator("input[name=choice][value=take]")).to_be_checked()
        expect(page.locator("#c-reason")).to_be_focused()
        page.goto(page_of(conflict))
        page.keyboard.press("1")
        expect(page.locator("input[name=choice][value=keep]")).to_be_checked()
        expect(page.locator("#c-reason")).to_be_focused()
        conflict.refresh_from_db()
        assert conflict.resolved_at is None


def test_the_question_mark_lists_all_keys_and_typing_is_left_alone(desk: Desk) -> None:
    with desk.looking("Approver") as page:
        page.goto(QUEUE)
        page.keyboard.press("?")
        keys = page.locator("#fd-help")
        expect(keys).to_be_visible()
        before = marked(page)
        page.keyboard.press("j")
        assert marked(page) == before, "while the list is open no key does anything"
        page.keyboard.press("Escape")
        expect(keys).to_be_hidden()
        page.keyboard.press("x")
        page.locator("#comment-all").press_sequentially("jxa")
        assert page.input_value("#comment-all") == "jxa"
        assert marked(page) == before


@pytest.mark.parametrize("path", [QUEUE, reverse("commitments"), reverse("admin:index")])
def test_phones_need_no_sideways_scrolling(desk: Desk, path: str) -> None:
    with desk.looking("Approver", size=NARROW) as page:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
