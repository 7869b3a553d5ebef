"""A sweep that hangs ends its process and says where; the cluster begins another, and others sweep."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.database import Database
from tests.support import PATIENCE_S

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = """
import os, sys, threading, time
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
import django
django.setup()
from django.conf import settings
from tasks_app.events import relay
from tasks_app.jobs import worker
from tasks_app.operations import sweep

hangs = threading.Event()

def hang():
    hangs.set()
    time.sleep(3600)

settings.SWEEP_TICK_S, worker._HANGS_S = 0.05, 2
sweep._chores.clear()
if sys.argv[1] == "sweep":
    sweep._chores["hang"] = hang
else:
    relay._Turns._held = lambda turns: hang()
if sys.argv[1] == "relay of a turn beside another":
    sweep.session_lock = lambda name: not hangs.wait()
worker.sweep_turn()
"""


@pytest.mark.parametrize("what", ["sweep", "relay", "relay of a turn beside another"])
def test_it_ends_its_process(committed_db: Database, what: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, what],
        cwd=_ROOT,
        env=os.environ.copy(),
        capture_output=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 1
    assert b"in hang" in ended.stderr
