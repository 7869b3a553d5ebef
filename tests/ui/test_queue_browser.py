"""The queue and an approval by keyboard, in a real browser: what a key leads to, another confirms."""

from __future__ import annotations

import re
import time

import pytest
from django.urls import reverse
from playwright.sync_api import Page, Route, expect

from orders.questions import ask_deal
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Account
from tests.factories import decided_later, make_advertiser, make_deal
from tests.operations.making import observed
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
        chosen = marked(page)
        page.keyboard.press("a")
        expect(page).to_have_url(re.compile("#approve$"))
        assert opened(chosen).status == ApprovalStatus.OPEN, "a key alone decides nothing"


def selected(page: Page, count: int) -> list[str]:
    """The first so many lines, selected by keys."""
    page.goto(QUEUE)
    chosen = []
    for _ in range(count):
        page.keyboard.press("x")
        chosen.append(marked(page))
        page.keyboard.press("j")
    return chosen


def test_a_with_several_selected_asks_about_all_of_them_and_can_be_undone(desk: Desk) -> None:
    with desk.looking("Approver", size=WIDE) as page:
        chosen = selected(page, 3)
        bar, content = page.locator(".together"), page.locator("#content")
        expect(bar).to_contain_text(re.compile(r"3 selected: (USD|EUR) [\d,]+.* with "))
        under_the_cursor = marked(page)
        assert under_the_cursor not in chosen
        page.keyboard.press("a")
        expect(content).to_contain_text(re.compile(r"Approve 3, "))
        for reference in chosen:
            expect(content.locator(f"a[href*='{opened(reference).pk}']")).to_be_visible()
        expect(content.locator(f"a[href*='{opened(under_the_cursor).pk}']")).to_have_count(0)
        page.keyboard.press("Escape")
        expect(page.locator(".together")).to_contain_text("3 selected")

        page.keyboard.press("a")
        expect(page.get_by_role("button", name="Approve 3")).to_be_focused()
        page.keyboard.press("Enter")
        expect(content).to_contain_text("3 approvals, not recorded yet")
        page.get_by_role("button", name="Undo").click()
        expect(page.locator("#main")).to_contain_text("Undone: nothing was decided")
        assert decided_later() == 0
        assert {opened(reference).status for reference in chosen} == {ApprovalStatus.OPEN}


def test_what_confirms_has_the_focus_also_where_the_styles_come_late(desk: Desk) -> None:
    """Then the browser lets go of its own autofocus."""
    with desk.looking("Approver", size=WIDE) as page:
        selected(page, 2)
        page.route("**/*.css", answered_late)
        page.keyboard.press("a")
        expect(page.get_by_role("button", name="Approve 2")).to_be_focused()


def answered_late(route: Route) -> None:
    time.sleep(0.2)
    route.continue_()


def test_r_rejects_those_selected_with_one_comment_and_each_is_reported(desk: Desk) -> None:
    with desk.looking("Approver", size=WIDE) as page:
        chosen, content = selected(page, 2), page.locator("#content")
        page.keyboard.press("r")
        expect(page.locator("#comment-all")).to_be_focused()
        page.keyboard.type("The client stopped both")
        page.keyboard.press("Control+Enter")
        expect(content).to_contain_text("Reject 2, ")
        page.get_by_role("button", name="Reject 2").click()
        expect(content).to_contain_text("2 rejections, not recorded yet")
        assert decided_later() == 2
        expect(content).to_contain_text("2 rejected, ")
        for reference in chosen:
            expect(content).to_contain_text(reference)
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
        expect(page.locator("#main")).to_contain_text(f"{reference}: your approval is recorded")
        assert opened(reference).status == ApprovalStatus.APPROVED


def test_ten_decisions_in_a_row_by_keyboard(desk: Desk) -> None:
    """Two keys each: the next approval opens by itself."""
    account = Account.objects.filter(advertiser=make_advertiser(), status="active").earliest("pk")
    for _ in range(10):
        ask_deal(make_deal(seller=account.seller, account=account))
    with desk.looking("Approver") as page:
        page.goto(QUEUE)
        page.locator(f"tr[data-row='{marked(page)}'] td").last.click()  # the whole row is a link
        for count in range(1, 11):
            reference = page.locator(".fd-head .mono").first.inner_text()
            page.keyboard.press("a")
            page.keyboard.press("Enter")
            expect(page.locator("#main")).to_contain_text(f"{reference}: your approval is recorded")
            assert Decision.objects.filter(verdict="approve").count() >= count
        left = page.locator(".fd-head .mono").first.inner_text()
        page.keyboard.press("j")
        expect(page.locator(".fd-head .mono").first).not_to_have_text(left)


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
        expect(page.locator("#main")).to_contain_text(f"{reference}: your rejection is recorded")
        assert opened(reference).status == ApprovalStatus.REJECTED
        assert Decision.objects.get(approval__reference=reference).comment.startswith("Too dear")


def test_c_claims_what_is_marked(desk: Desk) -> None:
    with desk.looking("Approver") as page:
        page.goto(QUEUE)
        reference = marked(page)
        page.keyboard.press("c")
        expect(page.get_by_role("button", name="Give it back")).to_be_visible()
        assert opened(reference).claimed_by
        page.goto(f"{QUEUE}?view=claimed")
        assert marked(page) == reference


def test_1_and_2_choose_on_a_conflict_and_decide_nothing(desk: Desk) -> None:
    operation = Operation.objects.filter(status="completed", task_type="create_media_buy").latest("pk")
    seen = Seen(kind="answer", status="failed", payload=None, task_id=operation.task_id)
    observed(operation_id=operation.pk, seen=seen, channel="poll")
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


def test_keys_work_at_once_when_the_list_of_keys_is_closed(desk: Desk) -> None:
    """Until the next frame is drawn the focus is still within the closed list."""
    with desk.looking("Approver", size=WIDE) as page:
        page.goto(QUEUE)
        page.keyboard.press("?")
        expect(page.locator("#fd-help")).to_be_visible()
        page.evaluate("""() => {
            document.getElementById("fd-help").close();
            document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "x", bubbles: true }));
        }""")
        expect(page.locator(".together")).to_contain_text("1 selected")


@pytest.mark.parametrize("path", [QUEUE, reverse("commitments"), reverse("admin:index")])
def test_phones_need_no_sideways_scrolling(desk: Desk, path: str) -> None:
    with desk.looking("Approver", size=NARROW) as page:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
