"""What a page of a job asks for while it is open, what it says of each kind of wait, jobs of any size."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Model
from django.urls import reverse

from tasks_app import clock
from tasks_app.jobs import engine, planning
from tasks_app.jobs.models import Job, Step, StepStatus
from tasks_app.jobs.presenters import waits_now
from tasks_app.jobs.recipes import Recipe, _recipes
from tasks_app.jobs.selectors import ITEMS_READ, STEPS_READ, job_events, job_rows
from tasks_app.jobs.steering import step_skip
from tasks_app.jobs.timeline import timeline
from tasks_app.jobs.way import way_of
from tasks_app.jobs.worker import run_step
from tests.jobs.claiming import claim_step
from tests.ui.pages import ClientOf, page_of, read, stranger
from tests.ui.seed import Agency

Start = Callable[..., Job]


@pytest.fixture
def start(agency: Agency, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a job of a recipe made of these steps, before all others."""

    def started(*steps: dict[str, Any], inputs: dict[str, Any] | None = None) -> Job:
        whole = {"name": "test", "version": 1, "title": "Test", "steps": steps}
        monkeypatch.setitem(_recipes, "test", Recipe.model_validate(whole))
        team = agency.campaigns["lindqvist"].team
        return planning.job_start(recipe="test", inputs=inputs or {}, team=team, actor="system", priority=1)

    return started


def live_of(job: Model, **query: str) -> str:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return f"{reverse('admin:tasks_app_job_live', args=[job.pk])}?{asked}"


def claimed(job: Job) -> Step:
    step = claim_step()
    assert step is not None
    assert step.job_id == job.pk
    return step


def waiting(job: Job, status: str = StepStatus.AWAITING_TOOL, **wait: Any) -> None:
    ready_in = wait.pop("ready_in", None)
    engine.mark_waiting(
        step=claimed(job), status=status, waiting_for=wait, reason="A test", ready_in=ready_in
    )


def test_nothing_is_sent_where_nothing_has_changed(start: Start, client_of: ClientOf) -> None:
    job, client = start({"id": "a", "action": "x"}), client_of("Ad Ops")
    now = clock.now()
    with clock.injected(lambda: now):
        shown = client.get(page_of(job)).context["version"]
        assert client.get(live_of(job, version=shown)).status_code == 204
        claimed(job)
        answer = client.get(live_of(job, version=shown, acts="1001"))
    assert answer.status_code == 200
    parts = answer.content.decode()
    assert "A worker runs it now" in parts
    assert 'id="job-steps" hx-swap-oob="true"' in parts
    assert 'id="job-steer"' not in parts, "the same may be done: what is being written is left alone"
    assert "<html" not in parts


def test_other_buttons_come_with_another_state(start: Start, client_of: ClientOf) -> None:
    job, client = start({"id": "a", "action": "x"}), client_of("Ad Ops")
    engine.mark_failed(step=claimed(job), error="out of stock")
    parts = client.get(live_of(job, version="old", acts="1001")).content.decode()
    assert 'id="job-steer" hx-swap-oob="true"' in parts
    assert "hx-trigger" not in parts
    assert 'id="job-steer"' not in client_of("Buyer").get(live_of(job, version="old")).content.decode()


def test_who_may_not_see_the_job_does_not_see_it_live(start: Start, client_of: ClientOf) -> None:
    job = start({"id": "a", "action": "x"})
    assert stranger().get(live_of(job, version="x")).status_code == 404
    assert client_of("Ad Ops").get(live_of(Job(pk=uuid.uuid4()))).status_code == 404


@pytest.mark.parametrize(
    ("wait", "words"),
    [
        ({"type": "time", "until": "2099-01-02T12:00:00+00:00"}, "Waits until Fri 2 Jan 2099"),
        ({"type": "backoff", "error": "OSError: away", "failures": 1}, "after: OSError: away"),
        ({"type": "event", "name": "stock.arrived"}, "Waits for the event stock.arrived"),
        ({"type": "approvals", "ids": []}, "All decisions are in; it resumes"),
        ({"type": "riddle"}, "Waits for riddle"),
    ],
)
def test_every_wait_is_told_in_words(
    start: Start, client_of: ClientOf, wait: dict[str, Any], words: str
) -> None:
    job = start({"id": "a", "action": "x"}, {"id": "b", "action": "x", "after": ["a"]})
    ready_in = timedelta(hours=1) if wait["type"] == "backoff" else None
    waiting(job, **wait, ready_in=ready_in)
    page = read(client_of("Auditor"), page_of(job)).replace("\xa0", " ")
    assert "waits for one thing, holding no worker" in page
    assert words in page
    assert "Waits for a" in page, "what comes after says so too"


