"""Every page in a real browser: axe-core finds nothing, nothing is cut off, nothing is complained of; at 1280
and at 390 pixels, light and dark."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.database import Database
from tests.ui.browser import NARROW, WIDE, Desk
from tests.ui.crowd import odds
from tests.ui.every_page import every_page
from tests.ui.seed import Agency

pytestmark = pytest.mark.browser
PARTS = 8  # so that testers share them
AXE = Axe().axe_script


@pytest.fixture(scope="module")
def addresses(desk: Desk, lived: tuple[Database, Agency]) -> dict[str, str]:
    """Every page that an Administrator is shown."""
    odds(lived[1])
    return every_page(desk.login("Administrator"))


def test_they_are_found(addresses: dict[str, str]) -> None:
    assert {"dashboard", "approvals", "approval-deal-open", "campaign", "deal", "operation"} <= set(addresses)
    assert len(addresses) > 50


@pytest.mark.parametrize("part", range(PARTS))
def test_everybody_can_read_them(desk: Desk, addresses: dict[str, str], part: int) -> None:
    wrong: dict[str, list[str]] = {}
    with desk.looking("Administrator") as page:
        for name, address in [*addresses.items()][part::PARTS]:
            page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
            page.goto(address)
            page.evaluate(AXE)
            for width, height in (WIDE, NARROW):
                page.set_viewport_size({"width": width, "height": height})
                wrong[f"{name} at {width}"] = cut_off(page, width) + unreadable(page)
                wrong[f"{name} at {width}, dark"] = unreadable_in_the_dark(page)
    assert "\n".join(f"{where}: {said}" for where, found in wrong.items() for said in found) == ""


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


def unreadable(page: Page, *rules: str) -> list[str]:
    """axe-core's violations of these of its rules, of all where none is named: the rule, and where."""
    options: dict[str, Any] = {"resultTypes": ["violations"], **({"runOnly": [*rules]} if rules else {})}
    found: list[dict[str, Any]] = page.evaluate(
        "async (options) => (await axe.run(document, options)).violations", options
    )
    return [f"{one['id']} ({len(one['nodes'])}): {one['nodes'][0]['html'][:160]}" for one in found]


def unreadable_in_the_dark(page: Page) -> list[str]:
    """Of a page that is read in the light: nothing but its colours are others."""
    page.emulate_media(color_scheme="dark")
    try:
        return unreadable(page, "color-contrast")
    finally:
        page.emulate_media(color_scheme="light")
