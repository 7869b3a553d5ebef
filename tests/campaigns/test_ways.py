"""What the explanation of a campaign says may happen, against trying everything that people and its job can
do: every state, with a job that works on it and without one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction

from campaigns.actions import allocate, approve, complete, recommend, validate
from campaigns.acts import CampaignActRefusedError, campaign_cancel, campaign_retry
from campaigns.explain import progress_of
from campaigns.explain_words import campaign_ways
from campaigns.models import Campaign, CampaignStatus
from campaigns.outcome import campaign_finish
from campaigns.services import SubmissionRefusedError, campaign_submit
from orders.models import Deal
from tasks_app.desk.explain import explain
from tasks_app.jobs import engine
from tasks_app.jobs.actions import StepFailedError
from tasks_app.jobs.bulk import Found, bulk_chosen
from tasks_app.jobs.endings import JobRefusedError, job_expire
from tasks_app.jobs.finding import Wanted, jobs_wanted
from tasks_app.jobs.models import JOB_OPEN, Job
from tasks_app.jobs.retrying import job_retry, retry_refusals
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import create, transition
from tasks_app.people.models import User
from tasks_app.people.roles import ROLES
from tasks_app.sellers.models import Account, Seller
from tests.campaigns.briefs import brief
from tests.factories import approve_deal, make_account, make_advertiser, make_deal, make_seller, make_user
from tests.jobs.claiming import claim_step
from tests.support import undone

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
_REFUSED = (CampaignActRefusedError, SubmissionRefusedError, StepFailedError, TransitionError)
_WAY = ("brief_received", "budget_allocated", "researching", "awaiting_approval", "executing_bookings")


# ---- grounds


def _raw() -> dict[str, Any]:
    return brief(brand_domain=make_advertiser().brand_domain)


def _running(status: str) -> Campaign:
    """Led there while its job runs."""
    make_account(make_advertiser(), make_seller())
    campaign = campaign_submit(user=make_user("Buyer"), raw=_raw())
    for step in _WAY[1 : _WAY.index(status) + 1]:
        transition(campaign, step, actor="system")
    return campaign


def _jobless(*to: str) -> Campaign:
    """Led there without a job, as where it was imported."""
    advertiser = make_advertiser()
    make_account(advertiser, make_seller())
    campaign = Campaign(
        reference="CMP-2026-900001",
        team=advertiser.team,
        advertiser=advertiser,
        name="Elsewhere",
        brief=_raw(),
    )
    campaign.requested_by = "system"
    create(campaign, actor="system", reason="Elsewhere")
    for step in to:
        transition(campaign, step, actor="system")
    return campaign


def _job_failed(*, deals: int = 0, expired: bool = False) -> Campaign:
    campaign = _running("researching")
    if expired:
        job_expire(job_id=Job.objects.get().pk, reason="its time is over")
    else:
        step = claim_step()
        assert step is not None
        engine.mark_failed(step=step, error="the seller is gone")
    for _ in range(deals):
        _put_forward(campaign)
    return campaign


def _begun() -> Campaign:
    campaign = _job_failed()
    asked = datetime(2024, 3, 1, tzinfo=UTC)
    Campaign.objects.update(created_at=asked, brief={**_raw(), **brief(flight__start="2024-04-01")})
    return campaign


def _called_off() -> Campaign:
    campaign = _running("researching")
    return campaign_cancel(campaign_id=campaign.pk, user=make_user("Buyer"), reason="no longer wanted")


def _completed() -> Campaign:
    campaign = _running("executing_bookings")
    _booked(campaign)
    campaign_finish(campaign=campaign)
    return campaign


_GROUNDS: dict[str, Callable[[], Campaign]] = {
    "initialized": _jobless,
    "validation_failed": lambda: _jobless("brief_received", "validation_failed"),
    **{status: lambda s=status: _running(s) for status in _WAY},  # type: ignore[misc]
    **{f"{s}, no job": lambda n=n: _jobless(*_WAY[:n]) for n, s in enumerate(_WAY, start=1)},  # type: ignore[misc]
    "failed": _job_failed,
    "failed, expired": lambda: _job_failed(expired=True),
    "failed, with deals": lambda: _job_failed(deals=1),
    "failed, called off": _called_off,
    "failed, its flight began": _begun,
    "failed, no job": lambda: _jobless("brief_received", "failed"),
    "completed": _completed,
}


def _put_forward(campaign: Campaign) -> Deal:
    deal = make_deal(seller=Seller.objects.get(), account=False, campaign_id=campaign.pk)
    Deal.objects.filter(pk=deal.pk).update(account=Account.objects.get())
    return Deal.objects.get(pk=deal.pk)


def _booked(campaign: Campaign) -> Deal:
    deal = _put_forward(campaign)
    approve_deal(deal)
    for status in ("booking", "booked"):
        transition(deal, status, actor="system")
    return deal


# ---- everything that can be tried


def _jobs(campaign: Campaign) -> list[Job]:
    return list(Job.objects.filter(subject_id=campaign.pk, status__in=JOB_OPEN))


def _step(action: Callable[..., Any], campaign: Campaign, **inputs: Any) -> None:
    """A step of its job, where one runs."""
    for job in _jobs(campaign):
        action(SimpleNamespace(job=job, inputs=inputs))


def _no_seller_is_left(campaign: Campaign) -> None:
    Seller.objects.update(active=False)
    _step(validate, campaign)


def _recommends(campaign: Campaign) -> None:
    _put_forward(campaign)
    _step(recommend, campaign, research=[])


def _decided(campaign: Campaign) -> None:
    deal = _put_forward(campaign)
    approve_deal(deal)
    _step(approve, campaign, deals=[str(deal.pk)])


def _all_booked(campaign: Campaign) -> None:
    _booked(campaign)
    _step(complete, campaign)


def _job_expires(campaign: Campaign) -> None:
    for job in _jobs(campaign):
        job_expire(job_id=job.pk, reason="its time is over")


def _called(campaign: Campaign, user: User) -> None:
    campaign_cancel(campaign_id=campaign.pk, user=user, reason="no longer wanted")


def _retried(campaign: Campaign, user: User) -> None:
    campaign_retry(campaign_id=campaign.pk, user=user, reason="it is back")


def _submitted(_campaign: Campaign, user: User) -> None:
    campaign_submit(user=user, raw=_raw())


def _attempts() -> Iterator[Callable[[Campaign], None]]:
    yield _no_seller_is_left
    yield lambda campaign: _step(allocate, campaign)
    yield _recommends
    yield _decided
    yield _all_booked
    yield lambda campaign: _step(complete, campaign)
    yield _job_expires
    yield lambda campaign: _called(campaign, make_user("Buyer"))
    yield lambda campaign: _retried(campaign, make_user("Ad Ops"))
    yield lambda campaign: _submitted(campaign, make_user("Buyer"))


def _reached(campaign: Campaign, attempt: Callable[[Campaign], None]) -> set[str]:
    """Where it went first, when that was tried; everything is as before afterwards."""
    with transaction.atomic():
        with contextlib.suppress(*_REFUSED):  # what was written before it was refused is kept
            attempt(campaign)
        entries = AuditEntry.objects.filter(entity_id=campaign.pk, seq__gt=campaign.version)
        moves = [one for one in entries.order_by("seq") if one.from_status != one.to_status]
        transaction.set_rollback(True)
    return {moves[0].to_status} if moves else set()


def _succeeds(act: Callable[[Campaign, User], None], campaign: Campaign, user: User) -> bool:
    with transaction.atomic():
        try:
            act(campaign, user)
        except _REFUSED:
            return False
        finally:
            transaction.set_rollback(True)
    return True


# ---- what is said against it


def test_every_state_stands_on_some_ground() -> None:
    assert {name.split(",")[0] for name in _GROUNDS} == set(CampaignStatus.values)


@pytest.mark.parametrize("ground", _GROUNDS)
def test_what_is_said_of_a_campaign_is_so(ground: str) -> None:
    """Each ground is made once: what is tried on it is taken back."""
    campaign = Campaign.objects.get(pk=_GROUNDS[ground]().pk)
    assert campaign.status == ground.split(",")[0]
    for is_so in (
        what_is_said_to_lead_on_does_and_nothing_else,
        those_who_are_named_can_and_nobody_else_can,
        many_jobs_found_to_be_retried_are_those_that_are,
    ):
        with undone():
            is_so(Campaign.objects.get(pk=campaign.pk))


def what_is_said_to_lead_on_does_and_nothing_else(campaign: Campaign) -> None:
    reached = {to for attempt in _attempts() for to in _reached(campaign, attempt)}
    assert campaign_ways(progress_of(campaign)) == reached


def those_who_are_named_can_and_nobody_else_can(campaign: Campaign) -> None:
    told = explain(campaign.reference, make_user("Administrator"))
    acts = {"call it off": _called, "retry ": _retried, "submit its brief": _submitted}
    for role in set(ROLES) - {"Integration"}:  # a machine is not named among people
        user = make_user(role)
        for words, act in acts.items():
            named = any(one.does.startswith(words) and role in one.roles for one in told.who)
            able = _succeeds(act, campaign, user)
            # A new brief may always be submitted; it is named where nothing else leads on.
            assert named == able or (act is _submitted and able and not named), (role, words)
    if not campaign_ways(progress_of(campaign)):
        assert not any("call it off" in one.does or "retry" in one.does for one in told.who)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_failed_campaign_tells_why_each_of_its_deals_came_to_nothing(status: str) -> None:
    campaign = _running("executing_bookings")
    deal = _put_forward(campaign)
    transition(deal, status, actor="system", reason="Its account was rejected: Credit check failed")
    transition(campaign, "failed", actor="system", reason="Nothing came of it")
    told = explain(campaign.reference, make_user("Administrator"))
    assert f"{deal.reference}: Its account was rejected: Credit check failed." in told.waiting_for


def _may_be_retried(job: Job, user: User) -> bool:
    """By trying it; everything is as before afterwards."""
    with transaction.atomic():
        try:
            job_retry(job_id=job.pk, actor=user, reason="it is back")
        except (JobRefusedError, TransitionError):
            return False
        finally:
            transaction.set_rollback(True)
    return True


def many_jobs_found_to_be_retried_are_those_that_are(_campaign: Campaign) -> None:
    ops = make_user("Ad Ops")
    jobs = list(Job.objects.all())
    may = {job.pk for job in jobs if _may_be_retried(job, ops)}
    found = Found(rows=jobs_wanted(ops, Wanted()), said={})
    if may:
        assert set(bulk_chosen(viewer=ops, act="retry", found=found).ids) == may
    else:
        with pytest.raises(JobRefusedError, match="nothing to retry"):
            bulk_chosen(viewer=ops, act="retry", found=found)
    if jobs:
        chosen = bulk_chosen(viewer=ops, act="retry", ids=[job.pk for job in jobs])
        assert (set(chosen.ids), chosen.able) == ({job.pk for job in jobs}, len(may))


def test_as_many_queries_tell_of_many_failed_jobs_as_of_one(
    django_assert_num_queries: Callable[[int], Any],
) -> None:
    """The rule is asked of up to 5,000 at once."""
    campaign = _job_failed()
    first = Job.objects.get()
    with django_assert_num_queries(3):
        assert retry_refusals([first]) == {}
    others = [_another_failed(campaign) for _ in range(3)]
    with django_assert_num_queries(3):
        assert retry_refusals([first, *others]) == {}


def _another_failed(like: Campaign) -> Job:
    campaign = campaign_submit(user=make_user("Buyer"), raw={**_raw(), "name": f"Like {like.reference}"})
    for step in _WAY[1:3]:
        transition(campaign, step, actor="system")
    job = Job.objects.get(subject_id=campaign.pk)
    job_expire(job_id=job.pk, reason="its time is over")
    return Job.objects.get(pk=job.pk)
