"""What people accepted of a media buy is what was approved from then on, until they decide anew."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from campaigns.rooms import room_for
from campaigns.surroundings import deal_detail, deal_places
from campaigns.today.cards import deals_out
from orders.adopt import AdoptionRefusedError, media_buy_adopt
from orders.amounts import deal_amounts, line_amounts
from orders.api.serializers import DealSerializer
from orders.evidence import cancellation_evidence, deal_evidence
from orders.models import Deal
from orders.presenters import deal_group, departure_sentences
from orders.questions import DIFFERENT
from orders.selectors import deal_sums, deals_with_rows
from orders.seller_state import deal_follow
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policy_models import ApprovalPolicy
from tasks_app.approvals.presenters import _short_title
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.models import Operation
from tests.factories import make_account, make_advertiser, make_deal, make_line, make_seller, make_user
from tests.orders import late
from tests.orders.live import packages, says
from tests.orders.test_amounts import campaign_of, changed, settled, two, without
from tests.rounds import rounds

pytestmark = pytest.mark.django_db
D = Decimal
Record = dict[str, Any]


def accepted(deal: Deal) -> Deal:
    """The deal, after people accepted what its seller books now: where it says less than they were shown they
    are shown that first."""
    while is_asked():
        try:
            late.decide(DIFFERENT, "approve")
        except DecisionRefusedError as refused:
            if refused.code != "changed":
                raise
    deal.refresh_from_db()
    assert not deal.differs
    return deal


def booked_at(budget: float, ordered: int = 100_000, **fields: Any) -> Deal:
    """Ordered at one amount, booked and accepted at another."""
    deal = make_deal(make_line(budget=D(ordered)), **fields)
    settled(deal, packages(deal, budget=budget))
    return accepted(deal)


def says_budget(deal: Deal, budget: float) -> Deal:
    return says(
        deal, "pending_start", revision=(deal.revision or 0) + 1, packages=packages(deal, budget=budget)
    )


def is_asked() -> bool:
    return Approval.objects.filter(kind=DIFFERENT, status="open").exists()


def test_what_was_accepted_is_what_was_approved() -> None:
    deal = booked_at(10_000.0)
    assert deal_amounts(deal).approved == deal_amounts(deal).committed == 10_000
    assert line_amounts(deal, deal.lines.get()).approved == 10_000
    assert (deal.differences, deal.accepted[0]["confirmed"]) == ([], "10000")
    assert verify_entity("deal", deal.pk).ok


@pytest.mark.parametrize("budget", [10_001.0, 50_000.0, 100_000.0, 200_000.0])
def test_more_than_was_accepted_is_asked_about_also_where_it_was_ordered(budget: float) -> None:
    deal = says_budget(booked_at(10_000.0), budget)
    (found,) = deal.differences
    assert (found["approved"], D(found["confirmed"])) == ("10000", D(str(budget)))
    assert (deal_amounts(deal).approved, deal_amounts(deal).committed) == (10_000, D(str(budget)))
    asked = Approval.objects.get(kind=DIFFERENT, status="open")
    assert (asked.amount, asked.evidence["gross"]) == (D(str(budget)), "10000")
    accepted(deal)
    assert deal_amounts(deal).approved == D(str(budget))


def test_a_rise_above_what_was_accepted_is_a_change_to_policies() -> None:
    ApprovalPolicy.objects.create(
        key="ten",
        name="Ten",
        rule="change",
        percent=D(10),
        kinds=[DIFFERENT],
        actor="system",
        reason="A test",
        quorum=2,
    )
    deal = make_deal(make_line(budget=D(100_000)))
    settled(deal, packages(deal, budget=99_000.0))
    accepted(deal)
    says_budget(deal, 10_000.0)
    first, second = make_user("Approver"), make_user("Approver")
    late.decide(DIFFERENT, "approve", user=first)
    late.decide(DIFFERENT, "approve", user=second)
    says_budget(late.fresh(deal), 95_000.0)
    assert Approval.objects.get(kind=DIFFERENT, status="open").quorum == 2


def test_the_room_of_a_campaign_is_what_runs_while_a_rise_is_undecided() -> None:
    campaign = campaign_of(1_000_000)
    deal = booked_at(10_000.0, campaign_id=campaign.pk)
    beside = make_deal(campaign_id=campaign.pk, seller=deal.seller, account=False)
    rooms = []
    for budget in (10_000.0, 100_000.0):
        says_budget(deal, budget)
        deal.refresh_from_db()
        room = room_for(beside)
        assert room is not None
        rooms.append(room.left)
    assert rooms == [990_000, 900_000]


def test_back_to_less_as_ordered_is_no_difference_and_more_again_is_one() -> None:
    deal = booked_at(15_000.0, ordered=10_000)
    says_budget(deal, 10_000.0)
    assert (deal.differs, deal.accepted, deal_amounts(deal).approved) == (False, [], 10_000)
    says_budget(deal, 15_000.0)
    assert deal.differs


def test_another_package_that_departs_leaves_the_accepted_one_as_it_is() -> None:
    deal = two()
    told = packages(deal)
    settled(deal, [told[0], told[1] | {"budget": 90_000.0}])
    accepted(deal)
    says(
        deal,
        "pending_start",
        revision=2,
        packages=[told[0] | {"budget": 12_000.0}, told[1] | {"budget": 90_000.0}],
    )
    assert [(one["line"], one["approved"]) for one in deal.differences] == [(1, "10000")]
    assert (deal_amounts(deal).approved, deal_amounts(deal).committed) == (100_000, 102_000)
    accepted(deal)
    assert deal_amounts(deal).approved == 102_000
    assert [line_amounts(deal, line).approved for line in deal.lines.all()] == [12_000, 90_000]


def adopted(**more: Any) -> tuple[Deal, Record]:
    """Bought by nobody here, adopted and not accepted; with its seller's record."""
    flight = {"start_time": "2030-01-01T00:00:00Z", "end_time": "2030-02-01T00:00:00Z"}
    package = {"package_id": "p1", "product_id": "olv", "budget": 5000}
    told = {
        "media_buy_id": "mb",
        "status": "active",
        "currency": "USD",
        "packages": [package],
        **flight,
        **more,
    }
    account = make_account(make_advertiser(), make_seller())
    return media_buy_adopt(account=account, user=make_user("Ad Ops"), reason="x", told=told), told


