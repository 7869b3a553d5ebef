"""What a seller refused as correctable: told in its words everywhere, corrected, decided on again, sent."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from campaigns.actions import complete
from campaigns.models import Campaign
from campaigns.services import campaign_submit
from orders.models import Deal
from orders.services import deal_book, deal_cancel_at_seller
from tasks_app.adcp.types import WireError
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.desk.explain import explain
from tasks_app.jobs import engine
from tasks_app.jobs.actions import Done, WaitForApprovals, WaitForOperation
from tasks_app.jobs.models import Job
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.corrections import correction_arguments, correction_refusal
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.steer_forms import steering_data
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.people.actors import actor_key
from tests.campaigns.briefs import brief
from tests.factories import approve_deal, make_advertiser, make_deal, make_user
from tests.jobs.claiming import claim_step
from tests.orders.late import bought, cancellation, decide, ended, fresh, kept, say
from tests.orders.refusing import WORDS, correct, corrected, refuse, refused, refused_change

pytestmark = pytest.mark.django_db
# ---- told


def test_operation_deal_and_job_are_explained_in_the_sellers_words() -> None:
    deal, operation = refused()
    drain()
    viewer = make_user("Ad Ops")
    for named in (operation.reference, deal.reference, Job.objects.get().reference):
        told = explain(named, viewer).waiting_for
        assert WORDS in told, named
        assert "could not be had" not in told
    for named in (operation.reference, deal.reference):
        assert any("correct" in one.does and "Ad Ops" in one.roles for one in explain(named, viewer).who)
    correct(operation, viewer)
    assert not any("correct" in one.does for one in explain(deal.reference, viewer).who)


def test_a_job_without_a_subject_is_explained_by_the_deal_that_its_inputs_name() -> None:
    deal, _ = refused()
    drain()
    Job.objects.update(subject_type="", subject_id=None)
    assert WORDS in explain(Job.objects.get().reference, make_user("Ad Ops")).waiting_for
    assert Job.objects.get().inputs == {"deal_id": str(deal.pk)}


def test_a_campaign_tells_what_the_sellers_of_its_deals_said_and_why_its_job_failed() -> None:
    deal, _ = refused()
    drain()
    campaign = campaign_submit(
        user=make_user("Buyer"), raw=brief(brand_domain=make_advertiser().brand_domain)
    )
    step = claim_step()
    assert step is not None
    engine.mark_failed(step=step, error="no product of any seller fits the brief")
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
    told = explain(Campaign.objects.get().reference, make_user("Buyer")).waiting_for
    assert "no product of any seller fits the brief" in told
    assert f"{deal.reference}: {WORDS}" in told


# ---- corrected


def test_a_corrected_purchase_is_a_new_deal_put_to_people_and_sent_as_they_approved_it() -> None:
    lost, operation = refused()
    drain()
    steers = make_user("Ad Ops")
    new = correct(operation, steers)

    assert (new.status, new.send_at) == ("requested", None), "nothing leaves before the decision"
    assert new.idempotency_key != operation.idempotency_key
    deal = Deal.objects.get(follows=lost)
    assert new.subject_id == deal.pk
    assert (deal.status, deal.requested_by) == ("quoted", actor_key(steers))
    line, before = deal.lines.get(), lost.lines.get()
    assert line.budget == Decimal(12000)
    kept = ("channel", "product_name", "rate", "pricing_model", "guaranteed", "terms")
    assert [getattr(line, name) for name in kept] == [getattr(before, name) for name in kept]
    asked = Approval.objects.get(kind="deal", subject_id=deal.pk, status="open")
    assert asked.amount == Decimal(12000)

    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve", comment="Go.")
    drain()
    new.refresh_from_db()
    assert (fresh(deal).status, new.send_at is not None) == ("booking", True)
    assert new.request["packages"][0]["budget"] == 12000
    assert new.request["po_number"] == deal.reference
    assert new.request["context"]["deal_id"] == str(deal.pk)
    assert fresh(lost).status == "failed", "what is over is never reopened"


def test_a_campaigns_corrected_purchase_stays_its_own_and_is_booked() -> None:
    lost, operation = refused()
    drain()
    campaign_id = make_advertiser().pk  # any id: no job works on it
    Deal.objects.filter(pk=lost.pk).update(campaign_id=campaign_id)
    new = correct(operation)
    deal = Deal.objects.get(follows=lost)
    assert deal.campaign_id == campaign_id
    decide("deal", "approve")
    drain()
    new.refresh_from_db()
    assert new.send_at is not None


def test_a_running_campaign_waits_for_what_was_corrected() -> None:
    campaign, lost, operation = _executing()
    job = Job.objects.get(subject_id=campaign.pk)
    run: Any = SimpleNamespace(job=job)
    correct(operation)
    assert isinstance(complete(run), WaitForApprovals)
    decide("deal", "approve")
    deal = Deal.objects.get(follows=lost)
    new = deal_book(deal=fresh(deal))
    assert complete(run) == WaitForOperation(operation_id=new.pk)
    claim_one(operation_id=new.pk)
    say(new, "completed", bought(deal), channel="reply")
    assert isinstance(complete(run), Done)
    campaign.refresh_from_db()
    assert campaign.status == "completed"


def _executing() -> tuple[Campaign, Deal, Operation]:
    """A campaign whose only deal its seller refused, and whose job has still to end it."""
    lost, operation = refused()
    drain()
    raw = brief(brand_domain=make_advertiser().brand_domain)
    campaign = campaign_submit(user=make_user("Buyer"), raw=raw)
    for status in ("budget_allocated", "researching", "awaiting_approval", "executing_bookings"):
        transition(campaign, status, actor="system")
    Deal.objects.filter(pk=lost.pk).update(campaign_id=campaign.pk)
    return campaign, lost, operation


def test_who_corrects_does_not_decide() -> None:
    _, operation = refused()
    both = make_user("Administrator")
    correct(operation, both)
    asked = Approval.objects.get(kind="deal", status="open")
    with pytest.raises(DecisionRefusedError, match="somebody else decides"):
        approval_decide(approval_id=asked.pk, user=both, verdict="approve", comment="Mine.")


def test_where_who_asked_before_may_decide_nobody_else_corrects() -> None:
    asker = make_user("Administrator", name="asker")
    _, operation = refused(requested_by=actor_key(asker))
    with pytest.raises(SteeringRefusedError, match="asker asked for it"):
        correct(operation)
    assert correct(operation, asker).status == "requested"


def test_a_deal_that_followed_another_is_barred_to_who_asked_for_the_first() -> None:
    asker = make_user("Administrator", name="asker")
    lost, operation = refused(requested_by=actor_key(asker))
    new = correct(operation, asker)
    Deal.objects.filter(follows=lost).update(requested_by="system")
    decide("deal", "approve")
    drain()
    again = refuse(Operation.objects.get(pk=new.pk))
    with pytest.raises(SteeringRefusedError, match="asker asked for it"):
        correct(again, **corrected(again, budget=13000))


def test_a_refused_correction_is_free_to_be_made_again_a_standing_one_is_not() -> None:
    _, operation = refused()
    first = correct(operation)
    with pytest.raises(SteeringRefusedError, match=f"corrected already: {first.reference}"):
        correct(operation)
    decide("deal", "reject")
    first.refresh_from_db()
    assert first.status == "canceled"
    assert correct(operation).pk != first.pk


def test_what_was_kept_in_its_place_is_not_corrected() -> None:
    lost, operation = refused()
    kept(lost, "mb-2")
    with pytest.raises(SteeringRefusedError, match="for the same order"):
        correct(operation)


def still_open(what: str) -> tuple[Deal, Operation]:
    """Refused as correctable, and yet what its seller can be asked for by nobody."""
    if what == "a purchase in whose place another deal is":
        deal, operation = refused()
        kept(deal)
        return deal, operation
    deal, operation = refused_change()
    ending = deal_cancel_at_seller(deal=deal, actor="system", reason="No longer wanted")
    ended(ending, "completed", {"media_buy_id": deal.media_buy_id, "media_buy_status": "canceled"})
    assert fresh(deal).status == "cancelled"
    return deal, operation


NOT_ANEW = ("a purchase in whose place another deal is", "a change of a deal that is over")


@pytest.mark.parametrize("what", NOT_ANEW)
def test_correcting_is_offered_nowhere_where_it_is_refused(what: str) -> None:
    deal, operation = still_open(what)
    viewer = make_user("Ad Ops")
    with pytest.raises(SteeringRefusedError, match=r"for the same order|nothing to change") as refusal:
        correct(operation, viewer)
    assert correction_refusal(operation) == str(refusal.value)
    data = steering_data(operation, viewer)
    assert (data["correctable"], data["arguments"]) == (False, "")
    for named in (operation.reference, deal.reference):
        assert not any("correct" in one.does for one in explain(named, viewer).who), named


def test_a_refused_change_is_corrected_for_the_same_deal() -> None:
    deal, operation = refused_change()
    assert fresh(deal).status == "booked"

    new = correct(operation)
    assert (new.status, new.send_at, new.subject_id) == ("requested", None, deal.pk)
    assert new.request["packages"][0]["budget"] == 12000
    decide("deal_change", "approve")
    new.refresh_from_db()
    assert new.send_at is not None
    answered = {"media_buy_id": deal.media_buy_id, "affected_packages": new.request["packages"]}
    ended(cancellation(), "completed", answered)
    assert fresh(deal).lines.get().budget == Decimal(12000)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"idempotency_key": "mine-mine-mine-mine"}, "set by Flightdeck"),
        ({"packages": []}, "packages"),
        ({"start_time": "asap"}, "start_time"),
        ({"brand": {"domain": "another.example"}}, "brand"),
        ({"no_such": 1}, "is not a field"),
    ],
)
def test_what_is_wrong_is_refused_by_field_and_nothing_is_made(changed: dict[str, Any], why: str) -> None:
    _, operation = refused()
    before = (Deal.objects.count(), Operation.objects.count(), Approval.objects.count())
    with pytest.raises(SteeringRefusedError, match=why) as caught:
        correct(operation, **changed)
    assert caught.value.code == "arguments"
    assert (Deal.objects.count(), Operation.objects.count(), Approval.objects.count()) == before


def test_the_same_again_is_no_correction() -> None:
    _, operation = refused()
    with pytest.raises(SteeringRefusedError, match="Nothing is corrected"):
        correct(operation, **correction_arguments(operation))


def test_only_what_is_correctable_and_over_is_corrected() -> None:
    _, operation = refused(WireError(code="POLICY_VIOLATION", message="No.", recovery="terminal"))
    with pytest.raises(SteeringRefusedError, match="does not say"):
        correct(operation)
    deal = make_deal(seller=operation.seller, account=False)
    Deal.objects.filter(pk=deal.pk).update(account=operation.account)
    approve_deal(fresh(deal))
    running = deal_book(deal=fresh(deal))
    claim_one(operation_id=running.pk)
    say(running, "submitted", channel="reply")
    with pytest.raises(SteeringRefusedError, match="only what its seller refused"):
        correct(running)
    with pytest.raises(SteeringRefusedError, match="right"):
        correct(operation, make_user("Buyer"))
