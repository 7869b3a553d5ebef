"""An end that came without its result: the status is settled, the result is still asked for.

It proves the status and nothing more (AdCP L3/async-identity-and-convergence, "Terminal identity and
equivalence"): the operation is fenced, its publication waits for the result, and a fuller observation is no
contradiction. The wait is bounded: older sellers have nothing more to tell.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings

from tasks_app import clock
from tasks_app.adcp.errors import UNCODED
from tasks_app.adcp.types import Seen
from tasks_app.operations.models import SETTLED, Operation
from tasks_app.operations.models import OperationStatus as S

_LOOK_S, _GIVE_UP_S = 60, 300
# What was bought, or why not: a rejected or canceled task may have nothing more to tell.
_WORTH_ASKING = frozenset({"completed", "failed"})


def held(operation: Operation, seen: Seen) -> dict[str, Any]:
    """The columns of an end without anything of its result: look again, and publish only then."""
    in_words = seen.error is not None and seen.error.code == UNCODED
    nothing = seen.partial and not seen.payload and not in_words and seen.status in _WORTH_ASKING
    if not nothing or not (operation.task_id or seen.task_id):
        return {}
    give_up = timedelta(seconds=_GIVE_UP_S * settings.POLL_SCALE)
    return {"next_poll_at": _next_look(), "publish_at": clock.now() + give_up}


def look_again(operation: Operation) -> dict[str, Any]:
    """The columns of a settled operation that was looked at for its result once more, in vain."""
    if operation.status not in SETTLED or operation.next_poll_at is None:
        return {}
    waiting = operation.publish_at is not None and clock.now() < operation.publish_at
    return {"next_poll_at": _next_look() if waiting else None}


def agrees(operation: Operation, seen: Seen) -> bool:
    """Whether an end and another, of which one is without its result, can be the same one."""
    if operation.status == S.COMPLETED:
        known, told = (operation.result or {}).get("media_buy_id"), (seen.payload or {}).get("media_buy_id")
    else:
        known, told = (operation.error or {}).get("code"), seen.error.code if seen.error else None
        if UNCODED in (known, told):
            return True  # one of them has only words for it
    return not known or not told or known == told


def _next_look() -> Any:
    return clock.now() + timedelta(seconds=_LOOK_S * settings.POLL_SCALE)
