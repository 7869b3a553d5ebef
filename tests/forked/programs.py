"""Which programs are forked, and what has to be the same for two of them to be forked from one process."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLIGHTDECK, PAGES, SELLERS = "flightdeck", "pages", "sellers"
# What differs from one program to the next without a module's being loaded otherwise. The database is
# pointed at after the fork; whether output is buffered is read then.
_SETTLED_LATER = {
    "DATABASE_URL",
    "MIGRATE_DATABASE_URL",
    "FLIGHTDECK_EMBEDDED",
    "FLIGHTDECK_DB_LOGIN",
    "PYTHONUNBUFFERED",
    "PYTHONWARNINGS",
    "PYTEST_CURRENT_TEST",
}
_THE_PARENT = "tests.forked.parent"
_OF_THE_OWNER = {"migrate", "createsuperuser", "rotate_field_keys", "database_roles"}


@dataclass(frozen=True)
class Program:
    """What a process of this kind has imported; ``adds``: what the program adds to its environment before it
    loads settings, as far as that is not set."""

    loads: str
    adds: tuple[tuple[str, str], ...] = ()


def program(command: Sequence[str]) -> Program | None:
    """The kind of a command line, None for one that is not forked: another interpreter's, with options of the
    interpreter's own, most of ``-c``."""
    match [str(part) for part in command]:
        case [sys.executable, "-m", "config.web", *_]:
            return Program(PAGES, (("FLIGHTDECK_DB_POOL", "1"),))
        case [sys.executable, "-m", "demo.sellers", *_]:
            return Program(SELLERS)
        case [sys.executable, "-m", name, *_] if name.startswith("tests.") and name != _THE_PARENT:
            return Program(FLIGHTDECK)
        case [_, "-c", code, "--multiprocessing-fork"] if code.startswith(
            "from multiprocessing.spawn import"
        ):
            return Program(FLIGHTDECK)  # a process of a pool
        case [sys.executable, "manage.py", "worker", *_]:
            return Program(FLIGHTDECK, (("FLIGHTDECK_PAGES", "0"),))
        case [sys.executable, "manage.py", name, *_] if name not in _OF_THE_OWNER:
            return Program(FLIGHTDECK)
        case _:
            return None


def loaded_by(kind: Program, environment: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """What decides how modules load: programs of one kind for which this is equal come from one process."""
    whole = {**dict(kind.adds), **environment}
    return frozenset((name, value) for name, value in whole.items() if _decides(kind, name))


def _decides(kind: Program, name: str) -> bool:
    """Sellers load no settings of ours."""
    return name not in _SETTLED_LATER and not (kind.loads == SELLERS and name.startswith("FLIGHTDECK_"))