def test_waits_of_people_come_first_and_the_rest_is_counted(start: Start) -> None:
    job = start(*({"id": f"s{n}", "action": "x"} for n in range(12)))
    for number in range(11):
        waiting(job, type="time", until=f"2099-01-{number + 1:02}T00:00:00Z")
    waiting(job, StepStatus.AWAITING_USER, type="approvals", ids=[])
    lines, more = waits_now(job_rows(job))
    assert lines[0].look.sentence == "All decisions are in; it resumes"
    assert (len(lines), more) == (8, 4)


def test_what_decides_the_end_is_marked(start: Start, client_of: ClientOf) -> None:
    job = start(
        {"id": "a", "action": "x"},
        {"id": "short", "action": "x", "after": ["a"]},
        {"id": "long", "action": "x", "after": ["a"]},
        {"id": "end", "action": "x", "after": ["short", "long"]},
    )
    engine.mark_complete(step=claimed(job), outputs={})
    waiting(job, type="time", until="x", ready_in=timedelta(minutes=5))
    waiting(job, type="time", until="x", ready_in=timedelta(hours=5))
    rows = job_rows(job)
    keys = {step.pk: step.key for step in rows.steps}
    assert [keys[pk] for pk in way_of(rows).steps] == ["a", "long", "end"]
    answer = client_of("Auditor").get(page_of(job))
    paths = {(p.before, p.after): p.critical for p in answer.context["dag"].paths}
    ids = {key: str(pk) for pk, key in keys.items()}
    assert paths == {
        (ids["a"], ids["long"]): True,
        (ids["long"], ids["end"]): True,
        (ids["a"], ids["short"]): False,
        (ids["short"], ids["end"]): False,
    }
    assert "What decides the end: A → Long → End" in read(client_of("Auditor"), page_of(job))


def test_only_a_completed_step_offers_to_retry_from_it(start: Start, client_of: ClientOf) -> None:
    job = start({"id": "a", "action": "x"}, {"id": "b", "action": "x", "after": ["a"]})
    done, failed = Step.objects.filter(job=job).order_by("id")
    engine.mark_complete(step=claimed(job), outputs={})
    client = client_of("Ad Ops")
    assert "Retry the job from here" not in read(client, f"{page_of(job)}?step={done.pk}"), "it still runs"
    engine.mark_failed(step=claimed(job), error="out of stock")
    assert "Retry the job from here" in read(client, f"{page_of(job)}?step={done.pk}")
    assert "Retry the job from here" not in read(client, f"{page_of(job)}?step={failed.pk}")


def test_values_are_shown_without_secrets(start: Start, client_of: ClientOf) -> None:
    job = start({"id": "a", "action": "x", "inputs": {"api_key": "{{ inputs.k }}"}}, inputs={"k": "s3cret"})
    Job.objects.filter(pk=job.pk).update(inputs={"k": "s3cret", "token": "hidden-too"})
    step = Step.objects.get(job=job)
    shown = client_of("Auditor").get(f"{page_of(job)}?step={step.pk}").content.decode()
    assert "hidden-too" not in shown
    assert "[redacted]" in shown


def test_a_step_that_is_tried_again_says_which_try_what_went_wrong_and_when_next(
    start: Start, client_of: ClientOf
) -> None:
    job = start({"id": "a", "action": "x", "inputs": {"shelf": "{{ inputs.shelf }}"}}, inputs={"shelf": 7})
    engine.mark_waiting(
        step=claimed(job),
        status=StepStatus.AWAITING_TOOL,
        waiting_for={"type": "backoff", "error": "OSError: connection reset", "failures": 1},
        reason="A test",
        ready_in=timedelta(hours=1),
        failures=1,
    )
    step = Step.objects.get(job=job)
    client = client_of("Auditor")
    page = read(client, f"{page_of(job)}?step={step.pk}").replace("\xa0", " ")
    for words in ("Try 2 of 3; 1 of at most 3 failed", "Last error OSError: connection reset", "Next try "):
        assert words in page
    assert '"shelf": 7' in page
    step_skip(step_id=step.pk, actor="system", reason="It will do without")
    ended = read(client, f"{page_of(job)}?step={step.pk}")
    assert "Next try" not in ended
    assert '"skipped": true' in ended


def test_events_are_told_in_plain_words(start: Start) -> None:
    job = start({"id": "a", "title": "Count", "action": "x", "for_each": "{{ inputs.list }}"})
    engine.expand(step=claimed(job), items=["one", "two"])
    waiting(job, type="backoff", error="OSError", failures=1, ready_in=timedelta(hours=1))
    engine.mark_failed(step=claimed(job), error="out of stock")
    said = [(line.step, line.what, line.note) for line in timeline(job_events(job), job_rows(job))]
    assert said == [
        ("Count 2", "Failed for good", "out of stock"),
        ("Count 2", "A worker began it", ""),
        ("Count 1", "Failed, is tried again (failure 1)", "OSError"),
        ("Count 1", "A worker began it", ""),
        ("Count 2", "Ready for a worker", ""),
        ("Count 1", "Ready for a worker", ""),
        ("Count", "Became 2 steps in parallel", ""),
        ("Count", "A worker began it", ""),
        ("Count", "Ready for a worker", ""),
        ("", "Planned, 1 step", ""),
    ]


