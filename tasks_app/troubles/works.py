"""Kinds of work that handle rows one by one, and what kind each one's rows are: as explanations call it
("operation", "deal")."""

from __future__ import annotations

_rows_of: dict[str, str] = {}


def work_on(work: str, entity: str) -> str:
    """Say that the rows of `work` are of that kind; answers the work's name, to be kept by the module that
    does it."""
    _rows_of[work] = entity
    return work


def entity_worked_on(work: str) -> str:
    """The kind of a work's rows; empty for a work that nobody named."""
    return _rows_of.get(work, "")


def works_on(entity: str) -> list[str]:
    """The kinds of work whose rows are of that kind."""
    return [work for work, kind in _rows_of.items() if kind == entity]
