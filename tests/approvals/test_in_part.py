"""Approving a recommendation in part: what is booked is what was approved, within sellers' minimums and the
campaign's budget; refused, nothing has changed."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from campaigns.decisions import campaign_decide
from campaigns.models import Campaign
from orders.amounts import deal_amounts
from orders.models import Deal, DealLine
from orders.questions import ask_deal
from orders.services import deal_book
from tasks_app import ids
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.parts import changes_of
from tasks_app.approvals.policy_models import ApprovalPolicy
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, evidence_digest
from tasks_app.lifecycle.transitions import create
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.people.models import User
from tests.approvals.conftest import Desk
from tests.database import Database
from tests.factories import make_deal, make_line, make_seller, make_team, make_user
from tests.lifecycle.entities import trail
from tests.lifecycle.threads import at_once
from tests.rounds import rounds
from tests.troubles.poisoning import poison

db = pytest.mark.django_db
D = Decimal


def recommended(
    *, campaign: Campaign | None = None, seller: str = "Norrland Digital", **asked: Any
) -> Approval:
    """Three packages: 60,000 and 40,000 at CPM with a minimum of 5,000, and a flat rate of 2,500."""
    deal = make_deal(
        make_line(product_id="a", product_name="Alpha", budget=D(60000), units=D(4000000)),
        make_line(product_id="b", product_name="Beta", budget=D(40000), units=None),
        make_line(
            product_id="c",
            product_name="Gamma",
            pricing_model="flat_rate",
            rate=D(2500),
            budget=D(2500),
            minimum=None,
            units=None,
        ),
        seller=make_seller(seller),
        campaign_id=campaign.pk if campaign else None,
        **asked,
    )
    return ask_deal(deal)


def make_campaign(budget: str) -> Campaign:
    campaign = Campaign(
        id=ids.new_id(),
        reference="CMP-2026-900002",
        team=make_team(),
        name="Spring",
        requested_by="system",
        brief={},
        budget=D(budget),
        currency="USD",
    )
    create(campaign, actor="system", reason="A brief")
    return campaign


def approve(approval: Approval, user: User, budgets: dict[int, Any], **more: Any) -> Approval:
    amounts = {number: D(budget) for number, budget in budgets.items()}
    return approval_decide(approval_id=approval.pk, user=user, verdict="approve", budgets=amounts, **more)


def lines(approval: Approval) -> dict[str, tuple[Decimal, Decimal | None]]:
    found = DealLine.objects.filter(deal=approval.subject_id)
    return {line.product_id: (line.budget, line.units) for line in found}


def deal_of(approval: Approval) -> Deal:
    return Deal.objects.get(pk=approval.subject_id)


@db
def test_what_was_approved_is_asked_recorded_and_booked() -> None:
    user, first = make_user("Approver"), recommended()

    approved = approve(first, user, {1: "30000", 3: "0"}, comment="Half, without Gamma")

    first.refresh_from_db()
    assert (first.status, approved.status, approved.replaces) == ("voided", "approved", first)
    assert lines(approved) == {"a": (D(30000), D(2000000)), "b": (D(40000), None)}
    assert approved.amount == deal_amounts(deal_of(approved)).approved == D(70000)
    decision = Decision.objects.get()
    assert decision.approval == approved
    assert decision.evidence_digest == approved.evidence_digest == evidence_digest(approved.evidence)
    assert [(line["product_id"], D(line["budget"])) for line in approved.evidence["lines"]] == [
        ("a", D(30000)),
        ("b", D(40000)),
    ]
    assert [line["product_id"] for line in first.evidence["lines"]] == ["a", "b", "c"], "what was recommended"
    assert deal_of(approved).status == "accepted"
    bought = deal_book(deal=deal_of(approved)).request["packages"]
    assert [(one["product_id"], D(str(one["budget"]))) for one in bought] == [("a", 30000), ("b", 40000)]
    marked = {(one.field, one.where): (one.before, one.after, one.kind) for one in changes_of(approved)}
    assert marked["Budget", "Alpha"] == ("60,000.00", "30,000.00", "changed")
    assert marked["Package", "Gamma"] == ("2,500.00", "–", "removed")
    assert {field for field, _ in marked} == {"Gross", "Budget", "Units", "Package"}
    assert {trail(first)[-1].actor, trail(approved)[0].actor, approved.opened_by} == {f"human:{user.pk}"}
    assert approved.requested_by == first.requested_by
    assert all(verify_entity("approval", one.pk).ok for one in (first, approved))


@db
def test_a_quorum_of_two_agrees_on_the_changed_amounts() -> None:
    ApprovalPolicy.objects.create(
        key="two", name="Two", rule="always", kinds=["deal"], actor="system", reason="A test", quorum=2
    )
    first = recommended()
    one, other = make_user("Approver"), make_user("Approver")
    asked = approve(first, one, {1: "30000"})
    assert (asked.status, asked.quorum, deal_of(asked).status) == ("open", 2, "quoted")
    with pytest.raises(DecisionRefusedError) as closed:
        approval_decide(approval_id=first.pk, user=other, verdict="approve")
    assert closed.value.code == "not_open"
    with pytest.raises(DecisionRefusedError) as twice:
        approval_decide(approval_id=asked.pk, user=one, verdict="approve")
    assert twice.value.code == "already_decided"
    assert approval_decide(approval_id=asked.pk, user=other, verdict="approve").status == "approved"
    assert lines(asked)["a"][0] == D(30000)


@db
@pytest.mark.parametrize(
    ("budgets", "code"),
    [
        ({1: "0", 2: "0", 3: "0"}, "limits"),  # nothing left
        ({1: "4999.99"}, "limits"),  # below the minimum
        ({1: "-1"}, "limits"),
        ({1: "30000.001"}, "limits"),  # finer than a cent
        ({3: "2000"}, "limits"),  # a flat rate is whole
        ({4: "100"}, "limits"),
        ({0: "100"}, "limits"),
        ({1: "60000.01"}, "limits"),  # more than recommended, without a budget that holds it
        ({1: "NaN"}, "limits"),
        ({1: "Infinity"}, "limits"),
    ],
)
def test_outside_the_limits_nothing_changes(budgets: dict[int, str], code: str) -> None:
    approval, before = recommended(), None
    before = lines(approval)
    with pytest.raises(DecisionRefusedError) as error:
        approve(approval, make_user("Approver"), budgets)
    assert error.value.code == code
    assert lines(approval) == before
    assert Approval.objects.get().status == "open"
    assert not Decision.objects.exists()


@db
def test_a_refused_amount_stays_in_its_card_and_commas_are_accepted() -> None:
    asked, user = recommended(), make_user("Approver", is_staff=True)
    page = reverse("admin:tasks_app_approval_change", args=[asked.pk])
    browser = Client()
    browser.force_login(user, backend="tasks_app.people.holders.RoleBackend")
    form = {"digest": asked.evidence_digest, "decision": "approve", "comment": "Less, please"}
    assert (
        "If one approver is enough for these amounts, your click buys them at once."
        in browser.get(page).content.decode()
    )

    refused = browser.post(page, {**form, "budget-1": "4,5"})
    assert refused.status_code == 400
    assert {line.budget for line in refused.context["amendable"]} >= {"4,5"}
    assert (refused.context["in_part"], refused.context["comment"]) == (True, "Less, please")
    assert not Decision.objects.exists()

    assert browser.post(page, {**form, "budget-1": "30,000"}).status_code == 302
    approved = Decision.objects.get().approval
    assert (approved.status, D(approved.evidence["lines"][0]["budget"])) == ("approved", D(30000))


@db
def test_the_same_amounts_are_the_whole() -> None:
    approval = recommended()
    for status in ("open", "approved"):  # over 100,000 USD: two approve it
        assert approve(approval, make_user("Approver"), {1: "60000.00", 2: "40000"}).pk == approval.pk
        assert Approval.objects.get().status == status


@db
def test_nobody_amends_their_own_request_or_what_changed() -> None:
    asker = make_user("Approver")
    approval = recommended(requested_by=f"human:{asker.pk}")
    with pytest.raises(DecisionRefusedError) as own:
        approve(approval, asker, {1: "30000"})
    assert own.value.code == "own_request"
    with pytest.raises(DecisionRefusedError) as stale:
        approve(approval, make_user("Approver"), {1: "30000"}, expected_digest="0" * 64)
    assert stale.value.code == "changed"
    assert lines(approval)["a"][0] == D(60000)


@db
def test_a_rejection_or_another_kind_is_not_in_part(desk: Desk) -> None:
    for approval, verdict in ((recommended(), "reject"), (desk.ask(), "approve")):
        with pytest.raises((DecisionRefusedError, KeyError)):
            approval_decide(
                approval_id=approval.pk,
                user=make_user("Approver"),
                verdict=verdict,
                comment="No",
                budgets={1: D(1)},
            )
        assert Approval.objects.get(pk=approval.pk).status == "open"


@db
def test_more_is_approved_only_as_far_as_the_campaigns_budget_goes() -> None:
    campaign, user = make_campaign("210000"), make_user("Approver")
    first = recommended(campaign=campaign)
    recommended(campaign=campaign, seller="Quill Audio")  # undecided: 102,500 that may still be approved
    with pytest.raises(DecisionRefusedError, match="left in CMP-2026-900002"):
        approve(first, user, {1: "65000.01"})
    assert approve(first, user, {1: "65000"}).amount == D(107500)


@db
def test_what_is_rejected_frees_its_money() -> None:
    """167,500 need two approvers: the first of them raises it, the second finds it raised."""
    campaign, user = make_campaign("210000"), make_user("Approver")
    first = recommended(campaign=campaign)
    second = recommended(campaign=campaign, seller="Quill Audio")

    done = campaign_decide(
        campaign=campaign,
        user=user,
        verdict="approve",
        comment="Only Norrland",
        shown={one.pk: one.evidence_digest for one in (first, second)},
        parts={first.pk: {1: D(167500)}},
    )

    assert [(one.deal.seller.name, one.approval.status, one.refused) for one in done] == [
        ("Quill Audio", "rejected", ""),
        ("Norrland Digital", "open", ""),
    ]
    assert Approval.objects.get(pk=second.pk).decisions.get().comment == "Only Norrland"
    assert lines(first)["a"][0] == D(167500)
    raised = approve(done[1].approval, make_user("Approver"), {})
    assert (raised.status, raised.amount, raised.quorum) == ("approved", D(210000), 2)


@db
def test_parts_are_named_with_a_reason_for_the_rest() -> None:
    campaign, user = make_campaign("500000"), make_user("Approver")
    first = recommended(campaign=campaign)
    recommended(campaign=campaign, seller="Quill Audio")
    decide = partial(campaign_decide, campaign=campaign, user=user, shown={first.pk: first.evidence_digest})
    for code, said in {
        "comment": {"verdict": "approve", "parts": {first.pk: {}}},
        "not_found": {"verdict": "approve", "comment": "x", "parts": {ids.new_id(): {}}},
        "impossible": {"verdict": "reject", "comment": "x", "parts": {first.pk: {}}},
    }.items():
        with pytest.raises(DecisionRefusedError) as error:
            decide(**said)
        assert error.value.code == code
    assert set(Approval.objects.values_list("status", flat=True)) == {"open"}


def test_two_who_raise_deals_of_one_campaign_at_once_stay_within_it(committed_db: Database) -> None:
    campaign = make_campaign("220000")
    pair = [recommended(campaign=campaign), recommended(campaign=campaign, seller="Quill Audio")]
    people = [make_user("Approver"), make_user("Approver")]
    results = at_once(
        *(partial(approve, one, who, {1: "70000"}) for one, who in zip(pair, people, strict=True))
    )
    assert sorted(type(result).__name__ for result in results) == ["Approval", "DecisionRefusedError"]
    total = sum(deal_amounts(deal).approved for deal in Deal.objects.all())
    assert total <= campaign.budget


@db
@settings(
    max_examples=rounds(8, 40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.dictionaries(
        st.integers(0, 4),
        st.decimals(min_value=-10, max_value=250000, places=3) | st.sampled_from([D(0), D(2500), D(40000)]),
        max_size=4,
    )
)
def test_whatever_is_asked_for_stays_within_the_limits(budgets: dict[int, Decimal]) -> None:
    from django.db import transaction

    with transaction.atomic():
        campaign = make_campaign("120000")
        approval = recommended(campaign=campaign)
        before = lines(approval)
        try:
            approved = approve(approval, make_user("Approver"), budgets)
        except DecisionRefusedError:
            assert lines(approval) == before
        else:
            now = lines(approved)
            assert now
            assert approved.quorum == (2 if deal_amounts(deal_of(approved)).approved >= 100_000 else 1)
            if approved.quorum == 2:
                assert approved.status == "open"
                approved = approve(approved, make_user("Approver"), {})
            assert approved.status == "approved"
            assert deal_amounts(deal_of(approved)).approved == approved.amount <= D(120000)
            assert all(now[name][0] >= 5000 for name in now if name in ("a", "b"))
            assert now.get("c", (D(2500),))[0] == D(2500)
            assert all(budget == budget.quantize(D("0.01")) for budget, _ in now.values())
        transaction.set_rollback(True)


# --- a decision in parts is one: all of it, or nothing --------------------------------------------
def another_amount(_second: Approval, said: dict[str, Any]) -> str:
    """Below the seller's minimum."""
    said["parts"][_second.pk] = {1: D("0.01")}
    return "limits"


