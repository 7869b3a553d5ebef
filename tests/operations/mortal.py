"""Operations in a process that is killed at its n-th moment (see tests.enforcement.mortal)."""

from __future__ import annotations

import os
from functools import partial
from uuid import UUID

from tests.enforcement import mortal

lives = partial(mortal.lives, program="tests.operations.mortal")


def sweep() -> None:
    """One pass: what is due is sent and observed."""
    from asgiref.sync import async_to_sync

    from tasks_app.operations.sweep import sweep_once

    async_to_sync(sweep_once)()


def decide(approval_id: str, user_id: str, verdict: str) -> None:
    """A person decides."""
    from tasks_app.approvals.services import approval_decide
    from tasks_app.people.models import User

    user = User.objects.get(pk=user_id)
    approval_decide(approval_id=UUID(approval_id), user=user, verdict=verdict, comment="So.")


def contradict(operation_id: str) -> None:
    """The seller says by webhook that what it had completed was rejected."""
    from tasks_app.adcp.types import Seen
    from tasks_app.operations.converge import observe

    seen = Seen(kind="answer", status="rejected", raw_status="rejected", message="No.", raw={"a": 1})
    observe(operation_id=UUID(operation_id), seen=seen, channel="webhook")


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    from tasks_app.adcp import a2a  # noqa: F401 (loaded once, not in every life)
    from tasks_app.operations import sweep as sweeping

    sweeping._chores.clear()  # a life is for what is sent and observed
    mortal.ACTIONS.update({"sweep": sweep, "decide_on": decide, "contradict": contradict})
    mortal.main()


if __name__ == "__main__":
    main()
