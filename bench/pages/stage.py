"""What the bench runs on: a private PostgreSQL with years of work in it, and the web process as delivered."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import requests

from bench import server
from bench.pages import copies
from bench.pages.lived import Lived
from config.processes import ProcessGroup
from config.supervisor import BASE_DIR, procfile
from demo.run import bindable

NAME = "bench-pages"
_START_S = 60


@dataclass(frozen=True)
class Stage:
    """`counts`: deals, audit entries and open approvals, counted before anybody looks at a page."""

    words: str
    url: str
    lived: Lived
    counts: dict[str, int]


@contextmanager
def opened(rounds: int) -> Iterator[Stage]:
    """Everything up and filled, for so many rounds of decisions."""
    log_path = BASE_DIR / "var" / f"{NAME}.log"
    log_path.parent.mkdir(exist_ok=True)
    with ExitStack() as closing:
        log = closing.enter_context(log_path.open("w", encoding="utf-8"))
        on = closing.enter_context(server.opened(NAME, DJANGO_SETTINGS_MODULE="bench.pages.settings"))
        began = time.monotonic()
        print("== living some campaigns", flush=True)
        lived = _lived(on.env, rounds)
        print(f"== copying them ({time.monotonic() - began:.0f} s)", flush=True)
        copies.copy_all(on.running, lived.models)
        counts = copies.counts(on.running)
        told = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
        print(f"== filled in {time.monotonic() - began:.0f} s: {told}", flush=True)
        _check_trail(on.env)
        port = bindable(0)
        group = closing.enter_context(ProcessGroup(output=log))
        env = {**on.env, "PORT": str(port)}
        group.start("web", procfile()["web"], env=env, cwd=BASE_DIR)
        url = f"http://127.0.0.1:{port}"
        if not group.wait(lambda: _answers(url), timeout_s=_START_S):
            raise SystemExit(f"the web process did not start; see {log_path}")
        yield Stage(words=on.words(), url=url, lived=lived, counts=counts)


def _lived(env: dict[str, str], rounds: int) -> Lived:
    command = [sys.executable, "-m", "bench.pages.lived", str(rounds)]
    done = subprocess.run(command, cwd=BASE_DIR, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return Lived(**json.loads(done.stdout.splitlines()[-1]))


def _check_trail(env: dict[str, str]) -> None:
    """Some copied chains, as the product itself verifies them. Raises CalledProcessError."""
    subprocess.run([sys.executable, "-m", "bench.pages.lived", "verify"], cwd=BASE_DIR, env=env, check=True)


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/health/", timeout=2).ok
    except requests.RequestException:
        return False
