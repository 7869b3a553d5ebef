"""Every page in a real browser: axe-core finds nothing, nothing is cut off, nothing is complained of; at 1280
and at 390 pixels, light and dark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.database import Database
from tests.ui.browser import Desk, looks
from tests.ui.crowd import odds
from tests.ui.every_page import possible, shown, standing
from tests.ui.seed import Agency

pytestmark = pytest.mark.browser
PARTS = 8  # so that testers share them
OTHERS = "#nav-sidebar a:not(.active)"  # links that all pages share: read with the first of each part
AXE = Axe().axe_script


@dataclass(frozen=True, kw_only=True)
class Places:
    """Name to address of what is a page to an administrator, and of what might be."""

    standing: dict[str, str]
    possible: dict[str, str]

    def pages(self, desk: Desk, part: int) -> dict[str, str]:
        """Of the pages, this of `PARTS` parts."""
        possible = shown(desk.login("Administrator"), _part(self.possible, part))
        return {**_part(self.standing, part), **possible}


def _part(places: dict[str, str], part: int) -> dict[str, str]:
    return dict([*places.items()][part::PARTS])


@pytest.fixture(scope="module")
def places(desk: Desk, lived: tuple[Database, Agency]) -> Places:
    odds(lived[1])
    return Places(standing=standing(), possible=possible())


def test_they_are_found(places: Places) -> None:
    among = {"approvals", "approval-deal-open", "campaign", "deal", "operation"}
    assert among <= set(places.standing)
    everywhere = [*places.standing.values(), *places.possible.values()]
    assert len(everywhere) == len(set(everywhere)), "one page is read twice"
    assert "dashboard" in places.possible
    assert len(places.standing) > 60


def test_loaded_in_the_dark_it_is_dark(desk: Desk) -> None:
    """What makes a loaded page dark (`looks`) is what makes it dark from the start."""
    for dark in (False, True):
        with desk.looking("Administrator", dark=dark) as page:
            page.goto("/admin/")
            assert page.evaluate("document.documentElement.classList.contains('dark')") is dark


@pytest.mark.parametrize("part", range(PARTS))
def test_everybody_can_read_them(desk: Desk, places: Places, part: int) -> None:
    pages = places.pages(desk, part)
    assert len(pages) > 50 / PARTS
    wrong: list[str] = []
    with desk.looking("Administrator") as page:
        page.add_init_script(AXE)  # compiled once for all pages
        for number, (name, address) in enumerate(pages.items()):
            answer = page.goto(address)
            assert answer is not None
            assert answer.ok, name
            for width, scheme, new in looks(page):
                found = unreadable(page, only_colours=not new, without=OTHERS if number else "")
                found += cut_off(page, width) if new else []
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


def unreadable(page: Page, *, only_colours: bool, without: str) -> list[str]:
    """axe-core's violations: the rule, and where. `only_colours`: of a page seen in others already. What the
    selector `without` selects, if any, is left out."""
    where = {"exclude": [[without]]} if without else {"include": [["html"]]}
    # No rule that is asked reads style sheets, and no page has sound: nothing is loaded once more for them.
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
    if only_colours:
        options["runOnly"] = ["color-contrast"]
    found: list[dict[str, Any]] = page.evaluate(
        "async ([where, options]) => (await axe.run(where, options)).violations", [where, options]
    )
    return [f"{one['id']} ({len(one['nodes'])}): {one['nodes'][0]['html'][:160]}" for one in found]
