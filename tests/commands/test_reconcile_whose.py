"""A media buy that is none of our deals' is an account's own only where its record names no other brand and
no other account; else that is said, and it is never adopted under that brand."""

from __future__ import annotations

from typing import Any

import pytest

from orders.models import Deal
from orders.reconcile import _told
from orders.unclaimed.adopt import AdoptionRefusedError, media_buy_adopt
from tasks_app.approvals.models import Approval
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.reconciliation.actions import ActionRefusedError
from tasks_app.reconciliation.models import ReconciliationFinding
from tasks_app.sellers.models import Account, Seller
from tests.commands.reconciling import lists, sent, task, verdicts
from tests.commands.running import call
from tests.commands.test_reconcile_findings import EXTERNAL, account, act, operator, told
from tests.factories import make_user
from tests.fake_seller.driver import FakeSeller

pytestmark = pytest.mark.deep

__all__ = ["account", "operator"]
ANOTHERS = "another-brand.example"
OTHERS: dict[str, dict[str, Any]] = {
    "another brand": {"brand": {"domain": ANOTHERS}},
    "the brand of its account": {"account": {"brand": {"domain": ANOTHERS}}},
    "another account": {"account": {"account_id": "acc-of-another"}},
    "another account and brand": {"account": {"account_id": "acc-of-another", "brand": {"domain": ANOTHERS}}},
}
BRANDS = [name for name, record in OTHERS.items() if ANOTHERS in str(record)]


@pytest.fixture
def known(account: Account) -> Account:
    Account.objects.filter(pk=account.pk).update(reference={"account_id": "acc-ours"})
    account.refresh_from_db()
    return account


@pytest.mark.parametrize("other", OTHERS)
def test_what_names_another_is_not_given_to_the_account_it_was_listed_for(
    faulty: FakeSeller, known: Account, other: str
) -> None:
    told(faulty, {**EXTERNAL, **OTHERS[other]})
    call("reconcile")
    finding = ReconciliationFinding.objects.get(theirs="mb-ext")
    assert (finding.account_id, finding.team_id) == (None, None)
    assert ("acc-of-another" in finding.note) == ("account_id" in OTHERS[other].get("account", {}))
    assert (ANOTHERS in finding.note) == (other in BRANDS)
    assert known.advertiser.brand_domain in finding.note


def test_what_names_the_accounts_own_is_given_to_it(faulty: FakeSeller, known: Account) -> None:
    own = {"account_id": "acc-ours", "brand": {"domain": known.advertiser.brand_domain.upper()}}
    told(faulty, {**EXTERNAL, "account": own})
    call("reconcile")
    finding = ReconciliationFinding.objects.get(theirs="mb-ext")
    assert (finding.account_id, finding.note) == (known.pk, "")


@pytest.mark.parametrize(
    "other", ["the brand of its account", "another account", "another account and brand"]
)
def test_a_task_of_anothers_is_given_to_nobody_and_is_no_answer_of_ours(
    faulty: FakeSeller, seller: Seller, known: Account, other: str
) -> None:
    sent(seller)
    lists(faulty, {**task("of another"), **OTHERS[other]})
    call("reconcile")
    finding = ReconciliationFinding.objects.get(theirs="of another")
    assert (finding.verdict, finding.account_id, finding.team_id) == ("orphaned", None, None)
    assert "the seller's record names" in finding.note


@pytest.mark.parametrize(
    "other", ["the brand of its account", "another account", "another account and brand"]
)
def test_a_task_that_echoes_our_operation_and_names_anothers_is_bound_to_nothing(
    faulty: FakeSeller, seller: Seller, known: Account, other: str
) -> None:
    out = sent(seller)
    echoed = {"context": {"operation_id": str(out.pk)}}
    lists(faulty, {**task("echoed", task_type="create_media_buy"), **echoed, **OTHERS[other]})
    call("reconcile")
    finding = ReconciliationFinding.objects.get(theirs="echoed")
    assert (finding.verdict, finding.subject_id, finding.team_id) == ("orphaned", None, None)
    assert out.reference in finding.note
    assert "the seller's record names" in finding.note
    out.refresh_from_db()
    assert out.task_id == ""


