"""What Ad Ops do about a job on its page: cancel, retry, hide."""

from __future__ import annotations

import pytest

from orders.models import Deal
from tasks_app.jobs import engine, planning
from tasks_app.jobs.models import Job
from tests.jobs.claiming import claim_step
from tests.ui.pages import ClientOf, list_of, page_of, read
from tests.ui.seed import Agency


@pytest.fixture
def job(agency: Agency) -> Job:
    """The next one to be worked on."""
    deal = Deal.objects.order_by("id")[0]
    return planning.job_start(
        recipe="book_deal", inputs={"deal_id": str(deal.pk)}, team=deal.team, actor="system", priority=1
    )


def test_only_who_may_sees_the_buttons(job: Job, client_of: ClientOf) -> None:
    assert "Cancel the job" in read(client_of("Ad Ops"), page_of(job))
    page = read(client_of("Buyer"), page_of(job))
    assert "Cancel the job" not in page
    assert "What you can do" not in page


def test_a_job_is_cancelled_hidden_and_still_to_be_read(job: Job, client_of: ClientOf) -> None:
    client = client_of("Ad Ops")
    done = client.post(
        page_of(job), {"act": "cancel", "reason": "the client withdrew", "sure": "on"}, follow=True
    )
    page = read(client, page_of(job))
    assert done.redirect_chain[-1][0] == page_of(job)
    assert "The job was cancelled." in page
    assert "the client withdrew" in page
    assert "Cancel the job" not in page
    assert "is hidden from lists" in client.post(page_of(job), {"act": "hide"}, follow=True).content.decode()
    assert job.reference not in read(client, list_of(Job))
    assert job.reference in read(client, f"{list_of(Job)}?view=hidden")
    assert "the client withdrew" in read(client, page_of(job))


def test_a_failed_job_is_retried_from_where_one_says(job: Job, client_of: ClientOf) -> None:
    client = client_of("Ad Ops")
    step = claim_step()
    assert step is not None
    assert step.job_id == job.pk
    engine.mark_failed(step=step, error="no answer")
    assert "where it failed" not in read(client, page_of(job)), "nothing was done that could be kept"
    client.post(page_of(job), {"act": "retry", "reason": "mended", "from_step": "", "sure": "on"})
    new = Job.objects.get(retry_of=job)
    assert f"retried by {new.reference}" in read(client, page_of(job))
    page = read(client, page_of(new))
    assert f"retries {job.reference}" in page
    assert "Hide from lists" in read(client, page_of(job))
    assert "stands at a seller" not in read(client, page_of(job)), "it is retried once"


@pytest.mark.parametrize(
    ("posted", "why"),
    [
        ({"act": "cancel", "reason": " ", "sure": "on"}, "Say why it is cancelled."),
        ({"act": "retry", "reason": "x", "sure": "on"}, "only what failed or expired is retried"),
        ({"act": "hide"}, "cancel it first"),
        ({"act": "cancel", "reason": "x"}, "Confirm that you have read"),
        ({"act": "explode"}, "Say what to do"),
        ({}, "Say what to do"),
    ],
)
def test_a_refusal_is_said_and_changes_nothing(
    job: Job, client_of: ClientOf, posted: dict[str, str], why: str
) -> None:
    answer = client_of("Ad Ops").post(page_of(job), posted)
    assert answer.status_code == 409
    assert why in answer.content.decode()
    job.refresh_from_db()
    assert (job.status, Job.objects.filter(retry_of=job).exists()) == ("QUEUED", False)


@pytest.mark.parametrize("act", ["cancel", "hide", "retry"])
def test_who_has_no_right_is_refused(job: Job, client_of: ClientOf, act: str) -> None:
    answer = client_of("Buyer").post(page_of(job), {"act": act, "reason": "x", "sure": "on"})
    assert answer.status_code in (403, 409)
    job.refresh_from_db()
    assert (job.status, Job.objects.filter(retry_of=job).exists()) == ("QUEUED", False)


def test_the_turn_is_changed(job: Job, client_of: ClientOf) -> None:
    client = client_of("Ad Ops")
    form = {"act": "priority", "priority": "7", "reason": "the client waits"}
    done = client.post(page_of(job), form, follow=True).content.decode()
    assert f"{job.reference} has priority 7 now" in done
    assert "Priority 1 → 7" in done
    job.refresh_from_db()
    assert (job.priority, set(job.steps.values_list("priority", flat=True))) == (7, {7})


@pytest.mark.parametrize("priority", ["", "-1", "1.5", "99999", "٣", "1e3"])
def test_a_turn_that_is_no_number_is_refused(job: Job, client_of: ClientOf, priority: str) -> None:
    answer = client_of("Ad Ops").post(page_of(job), {"act": "priority", "priority": priority, "reason": "x"})
    assert answer.status_code == 409
    assert "A priority is a number from 0 to 32,767." in answer.content.decode()
    job.refresh_from_db()
    assert job.priority == 1


def test_a_step_is_skipped_where_it_may_be(job: Job, client_of: ClientOf) -> None:
    client = client_of("Ad Ops")
    buy, read_back = job.steps.order_by("id")
    assert "Skip this step" in read(client, f"{page_of(job)}?step={buy.pk}")
    assert "Skip this step" not in read(client, f"{page_of(job)}?step={read_back.pk}"), "not its turn yet"
    assert "Skip this step" not in read(client_of("Buyer"), f"{page_of(job)}?step={buy.pk}")
    form = {"act": "skip", "step": str(buy.pk), "reason": "booked by telephone", "sure": "on"}
    done = client.post(f"{page_of(job)}?step={buy.pk}", form, follow=True).content.decode()
    assert "is skipped; the job goes on without it" in done
    assert "booked by telephone" in done
    buy.refresh_from_db()
    assert (buy.status, buy.skipped) == ("completed", True)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"sure": ""}, "Confirm that you have read"),
        ({"reason": " "}, "Say why it is skipped."),
        ({"step": "x"}, "Say which step"),
        ({"step": ""}, "Say which step"),
    ],
)
def test_a_skip_that_is_refused_changes_nothing(
    job: Job, client_of: ClientOf, changed: dict[str, str], why: str
) -> None:
    buy = job.steps.order_by("id")[0]
    form = {"act": "skip", "step": str(buy.pk), "reason": "x", "sure": "on", **changed}
    answer = client_of("Ad Ops").post(page_of(job), form)
    assert answer.status_code == 409
    assert why in answer.content.decode()
    buy.refresh_from_db()
    assert (buy.status, buy.skipped) == ("queued", False)
