"""What the targets of make pass to pytest: which modules they collect, what is not in their environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / ".ci/stages.py"


def printed(*arguments: str, **environment: str) -> str:
    """What make would run. Its environment: not what a make around these tests left for its own."""
    done = subprocess.run(
        ["make", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_each_stage_of_ci_is_a_target() -> None:
    stages = re.findall(r"^ +Stage\(\"[\w ]+\", \"([\w-]+)\"", CI.read_text(), re.MULTILINE)
    assert len(stages) == 7
    for target in stages:
        assert printed("-n", target), target


def test_ci_plays_all_tests_and_those_of_endurance_once() -> None:
    """The tests are asked for as without it, but for what has its own stage."""
    (by_default,) = re.findall(r"-m '(.+)'\"", (ROOT / "pyproject.toml").read_text())
    (in_ci,) = re.findall(r"arguments='-m \"(.+)\"'", CI.read_text())
    assert in_ci == f"{by_default} and not endurance"
    assert '"test-endurance", tested=True' in CI.read_text()


@pytest.mark.parametrize("marker", ["browser", "redis"])
def test_a_target_that_collects_some_modules_collects_all_of_its_marker(marker: str) -> None:
    named = re.search(r'python_files="(.+?)"', printed("-n", f"test-{marker}"))
    assert named
    modules = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    marked = {path for path, text in modules.items() if f"\npytestmark = pytest.mark.{marker}\n" in text}
    assert marked
    assert marked == {path for path in modules if fnmatch(path.name, named[1])}
    # None but a whole module is marked.
    assert marked == {path for path, text in modules.items() if re.search(rf"mark\.{marker}\b", text)}


def test_what_is_compiled_is_kept_whatever_the_environment_says() -> None:
    show = "shown: ; @echo $${PYTHONDONTWRITEBYTECODE:-kept}"
    assert printed("--eval", show, "shown", PYTHONDONTWRITEBYTECODE="1") == "kept\n"


@pytest.mark.parametrize(
    ("there", "able", "said"),
    [
        ({"chromium-headless-shell"}, False, 0),
        ({"chromium"}, True, 0),
        ({"chromium"}, False, 0),
        (set(), True, 0),
        (set(), False, 2),
    ],
)
def test_a_browser_is_installed_or_the_one_that_is_there_does(
    tmp_path: Path, there: set[str], able: bool, said: int
) -> None:
    log = tmp_path / "log"
    installing = f'#!/bin/sh\necho "$@" >> {log}\nexit {0 if able else 100}\n'
    for name, text in {**dict.fromkeys(there, "#!/bin/sh\n"), "id": "#!/bin/sh\necho 0\n"}.items():
        _program(tmp_path / name, text)
    _program(tmp_path / "apt-get", installing)
    _program(
        tmp_path / "flock", '#!/bin/sh\nwhile [ "$1" != /var/lib/dpkg ]; do shift; done\nshift\nexec "$@"\n'
    )
    made = subprocess.run(
        [shutil.which("make") or "make", "-o", ".venv/.setup-dev", "setup-browser"],
        cwd=ROOT,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == said, made.stdout + made.stderr
    assert log.exists() == ("chromium-headless-shell" not in there)
    assert ("cannot be installed" in made.stdout) == (said != 0)


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
