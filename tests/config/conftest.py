"""Projects to open a database for: directories of their own, removed with their server and data."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from config import postgres
from tests import scratch
from tests.database import erase_project


@contextmanager
def _directory() -> Iterator[Path]:
    base = scratch.directory("project-")
    try:
        yield base
    finally:
        if not erase_project(base):
            shutil.rmtree(base)


@pytest.fixture(scope="session")
def made_project() -> Iterator[Path]:
    """A project whose database was made and stopped; copied, because making one takes longer."""
    with _directory() as base:
        postgres.start(base).stop()
        yield base


@pytest.fixture
def project(made_project: Path) -> Iterator[Path]:
    """A project with a stopped, empty database."""
    with _directory() as base:
        subprocess.run(["cp", "-a", made_project / "var", base / "var"], check=True)
        yield base


@pytest.fixture
def empty_project() -> Iterator[Path]:
    """A project that never had a database."""
    with _directory() as base:
        yield base


@pytest.fixture
def private_project(tmp_path: Path) -> Iterator[Path]:
    """A project below a directory that is closed to everybody else, such as a home."""
    private = tmp_path / "home"
    private.mkdir(mode=0o700)
    base = private / "project"
    base.mkdir()
    assert private.stat().st_mode & 0o077 == 0
    yield base
    erase_project(base)
