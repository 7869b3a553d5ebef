"""What several modules here work on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suite.ci import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
