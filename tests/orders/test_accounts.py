"""Accounts that a seller has still to approve, or refused: what waits, what is told, what is asked anew."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from orders import actions
from orders.models import Deal, DealStatus
from orders.services import deal_book
from orders.ways import ground_of, ways
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.desk.explain import explain
from tasks_app.jobs.expiry import jobs_expire_due
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.worker import drain
from tasks_app.notifications.models import Notification
from tasks_app.operations.account_reads import accounts_read_due
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.people.actors import actor_key
from tasks_app.sellers.accounts import AWAITED, ENDED, AccountRequest, account_request, natural_key
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.models import Account
from tasks_app.sellers.services import account_change
from tests.clocks import Clock
from tests.factories import approve_deal, make_advertiser, make_deal, make_seller, make_user
from tests.orders.accounts import TOOLS, WORDS, approved_deal, end, fresh, listed, purchases, told

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("status", AWAITED)
def test_an_approved_deal_waits_for_its_account_and_is_sent_once_it_is_active(status: str) -> None:
    deal = approved_deal(status)
    assert (deal.status, Job.objects.get().steps.get(key="buy").status) == ("accepted", "awaiting_tool")
    assert purchases() == 0

    assert accounts_read_due() == 1
    end("list_accounts", "completed", listed(status))
    drain()
    assert (fresh(deal).status, purchases()) == ("accepted", 0)

    Account.objects.update(next_read_at=clock.now())
    assert accounts_read_due() == 1
    end("list_accounts", "completed", listed("active"))
    drain()

    assert (fresh(deal).status, purchases()) == ("booking", 1)
    assert [title for title, _ in told()] == ["Norrland Digital approved the account of Lindqvist Coffee"]
    assert Account.objects.get().next_read_at is None


@pytest.mark.parametrize("asker", ["Buyer", "Integration", "system"])
def test_the_team_of_a_deal_is_told_once_that_it_waits_for_its_account(asker: str) -> None:
    """Whoever asked for it: an integration reads no notices."""
    by = asker if asker == "system" else actor_key(make_user(asker))
    deal = make_deal(seller=make_seller(tools=TOOLS), requested_by=by)
    Account.objects.update(status="pending_approval", next_read_at=clock.now())
    approve_deal(fresh(deal))
    drain()
    Step.objects.filter(key="buy").update(ready_at=clock.now())
    drain()
    note = Notification.objects.get(kind="account_awaited")
    assert note.title == f"{deal.reference} with Norrland Digital is approved and waits for its account"
    assert "goes on by itself once the account is active" in note.body
    assert (note.person, note.team) == (None, deal.team)


def test_an_account_is_read_when_its_time_has_come_once_and_less_often_after_a_day(still: Clock) -> None:
    approved_deal("pending_approval")
    assert accounts_read_due() == 1
    assert accounts_read_due() == 0
    account = Account.objects.get()
    assert account.next_read_at == still.now + timedelta(minutes=5)

    later = account.status_since + timedelta(days=1, minutes=1)
    with clock.injected(lambda: later):
        assert accounts_read_due() == 1
    assert Account.objects.get().next_read_at == later + timedelta(minutes=30)


def test_what_a_person_records_wakes_it_too() -> None:
    deal = approved_deal("pending_approval")
    account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": "active"})
    drain()
    assert (fresh(deal).status, purchases()) == ("booking", 1)


def test_waiting_for_an_account_costs_a_job_none_of_its_time() -> None:
    deal = approved_deal("pending_approval")
    later = clock.now() + timedelta(days=9)
    with clock.injected(lambda: later):
        assert jobs_expire_due() == 0
    assert fresh(deal).status == "accepted"


@pytest.mark.parametrize("status", ENDED)
def test_an_account_that_the_seller_ends_ends_what_waits_with_its_words(status: str) -> None:
    deal = approved_deal("pending_approval")
    accounts_read_due()
    end("list_accounts", "completed", listed(status, errors=[WORDS]))
    drain()

    assert (fresh(deal).status, purchases()) == ("cancelled", 0)
    assert "We bill agencies only. Name one." in Job.objects.get().error
    [(title, body)] = told()
    assert title == f"Norrland Digital {status} the account of Lindqvist Coffee"
    assert "We bill agencies only.\nName one." in body


def test_who_asked_is_told_beside_ad_ops_and_once() -> None:
    asker = make_user("Administrator")
    account = approved_deal("rejected").account
    assert account is not None
    account_request(AccountRequest.again(account), asker)
    end(
        "sync_accounts",
        "completed",
        {
            "accounts": [
                {
                    "action": "created",
                    "status": "pending_approval",
                    "setup": {"message": "Sign the contract.", "url": "https://seller.example/sign"},
                }
            ]
        },
    )

    notes = Notification.objects.filter(kind="account_changed")
    assert [(note.person, note.not_for) for note in notes.order_by("person")] == [
        (asker, ""),
        (None, f"human:{asker.pk}"),
    ]
    assert {note.body for note in notes} == {
        "Sign the contract.\nNothing is bought under it until the seller approves it.\nhttps://seller.example/sign"
    }


def test_it_is_asked_for_again_by_brand_and_operator_and_not_twice_at_once() -> None:
    account, asker = approved_deal("rejected").account, make_user("Administrator")
    assert account is not None
    account_request(AccountRequest.again(account), asker)

    asked = Operation.objects.get(task_type="sync_accounts")
    [wanted] = asked.request["accounts"]
    assert wanted["brand"] == {"domain": account.advertiser.brand_domain}
    assert (wanted["operator"], asked.requested_by) != ("", "system")
    with pytest.raises(ValidationError, match="asked already"):
        account_request(AccountRequest.again(account), asker)
    end("sync_accounts", "completed", {"accounts": [{"account_id": "acc-2", "status": "active"}]})
    account.refresh_from_db()
    assert (account.status, account.reference) == ("active", {"account_id": "acc-2"})
    with pytest.raises(ValidationError, match="is active"):
        account_request(AccountRequest.again(account), asker)


def test_a_request_that_failed_at_the_seller_is_a_refusal_with_its_reasons() -> None:
    account = approved_deal("closed").account
    assert account is not None
    account_request(AccountRequest.again(account), make_user("Administrator"))
    end("sync_accounts", "completed", {"accounts": [{"action": "failed", "errors": [WORDS]}]})
    account.refresh_from_db()
    assert (account.status, account.said["errors"][0]["suggestion"]) == ("rejected", "Name one.")


@pytest.mark.parametrize("code", ["ACCOUNT_SUSPENDED", "ACCOUNT_PAYMENT_REQUIRED"])
def test_a_purchase_refused_for_its_account_has_the_account_read_at_once(code: str) -> None:
    approved_deal("active")
    Account.objects.update(next_read_at=None)
    end("create_media_buy", "failed", code=code)
    assert accounts_read_due() == 1


def test_an_id_that_the_seller_hands_out_and_refuses_is_replaced_by_brand_and_operator() -> None:
    deal = approved_deal("active")
    end("create_media_buy", "failed", code="ACCOUNT_NOT_FOUND")
    account = Account.objects.get()
    assert account.reference["brand"] == {"domain": deal.advertiser.brand_domain}

    account_record(
        advertiser=deal.advertiser, seller=deal.seller, answer={"account_id": "acc-1", "status": "active"}
    )
    account.refresh_from_db()
    assert "account_id" not in account.reference, "it is not tried again"


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 7, "setup": "soon", "errors": "none"},
        {"status": None, "setup": {"url": "javascript:alert(1)", "message": 3}, "errors": [3, None]},
        {"status": "frozen", "setup": {"expires_at": "2026-99-99T00:00:00Z"}},
        {"errors": [{"code": "X" * 9000, "message": "m" * 9000}] * 500},
        {"account_id": "".join(map(chr, range(33, 9000)))},
        {"account_id": {"of": "another"}, "brand": {"domain": "elsewhere.example"}},
        {"brand": {"domain": 5}, "operator": "haldenmarsh.com"},
        {"brand": {}, "operator": {"of": "another"}},
        {"brand": {"domain": "x" * 9000}, "operator": "haldenmarsh.com"},
    ],
)
def test_whatever_a_seller_says_is_kept_within_bounds_and_changes_no_state(answer: dict[str, Any]) -> None:
    deal = approved_deal("active")
    account = account_record(advertiser=deal.advertiser, seller=deal.seller, answer=answer)
    account.refresh_from_db()
    assert (account.status, account.setup_url) == ("active", "")
    assert account.reference == {"account_id": "acc-1"}
    assert len(str(account.said)) < 20_000


@pytest.mark.parametrize("status", ["active", "pending_approval"])
def test_an_account_told_without_its_operator_is_named_by_our_own_key(status: str) -> None:
    advertiser = make_advertiser()
    brand = {"domain": advertiser.brand_domain}
    told = {"brand": brand, "operator": None, "status": status}
    account = account_record(advertiser=advertiser, seller=make_seller(), answer=told)
    assert account.reference == natural_key(advertiser)
    assert (account.reference["brand"], account.reference["operator"] != "") == (brand, True)


def test_an_account_that_an_approved_deal_waits_for_changes_with_a_second_person() -> None:
    """Nothing was asked under it yet, and money is about to go out under it."""
    deal = approved_deal("pending_approval")
    account = Account.objects.select_related("seller", "advertiser").get()
    wanted = {"status": "active", "reference": {"account_id": "acc-of-another"}}
    made = account_change(account=account, values=wanted, actor=make_user("Ad Ops"))
    drain()

    assert (made.changed, fresh(deal).status, purchases()) == ([], "accepted", 0)
    approve(Approval.objects.get(kind="seller_trust"))
    drain()
    assert Operation.objects.get(task_type="create_media_buy").request["account"] == wanted["reference"]


def approve(approval: Approval) -> None:
    approval_decide(approval_id=approval.pk, user=make_user("Approver"), verdict="approve")


@pytest.mark.parametrize("status", AWAITED)
def test_news_of_the_account_between_looking_and_booking_ends_nothing(
    status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deal = make_deal(seller=make_seller(tools=TOOLS))
    approve_deal(deal)

    def just_then(*, deal: Deal) -> Operation:
        Account.objects.update(status=status)
        return deal_book(deal=deal)

    monkeypatch.setattr(actions, "deal_book", just_then)
    drain()
    assert (fresh(deal).status, purchases()) == ("accepted", 0)

    monkeypatch.undo()
    account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": "active"})
    drain()
    assert (fresh(deal).status, purchases()) == ("booking", 1)


def test_a_person_closes_an_account_and_an_answer_to_an_earlier_question_opens_it_no_more() -> None:
    approved_deal("pending_approval")
    assert accounts_read_due() == 1
    assert claim_one(operation_id=Operation.objects.get(task_type="list_accounts").pk) is not None
    account = Account.objects.select_related("seller", "advertiser").get()
    account_change(account=account, values={"status": "closed"}, actor=make_user("Ad Ops"))
    end("list_accounts", "completed", listed("active"))
    assert Account.objects.get().status == "closed"


@pytest.mark.parametrize("status", Account.Status.values)
@pytest.mark.parametrize("for_good", [True, False])
def test_an_account_in_another_currency_is_told_as_what_ends_the_deal(status: str, for_good: bool) -> None:
    """Also while it is still awaited: nothing that its seller approves lets this deal be bought under it."""
    deal = approved_deal("pending_approval")
    bound = (
        {"reference": {"account_id": "acc-1", "currency": "SEK"}}
        if for_good
        else {"said": {"currency": "SEK"}}
    )
    Account.objects.update(status=status, **bound)
    person = make_user("Administrator")
    told_of = explain(deal.reference, person)
    assert told_of.waiting_for.startswith("It is approved and cannot be bought: the account with ")
    assert ("is bound to SEK, this is in USD" in told_of.waiting_for) is (status not in ENDED)
    assert not any("account" in one.does for one in told_of.who)
    booking = ways(ground_of(fresh(deal), [])).get(DealStatus.BOOKING)
    assert (booking is None) is for_good
    assert booking is None or ("active and in USD" in booking.words) is (status != "active")
    Account.objects.update(status="pending_approval")
    said = {"status": "active" if status in AWAITED else status, "currency": "SEK"}
    account_record(
        advertiser=deal.advertiser, seller=deal.seller, answer={**Account.objects.get().reference, **said}
    )
    drain()
    assert (fresh(deal).status, purchases()) == ("cancelled", 0)
