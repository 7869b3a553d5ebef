"""The demo's story end to end: real sellers, web server and workers; people decide through the REST API."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
import requests

from config.processes import ProcessGroup
from config.supervisor import BASE_DIR, child_environment, procfile
from demo import stage, tell
from demo.ports import free_port
from demo.run import DEMO_SETTINGS, Progress
from tests.database import Database
from tests.support import PATIENCE_S, SELLERS_S, until

pytestmark = pytest.mark.adcp_package


def test_every_brief_comes_to_what_the_story_says(
    committed_db: Database,
    processes: ProcessGroup,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tell, "_LIMIT_S", SELLERS_S)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {
        **child_environment(committed_db.urls),
        **DEMO_SETTINGS,
        "PORT": str(port),
        "FLIGHTDECK_PUBLIC_URL": url,
    }
    sellers = [sys.executable, "-m", "demo.sellers", "serve", "--state", str(tmp_path), "--pace", "1"]
    processes.start("sellers", sellers, cwd=BASE_DIR)
    for name, command in procfile().items():
        processes.start(name, _unshelled(command, env), env=env, cwd=BASE_DIR)
    stage.people_prepare(tmp_path / "logins.json")
    listed = tmp_path / "sellers.json"
    until(listed.exists, "the sellers are ready", patience=SELLERS_S)
    stage.sellers_prepare(listed)
    until(lambda: _answers(url), "the web server answers")

    code = tell.headless(processes, Progress(), url)

    said = capsys.readouterr().out
    summary = json.loads(said.strip().splitlines()[-1])
    assert code == 0, said
    assert (summary["booked"], summary["rejected"], summary["failed"]) == (7, 1, 1)
    assert summary["audit_ok"]
    assert summary["by_webhook"] >= 1
    assert summary["by_poll"] >= 1
    assert summary["operations"] == summary["by_reply"] + summary["by_webhook"] + summary["by_poll"]


def _unshelled(command: list[str], env: dict[str, str]) -> list[str]:
    """The program itself, which the shell would execute once it has filled in the port."""
    line = command[-1].removeprefix("exec ").replace("$PORT", env["PORT"])
    return [sys.executable, *shlex.split(line)[1:]]


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/health/", timeout=PATIENCE_S).ok
    except requests.RequestException:
        return False
