"""Pictures of a running Flightdeck: `python -m demo.screenshots URL LOGIN [--out DIR]`.

The login asks the assistant a question about a deal first, for pictures of the panel and of the turn's trace.

The password is read from FLIGHTDECK_PASSWORD; where the login has a second factor, its secret from
FLIGHTDECK_TOTP_SECRET. The dashboard, the approvals queue, the first open approval (or the latest decided
one), the running campaign with the largest budget (or --campaign), a deal (one booked differently, or the
latest) and the monitor are saved as PNG, light, 1280 pixels wide, their upper part. With --all every page is,
whole, light and dark, 1280 and 390 pixels wide: whatever the rail leads to, its saved views, its forms, the
first object of each list, one's own account. Needs playwright and a Chromium (CHROMIUM names another one
than `chromium_path` finds).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pyotp
from playwright.sync_api import Browser, Page, StorageState, sync_playwright
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
DESKTOP, TELEPHONE = (1280, 900), (390, 844)
_PATIENCE_MS = 3000
CUT = 1500  # what is kept in the documents is so high at most
# The first draws the same pages without a window to draw them in, for half of the processor time.
_CHROMIUMS = ("chromium-headless-shell", "chromium", "google-chrome")
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
    "deal": (("/admin/orders/deal/?view=differs", _FROM_LIST), ("/admin/orders/deal/", _FROM_LIST)),
    "operations": (("/admin/tasks_app/operation/", ""),),
    "assistant": (("/admin/orders/deal/?view=differs", _FROM_LIST), ("/admin/orders/deal/", _FROM_LIST)),
    "trace": (("/admin/tasks_app/assistantturn/", _FROM_LIST),),
}
_WITH_PANEL = "assistant"
_QUESTION = "What is this waiting for?"
# Links of a page to pages that belong to it: in the rail, saved views, what leads to a form.
_RAIL = "nav a[href^='/admin/']"
_BESIDE = "#content .fd-head a[href], a[href$='/add/'], a[href$='/submit/']"
_LIST_ITEM = "#content tr a[href*='/change/']"
# Pages that no link of the rail leads to.
_APART = (
    "/admin/find/?q=Lindqvist",
    "/admin/tasks_app/notification/?view=all",
    "/admin/account/",
    "/admin/account/second-factor/new/",
    "/admin/password_change/",
)


class CannotPictureError(Exception):
    """A page could not be reached; the text says which and why."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.screenshots", description=__doc__)
    parser.add_argument("url", help="where Flightdeck runs, such as http://127.0.0.1:8000")
    parser.add_argument("login", help="a login with a role: an Approver's, with --all an Administrator's")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"), help="folder, made if missing")
    parser.add_argument("--campaign", default="", help="the campaign to picture, by its name")
    parser.add_argument("--all", action="store_true", help="every page, dark and narrow too")
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
        looks += [("-dark", DESKTOP, True), ("-phone", TELEPHONE, False), ("-phone-dark", TELEPHONE, True)]
    found: dict[str, str] = {}
    with _browser() as browser:
        signed_in = _sign_in(browser, url, login, password)
        for suffix, size, dark in looks:
            scheme: Literal["dark", "light"] = "dark" if dark else "light"
            context = browser.new_context(storage_state=signed_in, color_scheme=scheme)
            page = context.new_page()
            if not found:
                _converse(page, _find(page, url, PAGES[_WITH_PANEL], ""))
            found = found or _chosen(page, url, wanted) | (_every(page, url) if every else {})
            for name, address in found.items():
                path = out / f"{name}{suffix}.png"
                cut = 0 if every else CUT
                yield _picture(page, address, path, size=size, cut=cut, with_panel=name == _WITH_PANEL)
            context.close()


def _chosen(page: Page, url: str, wanted: str) -> dict[str, str]:
    return {name: _find(page, url, places, wanted) for name, places in PAGES.items()}


def _every(page: Page, url: str) -> dict[str, str]:
    """Name to address: what the rail leads to, what stands beside it, and one object of each list."""
    page.goto(f"{url}/admin/")
    lists = _links(page, url, _RAIL)
    found: dict[str, str] = {}
    for address in lists:
        page.goto(address)
        first = _links(page, url, _LIST_ITEM)[:1]
        for one in (address, *_links(page, url, _BESIDE), *first):
            found.setdefault(_name(one), one)
    return found | {_name(address): url + address for address in _APART} | _explained(page, url)


def _explained(page: Page, url: str) -> dict[str, str]:
    """The explanation of a deal on a page of its own; that of the deals' list's first."""
    page.goto(_find(page, url, PAGES["deal"], ""))
    card = page.locator("[hx-get*='/explain/']").first.get_attribute("hx-get") or ""
    return {_name(card): url + card}


