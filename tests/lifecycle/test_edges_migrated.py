"""A new edge is a change of the declaration and a migration: a check fails until that is made."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import run_checks

from tasks_app.lifecycle import checks
from tasks_app.lifecycle.models import LifecycleEdge
from tasks_app.management.commands import lifecycle_edges
from tests.commands.running import call
from tests.database import Database, point_django_at

NEW = ("completed", "makegood_pending")
Edges = Callable[[str], set[tuple[str, str]]]


@pytest.fixture
def redeclared(monkeypatch: pytest.MonkeyPatch) -> Edges:
    """As if deal.json had one edge more, and one less."""
    real = checks.declared_edges

    def edges(entity: str) -> set[tuple[str, str]]:
        return real(entity) if entity != "deal" else real(entity) - {("quoted", "expired")} | {NEW}

    for module in (checks, lifecycle_edges):
        monkeypatch.setattr(module, "declared_edges", edges)
    return edges


def failed() -> list[Any]:
    return [found for found in run_checks() if found.id == "lifecycle.E001"]


def test_the_migrations_have_what_is_declared() -> None:
    assert failed() == []
    ran = call("lifecycle_edges", "--json")
    assert (ran.code, ran.json) == (0, {"written": None})


def test_the_check_fails_until_the_migration_is_made(redeclared: Edges) -> None:
    (error,) = failed()
    assert "deal" in error.msg
    assert "lifecycle_edges" in error.hint


def test_the_migration_is_written_from_the_declaration_and_brings_the_matrix_up_to_date(
    redeclared: Edges, committed_db: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "0041_latest.py").touch()
    monkeypatch.setattr(lifecycle_edges, "_MIGRATIONS", tmp_path)
    others = LifecycleEdge.objects.exclude(entity="deal").count()

    assert call("lifecycle_edges", "--json").json == {"written": "0042_edges", "entities": ["deal"]}

    written = runpy.run_path(str(tmp_path / "0042_edges.py"))
    assert written["EDGES"] == {"deal": sorted(redeclared("deal"))}
    migration = written["Migration"]
    assert migration.dependencies == [("tasks_app", "0041_latest")]
    point_django_at(committed_db.urls.owner)
    for operation in migration.operations:
        operation.code(apps, None)
    point_django_at(committed_db.urls.app)
    stored = LifecycleEdge.objects.filter(entity="deal").values_list("from_status", "to_status")
    assert set(stored) == redeclared("deal")
    assert LifecycleEdge.objects.exclude(entity="deal").count() == others
