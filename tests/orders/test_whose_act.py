"""What a person's act ends is recorded as theirs: every entry of the act, of whatever it ends with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from campaigns.acts import campaign_cancel, campaign_retry
from campaigns.models import Campaign
from campaigns.services import campaign_submit
from orders.acts import deal_withdraw
from orders.ask import Ask
from orders.changes.send import change_ask
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.jobs.endings import job_cancel
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.steering import step_skip
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.steering import operation_resend, operation_stop
from tasks_app.people.models import User
from tasks_app.sellers.services import change_withdraw
from tasks_app.sellers.trust import row_change
from tests.campaigns.briefs import brief
from tests.factories import approve_deal, make_advertiser, make_deal, make_user
from tests.operations.making import stand
from tests.orders.asking import booked
from tests.orders.late import booking, bought, give_up, say
from tests.orders.live import booked as live
from tests.orders.test_corrected import correct, refused
from tests.orders.test_four_eyes import fail

pytestmark = pytest.mark.django_db
Act = Callable[[], object]


def _stopped() -> None:
    """An approved deal whose purchase waits at the kill switch; its job waits for people."""
    deal = make_deal()
    approve_deal(deal)
    kill_switch_set(on=True, reason="A drill", actor="system")
    drain()


def _job_at_a_gate(who: User) -> Act:
    _stopped()
    return lambda: job_cancel(job_id=Job.objects.get().pk, actor=who, reason="No longer wanted")


def _step_at_a_gate(who: User) -> Act:
    _stopped()
    return lambda: step_skip(step_id=Step.objects.get(key="buy").pk, actor=who, reason="By letter")


def _gate(who: User) -> Act:
    _stopped()
    asked = Approval.objects.get(status="open")
    return lambda: approval_decide(approval_id=asked.pk, user=who, verdict="reject", comment="No.")


def _campaign(who: User) -> Campaign:
    raw = brief(brand_domain=make_advertiser().brand_domain)
    return campaign_submit(user=make_user("Buyer"), raw=raw)


def _campaign_with_deals(who: User) -> Act:
    campaign = _campaign(who)
    first = make_deal()
    second = make_deal(seller=first.seller, account=first.account)
    approve_deal(first)
    ask_deal(second)
    Deal.objects.update(campaign_id=campaign.pk)
    return lambda: campaign_cancel(campaign_id=campaign.pk, user=who, reason="The client has gone")


def _failed_campaign(who: User) -> Act:
    campaign = _campaign(who)
    fail(campaign)
    return lambda: campaign_retry(campaign_id=campaign.pk, user=who, reason="They are back")


def _asked_for(who: User) -> Approval:
    """An integrator's purchase, held until people decide."""
    _, operation = refused()
    drain()
    correct(operation)
    return Approval.objects.get(kind="deal", status="open")


def _deal(who: User) -> Act:
    asked = _asked_for(who)
    return lambda: deal_withdraw(deal_id=asked.subject_id, user=who, reason="No longer wanted")


def _recommendation(who: User) -> Act:
    asked = _asked_for(who)
    return lambda: approval_decide(approval_id=asked.pk, user=who, verdict="reject", comment="No.")


def _other_amounts(who: User) -> Act:
    deal = make_deal()
    asked = ask_deal(deal)
    return lambda: approval_decide(
        approval_id=asked.pk, user=who, verdict="approve", budgets={1: deal.lines.get(position=1).budget / 2}
    )


def _kept_late(who: User) -> Act:
    deal, operation = booking()
    give_up(operation)
    say(operation, "completed", bought(deal))
    asked = Approval.objects.get(kind="unclaimed", status="open")
    return lambda: approval_decide(approval_id=asked.pk, user=who, verdict="approve", comment="Ours.")


def _change(who: User) -> Act:
    _ask_change(live())
    asked = Approval.objects.get(kind="deal_change")
    return lambda: approval_decide(approval_id=asked.pk, user=who, verdict="reject", comment="No.")


def _ask_change(deal: Deal) -> None:
    package = {"package_id": deal.lines.get().package_id, "budget": 9000}
    arguments = {"media_buy_id": deal.media_buy_id, "packages": [package]}
    change_ask(Ask(user=make_user("Buyer"), task="update_media_buy", seller=deal.seller, arguments=arguments))


def _change_of_what_is_refused(who: User) -> Act:
    """Somebody takes the seller's second word, that it refuses the purchase, while a change waits."""
    deal, operation = booked(make_user("Buyer"))
    _ask_change(Deal.objects.select_related("seller").get(pk=deal.pk))
    say(operation, "rejected", channel="webhook")
    asked = Approval.objects.get(kind="conflict", status="open")
    return lambda: approval_decide(approval_id=asked.pk, user=who, verdict="reject", comment="So they say.")


def _seller_change(who: User) -> Act:
    seller = stand("submitted").seller
    row_change(
        row=seller, values={"jwks_url": "https://elsewhere.example/jwks.json"}, actor=make_user("Ad Ops")
    )
    return lambda: change_withdraw(row=seller, actor=who)


def _overdue(who: User) -> Act:
    operation = stand("submitted", sent_at=booked(who)[1].created_at)
    operation_stop(operation_id=operation.pk, user=make_user("Ad Ops"), reason="They closed the desk.")
    return lambda: operation_resend(operation_id=operation.pk, user=who, reason="After all.")


ACTS: dict[str, Callable[[User], Act]] = {
    "a job is cancelled": _job_at_a_gate,
    "a step is skipped": _step_at_a_gate,
    "a gate is refused": _gate,
    "a campaign is called off": _campaign_with_deals,
    "a campaign is retried": _failed_campaign,
    "a deal is withdrawn": _deal,
    "a recommendation is rejected": _recommendation,
    "other amounts are approved": _other_amounts,
    "a late purchase is kept": _kept_late,
    "a change is rejected": _change,
    "a refusal is taken": _change_of_what_is_refused,
    "a change of a seller is withdrawn": _seller_change,
    "what was overdue is sent again": _overdue,
}
# What the system does because of it, by itself.
BY_ITSELF = {
    ("job", "queued"),  # planned
    ("step", "queued"),
    ("step", "received"),
}


# What follows of one act alone: the question put anew and the job that buys are the system's, as is the rest
# of a job whose step is skipped, and that the media buy is booked is its seller's word.
BY_OTHERS = {
    "a step is skipped": {
        ("step", "queued", "executing"),
        ("step", "executing", "completed"),
        ("job", "PROCESSING", "COMPLETED"),
    },
    "other amounts are approved": {("job", "", "PENDING")},
    "a late purchase is kept": {("deal", "booking", "booked")},
}


@pytest.mark.parametrize("what", ACTS)
def test_every_entry_of_a_persons_act_is_theirs(what: str) -> None:
    who = make_user("Administrator")
    act = ACTS[what](who)
    last = AuditEntry.objects.latest("id").pk
    act()
    made = AuditEntry.objects.filter(pk__gt=last).order_by("id")
    assert made, "it is recorded"
    others = {
        (one.entity_type, one.from_status, one.to_status)
        for one in made
        if one.actor != f"human:{who.pk}" and (one.entity_type, one.to_status.lower()) not in BY_ITSELF
    }
    assert others == BY_OTHERS.get(what, set())
