"""Every page in a real browser: axe-core finds nothing, nothing is cut off, nothing is complained of; at 1280
and at 390 pixels, light and dark."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.database import Database
from tests.ui.browser import Desk, looks
from tests.ui.crowd import odds
from tests.ui.every_page import addresses, shown
from tests.ui.seed import Agency

pytestmark = pytest.mark.browser
PARTS = 8  # so that testers share them
FRAME = "#nav-sidebar"  # the same on all pages: read with the first of each part
AXE = Axe().axe_script


@pytest.fixture(scope="module")
def candidates(desk: Desk, lived: tuple[Database, Agency]) -> dict[str, str]:
    """Every address that might be a page."""
    odds(lived[1])
    return addresses()


def test_they_are_found(desk: Desk, candidates: dict[str, str]) -> None:
    known = {"dashboard", "approvals", "approval-deal-open", "campaign", "deal", "operation"}
    among = {name: candidates[name] for name in known}
    assert set(shown(desk.login("Administrator"), among)) == known
    assert len(candidates) > 100


def test_loaded_in_the_dark_it_is_dark(desk: Desk) -> None:
    """What makes a loaded page dark (`looks`) is what makes it dark from the start."""
    for dark in (False, True):
        with desk.looking("Administrator", dark=dark) as page:
            page.goto("/admin/")
            assert page.evaluate("document.documentElement.classList.contains('dark')") is dark


@pytest.mark.parametrize("part", range(PARTS))
def test_everybody_can_read_them(desk: Desk, candidates: dict[str, str], part: int) -> None:
    pages = shown(desk.login("Administrator"), dict([*candidates.items()][part::PARTS]))
    assert len(pages) > 50 / PARTS
    wrong: list[str] = []
    with desk.looking("Administrator") as page:
        for number, (name, address) in enumerate(pages.items()):
            page.goto(address)
            page.evaluate(AXE)
            for width, scheme in looks(page):
                # Nothing but its colours are others in the dark.
                rules = ["color-contrast"] if scheme == "dark" else []
                found = cut_off(page, width) + unreadable(page, *rules, without=FRAME if number else "")
                wrong += [f"{name} at {width}, {scheme}: {said}" for said in found]
    assert "\n".join(wrong) == ""


def cut_off(page: Page, width: int) -> list[str]:
    """What sticks out to the right, where the page has to be scrolled sideways."""
    found: list[str] = page.evaluate(
        """(width) => {
          const root = document.documentElement;
          if (root.scrollWidth <= width) return [];
          const out = [...document.querySelectorAll("main *")].filter(
            (one) => one.getBoundingClientRect().right > width + 1 && !one.closest("[style*=overflow]"));
          const told = (one) => `${one.tagName.toLowerCase()}.${one.getAttribute("class")}`;
          return [`${root.scrollWidth} px wide: ` + out.slice(0, 3).map(told).join(", ")];
        }""",
        width,
    )
    return found


def unreadable(page: Page, *rules: str, without: str = "") -> list[str]:
    """axe-core's violations of these of its rules, of all where none is named: the rule, and where. What the
    selector `without` selects is left out."""
    options: dict[str, Any] = {"resultTypes": ["violations"], **({"runOnly": [*rules]} if rules else {})}
    where = {"exclude": [[without]]} if without else {"include": [["html"]]}
    found: list[dict[str, Any]] = page.evaluate(
        "async ([where, options]) => (await axe.run(where, options)).violations", [where, options]
    )
    return [f"{one['id']} ({len(one['nodes'])}): {one['nodes'][0]['html'][:160]}" for one in found]
