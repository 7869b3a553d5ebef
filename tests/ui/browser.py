"""A real browser on a real web process, over an agency that was lived in a database of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from config.processes import ProcessGroup
from demo.ports import free_port
from demo.screenshots import chromium_path
from tests.support import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
WIDE, NARROW = (1280, 900), (390, 844)
_SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
expect.set_options(timeout=PATIENCE_S * 1000)
# A page of a test runs its script a few times only: compiling it plainly at once costs least.
_SCRIPTS = "--js-flags=--always-sparkplug"
_QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", _SCRIPTS]


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Where it is served, and how somebody looks at it."""

    url: str
    browser: Browser
    login: Callable[[str], Client]

    @contextmanager
    def looking(
        self, role: str | None, *, size: tuple[int, int] = WIDE, dark: bool = False, script: bool = True
    ) -> Iterator[Page]:
        """A page of a browser in which the role's person, if any, is logged in; no error may reach its
        console."""
        context: BrowserContext = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            base_url=self.url,
            java_script_enabled=script,
        )
        context.set_default_timeout(PATIENCE_S * 1000)
        if role is not None:
            cookie = self.login(role).cookies[settings.SESSION_COOKIE_NAME].value
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": self.url}])
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda said: complaints.append(_complaint(page, said)))
        page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
        try:
            yield page
        finally:
            context.close()
        told = [said for said in complaints if said]
        assert told == [], told


def looks(page: Page) -> Iterator[tuple[int, str, bool]]:
    """The loaded page in four looks, each with its width (pixels), its colour scheme, and whether the page is
    seen in this width for the first time. It is left as it was loaded: wide and in the light."""
    for (width, height), schemes in ((WIDE, _SCHEMES), (NARROW, _SCHEMES[::-1])):
        page.set_viewport_size({"width": width, "height": height})
        for scheme in schemes:
            _coloured(page, scheme)
            yield width, scheme, scheme == schemes[0]
    page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})


def _coloured(page: Page, scheme: Literal["light", "dark"]) -> None:
    """The page as if loaded so: it looks at the scheme only then, and has the class ``dark`` or not. No
    colour is on its way any more."""
    page.emulate_media(color_scheme=scheme)
    page.evaluate(
        """(dark) => {
          document.documentElement.classList.toggle("dark", dark);
          const underWay = document.getAnimations().filter((one) => one instanceof CSSTransition);
          underWay.forEach((one) => one.finish());
        }""",
        scheme == "dark",
    )


def _complaint(page: Page, said: ConsoleMessage) -> str:
    """An error of the page, a breach of its content policy among them; empty for anything else it says."""
    return f"{page.url}: {said.text}" if said.type == "error" else ""


@contextmanager
def browsing() -> Iterator[Browser]:
    """Chromium, as .ci/run installs it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=_QUIET, timeout=PATIENCE_S * 1000
        )
        try:
            yield browser
        finally:
            browser.close()


def serving(group: ProcessGroup, env: dict[str, str]) -> str:
    """Start a web process on the database that `env` names; its address."""
    port = free_port()
    command = [sys.executable, "-m", "config.web", "--port", str(port)]
    group.start("web", command, env=env, cwd=ROOT)
    url = f"http://127.0.0.1:{port}"
    until(lambda: _answers(url), "the web process answers")
    return url


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/admin/login/", timeout=PATIENCE_S).status_code == 200
    except httpx.TransportError:
        return False
