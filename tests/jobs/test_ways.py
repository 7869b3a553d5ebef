"""What the page and the explanation of a job offer, against trying it: every act by every role, on every
ground that a job may stand on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from campaigns.models import Campaign
from campaigns.services import campaign_submit
from tasks_app import clock
from tasks_app.desk.explain import Explanation, explain
from tasks_app.jobs.actions import Result, Run, StepFailedError, WaitForEvent, WaitUntil
from tasks_app.jobs.endings import JobRefusedError, job_cancel, job_expire, job_hide
from tasks_app.jobs.models import Job, JobStatus, Step, StepStatus
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.steer_forms import Acts, acts_of, steer, step_acts_of
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.people.models import User
from tasks_app.people.roles import ROLES
from tasks_app.sellers.models import Seller
from tests.campaigns.briefs import brief
from tests.factories import make_account, make_advertiser, make_deal, make_seller, make_user
from tests.jobs.conftest import Bench, failing, steps_of

pytestmark = pytest.mark.django_db
_FILLED = {"reason": "it is mended", "sure": "on", "priority": "7", "payload": "{}"}


# ---- grounds


def _tomorrow(_run: Run) -> Result:
    return WaitUntil(moment=clock.now() + timedelta(days=1))


def _planned(bench: Bench, action: str) -> Job:
    """A step that is done, one that does `action`, and one after that."""
    bench.action("sleep", _tomorrow)
    bench.action("hear", lambda run: WaitForEvent(name="stock.in"))
    bench.action("fail", failing(99, lambda: StepFailedError("it broke")))
    bench.action("flaky", failing(99, lambda: RuntimeError("busy")))
    bench.recipe({"id": "y", "action": action}, name="inner")
    inner = {"recipe": "inner"} if action == "fail" else {"action": action}
    bench.recipe({"id": "a"}, {"id": "b", "after": ["a"], **inner}, {"id": "c", "after": ["b"]})
    return bench.start()


def _driven(bench: Bench, action: str) -> Job:
    job = _planned(bench, action)
    drain()
    return Job.objects.get(pk=job.pk)


def _nested(bench: Bench) -> Job:
    job = _driven(bench, "fail")
    return Job.objects.get(parent_step__job=job)


def _ended(bench: Bench, end: Callable[..., Any], **how: Any) -> Job:
    job = _driven(bench, "sleep")
    end(job_id=job.pk, **how)
    return Job.objects.get(pk=job.pk)


def _hidden(bench: Bench) -> Job:
    return job_hide(job_id=_driven(bench, "note").pk, actor=make_user("Ad Ops"))


def _retried(bench: Bench) -> Job:
    job = _driven(bench, "fail")
    job_retry(job_id=job.pk, actor="system", reason="it is mended")
    return job


def _of_campaign(**columns: Any) -> Job:
    """The job of a campaign that failed early; `columns`: what stands in the campaign by now."""
    advertiser = make_advertiser()
    make_account(advertiser, make_seller())
    campaign = campaign_submit(user=make_user("Buyer"), raw=brief(brand_domain=advertiser.brand_domain))
    job = Job.objects.get(subject_id=campaign.pk)
    job_expire(job_id=job.pk, reason="Not done in time")
    if columns:
        Campaign.objects.update(**columns)
    return Job.objects.get(pk=job.pk)


def _of_campaign_begun() -> Job:
    asked = datetime(2024, 3, 1, tzinfo=UTC)
    return _of_campaign(created_at=asked, brief=brief(flight__start="2024-04-01"))


def _of_campaign_with_deals() -> Job:
    job = _of_campaign()
    make_deal(seller=Seller.objects.get(), account=False, campaign_id=job.subject_id)
    return job


_GROUNDS: dict[str, Callable[[Bench], Job]] = {
    "QUEUED": lambda bench: _planned(bench, "note"),
    "PROCESSING": lambda bench: _driven(bench, "sleep"),
    "PROCESSING, an event is awaited": lambda bench: _driven(bench, "hear"),
    "PROCESSING, a step is tried again": lambda bench: _driven(bench, "flaky"),
    "COMPLETED": lambda bench: _driven(bench, "note"),
    "FAILED": lambda bench: _driven(bench, "fail"),
    "FAILED, nested": _nested,
    "FAILED, retried": _retried,
    "CANCELLED": lambda bench: _ended(bench, job_cancel, actor="system", reason="not wanted"),
    "EXPIRED": lambda bench: _ended(bench, job_expire, reason="Not done in time"),
    "EXPIRED, of a campaign": lambda bench: _of_campaign(),
    "EXPIRED, the flight began": lambda bench: _of_campaign_begun(),
    "EXPIRED, the brief is wrong today": lambda bench: _of_campaign(brief=brief(budget__total=-1)),
    "EXPIRED, the campaign has deals": lambda bench: _of_campaign_with_deals(),
    "DELETED": _hidden,
}


@pytest.fixture
def grounded(bench: Bench, request: pytest.FixtureRequest) -> Job:
    return _GROUNDS[request.param](bench)


every_ground = pytest.mark.parametrize("grounded", _GROUNDS, indirect=True)


# ---- everything that can be tried


def _state(job: Job) -> tuple[Any, ...]:
    now = Job.objects.get(pk=job.pk)
    steps = Step.objects.filter(job=job).order_by("pk").values_list("status", "ready_at", "priority")
    return (now.status, now.priority, Job.objects.count(), list(steps))


def _does(job: Job, user: User, act: str, **form: str) -> bool:
    """Whether it is done when the person tries it; everything is as before afterwards."""
    before, form = _state(job), {**_FILLED, "act": act, **form}
    with transaction.atomic():
        try:
            with transaction.atomic():
                steer(form, Job.objects.get(pk=job.pk), user)
        except (JobRefusedError, TransitionError):
            assert _state(job) == before, "a refusal changes nothing"
            return False
        changed = _state(job) != before
        transaction.set_rollback(True)
    return changed


def _offered(acts: Acts | None) -> Mapping[str, bool]:
    return {name: bool(acts and getattr(acts, name)) for name in ("cancel", "retry", "hide", "priority")}


def _said(told: Explanation, words: str, role: str) -> bool:
    return any(words in one.does and role in one.roles for one in told.who)


# ---- what is offered against it


def test_every_state_stands_on_some_ground() -> None:
    reached = {name.split(",")[0] for name in _GROUNDS}
    assert set(JobStatus.values) - reached == {"PENDING", "DISPATCHING", "PREVIEW"}, "as those beside them"


@every_ground
def test_what_is_offered_about_a_job_is_done_and_nothing_else(grounded: Job) -> None:
    told = explain(grounded.reference, make_user("Administrator"))
    for role in ROLES:
        user = make_user(role)
        offered = _offered(acts_of(grounded, user))
        assert offered == {act: _does(grounded, user, act) for act in offered}, role
        for words, act in (("retry it", "retry"), ("hide it", "hide"), ("cancel the job", "cancel")):
            assert _said(told, words, role) == offered[act], (role, words)


@every_ground
def test_what_is_offered_about_a_step_is_done_and_nothing_else(grounded: Job) -> None:
    user = make_user("Ad Ops")
    acts = acts_of(grounded, user)
    retried_from = [key for key, _ in acts.steps] if acts else []
    for step in Step.objects.filter(job=grounded):
        found = step_acts_of(step, acts)
        assert bool(found and found.skip) == _does(grounded, user, "skip", step=str(step.pk)), step.key
        assert bool(found and found.give) == _does(grounded, user, "give", step=str(step.pk)), step.key
        assert bool(found and found.retry) == (step.key in retried_from), step.key
        told = explain(str(step.pk), make_user("Administrator"))
        assert _said(told, "skip the step", "Ad Ops") == bool(found and found.skip), step.key
    for key in retried_from:
        assert steps_of(grounded)[key].status == StepStatus.COMPLETED
        assert _does(grounded, user, "retry", from_step=key), key


@every_ground
def test_who_asks_hears_why_it_is_not_retried(grounded: Job) -> None:
    user = make_user("Ad Ops")
    if grounded.status not in (JobStatus.FAILED, JobStatus.EXPIRED) or _does(grounded, user, "retry"):
        return
    with pytest.raises(JobRefusedError) as refused:
        job_retry(job_id=grounded.pk, actor=user, reason="it is mended")
    assert str(refused.value) in explain(grounded.reference, user).waiting_for
