"""What the bench runs on: a private PostgreSQL with years of work in it, and the web process as delivered.

The years are filled once and kept (`bench.server.kept`); what a run decides on is lived anew each time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import requests

from bench import server
from bench.pages import OPEN, QUICK, SIZES, copies, lived
from bench.pages.lived import Lived
from config.processes import ProcessGroup
from config.supervisor import BASE_DIR, procfile
from demo.ports import free_port

NAME = "bench-pages"
_START_S = 60


@dataclass(frozen=True)
class Stage:
    """`lived`: campaigns and what may be quoted of them, the same number in each run; sessions; approvals to
    decide on. `counts`: deals, audit entries and open approvals, as they were filled."""

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
        on = closing.enter_context(_kept())
        there, now = Lived(**on.told["lived"]), _lived(on.env, "asked", str(rounds))
        port = free_port()
        group = closing.enter_context(ProcessGroup(output=log))
        group.start("web", procfile()["web"], env={**on.env, "PORT": str(port)}, cwd=BASE_DIR)
        url = f"http://127.0.0.1:{port}"
        if not group.wait(lambda: _answers(url), timeout_s=_START_S):
            raise SystemExit(f"the web process did not start; see {log_path}")
        now.campaigns = there.campaigns + now.campaigns[:OPEN]
        now.quoted = there.quoted + now.quoted[: len(now.quoted) // rounds]
        yield Stage(words=on.words(), url=url, lived=now, counts=on.told["counts"])


def _kept() -> AbstractContextManager[server.Server]:
    return server.kept(
        "pages-quick" if QUICK else "pages",
        fill=_filled,
        fillers=[Path(copies.__file__), Path(lived.__file__)],
        size=SIZES,
        env={"DJANGO_SETTINGS_MODULE": "bench.pages.settings"},
    )


def _filled(on: server.Server) -> dict[str, Any]:
    """Fill it; what later runs are told."""
    began = time.monotonic()
    print("== living some campaigns", flush=True)
    models = _lived(on.env, "models")
    print(f"== copying them ({time.monotonic() - began:.0f} s)", flush=True)
    copies.copy_all(on.running, models.models)
    counts = copies.counts(on.running)
    told = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
    print(f"== filled in {time.monotonic() - began:.0f} s: {told}", flush=True)
    # Some copied chains, as the product itself verifies them.
    subprocess.run(
        [sys.executable, "-m", "bench.pages.lived", "verify"], cwd=BASE_DIR, env=on.env, check=True
    )
    models.models = {}
    return {"lived": asdict(models), "counts": counts}


def _lived(env: dict[str, str], *what: str) -> Lived:
    command = [sys.executable, "-m", "bench.pages.lived", *what]
    done = subprocess.run(command, cwd=BASE_DIR, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return Lived(**json.loads(done.stdout.splitlines()[-1]))


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/health/", timeout=2).ok
    except requests.RequestException:
        return False
