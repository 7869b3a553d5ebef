"""The cost of a booked deal, from brief to booked: `make bench-bookings`.

Briefs of three deals are submitted through the REST API to web, workers, sweep and relay as they are
delivered. Three sellers answer at once, and an approver decides on each deal through the API. Two stages
are measured: research, from the briefs to the open approvals, and booking, from the decisions to the
completed campaigns. BRIEFS is how many (100).

BEFORE names a commit: its checkout runs first, in a virtual environment of its own, with the same briefs
and sellers, and the ratios are ours to its. Everything is read from outside: the processor time of the
product's processes and of PostgreSQL's, and PostgreSQL's counters. Statements are counted with a few more
briefs at the end, because PostgreSQL has to log them for that.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg
import requests

from bench import figures, seller, server
from config.supervisor import BASE_DIR
from demo.ports import free_port

_CHANNELS = ("display", "olv", "ctv")
_WARM, _LOGGED = 2, 5  # briefs before the measurement, and after it with statements logged
_PATIENCE_S = 600.0
_FLUSHED_S = 1.5  # until when PostgreSQL's processes have reported what they counted
# People, sellers and accounts, made by the services of the checkout that is measured.
_SETUP = """
import json, sys, django
django.setup()
from pathlib import Path
from demo import stage
from tasks_app.people.models import Advertiser, Team
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.services import seller_add
stage.people_prepare(Path(sys.argv[1]))
team = Team.objects.get(name=stage.TEAM)
advertiser = Advertiser.objects.create(team=team, name="Bench", brand_domain="bench.example")
for name, url in json.loads(sys.argv[2]).items():
    seller, _ = seller_add(name=name, url=url, protocol="mcp", token="bench", webhooks="none", jwks_url="",
                           allow_private=True, slots=16)
    answer = {"account_id": f"acc-{name}", "status": "active"}
    account_record(advertiser=advertiser, seller=seller, answer=answer)
print(json.dumps({role: stage.PEOPLE[role][0] for role in ("Buyer", "Approver")}))
"""
_COUNTERS = """
select xact_commit, tup_inserted + tup_updated, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') / 1024
  from pg_stat_database where datname = current_database()
"""
# From the recorded answer of the seller to the entry in the deal's trail, in milliseconds.
_ANSWER_TO_BOOKED = """
select extract(epoch from e.at - o.at) * 1000
  from tasks_app_operation p
  join tasks_app_observation o on o.operation_id = p.id and o.status = 'completed' and o.outcome = 'applied'
  join tasks_app_auditentry e
    on e.entity_type = 'deal' and e.entity_id = p.subject_id and e.to_status = 'booked'
 where p.task_type = 'create_media_buy'
 order by e.at
"""


@dataclass(frozen=True)
class Counters:
    """What was used until one moment: milliseconds of processor time, commits, rows, kilobytes of WAL."""

    product_ms: float
    database_ms: float
    commits: float
    rows: float
    wal_kb: float

    def since(self, before: Counters, deals: int) -> dict[str, float]:
        """Return what each of so many deals used since `before`."""
        return {
            one.name: (getattr(self, one.name) - getattr(before, one.name)) / deals for one in fields(self)
        }


class Run:
    """A running product, and the people who work with it through its API."""

    def __init__(
        self, on: server.Server, url: str, tokens: Mapping[str, str], pids: Mapping[str, int]
    ) -> None:
        self._on, self._url, self._pids, self._briefs = on, url, pids, 0
        self._people = {role: requests.Session() for role in tokens}
        for role, token in tokens.items():
            self._people[role].headers["Authorization"] = f"Token {token}"
        self._database = psycopg.connect(on.running.urls.owner, autocommit=True)

    def book(self, briefs: int) -> list[Counters]:
        """Book so many briefs; return the counters before, between and after the two stages."""
        counters = [self._counters()]
        for _ in range(briefs):
            self._briefs += 1
            self._post("Buyer", "/campaigns/", _brief(self._briefs))
        self._until("select count(*) from tasks_app_approval where status = 'open'", 3 * briefs)
        counters.append(self._counters())
        for approval, digest in self.rows(
            "select id, evidence_digest from tasks_app_approval where status = 'open'"
        ):
            said = {"verdict": "approve", "comment": "As planned.", "evidence_digest": digest}
            self._post("Approver", f"/approvals/{approval}/decide/", said)
        self._until("select count(*) from campaigns_campaign where status = 'completed'", self._briefs)
        counters.append(self._counters())
        return counters

    def statements(self, briefs: int) -> float:
        """Book so many briefs; return how many statements a booked deal took."""
        with self._on.running.connect_admin() as admin:
            admin.execute("alter system set log_statement = 'all'")
            admin.execute("select pg_reload_conf()")
            before = self._logged()
            self.book(briefs)
            return (self._logged() - before) / (3 * briefs)

    def rows(self, query: str) -> list[Any]:
        """Return what a query finds."""
        return self._database.execute(query.encode()).fetchall()

    def _post(self, role: str, path: str, body: object) -> None:
        answer = self._people[role].post(f"{self._url}/api/v1{path}", json=body, timeout=60)
        if not answer.ok:
            raise SystemExit(f"{path} answers {answer.status_code}: {answer.text[:500]}")

    def _until(self, query: str, wanted: int) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while (found := self.rows(query)[0][0]) < wanted:
            if time.monotonic() > deadline:
                raise SystemExit(f"{found} instead of {wanted}: {query}")
            time.sleep(0.1)

    def _counters(self) -> Counters:
        time.sleep(_FLUSHED_S)
        commits, rows, wal_kb = self.rows(_COUNTERS)[0]
        postmaster = int((self._on.running.data / "postmaster.pid").read_text().split()[0])
        product_ms = sum(_processor_ms(pid) for pid in self._pids.values())
        return Counters(product_ms, _processor_ms(postmaster), commits, rows, float(wal_kb))

    def _logged(self) -> int:
        """Return how many statements of clients PostgreSQL's log has."""
        logs = (self._on.running.data / "log").glob("*.log")
        return sum(
            " execute " in line or " statement: " in line
            for log in logs
            for line in log.read_text(errors="replace").splitlines()
        )


