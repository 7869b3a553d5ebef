"""/api/v1/jobs/: lists narrowed down, and jobs steered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from tasks_app import clock
from tasks_app.jobs import engine, planning
from tasks_app.jobs.finding import jobs_wanted, wanted_parse
from tasks_app.jobs.models import Job, Step
from tasks_app.sellers.models import Account, Seller
from tests.api.conftest import Open
from tests.factories import make_deal, make_team, make_user
from tests.jobs.claiming import claim_step
from tests.operations.making import ask

pytestmark = pytest.mark.django_db
ROOM = "/api/v1/jobs/"


def start(**fields: Any) -> Job:
    return planning.job_start(
        **{"recipe": "book_deal", "inputs": {}, "team": make_team(), "actor": "system", **fields}
    )


def sleeps(job: Job, waiting_for: dict[str, Any], **fields: Any) -> Job:
    """The job's first step was taken, and sleeps."""
    step = claim_step()
    assert step is not None
    assert step.job_id == job.pk
    status = "awaiting_user_confirmation" if waiting_for["type"] == "approvals" else "awaiting_tool"
    assert engine.mark_waiting(step=step, status=status, waiting_for=waiting_for, reason="A test", **fields)
    return job


def listed(api: APIClient, **asked: Any) -> set[str]:
    answer = api.get(ROOM, asked)
    assert answer.status_code == 200, answer.json()
    return {job["reference"] for job in answer.json()["results"]}


@pytest.fixture
def many() -> dict[str, Job]:
    """A job of each kind, by what it waits for."""
    tomorrow = timedelta(days=1)
    found = {
        "operation": sleeps(start(), {"type": "operation", "id": str(ask("get_products").pk)}),
        "time": sleeps(start(), {"type": "time", "until": "2030-01-01T00:00:00Z"}, ready_in=tomorrow),
        "back_off": sleeps(
            start(), {"type": "backoff", "error": "busy", "failures": 1}, ready_in=tomorrow, failures=1
        ),
        "event": sleeps(start(), {"type": "event", "name": "creative.approved"}),
    }
    deal = make_deal(seller=Seller.objects.get())
    failed = start(inputs={"deal_id": str(deal.pk)})
    step = claim_step()
    assert step is not None
    engine.mark_failed(step=step, error="gone")
    return {**found, "failed": failed, "queued": start(recipe="book_deal", subject_type="deal")}


def test_lists_are_narrowed_by_what_is_awaited_and_what_fails(opened: Open, many: dict[str, Job]) -> None:
    api = opened("Auditor")
    for kind in ("operation", "time", "back_off", "event"):
        assert listed(api, waiting_for=kind) == {many[kind].reference}
    assert listed(api, waiting_for="approvals") == set()
    assert listed(api, failing="true") == {many["failed"].reference}
    assert listed(api, retrying="true") == {many["back_off"].reference}
    assert many["back_off"].reference not in listed(api, retrying="false")
    assert listed(api, subject_type="deal") == {many["queued"].reference}
    assert api.get(ROOM, {"waiting_for": "godot"}).status_code == 400


def test_lists_are_narrowed_as_the_pages_narrow_them(opened: Open, many: dict[str, Job]) -> None:
    """A wait that is over is none, and what has ended well has no trouble, though a step of it had."""
    api, viewer = opened("Auditor"), make_user("Auditor")
    asleep = Step.objects.filter(job=many["time"], waiting_for__isnull=False)
    asleep.update(ready_at=clock.now() - timedelta(seconds=1))
    deal = make_deal(seller=Seller.objects.get(), account=Account.objects.get())
    fine = start(priority=1, inputs={"deal_id": str(deal.pk)})
    Job.objects.filter(pk=fine.pk).update(plan={**fine.plan, "outputs": {}})
    first = claim_step()
    assert first is not None
    Step.objects.filter(pk=first.pk).update(spec={**first.spec, "optional": True})
    engine.mark_failed(step=first, error="not today")
    last = claim_step()
    assert last is not None
    engine.mark_complete(step=last, outputs={})
    for of_api, of_pages in (
        *(({"waiting_for": kind}, {"waits": kind}) for kind in ("operation", "time", "back_off", "event")),
        ({"failing": "true"}, {"trouble": "failing"}),
        ({"retrying": "true"}, {"trouble": "retrying"}),
        ({"older_than_h": "1"}, {"older": "1h"}),
    ):
        shown = {job.reference for job in jobs_wanted(viewer, wanted_parse(of_pages))}
        assert listed(api, **of_api) == shown, of_api
    fine.refresh_from_db()
    assert (fine.status, listed(api, waiting_for="time")) == ("COMPLETED", set())
    assert fine.reference in listed(api, failing="false")