def follows(deal: Deal, told: Record, **more: Any) -> Deal:
    record = {**told, "revision": (deal.revision or 0) + 1, **more}
    deal = deal_follow(deal_id=deal.pk, buy=record, asked_at=clock.now())
    deal.refresh_from_db()
    return deal


def test_what_nobody_approved_is_approved_once_it_is_accepted() -> None:
    deal, told = adopted()
    assert deal_amounts(deal).approved == 0
    follows(deal, told)
    accepted(deal)
    assert deal_amounts(deal).approved == 5000
    dearer = [{"package_id": "p1", "product_id": "olv", "budget": 6000}]
    deal = follows(deal, told, packages=dearer)
    assert [(one["field"], one["approved"]) for one in deal.differences] == [("budget", "5000")]
    assert deal_amounts(deal).approved == 5000


# What a seller may tell of two packages that nobody here bought, and what adopting that comes to.
ADOPTED: dict[str, tuple[list[Record], Record, int]] = {
    "each priced": ([{"budget": 2000}, {"budget": 3000}], {}, 2),
    "each priced, with the total": ([{"budget": 2000}, {"budget": 3000}], {"total_budget": 5000}, 2),
    "one for nothing": ([{"budget": 0}, {"budget": 5000}], {"total_budget": 5000}, 2),
    "none priced": ([{}, {}], {"total_budget": 5000}, 1),
    "one unpriced": ([{"budget": 2000}, {}], {"total_budget": 5000}, 1),
    "none named": ([], {"total_budget": 5000}, 1),
}


