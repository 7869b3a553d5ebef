"""A conversation in the panel that ends in a budget move: proposed, confirmed, approved, seen as booked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from django.db import connections
from django.test import Client
from playwright.sync_api import Browser, Page, expect
from pytest_django.plugin import DjangoDbBlocker

from config.processes import ProcessGroup
from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.assistant.proposals import continue_proposals
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tests.assistant.deals import shown, two_deals
from tests.assistant.driver import ModelServer
from tests.database import Database, TestServer, point_django_at
from tests.factories import make_user
from tests.ui.browser import ROOT, Desk, looks, serving
from tests.ui.pages import page_of
from tests.ui.test_every_page_browser import AXE, cut_off, unreadable

pytestmark = pytest.mark.browser
MOVE = "Move USD 10,000 of Spring Launch from CTV to audio"


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=["built-in", "model"])
def site(
    request: pytest.FixtureRequest,
    database_server: TestServer,
    template_database: Database,
    django_db_setup: Database,
    django_db_blocker: DjangoDbBlocker,
    chromium: Browser,
    model: ModelServer,
) -> Iterator[Desk]:
    """Web and the assistant's process as delivered, with two booked deals, and a browser."""
    database = database_server.create(template=template_database)
    names = {"URL": model.url, "PLANNER_MODEL": "small", "ANSWERER_MODEL": "large"}
    endpoint = {f"FLIGHTDECK_ASSISTANT_{name}": value for name, value in names.items()}
    env = {**database.env, **(endpoint if request.param == "model" else {})}
    try:
        with ProcessGroup() as group, django_db_blocker.unblock():
            point_django_at(database.urls.app)
            two_deals()
            for role in ("Buyer", "Approver"):
                make_user(role, name=role.lower())
            User.objects.update(is_staff=True)
            group.start("assistant", [sys.executable, "manage.py", "assistant"], env=env, cwd=ROOT)
            yield Desk(url=serving(group, env), browser=chromium, login=_login)
    finally:
        connections.close_all()
        point_django_at(django_db_setup.urls.app)
        database_server.drop(database.name)


def _login(role: str) -> Client:
    client = Client()
    user = User.objects.get(username=role.lower())
    client.force_login(user, backend="tasks_app.people.holders.RoleBackend")
    return client


def ask(page: Page, question: str) -> None:
    """Type a question into the open panel, and wait for its answer."""
    page.fill("#assistant-question", question)
    page.keyboard.press("Enter")
    last = page.locator("#assistant-turns .turn").last
    expect(last).to_contain_text(question)
    expect(last.get_by_text("What was read")).to_be_visible()


def approve_newest(desk: Desk) -> Operation:
    """Let the approver approve what was asked last, on its page."""
    approval = Approval.objects.filter(status="open").latest("created_at")
    with desk.looking("Approver") as page:
        page.goto(page_of(approval))
        page.keyboard.press("a")
        page.keyboard.press("Enter")
        expect(page.locator("#decision")).to_have_count(0)
    approval.refresh_from_db()
    return Operation.objects.get(pk=approval.evidence["operation_id"])


@pytest.mark.parametrize("site", ["built-in"], indirect=True)
def test_money_is_moved_by_a_conversation(site: Desk) -> None:
    tv, audio = Deal.objects.order_by("id")
    with site.looking("Buyer") as page:
        page.goto(page_of(tv))
        page.keyboard.press("Control+j")
        expect(page.locator("#assistant-question")).to_be_focused()
        ask(page, "What is this waiting for?")
        expect(page.locator("#assistant-turns")).to_contain_text(tv.reference)
        ask(page, MOVE)
        page.get_by_role("button", name="Confirm").click()
        expect(page.locator(".proposal")).to_contain_text("Approval: APR-")
        expect(page.locator("#assistant-question")).to_be_focused()  # the button is gone
        page.goto(page_of(audio))  # the panel stays open, with its conversation
        expect(page.locator(".proposal")).to_contain_text("Approval: APR-")
        page.locator("#assistant-question").press("Escape")
        expect(page.locator("#fd-assistant")).to_be_hidden()
    with ThreadPoolExecutor(1) as apart:  # Playwright's event loop runs in this thread
        shown(tv, approve_newest(site), 10_000.0)
        assert apart.submit(continue_proposals).result() == 1
        shown(audio, approve_newest(site), 15_000.0)
    with site.looking("Buyer") as page:
        page.goto(page_of(audio))
        expect(page.locator("#content")).to_contain_text("15,000")
    assert Deal.objects.get(pk=audio.pk).lines.get().budget == Decimal(15_000)


@pytest.mark.parametrize("site", ["model"], indirect=True)
def test_a_reply_streams_and_is_stopped(site: Desk, model: ModelServer) -> None:
    reply = "Spring Launch is booked with two sellers, and nothing waits. "
    model.script([{"text": reply * 4, "fault": "stall_middle"}])
    with site.looking("Buyer") as page:
        page.goto("/admin/")
        page.get_by_role("button", name="Assistant Ctrl J").click()
        page.fill("#assistant-question", "How are we?")
        page.keyboard.press("Enter")
        expect(page.locator("[data-partial]")).to_contain_text("Spring Launch is booked")
        page.fill("#assistant-question", " ")
        page.keyboard.press("Enter")
        expect(page.locator("#assistant-refusal")).to_contain_text("Ask a question")
        assert page.input_value("#assistant-question") == " "  # what was typed stays
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("#assistant-turns")).to_contain_text("You stopped it.")
        expect(page.locator("#assistant-refusal")).to_be_empty()
    model.reset()


@pytest.mark.parametrize("site", ["built-in"], indirect=True)
def test_everybody_can_read_the_panel(site: Desk) -> None:
    with site.looking("Buyer") as page:
        page.add_init_script(AXE)
        page.goto(page_of(Deal.objects.first()))
        page.keyboard.press("Control+j")
        ask(page, MOVE)
        page.get_by_text("What was read").click()
        wrong: list[str] = []
        for width, scheme, new in looks(page):
            found = unreadable(page, only_colours=not new, without="") + (cut_off(page, width) if new else [])
            wrong += [f"{width}, {scheme}: {said}" for said in found]
        assert wrong == []
