"""What a worker loads at its start, which each of its processes then holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.deep

ROOT = Path(__file__).resolve().parents[2]
# What a worker loads, then what it takes to name our webhook, then a page of the admin.
_WORKER = """
import json, sys
import django
django.setup()
from django.urls import reverse
from tasks_app.jobs import cluster, worker
from tasks_app.operations import asking
hook = reverse("adcp_webhook", urlconf=asking.WEBHOOK_ADDRESSES, args=["a-seller"])
light = sorted(sys.modules)
page = reverse("admin:tasks_app_approval_changelist")
from django.contrib import admin
from tasks_app.approvals.models import Approval
print(json.dumps({"light": light, "hook": hook, "page": page, "listed": admin.site.is_registered(Approval)}))
"""

# Which pages a program of manage.py is to hold, as its settings see it.
_PROGRAM = """
import os, sys
from django.core import management
management.execute_from_command_line = lambda _: print(os.environ.get("FLIGHTDECK_PAGES"))
import manage
sys.argv = ["manage.py", sys.argv[1]]
manage.main()
"""


def _loaded(pages: str) -> dict[str, Any]:
    """In a process of its own, for this one has loaded everything."""
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "FLIGHTDECK_PAGES": pages}
    done = subprocess.run(
        [sys.executable, "-c", _WORKER], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_a_worker_holds_neither_pages_nor_what_few_need_and_knows_every_address() -> None:
    told = _loaded("0")
    pages = {
        "config.urls",
        "tasks_app.admin",
        "rest_framework.views",
        "rest_framework.compat",
        "unfold.admin",
        "health_check",
    }
    rare = {"pybreaker", "mcp", "a2a"}
    assert not (pages | rare) & set(told["light"])
    assert told["hook"] == "/webhooks/adcp/a-seller/"
    assert told["page"] == "/admin/tasks_app/approval/"
    assert told["listed"] is True


def test_who_serves_pages_has_them_at_its_start() -> None:
    assert "tasks_app.admin" in _loaded("1")["light"]


# A page's worth of what stays and of cycles that do not, again and again, as requests would leave them.
_WEB = """
import gc, json, sys, weakref
from config import asgi

class Held:
    pass

def left_behind():
    one = Held()
    one.itself = one
    return weakref.ref(one)

told = {"frozen": gc.get_freeze_count(), "seen": len(gc.get_objects())}
told["pages"] = "tasks_app.admin" in sys.modules
kept, seen = [], []
for _ in range(12):
    kept.append([[] for _ in range(5000)])
    gone = left_behind()
    gc.collect()
    seen.append(len(gc.get_objects()))
    assert gone() is None
told |= {"after": seen, "watching": len(gc.callbacks)}
print(json.dumps(told))
"""


def test_the_web_process_keeps_what_is_loaded_from_being_searched_in_the_middle_of_a_page() -> None:
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    done = subprocess.run(
        [sys.executable, "-c", _WEB], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    assert told["pages"]
    assert told["frozen"] > 10 * told["seen"]
    # What came with the first pages is kept too, and then no more: what is held later is searched as ever.
    assert max(told["after"][:6]) < 5000 < told["after"][-1]
    assert told["watching"] == 0


@pytest.mark.parametrize(("command", "pages"), [("worker", "0"), ("sweep", "None")])
def test_a_worker_alone_goes_without_pages(command: str, pages: str) -> None:
    """Executed, not forked: a fork has been given the environment that the program makes."""
    env = {name: value for name, value in os.environ.items() if name != "FLIGHTDECK_PAGES"}
    told = subprocess.run(
        [sys.executable, "-c", _PROGRAM, command],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == [pages]