def test_lists_are_narrowed_by_age(opened: Open) -> None:
    api, young, old = opened("Auditor"), start(), start()
    Job.objects.filter(pk=old.pk).update(created_at=clock.now() - timedelta(hours=30))
    assert listed(api, older_than_h="24") == {old.reference}
    assert listed(api, older_than_h="0") == {old.reference, young.reference}
    for bad in ("-1", "x", "1e9", "nan"):
        assert api.get(ROOM, {"older_than_h": bad}).status_code == 400


def test_rows_tell_how_a_job_stands_for_one_query_a_page(
    opened: Open, many: dict[str, Job], django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    api = opened("Auditor")
    with django_assert_max_num_queries(7):
        rows = api.get(ROOM).json()["results"]
    told = {row["reference"]: row["workflow_status"] for row in rows}
    assert told == {
        **{many[kind].reference: "WAITING_SINGLE" for kind in ("operation", "time", "back_off", "event")},
        many["failed"].reference: None,
        many["queued"].reference: "RUNNING",
    }


def test_the_graph_tells_tries_times_waits_and_the_critical_path(opened: Open, many: dict[str, Job]) -> None:
    graph = opened("Auditor").get(f"{ROOM}{many['back_off'].pk}/graph/").json()
    again, then = graph["nodes"]
    assert (again["status"], again["attempt"], again["max_attempts"]) == ("awaiting_tool", 2, 3)
    assert (again["failures"], again["max_failures"], again["last_error"]) == (1, 3, "busy")
    assert again["started_at"] is not None
    assert (again["ended_at"], again["duration_s"]) == (None, None)
    wait = again["waiting_for"]
    assert (wait["type"], wait["until"], wait["come"]) == ("back_off", again["next_retry"], False)
    assert wait["words"].endswith("after: busy")
    assert (then["status"], then["attempt"], then["waiting_for"]) == ("received", 0, None)
    assert graph["critical_path"]["steps"] == [again["id"], then["id"]]
    assert again["critical"] is then["critical"] is True
    assert 0 < graph["critical_path"]["expected_s"] <= timedelta(days=1).total_seconds()
    assert (graph["workflow_status"], graph["counts"]) == (
        "WAITING_SINGLE",
        {"awaiting_tool": 1, "received": 1},
    )
    held = opened("Auditor").get(f"{ROOM}{many['operation'].pk}/graph/").json()
    assert [one["step"] for one in held["pending_operations"]] == ["buy"]
    ended = opened("Auditor").get(f"{ROOM}{many['failed'].pk}/graph/").json()
    assert (ended["workflow_status"], ended["nodes"][0]["last_error"]) == (None, "gone")
    assert ended["nodes"][0]["duration_s"] >= 0


def test_pages_follow_each_other(opened: Open) -> None:
    api = opened("Auditor")
    jobs = [start() for _ in range(5)]
    seen, page = [], api.get(ROOM, {"page_size": 2}).json()
    while True:
        seen += [row["reference"] for row in page["results"]]
        if page["next"] is None:
            break
        page = api.get(page["next"]).json()
    assert seen == [job.reference for job in reversed(jobs)]


def test_the_items_of_a_folded_fan_out_come_in_pages(opened: Open) -> None:
    api, job = opened("Auditor"), start()
    whole = claim_step()
    assert whole is not None
    engine.expand(step=whole, items=list(range(60)))
    graph = api.get(f"{ROOM}{job.pk}/graph/").json()
    assert [node["items"] and node["items"]["folded"] for node in graph["nodes"]] == [True, None]
    page = api.get(f"{ROOM}{job.pk}/steps/", {"fan_out": str(whole.pk), "page_size": 50}).json()
    rest = api.get(page["next"]).json()
    assert len(page["results"] + rest["results"]) == 60
    assert {node["status"] for node in page["results"]} == {"queued"}
    assert api.get(f"{ROOM}{job.pk}/steps/", {"status": "completed"}).json()["results"] == []
    assert api.get(f"{ROOM}{job.pk}/steps/", {"status": "odd"}).status_code == 400


def test_pollers_are_told_when_nothing_has_changed(opened: Open) -> None:
    api, job = opened("Auditor"), start()
    path = f"{ROOM}{job.pk}/graph/"
    tag = api.get(path).headers["ETag"]
    for known in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
        assert api.get(path, headers={"If-None-Match": known}).status_code == 304
    assert api.get(path, {"values": "0"}, headers={"If-None-Match": tag}).status_code == 200
    assert claim_step() is not None
    changed = api.get(path, headers={"If-None-Match": tag})
    assert (changed.status_code, changed.json()["workflow_status"]) == (200, "RUNNING")
    assert changed.headers["ETag"] != tag


def test_a_step_is_skipped(opened: Open) -> None:
    api, job = opened("Ad Ops"), start(inputs={"deal_id": str(make_deal().pk)})
    path = f"{ROOM}{job.pk}/skip/"
    early = api.post(path, {"step": "read_back", "reason": "x"}, format="json")
    assert (early.status_code, early.json()["code"]) == (409, "refused")
    assert "not its turn" in early.json()["title"]
    assert api.post(path, {"step": "nothing", "reason": "x"}, format="json").status_code == 400
    assert api.post(path, {"step": "buy"}, format="json").status_code == 400
    told = api.post(path, {"step": "buy", "reason": "bought by phone"}, format="json")
    assert (told.status_code, told.json()["status"]) == (200, "COMPLETED"), "there is nothing to read back"
    step = Step.objects.get(job=job, key="buy")
    assert (step.status, step.skipped) == ("completed", True)
    assert api.post(path, {"step": str(step.pk), "reason": "again"}, format="json").status_code == 409


def test_a_step_that_waits_for_nothing_from_outside_is_given_nothing(opened: Open) -> None:
    api, job = opened("Ad Ops"), start()
    path = f"{ROOM}{job.pk}/input/"
    told = api.post(path, {"step": "buy", "payload": {"a": 1}, "reason": "x"}, format="json")
    assert (told.status_code, told.json()["title"]) == (409, "It waits for nothing that can be given.")
    assert api.post(path, {"step": "buy", "payload": [1], "reason": "x"}, format="json").status_code == 400


def test_a_turn_is_changed(opened: Open) -> None:
    api, job = opened("Ad Ops"), start(inputs={"deal_id": str(make_deal().pk)})
    path = f"{ROOM}{job.pk}/priority/"
    for bad in ({"priority": -1, "reason": "x"}, {"priority": 40_000, "reason": "x"}, {"priority": 1}):
        assert api.post(path, bad, format="json").status_code == 400
    told = api.post(path, {"priority": 3, "reason": "the client waits"}, format="json")
    assert (told.status_code, told.json()["priority"]) == (200, 3)
    api.post(f"{ROOM}{job.pk}/cancel/", {"reason": "x"}, format="json")
    assert api.post(path, {"priority": 1, "reason": "x"}, format="json").status_code == 409


def test_a_job_is_resumed_once_by_its_token(opened: Open) -> None:
    api, asked = opened("Ad Ops"), ask("get_products")
    job = sleeps(start(), {"type": "operation", "id": str(asked.pk)})
    type(asked).objects.filter(pk=asked.pk).update(published_at=clock.now())
    token = api.get(f"{ROOM}{job.pk}/graph/").json()["resume_token"]
    path = f"{ROOM}{job.pk}/resume/"
    told = api.post(path, {"resume_token": token}, format="json").json()
    assert told["woken"] == 1
    assert api.post(path, {"resume_token": token}, format="json").json() == {**told, "woken": 0}
    assert told["resume_token"] != token


@pytest.mark.parametrize(
    ("act", "body"),
    [
        ("skip", {"step": "buy", "reason": "x"}),
        ("input", {"step": "buy", "payload": {}, "reason": "x"}),
        ("priority", {"priority": 1, "reason": "x"}),
        ("resume", {"resume_token": "x"}),
    ],
)
def test_steering_takes_the_right_and_the_team(opened: Open, act: str, body: dict[str, Any]) -> None:
    job = start()
    path = f"{ROOM}{job.pk}/{act}/"
    assert opened("Buyer").post(path, body, format="json").status_code == 403
    other = opened("Ad Ops", team=make_team("Another"))
    assert other.post(path, body, format="json").status_code == 404
    job.refresh_from_db()
    assert (job.priority, Step.objects.get(job=job, key="buy").status) == (100, "queued")
