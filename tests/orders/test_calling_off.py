"""What was called off before anything of it was had at its seller is never bought; what may have been stays
with the seller. Wherever the purchase stands, and however it is called off."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from campaigns.acts import campaign_cancel
from campaigns.models import Campaign
from campaigns.services import campaign_submit
from orders.models import Deal
from orders.services import deal_book
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.commands.models import KillSwitch
from tasks_app.commands.questions import gates_ask_again
from tasks_app.jobs.endings import job_cancel, job_expire
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.steering import step_skip
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish_due
from tests.campaigns.briefs import brief
from tests.factories import approve_deal, make_advertiser, make_deal, make_user
from tests.jobs.claiming import claim_step
from tests.operations.making import failed, give_back, not_sent, observed, silent
from tests.orders.late import fresh, say
from tests.support import undone

pytestmark = pytest.mark.django_db


def purchase() -> Operation:
    return Operation.objects.get(task_type="create_media_buy")


def waiting(deal: Deal) -> Operation:
    """Its step has asked for the purchase, and sleeps."""
    drain()
    return purchase()


def tried(deal: Deal, seen: Seen) -> Operation:
    """Sent once, and this was seen of it."""
    operation = waiting(deal)
    assert claim_one(operation_id=operation.pk) is not None
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    give_back(operation.pk)
    return operation


def killed(deal: Deal) -> None:
    """The worker of its step dies after the booking's commit, before the step sleeps."""
    assert claim_step() is not None
    deal_book(deal=fresh(deal))


def stopped(deal: Deal) -> None:
    kill_switch_set(on=True, reason="A drill", actor="system")
    waiting(deal)


def out(deal: Deal) -> None:
    """A call is out at this moment."""
    assert claim_one(operation_id=waiting(deal).pk) is not None


def accepted(deal: Deal) -> None:
    say(tried(deal, silent()), "submitted", channel="webhook")


def in_flight() -> Seen:
    """With that a seller says that it has a request with this key."""
    return failed("IDEMPOTENCY_IN_FLIGHT", "transient", retry_after=1.0)


def locked_out() -> Seen:
    return Seen(kind="answer", status="auth-required", raw_status="auth-required")


# Where the purchase stands, and whether it certainly had no effect.
STANDS: dict[str, tuple[Callable[[Deal], object], bool]] = {
    "approved": (lambda deal: None, True),
    "its worker was killed": (killed, True),
    "at a gate": (stopped, True),
    "queued": (waiting, True),
    "refused at the door": (lambda deal: tried(deal, not_sent()), True),
    "credentials are wanted": (lambda deal: tried(deal, locked_out()), True),
    "a call is out": (out, False),
    "no answer came": (lambda deal: tried(deal, silent()), False),
    "the seller works on it": (lambda deal: tried(deal, in_flight()), False),
    "the seller has it": (accepted, False),
}


def job_of(deal: Deal) -> Job:
    return Job.objects.get(subject_id=deal.pk, recipe="book_deal")


def _job_cancelled(deal: Deal) -> None:
    job_cancel(job_id=job_of(deal).pk, actor=make_user("Ad Ops"), reason="Called off")


def _job_expired(deal: Deal) -> None:
    assert job_expire(job_id=job_of(deal).pk, reason="Called off: its time is over")


def _step_skipped(deal: Deal) -> None:
    step = Step.objects.get(job=job_of(deal), key="buy")
    step_skip(step_id=step.pk, actor=make_user("Ad Ops"), reason="Called off")
    drain()


def _campaign_called_off(deal: Deal) -> None:
    campaign = Campaign.objects.get(pk=deal.campaign_id)
    campaign_cancel(campaign_id=campaign.pk, user=make_user("Ad Ops"), reason="Called off")


WAYS: dict[str, Callable[[Deal], None]] = {
    "its job is cancelled": _job_cancelled,
    "its job expires": _job_expired,
    "its step is skipped": _step_skipped,
    "its campaign is called off": _campaign_called_off,
}


def of_a_campaign() -> Deal:
    """A deal of a campaign in the place of one that came to nothing: a job of its own books it."""
    buyer = make_user("Buyer")
    campaign = campaign_submit(user=buyer, raw=brief(brand_domain=make_advertiser().brand_domain))
    lost = make_deal(campaign_id=campaign.pk)
    transition(lost, "failed", actor="system", reason="Refused")
    return make_deal(campaign_id=campaign.pk, follows=lost, seller=lost.seller, account=lost.account)


def each_called_off(stands: str, is_so: Callable[[Deal, str], None]) -> None:
    """Try it of the deal once it was called off, each way, where its purchase stood there."""
    by_its_campaign = "its campaign is called off"
    for ground, ways in ((make_deal, WAYS.keys() - {by_its_campaign}), (of_a_campaign, {by_its_campaign})):
        with undone():
            deal = ground()
            approve_deal(deal)
            STANDS[stands][0](deal)
            for way in sorted(ways):
                # A step that a worker has is not skipped.
                if (stands, way) != ("its worker was killed", "its step is skipped"):
                    with undone():
                        WAYS[way](fresh(deal))
                        publish_due(limit=10)
                        drain()
                        is_so(fresh(deal), way)


def leaves() -> list[str]:
    """What is sent from now on, a day long: the switch is off, the credentials are there."""
    if KillSwitch.objects.exists():
        kill_switch_set(on=False, reason="Over", actor="system")
    later = clock.now() + timedelta(days=1)
    with clock.injected(lambda: later):
        gates_ask_again()
        drain()
        return [call.tool for call in claim_sends(limit=10) if call.tool == "create_media_buy"]


def it_is_never_bought(deal: Deal, way: str) -> None:
    assert deal.status == "cancelled", way
    assert leaves() == [], way
    assert not Operation.objects.filter(task_type="create_media_buy", settled_at=None).exists(), way
    assert not Approval.objects.filter(status="open", subject_type="command").exists(), way
    assert not Approval.objects.filter(status="open", subject_id=deal.pk).exists(), way
    if way != "its step is skipped":  # that reason is the step's
        assert "Called off" in AuditEntry.objects.filter(entity_id=deal.pk).latest("seq").reason


def it_is_followed_to_its_end(deal: Deal, way: str) -> None:
    operation = purchase()
    assert (deal.status, operation.settled_at) == ("booking", None), way
    is_out = CallLease.objects.filter(pk=operation.pk).exists()
    assert is_out or operation.send_at or operation.next_poll_at, way


@pytest.mark.parametrize("stands", STANDS)
def test_what_had_no_effect_is_never_bought_and_what_may_have_had_one_is_followed(stands: str) -> None:
    _, unsent = STANDS[stands]
    each_called_off(stands, it_is_never_bought if unsent else it_is_followed_to_its_end)


def test_a_booking_whose_purchase_people_skip_ends_well_and_buys_nothing() -> None:
    deal = make_deal()
    approve_deal(deal)
    job = Job.objects.get(subject_id=deal.pk)
    buy = Step.objects.get(job=job, key="buy")
    step_skip(step_id=buy.pk, actor=make_user("Ad Ops"), reason="bought by phone")
    drain()
    job.refresh_from_db()
    assert (job.status, job.outputs) == ("COMPLETED", {"deal_id": str(deal.pk), "status": ""})
    assert fresh(deal).status == "cancelled"
    assert not Operation.objects.filter(subject_id=deal.pk).exists()