def _links(page: Page, url: str, selector: str) -> list[str]:
    """Addresses of this site's pages that links of the page lead to, each once."""
    hrefs: list[str] = page.locator(selector).evaluate_all("links => links.map((link) => link.href)")
    ours = (href.partition("#")[0] for href in hrefs if href.startswith(f"{url}/admin/"))
    return list(dict.fromkeys(href for href in ours if not _leads_away(href)))


def _leads_away(address: str) -> bool:
    """Whether it is no page of its own: it ends the session, is a file, or a list's first view."""
    parts = urlsplit(address)
    if "logout" in parts.path or parts.query == "view=":
        return True
    return parts.path.endswith((".csv", ".ics", ".json")) or "export" in address


def _name(address: str) -> str:
    """tasks_app-approval, tasks_app-approval-view-team, orders-deal-one."""
    parts = urlsplit(address)
    path = parts.path.removeprefix("/admin/").strip("/")
    words = ["one" if _is_id(word) else word for word in path.split("/") if word != "change"]
    return "-".join([*words, *parts.query.replace("=", "-").split("&")]).strip("-") or "home"


def _is_id(word: str) -> bool:
    return word.count("-") == 4 or word.isdecimal()


def chromium_path() -> str | None:
    """The Chromium that CHROMIUM names, or the first that is installed; None: the one playwright brought."""
    installed = (path for name in _CHROMIUMS if (path := shutil.which(name)))
    return os.environ.get("CHROMIUM") or next(installed, None)


@contextmanager
def _browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=_QUIET)
        try:
            yield browser
        finally:
            browser.close()


def _sign_in(browser: Browser, url: str, login: str, password: str) -> StorageState:
    """What the browser keeps of the session: one sign-in for all pictures, as a code of a second factor is
    taken once. Raises CannotPictureError."""
    context = browser.new_context()
    page = context.new_page()
    try:
        page.goto(f"{url}/admin/login/?next=/admin/")
    except BrowserError as error:
        raise CannotPictureError(f"nothing answers at {url}: leave make demo running meanwhile") from error
    page.fill("input[name=username]", login)
    page.fill("input[name=password]", password)
    page.press("input[name=password]", "Enter")
    page.wait_for_load_state("networkidle")
    if "/second-factor/" in page.url:
        _second_factor(page, login)
    if "/login/" in page.url or "/second-factor/" in page.url:
        raise CannotPictureError(f"{login} cannot sign in at {url}")
    kept = context.storage_state()
    context.close()
    return kept


def _second_factor(page: Page, login: str) -> None:
    secret = os.environ.get("FLIGHTDECK_TOTP_SECRET", "")
    if "/new/" in page.url:
        raise CannotPictureError(f"{login} has to set up a second factor first")
    if not secret:
        raise CannotPictureError(f"{login} has a second factor: put its secret into FLIGHTDECK_TOTP_SECRET")
    page.fill("input[name=code]", pyotp.TOTP(secret.replace(" ", "")).now())
    page.press("input[name=code]", "Enter")
    page.wait_for_load_state("networkidle")


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


def _converse(page: Page, address: str) -> None:
    """Ask the assistant about the object of a page, and wait for the reply."""
    page.goto(address)
    page.keyboard.press("Control+j")
    page.fill("#assistant-question", _QUESTION)
    page.keyboard.press("Enter")
    page.get_by_text("What was read").last.wait_for()
    page.locator("#assistant-question").press("Escape")


def _picture(
    page: Page, address: str, path: Path, *, size: tuple[int, int], cut: int, with_panel: bool
) -> Path:
    """The page as high as it is, so that the rail and what sticks to the window's end stand where they
    belong; `cut`: no higher than that (0: whole)."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    answer = page.goto(address)
    if answer is None or not answer.ok:
        raise CannotPictureError(f"{address} answers {answer.status if answer else 'nothing'}")
    _settled(page)
    whole = int(page.evaluate("document.documentElement.scrollHeight"))
    height = max(size[1], min(whole, cut) if cut else whole)
    page.set_viewport_size({"width": size[0], "height": height})
    if with_panel:
        page.keyboard.press("Control+j")
        page.get_by_text("What was read").last.wait_for()
    page.screenshot(path=path)
    if with_panel:
        page.locator("#assistant-question").press("Escape")
    return path


def _settled(page: Page) -> None:
    """Fonts, and what a page loads once it stands. A page that changes by itself keeps a stream open, so the
    network is never idle there."""
    page.evaluate("document.fonts.ready")
    with suppress(BrowserError):
        page.wait_for_load_state("networkidle", timeout=_PATIENCE_MS)


if __name__ == "__main__":
    sys.exit(main())
