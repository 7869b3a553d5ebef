"""What a worker loads at its start, which each of its processes then holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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
