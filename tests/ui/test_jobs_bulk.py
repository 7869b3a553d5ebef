"""The list of jobs: its filter, and retrying or cancelling many from it."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.test import Client

from tasks_app.jobs.models import Job
from tasks_app.jobs.planning import job_start
from tasks_app.people.models import Membership
from tests.factories import make_advertiser, make_team, make_user
from tests.ui.pages import ClientOf, list_of, read, stranger
from tests.ui.seed import Agency

LIST = "/admin/tasks_app/job/"
BULK = f"{LIST}bulk/"


def references(page: str) -> set[str]:
    return set(re.findall(r"JOB-\d+-\d+", page))


def open_jobs() -> list[Job]:
    return list(Job.objects.filter(ended_at=None, parent_step=None))


def confirm(client: Client, jobs: list[Job], **fields: str) -> Any:
    form = {
        "act": "cancel",
        "jobs": " ".join(str(job.pk) for job in jobs),
        "reason": "not needed",
        "request_id": str(uuid.uuid4()),
        **fields,
    }
    return client.post(BULK, form)


def test_the_list_is_narrowed_by_its_filter(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Auditor")
    at_sellers = Job.objects.filter(steps__waiting_for__type="operation", ended_at=None)
    page = read(client, f"{LIST}?waits=operation")
    assert references(page) == {job.reference for job in at_sellers}
    assert "1 operation" in page
    assert references(read(client, f"{LIST}?recipe=campaign&view=ended")) == {
        job.reference for job in Job.objects.filter(recipe="campaign", ended_at__isnull=False)
    }
    assert references(read(client, f"{LIST}?state=FAILED")) == set()
    one = Job.objects.order_by("id")[0].reference
    assert references(read(client, f"{LIST}?q={one}")) == {one}


@pytest.mark.parametrize(
    "asked", ["waits=x", "state=%00", "older='", "team=1", "view=mine", "recipe=" + "x" * 99]
)
def test_what_is_no_filter_finds_nothing(agency: Agency, client_of: ClientOf, asked: str) -> None:
    page = read(client_of("Auditor"), f"{LIST}?{asked}")
    assert references(page) == set()
    assert "Nothing" in page


def test_a_filter_of_teams_is_offered_to_who_has_several(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Auditor")
    assert 'name="team"' not in client.get(LIST).content.decode()
    agency.people["Auditor"].teams.add(make_team("Elsewhere"))
    assert 'name="team"' in client.get(LIST).content.decode()


def test_only_who_may_steer_is_offered_it(agency: Agency, client_of: ClientOf) -> None:
    page = client_of("Ad Ops").get(f"{LIST}?view=open").content.decode()
    assert "Cancel all that match" in page
    assert "cancel_chosen" in page
    page = client_of("Buyer").get(f"{LIST}?view=open").content.decode()
    assert "all that match" not in page
    assert "cancel_chosen" not in page
    assert client_of("Buyer").get(f"{BULK}?act=cancel&view=open").status_code == 403
    assert confirm(client_of("Buyer"), open_jobs()).status_code == 403
    assert not Job.objects.filter(recipe="bulk_steer").exists()


def test_the_chosen_are_asked_about_then_steered_by_a_job(agency: Agency, client_of: ClientOf) -> None:
    client, jobs = client_of("Ad Ops"), list(Job.objects.order_by("id")[:3])
    asked = client.post(
        list_of(Job), {"action": "cancel_chosen", ACTION_CHECKBOX_NAME: [str(job.pk) for job in jobs]}
    )
    page = asked.content.decode()
    assert "Cancel 3 jobs" in page
    able = sum(job.ended_at is None for job in jobs)
    assert f"{3 - able} of them" in page
    assert {job.reference for job in jobs} <= references(page)
    done = confirm(client, jobs)
    job = Job.objects.get(recipe="bulk_steer")
    assert done["Location"] == f"{LIST}{job.pk}/change/"
    assert job.inputs["jobs"] == [str(one.pk) for one in jobs]
    assert (job.team, job.requested_by) == (jobs[0].team, f"human:{agency.people['Ad Ops'].pk}")


def test_pressed_twice_it_is_done_once(agency: Agency, client_of: ClientOf) -> None:
    client, key, jobs = client_of("Ad Ops"), str(uuid.uuid4()), open_jobs()
    first = confirm(client, jobs, request_id=key)
    assert confirm(client, jobs, request_id=key)["Location"] == first["Location"]
    assert Job.objects.filter(recipe="bulk_steer").count() == 1


def test_all_that_match_are_shown_first(agency: Agency, client_of: ClientOf) -> None:
    page = client_of("Ad Ops").get(f"{BULK}?act=cancel&view=open").content.decode()
    assert references(page) == {job.reference for job in open_jobs()}
    assert f"Cancel {len(open_jobs())} jobs" in page


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"reason": " "}, "Say why."),
        ({"request_id": "x"}, "These are no jobs."),
    ],
)
def test_a_refusal_keeps_what_was_written(
    agency: Agency, client_of: ClientOf, fields: dict[str, str], why: str
) -> None:
    answer = confirm(client_of("Ad Ops"), open_jobs(), **{"reason": "because of rain", **fields})
    assert answer.status_code == 409
    page = answer.content.decode()
    assert why in page
    assert ("because of rain" in page) == ("reason" not in fields)
    assert not Job.objects.filter(recipe="bulk_steer").exists()


@pytest.mark.parametrize(
    "query", ["act=explode&view=open", "act=cancel&view=mine", "act=retry&view=open", ""]
)
def test_what_cannot_be_asked_goes_back_to_the_list(agency: Agency, client_of: ClientOf, query: str) -> None:
    answer = client_of("Ad Ops").get(f"{BULK}?{query}")
    assert answer.status_code == 302
    assert answer["Location"] == LIST
    assert client_of("Ad Ops").put(BULK).status_code == 405


def test_other_teams_jobs_are_no_jobs(agency: Agency) -> None:
    answer = confirm(stranger(), open_jobs())
    assert answer.status_code == 302
    assert answer["Location"] == LIST
    assert not Job.objects.filter(recipe="bulk_steer").exists()


@pytest.mark.django_db
def test_the_page_that_asks_names_nothing_outside_ones_scope() -> None:
    team = make_team()
    mine, other = make_advertiser("Mine"), make_advertiser("Other")
    jobs = [
        job_start(
            recipe="campaign",
            inputs={"campaign_id": str(uuid.uuid4())},
            team=team,
            actor="system",
            advertiser_id=advertiser.pk,
        )
        for advertiser in (mine, other)
    ]
    user = make_user("Ad Ops", is_staff=True)
    seat = Membership.objects.get(user=user)
    seat.every_advertiser = False
    seat.save()
    seat.advertisers.set([mine])
    client = Client()
    client.force_login(user, backend="tasks_app.people.holders.RoleBackend")
    chosen = {"action": "cancel_chosen", ACTION_CHECKBOX_NAME: [str(job.pk) for job in jobs]}
    page = client.post(LIST, chosen).content.decode()
    assert references(page) == {jobs[0].reference}
    refused = confirm(client, jobs, reason="").content.decode()
    assert references(refused) == {jobs[0].reference}