def test_ten_thousand_items_cost_no_more_queries_than_ten(
    start: Start, client_of: ClientOf, django_assert_max_num_queries: Any
) -> None:
    job = start({"id": "each", "action": "x", "for_each": "{{ inputs.list }}"})
    whole = claimed(job)
    engine.expand(step=whole, items=list(range(3)))
    template = Step.objects.filter(fan_out=whole)[0]
    many = 10_000
    _more_items(template, many - 3)
    client = client_of("Ad Ops")
    with django_assert_max_num_queries(32):
        answer = client.get(page_of(job))
    assert len(answer.content) < 300_000
    page = read(client, page_of(job))
    assert "Each × 10,000" in page
    assert "9,988 more; in all" in page
    rows = job_rows(job)
    assert len(rows.steps) == 1 + ITEMS_READ
    assert rows.count_of(whole).total() == many
    with django_assert_max_num_queries(46):
        listed = client.get(f"{page_of(job)}?items={whole.pk}&after=199").context["listed"]
    assert [node.item_index for node in listed.nodes] == list(range(200, 300))
    assert listed.after == "299"
    none = client.get(f"{page_of(job)}?items={whole.pk}&state=failed").context["listed"]
    assert none.nodes == []


@pytest.mark.parametrize(
    "asked", ["items=x", "items=own&state=nowhere", "items=own&after=x", "before=x", "before=", "step="]
)
def test_what_is_asked_wrongly_shows_the_page_without_it(
    start: Start, client_of: ClientOf, asked: str
) -> None:
    job = start({"id": "a", "action": "x"})
    answer = client_of("Auditor").get(f"{page_of(job)}?{asked}")
    assert answer.status_code == 200
    assert not answer.context.get("listed")
    assert "Earlier events" not in answer.content.decode()


def test_a_recipe_too_large_to_draw_shows_what_matters(start: Start, client_of: ClientOf) -> None:
    job = start(*({"id": f"s{n}", "action": "x"} for n in range(STEPS_READ + 5)))
    late = Step.objects.filter(job=job).order_by("-id")[0]
    Step.objects.filter(job=job).exclude(pk=late.pk).update(ready_at=None)
    engine.mark_failed(step=claimed(job), error="out of stock")
    rows = job_rows(job)
    assert late.pk in {step.pk for step in rows.steps}, "what failed comes first"
    assert rows.left_out() == 5
    page = read(client_of("Auditor"), page_of(job))
    assert "5 steps are not drawn" in page
    assert "out of stock" in page
    last = list(Step.objects.filter(job=job).order_by("id").values_list("pk", flat=True))[-6]
    listed = client_of("Auditor").get(f"{page_of(job)}?items=own&after={last}").context["listed"]
    assert (len(listed.nodes), listed.after) == (5, "")


def _more_items(template: Step, count: int) -> None:
    """So many more items of the same fan-out, as the database makes them."""
    from tasks_app import ids
    from tasks_app.lifecycle.transitions import create_many
    from tasks_app.people.actors import SYSTEM

    made = [
        Step(
            id=ids.new_id(),
            job=template.job,
            key=f"each[{number}]",
            spec=template.spec,
            fan_out=template.fan_out,
            item_index=number,
            item=number,
        )
        for number in range(3, 3 + count)
    ]
    create_many(made, actor=SYSTEM, reason="A test")


def test_a_step_is_given_what_it_waits_for(start: Start, client_of: ClientOf) -> None:
    job = start({"id": "a", "action": "wait_for_event", "inputs": {"name": "stock.arrived"}})
    step = claimed(job)
    run_step(step)
    client, address = client_of("Ad Ops"), f"{page_of(job)}?step={step.pk}"
    assert "Give it what it waits for" in read(client, address)
    assert "Give it what it waits for" not in read(client_of("Buyer"), address)
    form = {"act": "give", "step": str(step.pk), "payload": "[1", "reason": "by telephone", "sure": "on"}
    refused = client.post(address, form)
    assert refused.status_code == 409
    page = refused.content.decode()
    assert "Write a JSON object." in page
    assert "[1</textarea>" in page, "what was written is kept"
    done = client.post(address, {**form, "payload": '{"pallets": 3}'}, follow=True).content.decode()
    assert "has its input and goes on" in done
    assert "Was given by hand what it waited for" in done
    assert "by telephone" in done
    assert "What it waited for has come; it resumes" in done