def measure(project: Path, briefs: int) -> dict[str, float]:
    """Book briefs with the product of a checkout; return the figures per booked deal."""
    port = free_port()
    public = {"FLIGHTDECK_PUBLIC_URL": f"http://127.0.0.1:{port}", "FLIGHTDECK_HOSTS": "127.0.0.1"}
    with server.opened("bench", project=project, **public) as on, ExitStack() as closing:
        urls = {channel: closing.enter_context(seller.running(channel)) for channel in _CHANNELS}
        logins = str(server.VAR / "bench" / "logins.json")
        users = json.loads(on.run("-c", _SETUP, logins, json.dumps(urls), cwd=project))
        tokens = {
            role: json.loads(on.run("manage.py", "api_token", name, "--json", cwd=project))["token"]
            for role, name in users.items()
        }
        pids = closing.enter_context(server.product(on, port, project=project))
        run = Run(on, f"http://127.0.0.1:{port}", tokens, pids)
        run.book(_WARM)
        answered = len(run.rows(_ANSWER_TO_BOOKED))
        began = time.monotonic()
        counters = run.book(briefs)
        seconds = time.monotonic() - began - 2 * _FLUSHED_S
        took = [float(ms) for (ms,) in run.rows(_ANSWER_TO_BOOKED)[answered:]]
        statements = run.statements(_LOGGED)
    deals = 3 * briefs
    for stage, before, after in zip(("research", "booking"), counters, counters[1:], strict=False):
        words = ", ".join(f"{name} {value:,.1f}" for name, value in after.since(before, deals).items())
        print(f"   {stage:<10}{words}", flush=True)
    each = counters[-1].since(counters[0], deals)
    cuts = statistics.quantiles(took, n=100)
    results = {
        "bookings_per_s": deals / seconds,
        "cpu_ms_per_booking": each["product_ms"] + each["database_ms"],
        "statements_per_booking": statements,
        "commits_per_booking": each["commits"],
        "wal_kb_per_booking": each["wal_kb"],
        "answer_to_booked_p50_ms": cuts[49],
        "answer_to_booked_p99_ms": cuts[98],
    }
    return {name: round(value, 2) for name, value in results.items()}


def checkout(commit: str) -> Path:
    """Return a copy of a commit's files under var/, with a virtual environment of its own."""
    name = _git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    folder = server.VAR / f"bench-before-{name[:12]}"
    if not (folder / ".venv" / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", str(folder)], input=_git("archive", name), check=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder / ".venv")], check=True)
        pip = [server.python_of(folder), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "-r", "requirements.txt"], check=True, cwd=folder)
        (folder / ".venv" / "ready").touch()
    return folder


def main() -> int:
    """Measure this checkout, and the one before it if there is one."""
    briefs = int(os.environ.get("BRIEFS") or 100)
    before = os.environ.get("BEFORE", "")
    if not before:
        print(json.dumps(measure(BASE_DIR, briefs)))
        return 0
    print(f"== {before}", flush=True)
    theirs = measure(checkout(before), briefs)
    print("== this checkout", flush=True)
    ours = measure(BASE_DIR, briefs)
    print(f"\n{'':<28}{'before':>12}{'now':>12}{'ratio':>8}")
    for name, value in ours.items():
        ratio = f"{value / theirs[name]:>8.2f}" if theirs[name] else ""
        print(f"{name:<28}{theirs[name]:>12,.2f}{value:>12,.2f}{ratio}")
    cost = round(ours["cpu_ms_per_booking"] / theirs["cpu_ms_per_booking"], 2)
    results = {**ours, "bookings_cost_ratio": cost}
    print(figures.table(results))
    print(json.dumps(results))
    return 0


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=BASE_DIR, check=True, stdout=subprocess.PIPE).stdout


def _brief(number: int) -> dict[str, Any]:
    start = datetime.now(UTC) + timedelta(days=14)
    return {
        "name": f"Bench {number}",
        "advertiser": "Bench",
        "brand_domain": "bench.example",
        "objective": {"goal": "Reach of new customers", "kpi": "reach", "target": 1_200_000},
        "budget": {"total": "600", "currency": "USD"},
        "flight": {
            "start": f"{start:%Y-%m-%d}",
            "end": f"{start + timedelta(days=27):%Y-%m-%d}",
            "zone": "UTC",
        },
        "channels": [{"channel": channel, "weight": 10} for channel in _CHANNELS],
        "audience": "Adults 25-54",
        "geography": {"countries": ["US"]},
    }


def _processor_ms(pid: int) -> float:
    """Return what a process, its living descendants and all that they have waited for have used."""
    root = psutil.Process(pid)
    used = 0.0
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used += times.user + times.system + times.children_user + times.children_system
    return 1000 * used


if __name__ == "__main__":
    sys.exit(main())
