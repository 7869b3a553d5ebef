"""What tests of every room share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

T = TypeVar("T")


# For whatever has to come, in any test, on a machine that does much else besides.
PATIENCE_S = 60.0
# Until the demo's sellers listen: four times the adcp package is imported first.
SELLERS_S = 600.0


def until(
    condition: Callable[[], T], what: str = "", *, patience: float = PATIENCE_S, every: float = 0.05
) -> T:
    """Ask until the answer is true, and return it; AssertionError after ``patience`` seconds."""
    pause = threading.Event()
    deadline = time.monotonic() + patience
    while not (answer := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {patience:g} s: {what or condition}")
        pause.wait(every)
    return answer


def joined(*threads: threading.Thread) -> None:
    """Wait until each has ended; AssertionError for one that goes on."""
    for thread in threads:
        thread.join(PATIENCE_S)
    if on := [thread.name for thread in threads if thread.is_alive()]:
        raise AssertionError(f"not ended within {PATIENCE_S:g} s: {', '.join(on)}")


def metrics_page() -> Any:
    """`/metrics` as Prometheus gets it, made anew."""
    from django.test import Client, override_settings

    from tasks_app import metrics

    metrics.page.forget()
    with override_settings(METRICS_TOKEN="of-prometheus"):
        return Client().get("/metrics", headers={"authorization": "Bearer of-prometheus"})


def rows_read(*tables: str) -> int:
    """How many rows of these tables this transaction has read so far, by a scan of one or of an index."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_xact_user_tables"
            " where relname = any(%s)",
            [list(tables)],
        )
        return int(cursor.fetchone()[0])


def locks_awaited() -> int:
    """How many sessions of this database wait for a lock, asked in a transaction too."""
    from django.db import connection

    # Not of pg_stat_activity, which shows a transaction the same as often as it looks.
    with connection.cursor() as cursor:
        cursor.execute(
            "select count(distinct awaited.pid) from pg_locks awaited join pg_locks any_of using (pid)"
            " where not awaited.granted"
            " and any_of.database = (select oid from pg_database where datname = current_database())"
        )
        return int(cursor.fetchone()[0])


def transactions_over() -> None:
    """Wait until nobody else is in a transaction in this database: the server learns later than we that a
    client was killed, and until then what it held is passed over (``skip locked``)."""
    from django.db import connection

    under_way = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and xact_start is not null and pid <> pg_backend_pid() and backend_type = 'client backend'"
    )

    def over() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(under_way)
            return cursor.fetchone() == (0,)

    until(over, "who was killed has let go")


@contextmanager
def undone() -> Iterator[None]:
    """What happens inside leaves nothing behind, so that one ground serves many cases."""
    from django.db import transaction

    with transaction.atomic():
        yield
        transaction.set_rollback(True)
    forget_sellers()


def forget_sellers() -> None:
    """Webhooks remember sellers and their allowances for a second, by name: another database has others."""
    from tasks_app.webhooks import rates, refusals, senders

    senders._known.clear()
    rates._shares.clear()
    rates._refused.starts = datetime.min.replace(tzinfo=UTC)
    rates._proven.clear()
    rates._looks = rates.Allowance(each=rates.LOOKS_EACH, in_all=rates.LOOKS_IN_ALL)
    rates._judgements = rates.Allowance(each=rates.JUDGED_EACH, in_all=rates.JUDGED_IN_ALL)
    refusals.unwritten = refusals._Unwritten()


def wait_for_servers() -> None:
    """Whom this process asks, a server that some test has, is waited for as everything is."""
    from tasks_app.adcp import http
    from tasks_app.adcp.signatures import jwks
    from tasks_app.notifications import team_webhook
    from tasks_app.sellers import services

    http.CONNECT_TIMEOUT_S = jwks.FETCH_TIMEOUT_S = PATIENCE_S
    team_webhook._TIMEOUT_S = services._DISCOVERY_TIMEOUT_S = PATIENCE_S


def know_no_rules() -> None:
    """Attached rules are read every two seconds: a test that counts statements would count that in some runs.
    From `rule_add` and `rules_reload` on they are read as ever."""
    from tasks_app.lifecycle import guards

    guards._rules, guards._rules_until = {}, float("inf")