@pytest.mark.parametrize("case", ADOPTED)
def test_what_was_adopted_does_not_depart_from_itself(case: str) -> None:
    priced, more, lines = ADOPTED[case]
    told_packages = [{"package_id": f"p{n}", "product_id": f"x{n}", **one} for n, one in enumerate(priced)]
    deal, told = adopted(packages=told_packages, **more)
    deal = follows(deal, told)
    assert [one["field"] for one in deal.differences] == ["approval"]
    assert (deal.lines.count(), deal_amounts(deal).confirmed) == (lines, 5000)
    accepted(deal)
    deal = follows(deal, told)
    assert (deal.differs, deal_amounts(deal).approved, deal_amounts(deal).committed) == (False, 5000, 5000)
    dearer = [one | {"budget": 4000} for one in told_packages]
    deal = follows(deal, {**told, "packages": dearer} if lines == 2 else {**told, "total_budget": 8000})
    assert deal.differs
    assert (deal_amounts(deal).approved, deal_amounts(deal).committed) == (5000, 8000)


def test_packages_that_are_priced_once_they_were_adopted_by_their_total_are_compared_together() -> None:
    named = [{"package_id": "p1", "product_id": "x"}, {"package_id": "p2", "product_id": "y"}]
    deal, told = adopted(packages=named, total_budget=5000)
    accepted(deal)
    deal = follows(deal, told, packages=[named[0] | {"budget": 1000}, named[1] | {"budget": 4000}])
    assert not deal.differs, deal.differences
    deal = follows(deal, told, packages=[named[0] | {"budget": 1000}, named[1] | {"budget": 3000}])
    assert {one["field"] for one in deal.differences} == {"budget", "total_budget"}


def test_nothing_is_adopted_where_nothing_is_spent() -> None:
    with pytest.raises(AdoptionRefusedError):
        adopted(packages=[{"package_id": "p1", "product_id": "x", "budget": 0}])


def test_everything_shows_what_was_accepted() -> None:
    deal = late.fresh(booked_at(90_000.0, ordered=10_000))
    viewer = make_user("Administrator", team=deal.team)
    own, purchases = Deal.objects.filter(pk=deal.pk), Operation.objects.filter(subject_id=deal.pk)
    rows = deals_with_rows(own)
    detail = deal_detail(deal.pk, viewer)
    found = {
        "amounts": deal_amounts(deal).approved,
        "frees": D(cancellation_evidence(deal, {"cancellation_reason": "x"})["cancellation"]["frees"]),
        "evidence": D(deal_evidence(deal)["gross"]),
        "its lines": D(deal_evidence(deal)["lines"][0]["budget"]),
        "queue": deal_places([deal.pk], viewer)[deal.pk].amount,
        "approval's page": detail.place.amount if detail.place else None,
        "Today": deals_out(viewer, purchases)[deal.pk].gross,
        "page": rows.gross[deal.pk].approved,
        "its rows": deal_group(deal, rows, {}).rows[0].approved,
        "campaign's page": deal_sums(own)[0].approved,
        "API": D(DealSerializer(deal).data["gross"]),
    }
    assert set(found.values()) == {90_000}, found


def test_a_page_says_what_was_accepted_and_what_departs_from_that() -> None:
    deal = late.fresh(booked_at(90_000.0, ordered=10_000))
    pages = deals_with_rows(Deal.objects.filter(pk=deal.pk))
    assert departure_sentences(deal_group(deal, pages, {})) == [
        "budget 90,000.00 for 10,000.00 (+800.0\xa0%)"
    ]
    says_budget(deal, 99_000.0)
    pages = deals_with_rows(Deal.objects.filter(pk=deal.pk))
    (said,) = departure_sentences(deal_group(deal, pages, {}))
    assert said == "budget 99,000.00 for 90,000.00 (+10.0\xa0%)"
    asked = Approval.objects.get(kind=DIFFERENT, status="open")
    assert _short_title(asked) == "Accept 99,000.00 for 90,000.00"


