"""Polling due operations on 3 sellers beside a bare client's loop: `python -m bench.operations_polls`.

On a private embedded PostgreSQL (fsync and synchronous_commit on), with 1,000,000 settled operations and
10,000 that wait, filled once and kept: three rounds, in each of which the sweep polls 2,000 that are due with
200 calls in flight, and a bare loop of the library `mcp` makes the same calls to the same sellers, a session
for each, on connections that are kept. Both in processes of their own, started anew each time. Prints a table
of min / median / max and one JSON line:

- `poll_overhead`: our seconds divided by the bare loop's;
- `claim_ratio`: one claim of 200 of the 10,000, all of them due, as the sweep makes it, to a bare one: SKIP
  LOCKED on a table of as many rows with what a poll needs, one index, one statement. In turn, on one
  connection, each a commit that does not wait for the disk, which would take as long for either; before the
  next claim what was claimed has ended, as in a sweep, and is due later. `claim_ms`: ours;
- `poller_rss_mb`: the most memory the polling process ever held.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench import server
from bench.sellers import seller_made
from config import postgres
from config.supervisor import BASE_DIR

ROUNDS = 3
SELLERS = 3
IN_FLIGHT = 200
CLAIMS = 6
WARM = 4  # claims before them: by then the server has made its plans
DUE = 10_000
POLLED = 2_000  # of them, in a round
SETTLED = 1_000_000
DELAY_S = 0.02
_KEYS = ("poll_overhead", "claim_ratio", "claim_ms", "poller_rss_mb")
# A queue as the books have it: what is due by an index, leased in the statement that takes it.
_BARE_QUEUE = """
create table bench_queue (
    id uuid primary key, seller_id uuid not null, task_id text, webhook_token text, account_id uuid,
    due_at timestamptz, leased_until timestamptz);
insert into bench_queue select id, seller_id, task_id, webhook_token, account_id,
    case when settled_at is null then now() end from tasks_app_operation;
create index on bench_queue (due_at) where due_at is not null;
grant select, update on bench_queue to flightdeck_app;
"""
_BARE_CLAIM = """
with due as (
    select id from bench_queue where due_at <= now() and (leased_until is null or leased_until < now())
     order by due_at limit %s for update skip locked)
update bench_queue q set leased_until = now() + interval '5 minutes' from due where q.id = due.id
returning q.id, q.seller_id, q.task_id, q.webhook_token, q.account_id
"""
_BARE_END = "update bench_queue set due_at = %s, leased_until = null where id = any(%s)"
_BARE_AGAIN = "update bench_queue set due_at = now() where due_at is not null"
# What tells a settled operation, there to be in the way, from the first due one; `n` is its number.
_SETTLED_COLUMNS = {
    "id": "lpad(to_hex(n), 32, '0')::uuid",
    "reference": "'S-' || n",
    "purpose": "'settled:' || n",
    "idempotency_key": "'settled-' || n",
    "task_id": "'settled-' || n",
    "status": "'completed'",
    "settled_at": "now()",
    "published_at": "now()",
    "next_poll_at": "null",
}
Figures = dict[str, list[float]]


def polls(*, due: int = DUE, settled: int = SETTLED, rounds: int = ROUNDS) -> dict[str, float]:
    """Run the bench; answers the medians of poll_overhead, claim_ratio, claim_ms and poller_rss_mb, and our
    polls per second beside them."""
    figures: Figures = {}
    polled = min(due, POLLED)
    with _kept(due, settled) as on, ExitStack() as closing:
        ports = [str(closing.enter_context(_seller())) for _ in range(SELLERS)]
        _point(on, ports)
        for number in range(rounds):
            _round(number, on.env, ports, polled, figures)
    for name, values in figures.items():
        print(f"{name:<16}{min(values):>12,.2f}{statistics.median(values):>12,.2f}{max(values):>12,.2f}")
    medians = {key: round(statistics.median(figures[key]), 2) for key in _KEYS}
    return {**medians, "polls_per_s": round(polled / statistics.median(figures["ours_s"]))}


def _kept(due: int, settled: int) -> AbstractContextManager[server.Server]:
    def fill(on: server.Server) -> None:
        print(f"== making {due:,} due and {settled:,} settled operations", flush=True)
        _child(on.env, "fill", "--due", str(due))
        _settle(on.running, settled)

    env = {"FLIGHTDECK_SWEEP_BATCH": str(IN_FLIGHT)}
    whole = (due, settled) == (DUE, SETTLED)
    name = "polls" if whole else "polls-some"
    return server.kept(name, fill=fill, fillers=[Path(__file__)], size=(due, settled), env=env)


def _point(on: server.Server, ports: list[str]) -> None:
    """The kept sellers answer where this run's do."""
    with on.running.connect_admin(postgres.DATABASE) as admin:
        admin.execute("set session_replication_role = replica")
        for number, port in enumerate(ports):
            url = f"http://127.0.0.1:{port}/mcp"
            admin.execute("update tasks_app_seller set url = %s where slug = %s", [url, f"bench-{number}"])


