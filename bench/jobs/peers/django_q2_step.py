"""The steps of the django-q2 peer, where its workers find them by name."""

from __future__ import annotations

import time

from bench.jobs import NAP_S
from bench.jobs.marks import mark


def step(number: int) -> int:
    mark()
    return number


def nap(number: int) -> int:
    """One of a fan-out."""
    mark()
    time.sleep(NAP_S)
    return number