def no_such_line(second: Approval, said: dict[str, Any]) -> str:
    said["parts"][second.pk] = {9: D(1)}
    return "limits"


def more_than_there_is(second: Approval, said: dict[str, Any]) -> str:
    said["parts"][second.pk] = {1: D(450000)}
    return "limits"


def nothing_said_to_be_read(second: Approval, said: dict[str, Any]) -> str:
    del said["shown"][second.pk]
    return "digest"


def read_before(second: Approval, said: dict[str, Any]) -> str:
    said["shown"][second.pk] = "0" * 64
    return "changed"


def changed_since(second: Approval, _said: dict[str, Any]) -> str:
    DealLine.objects.filter(deal=second.subject_id, product_id="a").update(rate=D("12.5"))
    return "changed"


def their_own(second: Approval, said: dict[str, Any]) -> str:
    Approval.objects.filter(pk=second.pk).update(requested_by=f"human:{said['user'].pk}")
    return "own_request"


def decided_already(second: Approval, said: dict[str, Any]) -> str:
    Approval.objects.filter(pk=second.pk).update(quorum=2)
    approve(second, said["user"], {})
    return "already_decided"


@db
@pytest.mark.parametrize(
    "happens",
    [
        another_amount,
        no_such_line,
        more_than_there_is,
        nothing_said_to_be_read,
        read_before,
        changed_since,
        their_own,
        decided_already,
    ],
)
def test_a_refusal_in_the_second_part_leaves_nothing_of_the_first(happens: Any) -> None:
    campaign, user = make_campaign("500000"), make_user("Approver")
    first, second, rest = (recommended(campaign=campaign, seller=one) for one in ("Abc", "Bcd", "Cde"))
    said: dict[str, Any] = {
        "user": user,
        "shown": {one.pk: one.evidence_digest for one in (first, second, rest)},
        "parts": {first.pk: {1: D(50000)}, second.pk: {}},
    }
    code = happens(second, said)
    before = Decision.objects.count(), lines(first), lines(second), lines(rest)

    done = campaign_decide(campaign=campaign, verdict="approve", comment="In part", **said)

    assert {one.approval.pk: one.code for one in done} == {
        rest.pk: "not_decided",
        first.pk: "not_decided",
        second.pk: code,
    }
    assert (Decision.objects.count(), lines(first), lines(second), lines(rest)) == before
    assert set(Deal.objects.values_list("status", flat=True)) == {"quoted"}
    still = set(Approval.objects.filter(status="open").values_list("subject_id", flat=True))
    assert still == {one.subject_id for one in (first, second, rest)}, "each is asked, one perhaps anew"
    now = next(one.now for one in done if one.approval.pk == second.pk)
    asked = Approval.objects.get(subject_id=second.subject_id, status="open")
    assert now == (asked if code in ("changed", "digest") else None)


