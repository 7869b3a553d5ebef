"""Server-sent events of jobs as they are served: uvicorn, every middleware, real connections."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from config.processes import ProcessGroup
from demo.ports import free_port
from tasks_app.jobs import events, planning
from tasks_app.jobs.endings import job_cancel
from tasks_app.jobs.models import Job, WorkflowEvent
from tasks_app.people.models import User
from tasks_app.people.security_models import ApiToken, LoginSession
from tests.database import Database
from tests.factories import make_deal, make_team, make_user
from tests.support import PATIENCE_S, joined, until

PER_USER = 20


class Site:
    """The web process of a test."""

    def __init__(self, port: int, pid: int) -> None:
        self.url, self.pid = f"http://127.0.0.1:{port}", pid

    def is_up(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health/", trust_env=False, timeout=PATIENCE_S).status_code == 200
        except httpx.HTTPError:
            return False


class Stream:
    """A client that reads a stream in a thread, as EventSource would; `lines` are what came."""

    def __init__(self, url: str, **headers: str) -> None:
        self.lines: list[str] = []
        self.status = 0
        self.headers = httpx.Headers()
        self.ended = False
        self._open = threading.Event()
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(url, headers), daemon=True)
        self._thread.start()
        assert self._open.wait(PATIENCE_S)

    def _read(self, url: str, headers: dict[str, str]) -> None:
        with suppress(httpx.RemoteProtocolError):  # the site was stopped, at the end of a test
            self._follow(url, headers)

    def _follow(self, url: str, headers: dict[str, str]) -> None:
        client = httpx.Client(trust_env=False, timeout=PATIENCE_S)
        accepts = {"Accept": "text/event-stream", "Accept-Encoding": "gzip"}
        with client, client.stream("GET", url, headers={**accepts, **headers}) as answer:
            self.status, self.headers = answer.status_code, answer.headers
            self._open.set()
            for line in answer.iter_lines():
                self.lines.append(line)
                if self._leave.is_set():
                    return
            self.ended = True

    def close(self) -> None:
        self._leave.set()
        joined(self._thread)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line[6:]) for line in self.lines if line.startswith('data: {"id"')]

    @property
    def ids(self) -> list[int]:
        return [event["id"] for event in self.events]


@pytest.fixture
def site(committed_db: Database, processes: ProcessGroup) -> Site:
    port = free_port()
    fast = {
        "FLIGHTDECK_STREAM_TICK_S": "0.05",
        "FLIGHTDECK_STREAM_HEARTBEAT_S": "0.3",
        "FLIGHTDECK_STREAMS_PER_USER": str(PER_USER),
    }
    command = [sys.executable, "-m", "config.web", "--port", str(port)]
    pid = processes.start("web", command, env={**os.environ, **fast})
    made = Site(port, pid)
    until(made.is_up, "the site answers")
    return made


def started() -> Job:
    deal = make_deal()
    inputs = {"deal_id": str(deal.pk)}
    return planning.job_start(recipe="book_deal", inputs=inputs, team=deal.team, actor="system")


def token(user: User) -> dict[str, str]:
    return {"Authorization": f"Token {ApiToken.objects.create(user=user)[1]}"}


def tell(job: Job, *kinds: str) -> None:
    for kind in kinds:
        events.record(job, kind, occurrence=f":{kind}")


def known(job: Job) -> list[int]:
    return list(WorkflowEvent.objects.filter(job=job).order_by("id").values_list("pk", flat=True))


def path(site: Site, job: Job) -> str:
    return f"{site.url}/api/v1/jobs/{job.reference}/events/"


def test_what_was_and_what_comes_until_the_job_is_over(site: Site) -> None:
    auditor, job = token(make_user("Auditor")), started()
    stream = Stream(path(site, job), **auditor)
    assert (stream.status, stream.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    assert "default-src" in stream.headers["Content-Security-Policy"]
    assert "X-Flightdeck-Stream" not in stream.headers
    assert "Content-Encoding" not in stream.headers
    until(lambda: stream.ids == known(job), "what was")
    tell(job, "one", "two")
    until(lambda: stream.ids == known(job), "what comes")
    until(lambda: stream.lines.count(":") + stream.lines.count(": ") > 1, "two heartbeats")
    assert stream.lines[0] == "retry: 2000"

    stream.close()
    last = stream.ids[-1]
    tell(job, "three")  # while nobody watches
    again = Stream(path(site, job), **auditor, **{"Last-Event-ID": str(last)})
    tell(job, "four")
    until(lambda: stream.ids + again.ids == known(job), "nothing missed, nothing twice")

    job_cancel(job_id=job.pk, actor=make_user("Ad Ops"), reason="over")
    until(lambda: again.ended, "the stream ends with its job")
    assert [line for line in again.lines if line][-2:] == ["event: end", "data: {}"]
    assert again.events[-1]["type"] == "job.cancelled"
    assert stream.ids + again.ids == known(job)
    late = Stream(path(site, job), **auditor, **{"Last-Event-ID": str(again.ids[-1])})
    until(lambda: late.ended)
    assert (late.ids, late.lines[2:4]) == ([], ["event: end", "data: {}"])


def test_a_long_history_comes_whole_and_in_order(site: Site) -> None:
    auditor, job = token(make_user("Auditor")), started()
    tell(job, *(f"e{n}" for n in range(1200)))
    stream = Stream(path(site, job), **auditor)
    until(lambda: stream.ids == known(job), "all of it")
    behind = Stream(path(site, job), **auditor, **{"Last-Event-ID": str(stream.ids[99])})
    tell(job, "to both")  # read once for both, from where the slower one is
    until(lambda: stream.ids == known(job), "the one that was ahead gets nothing twice")
    until(lambda: behind.ids == known(job)[100:], "the one behind gets all")
    assert stream.ids == known(job)
    job_cancel(job_id=job.pk, actor="system", reason="over")
    whole = Stream(path(site, job), **auditor)
    until(lambda: whole.ended)
    assert whole.ids == known(job)


def test_sessions_watch_too_and_strangers_do_not(site: Site) -> None:
    job = started()
    browser = Client()
    browser.force_login(make_user("Auditor"), backend="tasks_app.people.holders.RoleBackend")
    cookie = f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"
    stream = Stream(path(site, job), Cookie=cookie)
    until(lambda: stream.ids == known(job))
    refused = {
        401: {},
        404: token(make_user("Administrator", team=make_team("Another"))),
        400: {**token(make_user("Auditor")), "Last-Event-ID": "none of ours"},
    }
    for status, headers in refused.items():
        answer = Stream(path(site, job), **headers)
        assert (answer.status, answer.headers["Content-Type"]) == (status, "application/problem+json")


@pytest.mark.parametrize(
    "way",
    ["deactivated", "token revoked", "signed out", "page: deactivated", "left the team", "page: no role"],
)
def test_a_login_that_ends_closes_its_streams(site: Site, way: str) -> None:
    """How soon, tests/api/test_streams_end.py tells by a clock of its own."""
    job, user = started(), make_user("Auditor")
    User.objects.filter(pk=user.pk).update(is_staff=True)
    headers, address = token(user), path(site, job)
    if way == "signed out" or way.startswith("page"):
        browser = Client()
        browser.force_login(user, backend="tasks_app.people.holders.RoleBackend")
        name = settings.SESSION_COOKIE_NAME
        headers = {"Cookie": f"{name}={browser.cookies[name].value}"}
    if way.startswith("page"):
        address = site.url + reverse("admin:deal_changes", args=[job.inputs["deal_id"]])
    stream, other = Stream(address, **headers), Stream(path(site, job), **token(make_user("Auditor")))
    until(lambda: other.ids == known(job))
    assert (stream.status, stream.ended) == (200, False)
    if way.endswith("deactivated"):
        User.objects.filter(pk=user.pk).update(is_active=False)
    elif way == "left the team":
        user.teams.clear()
    elif way == "page: no role":
        user.groups.clear()
    elif way == "signed out":
        LoginSession.objects.filter(user=user).delete()
    else:
        ApiToken.objects.filter(user=user).delete()
    until(lambda: stream.ended, "the stream ends with the login", patience=120)
    tell(job, "later")
    until(lambda: other.ids == known(job), "others watch on")
    assert known(job)[-1] not in stream.ids


def test_watchers_hold_neither_threads_nor_connections_and_are_not_endless(
    site: Site, committed_db: Database
) -> None:
    auditor, job = make_user("Auditor"), started()
    headers = token(auditor)
    web = psutil.Process(site.pid)

    def connections() -> int:
        with psycopg.connect(committed_db.urls.app) as admin:
            # The test's own connections, and this one, are not the site's.
            row = admin.execute(
                "select count(*) from pg_stat_activity where datname = current_database() and pid <> all(%s)",
                [[*mine, admin.info.backend_pid]],
            ).fetchone()
        assert row is not None
        return int(row[0])

    mine = _backends()
    first = Stream(path(site, job), **headers)
    until(lambda: first.ids == known(job))
    threads = web.num_threads()
    many = [first, *(Stream(path(site, job), **headers) for _ in range(PER_USER - 1))]
    tell(job, "to all")
    until(lambda: all(one.ids == known(job) for one in many), "all were told")
    until(lambda: web.num_threads() - threads <= 2, "none is theirs")
    # The pool keeps what it grew to while they came, as many as happened to ask in one moment.
    assert connections() < PER_USER / 2
    refused = Stream(path(site, job), **headers)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "30")
    until(lambda: refused.ended)
    assert refused.lines == [
        '{"type": "about:blank", "status": 429, "title": "Too many streams are open: close one."}'
    ]
    other = Stream(path(site, job), **token(make_user("Auditor")))
    assert other.status == 200, "the cap is a person's own"
    first.close()
    until(lambda: Stream(path(site, job), **headers).status == 200, "one was closed")


def _backends() -> list[int]:
    from django.db import connection

    connection.ensure_connection()
    return [connection.connection.info.backend_pid]
