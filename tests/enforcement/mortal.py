"""A process that is killed at its n-th moment: before a statement outside of transactions; before the first
of a transaction and each `_WITHIN`-th one after it, of which nothing is kept; before its COMMIT.

`python -m tests.enforcement.mortal ACTION`, then a line `N ARGUMENT…` for each life: a fork does the action
and sends itself SIGKILL at moment N. Answers `killed`, `done` or `failed`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from tests.commands.running import ROOT
from tests.ending import ending, line_of
from tests.support import PATIENCE_S, transactions_over

Die = Callable[..., bool]
_WITHIN = 12


@contextmanager
def lives(action: str, *, program: str = "tests.enforcement.mortal") -> Iterator[Die]:
    """`die(n, *arguments)`: do the action, killed at moment n; False once it got through alive."""
    command, pipe = [sys.executable, "-m", program, action], subprocess.PIPE
    with ending(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)) as process:
        assert process.stdin is not None

        def die(number: int, *arguments: object) -> bool:
            process.stdin.write(" ".join(map(str, (number, *arguments))) + "\n")
            process.stdin.flush()
            answer = line_of(process.stdout).strip()
            assert answer in ("killed", "done"), answer
            transactions_over()
            return answer == "killed"

        yield die
        process.communicate(timeout=PATIENCE_S)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    action = ACTIONS[sys.argv[1]]
    for line in sys.stdin:
        number, *arguments = line.split()
        print(_life(action, arguments, int(number)), flush=True)  # noqa: T201


def _life(action: Callable[..., None], arguments: list[str], number: int) -> str:
    pid = os.fork()
    if pid == 0:
        _live(action, arguments, number)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return "killed"
    return "done" if status == 0 else "failed"


def _live(action: Callable[..., None], arguments: list[str], number: int) -> None:
    try:
        _doom(number)
        action(*arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _doom(number: int) -> None:
    """SIGKILL to this process at moment `number` of its database connection."""
    from django.db import connections

    database: Any = connections["default"]
    left, within = number, 0

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def execute(run: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal within
        if not database.in_atomic_block:
            within = 0
        if within % _WITHIN == 0:
            count()
        within += 1
        return run(*arguments)

    commit = database._commit

    def counted_commit() -> None:
        nonlocal within
        count()
        within = 0
        commit()

    database.execute_wrappers.append(execute)
    database._commit = counted_commit


def submit(user_id: str) -> None:
    """A person hands in a brief."""
    from django.utils import timezone

    from campaigns.services import campaign_submit
    from tasks_app.people.models import User

    first = timezone.localdate() + timedelta(days=20)
    brief = {
        "name": "Cold brew",
        "advertiser": "Lindqvist Coffee",
        "brand_domain": "lindqvist-coffee.com",
        "objective": {"goal": "Reach", "kpi": "reach", "target": 1000},
        "budget": {"total": 5000, "currency": "USD"},
        "flight": {"start": f"{first}", "end": f"{first + timedelta(days=9)}", "zone": "UTC"},
        "channels": [{"channel": "display"}],
        "geography": {"countries": ["US"]},
    }
    campaign = campaign_submit(user=User.objects.get(pk=user_id), raw=brief)
    assert campaign.problems == []


def decide(approval_id: str, user_id: str) -> None:
    """A person approves."""
    from uuid import UUID

    from tasks_app.approvals.services import approval_decide
    from tasks_app.people.models import User

    user = User.objects.get(pk=user_id)
    approval_decide(approval_id=UUID(approval_id), user=user, verdict="approve", comment="Go.")


def settle(operation_id: str) -> None:
    """The seller confirms the purchase as it was asked for."""
    from orders.models import Deal
    from tasks_app.adcp.types import Seen
    from tasks_app.operations.converge import observe
    from tasks_app.operations.models import Operation
    from tasks_app.operations.publish import publish

    operation = Operation.objects.get(pk=operation_id)
    deal = Deal.objects.get(pk=operation.subject_id)
    payload = {
        "media_buy_id": f"buy-{deal.reference}",
        "media_buy_status": "pending_creatives",
        "revision": 1,
        "valid_actions": [],
        "packages": [_package(line) for line in deal.lines.all()],
    }
    seen = Seen(kind="answer", status="completed", payload=payload)
    observe(operation_id=operation.pk, seen=seen, channel="reply")
    publish(operation_id=operation.pk)


def _package(line: Any) -> dict[str, Any]:
    return {
        "package_id": f"pkg-{line.position}",
        "product_id": line.product_id,
        "pricing_option_id": line.pricing_option_id,
        "budget": float(line.budget),
        "start_time": line.start_at.isoformat(),
        "end_time": line.end_at.isoformat(),
        "targeting_overlay": line.targeting,
        "context": {"line_id": str(line.pk)},
    }


def answer(turn_id: str) -> None:
    """The assistant answers a question."""
    import asyncio

    from tasks_app.assistant.clients.builtin import BuiltInPlanner
    from tasks_app.assistant.models import AssistantTurn
    from tasks_app.assistant.runner import answer_turn
    from tests.assistant.fakes import shared_thread

    with shared_thread():
        turn = AssistantTurn.objects.get(pk=turn_id)
        asyncio.run(answer_turn(turn, BuiltInPlanner()))


ACTIONS: dict[str, Callable[..., None]] = {
    "submit": submit,
    "decide": decide,
    "settle": settle,
    "answer": answer,
}

if __name__ == "__main__":
    main()
