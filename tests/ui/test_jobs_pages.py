"""The jobs' list and page: the graph of boxes, what each step waits for, folding of many siblings."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from tasks_app.jobs import engine, planning
from tasks_app.jobs.models import Job, Step, StepStatus
from tasks_app.jobs.presenters import FOLD_ABOVE, job_layout, step_rows
from tasks_app.jobs.selectors import job_rows
from tests.jobs.claiming import claim_step
from tests.ui.pages import STAFF, ClientOf, list_of, page_of, read, stranger
from tests.ui.seed import Agency


def job_of(agency: Agency, campaign: str) -> Job:
    return Job.objects.get(subject_id=agency.campaigns[campaign].pk, parent_step=None)


@pytest.mark.parametrize("role", STAFF)
def test_list_and_pages_render_for_every_role_with_few_queries(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any, role: str
) -> None:
    client = client_of(role)
    jobs = list(Job.objects.all()[:6])
    for address in (list_of(Job), *(page_of(job) for job in jobs)):
        with django_assert_max_num_queries(32):
            assert client.get(address).status_code == 200, address


def test_another_team_sees_nothing(agency: Agency) -> None:
    client = stranger()
    assert "JOB-2026" not in read(client, list_of(Job))
    assert client.get(page_of(job_of(agency, "lindqvist"))).status_code in (302, 404)


def test_the_list_names_what_each_job_is_for(agency: Agency, client_of: ClientOf) -> None:
    page = read(client_of("Buyer"), list_of(Job))
    assert f"Campaign, version 2 {job_of(agency, 'lindqvist').reference} Lindqvist Cold Brew" in page
    assert "Campaign deal, version 1" in page


def test_fan_outs_stand_as_their_items_between_neighbours(agency: Agency) -> None:
    layout = job_layout(job_rows(job_of(agency, "lindqvist")))
    titles = [box.node.title for box in layout.boxes]
    assert titles.count("Norrland Digital") == 2  # asked for products, and booked with
    assert "Research" not in titles
    named = {box.node.id: box.node.title for box in layout.boxes}
    edges = {(named[path.before], named[path.after]) for path in layout.paths}
    assert ("Allocate", "Quill Audio") in edges
    assert ("Quill Audio", "Recommend") in edges
    assert ("Cobalt Bay TV", "Complete") in edges
    tones = {box.node.sub: box.node.tone for box in layout.boxes}
    assert tones["Book, differs"] == "diff"
    assert tones["Book, asks you"] == "you"
    assert tones["after 2 × book"] == "idle"


def test_every_step_says_what_it_waits_for(agency: Agency) -> None:
    rows = {row.step.key: row for row in step_rows(job_rows(job_of(agency, "lindqvist")))}
    assert "Cobalt Bay TV has create_media_buy since" in rows["book[1]"].look.sentence
    assert "Quill Audio asks: Do you waive competitive separation" in rows["book[2]"].look.sentence
    assert rows["book"].look.sentence == "3 steps in parallel"
    assert rows["complete"].look.sentence == "Waits for 2 × book"
    waiting = {row.step.key: row for row in step_rows(job_rows(job_of(agency, "tamarack")))}
    assert "approve: 1 decision of 1 open" in waiting["book[2]"].look.sentence


def test_the_page_shows_states_tries_and_events(agency: Agency, client_of: ClientOf) -> None:
    page = read(client_of("Ad Ops"), page_of(job_of(agency, "lindqvist")))
    assert "Job graph" in page
    assert "research[2]" in page
    assert "Book, Norrland Digital Done" in page
    assert "earlier" in page


def test_many_siblings_are_folded_into_one_box(agency: Agency) -> None:
    job = _job_with(agency, siblings=FOLD_ABOVE + 1)
    layout = job_layout(job_rows(job))
    (box,) = [box for box in layout.boxes if box.node.title == f"Research × {FOLD_ABOVE + 1}"]
    assert box.node.sub == f"{FOLD_ABOVE + 1} waiting"
    assert len(layout.boxes) == 7

    whole = job_layout(job_rows(_job_with(agency, siblings=FOLD_ABOVE)))
    assert len(whole.boxes) == 6 + FOLD_ABOVE


def test_a_failed_step_shows_its_error_and_what_it_takes_with_it(agency: Agency, client_of: ClientOf) -> None:
    job = _job_with(agency, siblings=0)
    step = claim_step()
    assert step is not None
    assert step.job_id == job.pk
    engine.mark_failed(step=step, error="no seller is left to ask")
    page = read(client_of("Buyer"), page_of(job))
    assert "The job failed." in page
    assert "no seller is left to ask" in page
    assert "What it depends on failed" in page


def _job_with(agency: Agency, *, siblings: int) -> Job:
    """A campaign's job, run as far as its research over so many sellers."""
    with transaction.atomic():
        job = planning.job_start(
            recipe="campaign",
            inputs={"campaign_id": str(agency.campaigns["tamarack"].pk)},
            team=agency.campaigns["tamarack"].team,
            actor="system",
        )
    for outputs in [{"sellers": siblings}, {"sellers": [], "channels": {}}] if siblings else []:
        step = claim_step()
        assert step is not None
        engine.mark_complete(step=step, outputs=outputs)
    if siblings:
        step = claim_step()
        assert step is not None
        engine.expand(step=step, items=[f"seller {number}" for number in range(siblings)])
        assert Step.objects.filter(job=job, status=StepStatus.QUEUED).count() == siblings
        _claim_all()
    return job


def _claim_all() -> None:
    """Leave nothing ready for the next job of the test."""
    while (step := claim_step()) is not None:
        engine.mark_waiting(
            step=step,
            status=StepStatus.AWAITING_TOOL,
            waiting_for={"type": "time", "until": "2099-01-01T00:00:00Z"},
            reason="Held by the test",
        )
