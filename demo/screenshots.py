"""Pictures of a running Flightdeck: `python -m demo.screenshots URL LOGIN [--out DIR]`.

The password is read from FLIGHTDECK_PASSWORD. The dashboard, the approvals queue, the first open approval (or
the latest decided one), the running campaign with the largest budget (or --campaign), the latest deal and the
monitor are saved as PNG, light; with --all in dark and on a telephone too. Needs playwright and a Chromium
(CHROMIUM names one that playwright did not install itself).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as BrowserError

# Nothing is fetched but the pages themselves.
_QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP, TELEPHONE = (1440, 900), (390, 844)
# The places a page's link may be found, in order: (page, selector); without any the address itself is meant.
_FROM_LIST = "#content table a[href*='/change/']"
PAGES: dict[str, tuple[tuple[str, str], ...]] = {
    "dashboard": (("/admin/", ""),),
    "approvals": (("/admin/tasks_app/approval/", ""),),
    "approval": (
        ("/admin/tasks_app/approval/", _FROM_LIST),
        ("/admin/tasks_app/approval/?view=decided", _FROM_LIST),
    ),
    "campaign": (("/admin/", ".bars a.lk"), ("/admin/campaigns/campaign/", _FROM_LIST)),
    "deal": (("/admin/orders/deal/", _FROM_LIST),),
    "operations": (("/admin/tasks_app/operation/", ""),),
}


class CannotPictureError(Exception):
    """A page could not be reached; the text says which and why."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.screenshots", description=__doc__)
    parser.add_argument("url", help="where Flightdeck runs, such as http://127.0.0.1:8000")
    parser.add_argument("login", help="a login with a role, best an Approver's")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"), help="folder, made if missing")
    parser.add_argument("--campaign", default="", help="the campaign to picture, by its name")
    parser.add_argument("--all", action="store_true", help="dark and telephone too")
    options = parser.parse_args()
    password = os.environ.get("FLIGHTDECK_PASSWORD", "")
    if not password:
        print("screenshots: FLIGHTDECK_PASSWORD is not set", file=sys.stderr)
        return 2
    try:
        pictures = take(
            options.url.rstrip("/"),
            options.login,
            password,
            options.out,
            every=options.all,
            wanted=options.campaign,
        )
        for path in pictures:
            print(path)
    except (CannotPictureError, BrowserError) as error:
        print(f"screenshots: {error}", file=sys.stderr)
        return 1
    return 0


def take(url: str, login: str, password: str, out: Path, *, every: bool, wanted: str = "") -> Iterator[Path]:
    """Save the pages, yielding each path; `wanted` is a campaign's name. Raises CannotPictureError."""
    out.mkdir(parents=True, exist_ok=True)
    looks = [("", DESKTOP, False)]
    if every:
        looks += [("-dark", DESKTOP, True), ("-phone", TELEPHONE, False)]
    with _browser() as browser:
        for suffix, (width, height), dark in looks:
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if dark else "light",
                device_scale_factor=2 if width < 500 else 1,
            )
            page = context.new_page()
            _sign_in(page, url, login, password)
            for name, places in PAGES.items():
                yield _picture(page, _find(page, url, places, wanted), out / f"{name}{suffix}.png")
            context.close()


@contextmanager
def _browser() -> Iterator[Browser]:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_QUIET)
        try:
            yield browser
        finally:
            browser.close()


def _sign_in(page: Page, url: str, login: str, password: str) -> None:
    page.goto(f"{url}/admin/login/?next=/admin/")
    page.fill("input[name=username]", login)
    page.fill("input[name=password]", password)
    page.press("input[name=password]", "Enter")
    page.wait_for_load_state("networkidle")
    if "/login/" in page.url:
        raise CannotPictureError(f"{login} cannot sign in at {url}")


def _find(page: Page, url: str, places: tuple[tuple[str, str], ...], wanted: str) -> str:
    """The address to picture: of the link that says `wanted`, else of the first link."""
    for address, selector in places:
        if not selector:
            return url + address
        page.goto(url + address)
        links = page.locator(selector)
        named = links.filter(has_text=wanted) if wanted else links
        found = named if named.count() else links
        if found.count():
            return str(found.first.evaluate("link => link.href"))
    raise CannotPictureError(f"{places[-1][0]} lists nothing: run the demo first")


def _picture(page: Page, address: str, path: Path) -> Path:
    answer = page.goto(address)
    if answer is None or not answer.ok:
        raise CannotPictureError(f"{address} answers {answer.status if answer else 'nothing'}")
    page.wait_for_load_state("networkidle")
    page.evaluate("document.fonts.ready")
    page.screenshot(path=path, full_page=True)
    return path


if __name__ == "__main__":
    sys.exit(main())