def test_a_total_that_was_accepted_and_rises_to_what_the_packages_were_ordered_for() -> None:
    deal = two()
    settled(deal, [], total_budget=40_000)
    accepted(deal)
    assert deal_amounts(deal).approved == 40_000
    says(deal, "pending_start", revision=2, packages=packages(deal))
    assert deal.differs
    assert (deal_amounts(deal).approved, deal_amounts(deal).committed) == (40_000, 60_000)
    found = deal.differences
    says(deal, "pending_start", revision=3)
    assert deal.differences == found
    accepted(deal)
    assert (deal.accepted, deal_amounts(deal).approved) == ([], 60_000)


def test_an_approved_change_counts_instead_of_what_was_accepted() -> None:
    deal = two()
    told = packages(deal)
    settled(deal, [told[0] | {"budget": 5000.0}, told[1] | {"budget": 60_000.0}])
    accepted(deal)
    change = changed(deal, 20_000)
    now = [told[0] | {"budget": 20_000.0}, told[1] | {"budget": 60_000.0}]
    late.ended(change, "completed", {"media_buy_id": "mb-9", "revision": 2, "affected_packages": now[:1]})
    deal.refresh_from_db()
    assert not deal.differs, deal.differences
    assert (deal_amounts(deal).approved, deal_amounts(deal).committed) == (80_000, 80_000)
    says(deal, "pending_start", revision=3, packages=now)
    assert not deal.differs, deal.differences


def test_an_approved_change_adds_to_a_total_that_was_accepted() -> None:
    deal = two()
    told = without(packages(deal), "budget")
    settled(deal, told, total_budget=70_000)
    accepted(deal)
    change = changed(deal, 20_000)
    answer = {"media_buy_id": "mb-9", "revision": 2, "affected_packages": told[:1], "total_budget": 80_000}
    late.ended(change, "completed", answer)
    says(late.fresh(deal), "pending_start", revision=3, packages=told, total_budget=80_000)
    deal.refresh_from_db()
    assert not deal.differs, deal.differences
    assert deal_amounts(deal).approved == 80_000


def _record(chance: random.Random, deal: Deal) -> Record:
    """What a seller may say next: any package at any amount, left out, one too many, or a total."""
    told = packages(deal)
    for one in told:
        one["budget"] = chance.choice([0.0, 5000.0, 10_000.0, 50_000.0, 90_000.0])
    if chance.random() < 0.2:
        told = told[:1]
    if chance.random() < 0.2:
        told.append({"package_id": "x", "product_id": "x", "budget": chance.choice([100.0, 7000.0])})
    if chance.random() < 0.2:
        told = [] if chance.random() < 0.5 else without(told, "budget")
    total = {"total_budget": chance.choice([40_000, 60_000, 90_000])} if chance.random() < 0.3 else {}
    return {"packages": told, **total}


@pytest.mark.parametrize("seed", range(rounds(1, 4)))
def test_whatever_comes_nothing_runs_above_what_was_approved_unasked(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 (what comes, seeded)
    deal = two()
    settled(deal, packages(deal))
    for revision in range(2, 14):
        says(deal, "pending_start", revision=revision, **_record(chance, deal))
        amounts = deal_amounts(deal)
        assert deal.differs == is_asked()
        assert deal.differs or amounts.approved == amounts.committed, (
            deal.differences,
            deal.accepted,
            amounts,
        )
        if deal.differs and chance.random() < 0.5:
            accepted(deal)
            amounts = deal_amounts(deal)
            assert amounts.approved == amounts.committed, (deal.accepted, amounts)
    assert verify_entity("deal", deal.pk).ok
