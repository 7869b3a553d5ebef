"""One of two processes that do rival things to the same operations at the same moments."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import Any
from uuid import UUID

from tests.support import PATIENCE_S

_barrier: Barrier | None = None


def ready(barrier: Barrier) -> None:
    """Begin as a process of the application does; the barrier is both racers' own."""
    global _barrier
    _barrier = barrier
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()


def race(*roles: tuple[str, Sequence[Any]]) -> list[list[Any]]:
    """Each role's function in a process of its own, over its list, item by item at the same moments."""
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(len(roles))
    with ProcessPoolExecutor(len(roles), mp_context=spawn, initializer=ready, initargs=(barrier,)) as pool:
        return [one.result() for one in [pool.submit(_run, name, list(items)) for name, items in roles]]


def _run(name: str, items: list[Any]) -> list[Any]:
    from django.db import connection

    connection.ensure_connection()
    assert _barrier is not None
    told = []
    for item in items:
        _barrier.wait(PATIENCE_S)
        told.append(ROLES[name](item))
    return told


def claim(_operation: str) -> bool:
    """Take the one answer that is due; whether it was this process that got it."""
    from tasks_app.operations.dispatch import claim_sends

    return any(call.continuation for call in claim_sends(limit=1, out=Counter()))


def due_and_claim(operation: str) -> bool:
    """The released answer becomes due, and is taken."""
    from tasks_app import clock
    from tasks_app.operations.models import Operation

    Operation.objects.filter(pk=operation, status="input_required").update(send_at=clock.now())
    return claim(operation)


def settle(operation: str) -> str:
    """The seller's webhook tells the end."""
    from tasks_app.adcp.types import Seen
    from tasks_app.operations.converge import observe

    seen = Seen(kind="answer", status="completed", payload={"media_buy_id": f"mb-{operation}"})
    return observe(operation_id=UUID(operation), seen=seen, channel="webhook").outcome


def answer(task: tuple[str, str]) -> str:
    """A person answers the pause."""
    from tasks_app.operations.answers import operation_answer
    from tasks_app.operations.steered import SteeringRefusedError
    from tasks_app.people.models import User

    operation, user = task
    try:
        operation_answer(
            operation_id=UUID(operation), generation=1, user=User.objects.get(pk=user), text="Sweden."
        )
    except SteeringRefusedError as refusal:
        return refusal.code
    return "answered"


def contradict(operation: str) -> str:
    """The seller's webhook contradicts what was settled."""
    from tests.operations.mortal import contradict as told

    told(operation)
    return "told"


ROLES = {"due_and_claim": due_and_claim, "settle": settle, "answer": answer, "contradict": contradict}
