"""The pages of jobs in a real browser: they refresh by themselves, keep what a person has in hand, fit."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from orders.models import Deal
from tasks_app.jobs import engine, planning
from tasks_app.jobs.endings import job_cancel
from tasks_app.jobs.models import Job, Step
from tests.jobs.claiming import claim_step
from tests.ui.browser import Desk, looks
from tests.ui.pages import list_of, page_of

pytestmark = pytest.mark.browser
_LIVE = re.compile(r"/live/")


@pytest.fixture
def job(desk: Desk) -> Iterator[Job]:
    """Of two steps, the next to be worked on."""
    deal = Deal.objects.order_by("id")[0]
    job = planning.job_start(
        recipe="book_deal", inputs={"deal_id": str(deal.pk)}, team=deal.team, actor="system", priority=1
    )
    yield job
    job.refresh_from_db()
    if job.ended_at is None:
        job_cancel(job_id=job.pk, actor="system", reason="The test is over")


def begun(job: Job) -> Step:
    step = claim_step()
    assert step is not None
    assert step.job_id == job.pk
    return step


def test_the_page_follows_the_job_without_being_loaded_again(desk: Desk, job: Job) -> None:
    with desk.looking("Ad Ops") as page:
        page.goto(page_of(job))
        page.evaluate("window.loadedOnce = true")
        live = page.locator("#job-live")
        expect(live).to_contain_text("Ready; waits for a worker")
        page.click("#a-cancel summary")
        page.fill("#j-cancel", "half a reas")
        step = begun(job)
        expect(live).to_contain_text("A worker runs it now")
        expect(page.locator("#job-events")).to_contain_text("A worker began it")
        assert page.input_value("#j-cancel") == "half a reas", "what is being written is left alone"
        engine.mark_failed(step=step, error="the seller is gone")
        expect(live).to_contain_text("The job failed. buy: the seller is gone")
        expect(page.locator("#job-steer")).to_contain_text("Retry")
        expect(page.locator("#a-cancel")).to_have_count(0)
        assert page.evaluate("window.loadedOnce"), "the page itself was never loaded again"
        assert page.locator("#job-live[hx-trigger]").count() == 0, "a job that has ended is not looked at"


def test_focus_and_what_is_open_are_kept(desk: Desk, job: Job) -> None:
    with desk.looking("Ad Ops") as page:
        page.goto(page_of(job))
        box = page.locator(f"#b-{Step.objects.get(job=job, key='buy').pk}")
        box.focus()
        assert box.evaluate("one => one === document.activeElement")
        begun(job)
        expect(page.locator("#job-live")).to_contain_text("A worker runs it now")
        now = page.locator(f"#b-{Step.objects.get(job=job, key='buy').pk}")
        expect(now).to_be_focused()


def test_updates_can_be_paused_by_keyboard(desk: Desk, job: Job) -> None:
    with desk.looking("Ad Ops") as page:
        page.goto(page_of(job))
        pause = page.locator("#job-pause")
        pause.focus()
        page.keyboard.press("Enter")
        expect(pause).to_have_attribute("aria-pressed", "true")
        begun(job)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if _LIVE.search(request.url) else None)
        # Two turns of a page that is not paused: the one that was under way, if any, has come back.
        with desk.looking("Ad Ops") as other:
            other.goto(page_of(job))
            for _ in range(2):
                with other.expect_response(_LIVE):
                    pass
        assert asked == []
        page.keyboard.press("Enter")
        expect(page.locator("#job-live")).to_contain_text("A worker runs it now")
        expect(pause).to_have_attribute("aria-pressed", "false")


def test_where_the_session_has_ended_it_goes_to_the_login(desk: Desk, job: Job) -> None:
    with desk.looking("Ad Ops") as page:
        page.goto(page_of(job))
        page.context.clear_cookies()
        page.wait_for_url("**/login/**")


def test_a_step_is_skipped_and_the_turn_changed_by_hand(desk: Desk, job: Job) -> None:
    with desk.looking("Ad Ops") as page:
        page.goto(page_of(job))
        page.click("#a-priority summary")
        page.fill("#j-number", "7")
        page.fill("#j-turn", "the client waits")
        page.click("#a-priority button")
        expect(page.locator("ul.fd-messages")).to_contain_text("has priority 7 now")
        page.click("#job-steps a:text('Buy')")
        page.click("summary:text('Skip this step')")
        page.fill("#t-skip", "booked by telephone")
        page.check("details[open] input[name=sure]")
        page.click("button:text('Skip')")
        expect(page.locator("ul.fd-messages")).to_contain_text("is skipped")
        expect(page.locator("#job-events")).to_contain_text("booked by telephone")
    assert (Step.objects.get(job=job, key="buy").skipped, Job.objects.get(pk=job.pk).priority) == (True, 7)


def test_the_chosen_are_cancelled_from_the_list(desk: Desk, job: Job) -> None:
    with desk.looking("Ad Ops") as page:
        page.goto(list_of(Job))
        page.locator("tr", has_text=job.reference).locator("input.action-select").check()
        page.select_option("select[name=action]", "cancel_chosen")
        page.click("button[name=index]")
        expect(page.locator("#content")).to_contain_text("Cancel 1 job")
        page.fill("#b-reason", "the client withdrew")
        page.keyboard.press("Enter")
        expect(page.locator("ul.fd-messages")).to_contain_text("reports on each of them")
    bulk = Job.objects.get(recipe="bulk_steer")
    assert (bulk.inputs["jobs"], bulk.inputs["reason"]) == ([str(job.pk)], "the client withdrew")


def test_the_pages_fit_and_can_be_read(desk: Desk, job: Job) -> None:
    big = Job.objects.filter(recipe="campaign").order_by("id")[1]
    step = Step.objects.filter(job=big).order_by("id")[0]
    with desk.looking("Ad Ops") as page:
        for address in (
            list_of(Job),
            f"{list_of(Job)}?view=open&waits=operation",
            page_of(big),
            f"{page_of(big)}?step={step.pk}&items=own",
            f"{list_of(Job)}bulk/?act=cancel&view=open",
        ):
            answer = page.goto(address)
            assert answer is not None
            assert answer.ok, address
            for width, scheme, _ in looks(page):
                assert page.evaluate("document.documentElement.scrollWidth") <= width, address
                assert legible(page) == [], f"{address}, {scheme}"


def legible(page: Page) -> list[str]:
    """Texts of the graph that stand on a ground of nearly their own lightness."""
    return page.evaluate(
        """() => {
          const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).map(Number);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
          return [...document.querySelectorAll(".dag g")].filter((box) => {
            const text = getComputedStyle(box.querySelector("text.t")).fill;
            const ground = getComputedStyle(box.querySelector("rect")).fill;
            return Math.abs(light(text) - light(ground)) < 70;
          }).map((box) => box.querySelector("title").textContent);
        }"""
    )
