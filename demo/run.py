"""Starting everything the demo needs, telling what happens, stopping it again.

Database, web and workers are the product's own; the sellers are separate processes reached over HTTP.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from config import postgres
from config.processes import ProcessGroup
from config.supervisor import BASE_DIR, child_environment, migrate, procfile, require_free_port
from demo.ports import bindable, free_port

HOME = BASE_DIR / "var" / "demo"
SELLERS = HOME / "sellers"
# Polling and paces shortened for a demo; production's stay as the documents say.
DEMO_SETTINGS = {
    "FLIGHTDECK_POLL_SCALE": "0.05",
    "FLIGHTDECK_SWEEP_TICK_S": "0.25",
    "FLIGHTDECK_LOG_LEVEL": "WARNING",
    "FLIGHTDECK_ORGANISATION": "Halden & Marsh",
    "FLIGHTDECK_ORGANISATION_DOMAIN": "haldenmarsh.example",
}
SECOND_FACTOR_ROLE = "Finance"  # its person sets up an authenticator app at the first sign-in
_START_LIMIT_S = 120


class DemoError(Exception):
    """The demo cannot go on; the text says why."""


class Progress:
    """One line per thing that happens, with the seconds since the start."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{self.seconds:5.1f} s] {text}", flush=True)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


def run(*, headless: bool) -> int:
    """The whole demo; the exit code. Raises DemoError, KeyboardInterrupt."""
    progress = Progress()
    HOME.mkdir(parents=True, exist_ok=True)
    with _database(progress) as urls, ProcessGroup(state_file=HOME / "processes.json") as group:
        env = _environment(urls)
        progress.say("three sellers' agents are starting (they take a while to load)")
        (SELLERS / "sellers.json").unlink(missing_ok=True)
        group.start(
            "sellers",
            [
                sys.executable,
                "-m",
                "demo.sellers",
                "serve",
                "--state",
                str(SELLERS),
                "--pace",
                "2" if headless else "6",
            ],
            cwd=BASE_DIR,
        )
        progress.say("migrating the database")
        migrate(env, base_dir=BASE_DIR)
        for name, command in procfile().items():
            progress.say(f"{name} is starting")
            group.start(name, command, env=env, cwd=BASE_DIR, restart=True)
        os.environ.update(env)
        return _play(group, progress, env["FLIGHTDECK_PUBLIC_URL"], headless=headless)


def erase() -> int:
    """Forget the embedded database and the sellers' books."""
    with ProcessGroup(state_file=HOME / "processes.json") if HOME.exists() else ProcessGroup():
        gone = postgres.erase(BASE_DIR)
        shutil.rmtree(SELLERS, ignore_errors=True)
    print("The demo's data are gone." if gone else "There was nothing to forget.")
    return 0


def _play(group: ProcessGroup, progress: Progress, url: str, *, headless: bool) -> int:
    # Django is set up only now: its settings read the environment above.
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from demo import stage, tell
    from tasks_app.adcp.types import DiscoveryError

    logins = stage.people_prepare(HOME / "logins.json")
    progress.say(f"{len(logins)} roles, a login each")
    if not group.wait((SELLERS / "sellers.json").exists, timeout_s=_START_LIMIT_S):
        raise DemoError("the sellers did not start; their lines above say why")
    try:
        for seller in stage.sellers_prepare(SELLERS / "sellers.json"):
            progress.say(
                f"{seller.name} speaks AdCP {seller.adcp_version} over {seller.get_protocol_display()}, "
                f"webhooks: {seller.get_webhook_mode_display()}"
            )
    except DiscoveryError as error:
        raise DemoError(f"a seller could not be asked what it can do: {error}") from error
    if not group.wait(lambda: _answers(url), timeout_s=_START_LIMIT_S):
        raise DemoError("the web server does not answer; its lines above say why")
    if headless:
        return tell.headless(group, progress, url)
    tell.interactive(group, progress, url, logins)
    return 0


@contextmanager
def _database(progress: Progress) -> Iterator[postgres.DatabaseUrls]:
    """Always the embedded one: the demo never touches a database that DATABASE_URL names."""
    progress.say("opening the embedded PostgreSQL")
    with postgres.opened(BASE_DIR, {}) as urls:
        yield urls


def _environment(urls: postgres.DatabaseUrls) -> dict[str, str]:
    port = _port(HOME / "web.port")
    return {
        **child_environment(urls),
        **DEMO_SETTINGS,
        "PORT": str(port),
        "FLIGHTDECK_PUBLIC_URL": f"http://127.0.0.1:{port}",
        # What a user set for real use must not leak into the demo.
        "FLIGHTDECK_HOSTS": "127.0.0.1,localhost",
        # One role shows how it is; the others sign in with what is printed here alone.
        "FLIGHTDECK_SECOND_FACTOR_ROLES": SECOND_FACTOR_ROLE,
    }


def _port(kept: Path) -> int:
    """Return PORT if it is set, otherwise 8000 or the port that this demo had, otherwise a free one.

    Raises DemoError if PORT is not a number, ProcessError if it cannot be used.
    """
    if asked := os.environ.get("PORT"):
        if not asked.isdecimal() or int(asked) == 0:
            raise DemoError(f"PORT is {asked!r}: give a number.")
        require_free_port(int(asked))
        return int(asked)
    wanted = int(kept.read_text()) if kept.exists() else 8000
    port = wanted if bindable(wanted) else free_port()
    kept.write_text(str(port))
    return port


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/health/", timeout=2).ok
    except requests.RequestException:
        return False