@db
def test_said_on_what_is_asked_now_the_parts_are_decided() -> None:
    campaign, user = make_campaign("500000"), make_user("Approver")
    _, second = (recommended(campaign=campaign, seller=one) for one in ("Abc", "Bcd"))
    changed_since(second, {})
    for expected in (["not_decided", "changed"], ["", ""]):
        asked = Approval.objects.filter(status="open").order_by("id")
        done = campaign_decide(
            campaign=campaign,
            user=user,
            verdict="approve",
            shown={one.pk: one.evidence_digest for one in asked},
            parts={one.pk: {1: D(50000)} for one in asked},
        )
        assert sorted(one.code for one in done) == sorted(expected)
    assert set(Deal.objects.values_list("status", flat=True)) == {"accepted"}


@pytest.mark.django_db
def test_one_that_cannot_be_written_stops_no_other_of_its_campaign() -> None:
    campaign = make_campaign("900000")
    asked = [recommended(campaign=campaign, seller=name) for name in ("A", "Bad", "C")]
    poison("tasks_app_approval", asked[1].pk)
    shown = {one.pk: one.evidence_digest for one in asked}
    done = campaign_decide(campaign=campaign, user=make_user("Approver"), verdict="approve", shown=shown)
    assert [bool(one.refused) for one in done] == [False, True, False], [one.refused for one in done]
    assert [Decision.objects.filter(approval=one.pk).count() for one in asked] == [1, 0, 1]