def _settle(running: postgres.RunningPostgres, count: int) -> None:
    """Settled operations in the way, and one vacuum, as autovacuum would have made it long ago."""
    name = urlsplit(running.urls.app).path.lstrip("/")
    with running.connect_admin(name) as admin:
        found = admin.execute(
            "select attname from pg_attribute where attrelid = 'tasks_app_operation'::regclass"
            " and attnum > 0 and not attisdropped"
        )
        columns = [str(row[0]) for row in found]
        values = ", ".join(_SETTLED_COLUMNS.get(column, f"o.{column}") for column in columns)
        # Rows alone, without their trail: nobody looks at them.
        admin.execute("set session_replication_role = replica")
        statement = (
            f"insert into tasks_app_operation ({', '.join(columns)}) select {values}"  # noqa: S608 - our names
            f" from tasks_app_operation o, generate_series(1, {int(count)}) n where o.reference = 'B-0'"
        )
        admin.execute(statement.encode())
        admin.execute(_BARE_QUEUE.encode())
        admin.execute("vacuum analyze")


def _round(number: int, env: dict[str, str], ports: list[str], due: int, figures: Figures) -> None:
    """`due` of those that wait are polled."""
    orders = [["poll", "--due", str(due)], ["bare", *ports, "--due", str(due)]]
    for order in orders if number % 2 == 0 else reversed(orders):
        told = _child(env, *order)
        for key, value in told.items():
            figures.setdefault(key, []).append(value)
        seconds = told.get("ours_s") or told["bare_s"]
        print(f"   round {number + 1}: {order[0]:<6}{due / seconds:>8,.0f} polls/s", flush=True)
    figures.setdefault("poll_overhead", []).append(figures["ours_s"][-1] / figures["bare_s"][-1])


