"""A process of its own that has one effect: `runner.py KEY PO [die]`. It says "ready", begins when a line
comes in, and prints the operation's id, or the conflict's code; `die`: it is killed before its commit."""

from __future__ import annotations

import os
import signal
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

import django


def main() -> None:
    django.setup()
    from django.db import connection, transaction

    from tasks_app.commands.services import IdempotencyKeyConflictError
    from tasks_app.operations.ordering import PLACE, Order, order_run
    from tasks_app.people.models import Team
    from tasks_app.sellers.models import Seller

    order = Order(
        kind=PLACE,
        purpose=sys.argv[1],
        seller=Seller.objects.get(),
        arguments={"po_number": sys.argv[2]},
        team=Team.objects.get(),
    )
    connection.ensure_connection()
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    if sys.argv[3:] == ["die"]:
        with transaction.atomic():
            order_run(order=order, actor="system")
            os.kill(os.getpid(), signal.SIGKILL)
    try:
        print(order_run(order=order, actor="system").pk, flush=True)  # noqa: T201
    except IdempotencyKeyConflictError as error:
        print(error.code, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
