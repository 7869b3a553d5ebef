"""Nothing reaches an adapter, or makes an operation, past the commands: a violation breaks `lint-imports`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STOREYS = ("campaigns", "orders", "tasks_app", "config")
LINT = Path(sys.executable).parent / "lint-imports"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product's sources and its rules, to break."""
    place = tmp_path_factory.mktemp("product")
    for storey in STOREYS:
        shutil.copytree(ROOT / storey, place / storey, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)
    return place


def broken(place: Path) -> str:
    """The contracts that lint-imports says are broken."""
    run = subprocess.run([LINT, "--no-cache"], cwd=place, capture_output=True, text=True, check=False)
    return " ".join(line for line in run.stdout.splitlines() if line.rstrip().endswith("BROKEN"))


def test_the_rules_hold(copy: Path) -> None:
    assert broken(copy) == ""


@pytest.mark.rule
@pytest.mark.parametrize(
    ("module", "line", "rule"),
    [
        ("orders/services.py", "from tasks_app.operations.asking import operation_ensure", "Operations come"),
        ("campaigns/actions.py", "from tasks_app.operations import asking", "Operations come"),
        ("tasks_app/jobs/worker.py", "from tasks_app.commands.adapters import adapter_of", "Adapters are"),
        ("orders/outcomes.py", "from tasks_app.commands.executing import execute_now", "Adapters are"),
        ("orders/services.py", "from tasks_app.operations.execution import AdcpAdapter", "The AdCP adapter"),
        ("orders/services.py", "from tasks_app.adcp.client import call", "Sellers are called"),
        ("orders/services.py", "from tasks_app.adcp.mcp import call", "Transports are"),
        ("tasks_app/commands/services.py", "from tasks_app.operations import services", "Rooms of tasks_app"),
    ],
)
def test_a_way_past_the_commands_is_refused(copy: Path, module: str, line: str, rule: str) -> None:
    file = copy / module
    text = file.read_text()
    head = "from __future__ import annotations\n"
    file.write_text(text.replace(head, f"{head}\n{line}\n", 1))
    try:
        assert rule in broken(copy)
    finally:
        file.write_text(text)