def test_who_reads_of_a_task_of_nobodys_is_not_told_which_operation_of_another_team_it_echoes(
    faulty: FakeSeller, seller: Seller, known: Account
) -> None:
    out = sent(seller)
    Operation.objects.filter(pk=out.pk).update(team=known.advertiser.team)
    echoed = {"context": {"operation_id": str(out.pk)}, **OTHERS["another account"]}
    lists(faulty, {**task("echoed", task_type="create_media_buy"), **echoed})
    call("reconcile")
    finding = ReconciliationFinding.objects.get(theirs="echoed")
    assert (finding.team_id, out.reference in finding.note) == (None, False)
    assert "it echoes an operation of ours" in finding.note


def test_a_task_of_the_accounts_own_is_given_to_it(
    faulty: FakeSeller, seller: Seller, known: Account
) -> None:
    out = sent(seller)
    own = {"account": {"account_id": "acc-ours"}}
    lists(faulty, {**task("own", task_type="create_media_buy"), **own}, {**task("answer"), **own})
    ran = call("reconcile", "--json")
    assert verdicts(ran) == {"own": "orphaned", "answer": "unanswered"}
    assert ReconciliationFinding.objects.get(theirs="own").account_id == known.pk
    assert any(out.reference in one["note"] for one in ran.json["sellers"][0]["tasks"])


def test_a_task_of_an_account_that_is_named_anew_since_may_be_ours(
    faulty: FakeSeller, seller: Seller, known: Account
) -> None:
    out = sent(seller)
    Account.objects.filter(pk=known.pk).update(reference={"account_id": "acc-new"})
    before = {"account": {"account_id": "acc-ours"}}
    context = {"context": {"operation_id": str(out.pk)}}
    others = {**task("another's"), **OTHERS["another account"]}
    lists(faulty, {**task("listed"), **before}, {**task("echoed"), **before, **context}, others)
    ran = call("reconcile", "--json")
    expected = {"listed": "unanswered", "echoed": "unanswered", "another's": "orphaned"}
    assert verdicts(ran) == expected
    notes = {one["theirs"]: one["note"] for one in ran.json["sellers"][0]["tasks"]}
    waits = f"{out.reference}, whose answer has not come"
    assert notes["listed"].startswith(f"may belong to {waits}")
    assert notes["echoed"].startswith(f"is {waits}")


@pytest.mark.parametrize("other", BRANDS)
def test_another_brands_is_never_adopted(
    faulty: FakeSeller, known: Account, operator: User, other: str
) -> None:
    told(faulty, {**EXTERNAL, **OTHERS[other]})
    call("reconcile")
    finding = ReconciliationFinding.objects.get(theirs="mb-ext")
    with pytest.raises(ActionRefusedError, match=ANOTHERS):
        act(finding, make_user("Administrator"), "adopt", "It is listed", account_id=known.pk)
    with pytest.raises(AdoptionRefusedError, match=ANOTHERS):
        media_buy_adopt(
            account=known, told={**EXTERNAL, **OTHERS[other]}, user=operator, reason="It is listed"
        )
    assert not Deal.objects.exists()


def test_another_account_of_the_brand_is_named_in_what_people_are_asked(
    known: Account, operator: User
) -> None:
    record = {**EXTERNAL, **OTHERS["another account"]}
    deal = media_buy_adopt(account=known, told=record, user=operator, reason="Their letter says so")
    asked = Approval.objects.get(subject_id=deal.pk, status="open")
    (difference,) = asked.evidence["differences"]
    assert "acc-of-another, not acc-ours" in difference["confirmed"]


def test_whose_it_is_is_kept_of_a_record_beyond_all_measure() -> None:
    buy = {**EXTERNAL, **OTHERS["another account and brand"], "packages": [{"note": "x" * 70_000}]}
    assert _told(buy)["account"] == {"account_id": "acc-of-another", "brand": {"domain": ANOTHERS}}


def test_a_deals_own_that_names_another_says_so(faulty: FakeSeller, seller: Seller, known: Account) -> None:
    told(faulty, {**EXTERNAL, **OTHERS["another brand"], "context": {"deal_id": str(known.pk)}})
    call("reconcile")
    note = ReconciliationFinding.objects.get(theirs="mb-ext").note
    assert "which does not exist" in note
    assert ANOTHERS in note
