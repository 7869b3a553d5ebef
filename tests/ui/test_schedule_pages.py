"""Schedules on their pages: made by a form, changed, paused, run now; the trail says who."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.urls import reverse

from tasks_app.jobs import recipes
from tasks_app.jobs.models import Job
from tasks_app.jobs.recipes import recipe_parse, recipe_register
from tasks_app.jobs.schedule import Schedule
from tests.factories import make_team
from tests.ui.pages import ClientOf, list_of, page_of, read, send
from tests.ui.seed import Agency

ADD = "admin:tasks_app_schedule_add"


@pytest.fixture
def schedules(agency: Agency, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "_recipes", dict(recipes._recipes))
    steps = [{"id": "a", "action": "wait_for_event", "inputs": {"name": "{{ inputs.event }}"}}]
    text = {"name": "stock_take", "version": 1, "title": "Stock take", "steps": steps, "startable": True}
    recipe_register(recipe_parse(json.dumps(text)))


def form(**fields: Any) -> dict[str, Any]:
    given = {
        "name": "Morning stock",
        "team": str(make_team().pk),
        "recipe": "stock_take",
        "inputs": '{"event": "counted"}',
        "start_at": "",
        "cron": "0 9 * * mon-fri",
        "zone": "America/New_York",
        "missed": "once",
        "priority": "100",
    }
    return {**given, **fields}


@pytest.mark.usefixtures("schedules")
def test_made_seen_run_paused_and_changed(client_of: ClientOf) -> None:
    client = client_of("Ad Ops")
    page = read(client, reverse(ADD))
    assert "Stock take" in page
    assert "book_deal" not in page, "not what people start"
    made = client.post(reverse(ADD), form(), follow=True)
    schedule = Schedule.objects.get()
    assert made.redirect_chain[-1][0] == page_of(schedule)
    assert schedule.inputs == {"event": "counted"}
    assert "Morning stock" in read(client, list_of(Schedule))

    client.post(page_of(schedule), {"act": "run"})
    job = Job.objects.get(subject_type="schedule")
    page = read(client, page_of(schedule))
    assert job.reference in page
    assert "By hand" in page
    assert "Morning stock" in read(client, page_of(job))
    assert "is paused" in client.post(page_of(schedule), {"act": "pause"}, follow=True).content.decode()
    assert "Morning stock" in read(client, f"{list_of(Schedule)}?view=paused")
    client.post(page_of(schedule), {"act": "resume"})
    send(client, page_of(schedule), {"act": "save", **form(cron="", start_at="2031-05-01T09:30")})
    schedule.refresh_from_db()
    assert (schedule.cron, schedule.start_at) == ("", datetime(2031, 5, 1, 13, 30, tzinfo=UTC))
    page = read(client, page_of(schedule))
    assert "2031-05-01T09:30" in page, "as it stands on that zone's clocks"
    kinds = list(schedule.entries.order_by("id").values_list("kind", flat=True))
    assert kinds == ["created", "started", "paused", "resumed", "changed"]


@pytest.mark.usefixtures("schedules")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"cron": "61 * * * *"}, "61"),
        ({"inputs": "{"}, "That is no JSON object"),
        ({"inputs": "[]"}, "That is no JSON object"),
        ({"inputs": "[" * 5000}, "That is no JSON object"),
        ({"inputs": '{"a": 1, "a": 2}'}, "That is no JSON object"),
        ({"inputs": "{}"}, "Stock take needs event as well."),
        ({"cron": ""}, "Say when"),
        ({"cron": "", "start_at": "2001-01-01T00:00"}, "That has passed"),
        ({"cron": "", "start_at": "9999-12-31T23:30"}, "too far off"),
        ({"recipe": "book_deal"}, "Select a valid choice"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_made(
    client_of: ClientOf, fields: dict[str, str], why: str
) -> None:
    answer = client_of("Ad Ops").post(reverse(ADD), form(**fields))
    assert answer.status_code == 400
    assert why in answer.content.decode()
    assert not Schedule.objects.exists()


@pytest.mark.usefixtures("schedules")
def test_only_who_may_makes_and_steers(client_of: ClientOf) -> None:
    client_of("Ad Ops").post(reverse(ADD), form())
    schedule = Schedule.objects.get()
    buyer = client_of("Buyer")
    page = read(buyer, page_of(schedule))
    assert "Run now" not in page
    assert "What and when" not in page
    assert buyer.get(reverse(ADD)).status_code == 403
    assert buyer.post(reverse(ADD), form(name="Mine")).status_code == 403
    for posted in ({"act": "run"}, {"act": "pause"}, {"act": "save", **form(name="Mine")}):
        buyer.post(page_of(schedule), posted)
    schedule.refresh_from_db()
    assert (schedule.name, schedule.paused, schedule.entries.count()) == ("Morning stock", False, 1)