@contextmanager
def _seller() -> Iterator[int]:
    command = [sys.executable, "-m", "bench.polled_seller", "--delay", str(DELAY_S)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=BASE_DIR, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - a pipe, as it was started
        yield int(process.stdout.readline())
        assert process.stdin is not None  # noqa: S101
        process.stdin.close()


def _child(env: dict[str, str], *arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.operations_polls", *arguments]
    done = subprocess.run(command, cwd=BASE_DIR, env=env, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def _setup() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()


def fill(due: int) -> dict[str, float]:
    """Operations that their sellers have as submitted, shared out among the sellers."""
    _setup()
    from tasks_app import clock, ids
    from tasks_app.lifecycle.transitions import create_many, transition_many
    from tasks_app.operations.models import Operation
    from tasks_app.people.models import Team

    team = Team.objects.create(name="Bench")
    slots = -(-IN_FLIGHT // SELLERS)
    sellers = [
        seller_made(
            name=f"Bench {number}",
            slug=f"bench-{number}",
            adcp_version="3.2",
            idempotency_ttl_s=86_400,
            tools=["create_media_buy", "get_task_status"],
            slots=slots,
            timing={"submitted_s": 3600},  # what was polled is not due again before the end
        )
        for number in range(SELLERS)
    ]
    rows = [
        Operation(
            id=ids.new_id(),
            reference=f"B-{number}",
            purpose=f"bench:{number}",
            task_type="create_media_buy",
            seller=sellers[number % len(sellers)],
            team=team,
            requested_by="system",
            request_text=json.dumps({"packages": ["x" * 500]}),
            request={"packages": ["x" * 500]},
            idempotency_key=f"bench-{number}",
            task_id=f"task-{number}",
        )
        for number in range(due)
    ]
    create_many(rows, actor="system", reason="A bench")
    transition_many(Operation.objects.all(), "calling_adcp", actor="system", changes={"sent_at": clock.now()})
    transition_many(Operation.objects.all(), "submitted", actor="system")
    return {}


def poll(due: int) -> dict[str, float]:
    """Poll so many, as `manage.py sweep` does, then make everything due and time some claims."""
    _setup()
    from django.db import connection, transaction

    from tasks_app import clock
    from tasks_app.lifecycle.prepared import prepared_rows
    from tasks_app.operations.dispatch import claim_polls
    from tasks_app.operations.lease import CallLease
    from tasks_app.operations.leases import leases_release
    from tasks_app.operations.models import Operation
    from tasks_app.operations.sweep import sweep_once

    later = clock.now() + timedelta(hours=1)

    def ours() -> Callable[[], object]:
        """A claim as the sweep asks for it; answers what ends it."""
        calls = claim_polls(limit=IN_FLIGHT, batch=IN_FLIGHT)
        assert len(calls) == IN_FLIGHT  # noqa: S101 - else nothing was measured

        def end() -> None:
            leases_release([call.lease for call in calls])
            Operation.objects.filter(pk__in=[call.operation_id for call in calls]).update(next_poll_at=later)

        return end

    def bare() -> Callable[[], object]:
        raw = connection.connection
        with transaction.atomic():
            rows = prepared_rows(_BARE_CLAIM, [IN_FLIGHT])  # as ours are
        assert len(rows) == IN_FLIGHT  # noqa: S101
        return lambda: raw.execute(_BARE_END, [later, [row[0] for row in rows]])

    def claims() -> list[list[float]]:
        """Milliseconds of our claims and of bare ones."""
        took: list[list[float]] = [[], []]
        with connection.cursor() as cursor:
            cursor.execute("set synchronous_commit = off")
            for number in range(2 * (WARM + CLAIMS)):
                began = time.perf_counter()
                end = (ours, bare)[number % 2]()
                took[number % 2].append(1000 * (time.perf_counter() - began))
                end()
            cursor.execute(_BARE_AGAIN)
            cursor.execute("reset synchronous_commit")
        return [times[WARM:] for times in took]

    pending = Operation.objects.filter(status="submitted")
    CallLease.objects.all().delete()
    wanted = list(pending.order_by("pk").values_list("pk", flat=True)[:due])
    pending.exclude(pk__in=wanted).update(next_poll_at=later)
    pending.filter(pk__in=wanted).update(next_poll_at=clock.now())
    began = time.perf_counter()
    swept = asyncio.run(sweep_once())
    seconds = time.perf_counter() - began
    if swept.polled != due or pending.filter(next_poll_at__lte=clock.now()).exists():
        raise SystemExit(f"not everything was polled: {swept}")
    rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pending.update(next_poll_at=clock.now())
    claim_ms, bare_ms = map(statistics.median, claims())
    claims_told = {"claim_ratio": claim_ms / bare_ms, "claim_ms": claim_ms, "bare_claim_ms": bare_ms}
    return {"ours_s": seconds, **claims_told, "poller_rss_mb": rss_mb}


def bare(ports: list[str], due: int) -> dict[str, float]:
    """The same calls by the library alone: what was asked for is held in memory, what comes is looked at."""
    return asyncio.run(_bare(ports, due))


async def _bare(ports: list[str], due: int) -> dict[str, float]:
    import httpx2
    from mcp.client.session import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    class Plain(ClientSession):
        """Without a look at the tool's output schema, which would be one more call each time."""

        async def validate_tool_result(self, name: str, result: Any) -> None:
            return None

    room = asyncio.Semaphore(IN_FLIGHT)
    limits = httpx2.Limits(max_connections=2 * IN_FLIGHT, max_keepalive_connections=2 * IN_FLIGHT)

    async def one(http: Any, number: int) -> None:
        url = f"http://127.0.0.1:{ports[number % len(ports)]}/mcp"
        async with room, streamable_http_client(url, http_client=http) as streams, Plain(*streams) as session:
            await session.initialize()
            asked = {"task_id": f"task-{number}", "include_result": True}
            result = await session.call_tool("get_task_status", asked)
            if (result.structured_content or {})["status"] != "submitted":
                raise SystemExit(f"not what the seller says: {result}")

    began = time.perf_counter()
    async with httpx2.AsyncClient(limits=limits, timeout=60) as http:
        await asyncio.gather(*(one(http, number) for number in range(due)))
    return {"bare_s": time.perf_counter() - began}


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("part", nargs="?", choices=("fill", "poll", "bare"), help="of itself, in a process")
    parser.add_argument("ports", nargs="*")
    parser.add_argument("--due", type=int, default=DUE)
    parser.add_argument("--settled", type=int, default=SETTLED)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    told: dict[str, float]
    if asked.part == "fill":
        told = fill(asked.due)
    elif asked.part == "poll":
        told = poll(asked.due)
    elif asked.part == "bare":
        told = bare(asked.ports, asked.due)
    else:
        told = polls(due=asked.due, settled=asked.settled, rounds=asked.rounds)
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
