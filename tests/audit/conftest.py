"""Somebody with every right on the database, and where this test's keys and anchors lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.database import Database, TestServer


@pytest.fixture
def superuser(committed_db: Database, database_server: TestServer) -> Iterator[psycopg.Connection]:
    """Connected to the test's database, with the triggers switched off and the checks of entries dropped."""
    with database_server.connect_admin(committed_db.name) as admin:
        admin.execute("set session_replication_role = replica")
        for rule in ("audit_reason_given", "audit_actor_typed"):
            admin.execute(f"alter table tasks_app_auditentry drop constraint {rule}")
        yield admin


@pytest.fixture
def anchor_key(tmp_path: Path, settings: Any) -> Path:
    """Where this system's key will be."""
    settings.ANCHOR_KEY = tmp_path / "anchor_key.pem"
    return tmp_path / "anchor_key.pem"
