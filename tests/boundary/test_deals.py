"""Purchases, changes and cancellations are commands: what gates do to a deal."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

import pytest

from campaigns.gates import why_closed
from campaigns.models import Campaign
from campaigns.services import campaign_submit
from orders.models import Deal, DealLine, DealStatus
from orders.questions import DIFFERENT
from orders.services import deal_book
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.jobs.models import Job, JobStatus
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tests.boundary.conftest import answered, asked, stopped
from tests.campaigns.briefs import brief
from tests.factories import approve_deal, make_advertiser, make_deal, make_line, make_seller, make_user
from tests.operations.making import fresh, not_sent, observed
from tests.orders.live import booked

pytestmark = pytest.mark.django_db


def approved() -> Deal:
    """A deal that people approved; its job is about to book it."""
    deal = make_deal(make_line(budget=Decimal(60_000)))
    approve_deal(deal)
    return deal


def run_on(deal: Deal) -> Job:
    drain()
    deal.refresh_from_db()
    return Job.objects.get(subject_id=deal.pk)


def test_a_purchase_is_a_command_of_its_deal() -> None:
    deal = approved()
    run_on(deal)
    command = Command.objects.get()
    assert (command.kind, command.adapter, command.key) == (
        "order_place",
        "adcp",
        f"deal:{deal.pk}:create_media_buy",
    )
    assert (command.subject_id, command.team_id, command.seller_id) == (deal.pk, deal.team_id, deal.seller_id)
    assert deal.status == DealStatus.BOOKING


def test_the_kill_switch_keeps_a_deal_accepted_until_it_is_off() -> None:
    deal = approved()
    stopped()
    job = run_on(deal)
    assert deal.status == DealStatus.ACCEPTED
    assert job.steps.get(status="awaiting_user_confirmation").waiting_for["ids"] == [str(asked().pk)]
    assert claim_sends(limit=5) == []
    stopped(on=False)
    gates_ask_again()
    run_on(deal)
    assert deal.status == DealStatus.BOOKING
    assert len(claim_sends(limit=5)) == 1


def test_a_purchase_that_is_refused_at_its_gate_calls_the_deal_off() -> None:
    deal = approved()
    stopped()
    run_on(deal)
    answered("reject")
    job = run_on(deal)
    assert (job.status, deal.status) == (JobStatus.FAILED, DealStatus.CANCELLED)
    assert Operation.objects.get(task_type="create_media_buy").status == O.CANCELED
    called_off = AuditEntry.objects.get(entity_id=deal.pk, to_status=DealStatus.CANCELLED)
    refused = Approval.objects.get(subject_type="command", status="rejected")
    assert called_off.metadata["approval"] == refused.reference, "that is what its asker is told"
    stopped(on=False)
    assert claim_sends(limit=5) == []


def test_booking_again_answers_the_purchase_there_is() -> None:
    deal = approved()
    run_on(deal)
    operation = Operation.objects.get()
    DealLine.objects.filter(deal=deal).update(budget=1)  # it was changed since
    assert deal_book(deal=deal).pk == operation.pk
    assert Command.objects.count() == 1


def test_a_cancellation_at_the_seller_waits_too_and_goes_on_by_itself() -> None:
    deal = booked()
    Deal.objects.filter(pk=deal.pk).update(differs=True, differences=[{"field": "budget"}])
    from orders.questions import ask_booked_differently

    question = ask_booked_differently(Deal.objects.get(pk=deal.pk))
    stopped()
    approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="reject", comment="No.")
    cancel = Operation.objects.get(task_type="update_media_buy")
    assert Command.objects.get(key=cancel.purpose).kind == "order_stop"
    assert (cancel.status, cancel.send_at) == (O.REQUESTED, None)
    assert Approval.objects.get(kind=DIFFERENT).status == "rejected"
    stopped(on=False)
    gates_ask_again()
    assert fresh(cancel).send_at is not None


class TestCeiling:
    """A repeated purchase must still fit the campaign's budget."""

    @pytest.fixture
    def campaign(self) -> Campaign:
        make_advertiser()
        made = campaign_submit(
            user=make_user("Buyer"), raw=brief(brand_domain=make_advertiser().brand_domain)
        )
        Campaign.objects.filter(pk=made.pk).update(budget=Decimal(100_000), currency="USD")
        return made

    def bought(self, campaign: Campaign) -> tuple[Deal, Operation]:
        deal = approved()
        Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
        operation = deal_book(deal=deal)
        claim_one(operation_id=operation.pk)
        observed(operation_id=operation.pk, seen=not_sent(), channel="reply")
        Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
        return deal, operation

    # Each status: whether it counts, and the way there, for what counts from its approval.
    WAYS: ClassVar[dict[str, tuple[bool, tuple[str, ...]]]] = {
        "quoted": (False, ()),
        "negotiating": (False, ("negotiating",)),
        "failed": (False, ("failed",)),
        "cancelled": (False, ("cancelled",)),
        "expired": (False, ("expired",)),
        "accepted": (True, ()),
        "booking": (True, ("booking",)),
        "booked": (True, ("booking", "booked")),
        "delivering": (True, ("booking", "booked", "delivering")),
        "completed": (True, ("booking", "booked", "delivering", "completed")),
        "makegood_pending": (True, ("booking", "booked", "delivering", "makegood_pending")),
        "partially_canceled": (True, ("booking", "booked", "partially_canceled")),
    }
    # Where what is over was let go before it ended: nothing of it counts, however it came there.
    ENDS: ClassVar[list[tuple[str, ...]]] = [
        ("cancelled",),
        ("booking", "cancelled"),
        ("booking", "failed"),
        ("booking", "booked", "cancelled"),
        ("booking", "booked", "delivering", "cancelled"),
        ("booking", "booked", "partially_canceled", "cancelled"),
    ]

    def commit(self, campaign: Campaign, amount: int) -> None:
        other = make_deal(make_line(budget=Decimal(amount)), seller=Deal.objects.get().seller, account=False)
        Deal.objects.filter(pk=other.pk).update(campaign_id=campaign.pk)
        self.approve(campaign, other)
        assert other.status == DealStatus.ACCEPTED

    def approve(self, campaign: Campaign, deal: Deal) -> None:
        """While its campaign's budget was larger."""
        own = Campaign.objects.filter(pk=campaign.pk)
        budget = own.get().budget
        own.update(budget=Decimal(1_000_000))
        approve_deal(deal)
        own.update(budget=budget)

    def test_it_goes_out_while_it_fits(self, campaign: Campaign) -> None:
        _, operation = self.bought(campaign)
        self.commit(campaign, 40_000)
        assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]

    def test_it_waits_for_a_person_where_it_does_not(self, campaign: Campaign) -> None:
        _, operation = self.bought(campaign)
        self.commit(campaign, 40_001)
        assert claim_sends(limit=5) == []
        question = asked()
        assert question.evidence["gates"] == ["ceiling"]
        assert question.evidence["why"] == (
            f"{campaign.reference} would come to 100001.0000 USD, above its budget of 100000.0000"
        )
        answered("approve")
        assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]

    @pytest.mark.parametrize("status", DealStatus.values)
    def test_what_is_with_a_seller_or_on_its_way_counts_and_nothing_else(
        self, campaign: Campaign, status: str
    ) -> None:
        deal, _ = self.bought(campaign)
        other = make_deal(make_line(budget=Decimal(40_001)), seller=make_seller("Another"))
        Deal.objects.filter(pk=other.pk).update(campaign_id=campaign.pk)
        counts, way = self.WAYS[status]
        assert self.led(campaign, other, way, approved=counts).status == status
        again = Command(kind="order_place", subject_type="deal", subject_id=deal.pk)
        assert bool(why_closed(again)) == counts

    @pytest.mark.parametrize("way", ENDS, ids=" ".join)
    def test_what_was_let_go_and_is_over_counts_nothing(
        self, campaign: Campaign, way: tuple[str, ...]
    ) -> None:
        deal, _ = self.bought(campaign)
        other = make_deal(make_line(budget=Decimal(40_001)), seller=make_seller("Another"))
        Deal.objects.filter(pk=other.pk).update(campaign_id=campaign.pk)
        again = Command(kind="order_place", subject_type="deal", subject_id=deal.pk)
        before = self.led(campaign, other, way[:-1], approved=True)
        assert why_closed(again)
        transition(before, way[-1], actor="system")
        assert why_closed(again) == ""

    def led(self, campaign: Campaign, deal: Deal, way: tuple[str, ...], *, approved: bool) -> Deal:
        """The deal, led on along declared edges."""
        if approved:
            self.approve(campaign, deal)
        deal = Deal.objects.get(pk=deal.pk)
        for step in way:
            transition(deal, step, actor="system")
        return deal

    def test_a_change_counts_what_it_makes_of_the_deal(self, campaign: Campaign) -> None:
        deal, _ = self.bought(campaign)
        DealLine.objects.filter(deal=deal).update(package_id="p-1")
        change = Command(
            kind="order_change",
            subject_type="deal",
            subject_id=deal.pk,
            payload={"arguments": {"packages": [{"package_id": "p-1", "budget": 100_000.01}]}},
        )
        assert "100000.01" in why_closed(change)
        change.payload["arguments"]["packages"][0]["budget"] = 100_000
        assert why_closed(change) == ""
        change.kind = "order_stop"
        assert why_closed(change) == ""

    @pytest.mark.parametrize(
        ("wanted", "is_closed"),
        [
            ({"packages": [{"package_id": "p-1", "budget": 25_000}]}, False),
            ({"paused": True}, False),
            ({"packages": [{"package_id": "p-1", "budget": 60_001}]}, True),
        ],
    )
    def test_what_makes_nothing_dearer_leaves_however_much_is_committed(
        self, campaign: Campaign, wanted: dict[str, Any], is_closed: bool
    ) -> None:
        """A cut that did not get through would else wait while the media buy spends on."""
        deal, _ = self.bought(campaign)
        self.commit(campaign, 60_000)
        DealLine.objects.filter(deal=deal).update(package_id="p-1")
        change = Command(
            kind="order_change", subject_type="deal", subject_id=deal.pk, payload={"arguments": wanted}
        )
        assert bool(why_closed(change)) == is_closed
