"""An account that was stopped: by a person, until people let it go; by its seller, until the seller does."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from orders.models import Deal
from tasks_app.adcp.types import WireError
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.desk.explain import explain
from tasks_app.jobs.worker import drain
from tasks_app.notifications.models import Notification
from tasks_app.operations.account_reads import accounts_read_due
from tasks_app.operations.corrections import correction_arguments, operation_correct
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.steer_forms import steering_data
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.people.security_models import SecurityEvent
from tasks_app.sellers.accounts import AWAITED, SWITCHED_OFF, AccountRequest, account_request
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.models import Account, Seller
from tasks_app.sellers.services import account_change, account_hold
from tests.factories import make_user
from tests.orders.accounts import approved_deal, end, fresh, listed, purchases, told
from tests.orders.late import decide
from tests.orders.refusing import refuse

pytestmark = pytest.mark.django_db


def stored() -> Account:
    return Account.objects.select_related("seller", "advertiser__team").get()


def by_person(status: str, user: User | None = None) -> User:
    """A person sets the account so."""
    user = user or make_user("Ad Ops", name="Maya")
    account_change(account=stored(), values={"status": status}, actor=user)
    return user


@pytest.mark.parametrize("status", SWITCHED_OFF)
def test_what_a_person_switched_off_stays_off_whatever_its_seller_says(status: str) -> None:
    deal = approved_deal("pending_approval")
    accounts_read_due()
    by_person(status)
    assert stored().next_read_at is None, "nobody need look whether the seller is content"
    account_record(
        advertiser=deal.advertiser,
        seller=deal.seller,
        answer={"account_id": "acc-1", "status": "active", "billing": "operator"},
    )
    drain()
    assert (stored().status, purchases()) == (status, 0)
    assert stored().billing_party, "the rest of its word is kept"


@pytest.mark.parametrize("status", AWAITED)
def test_what_the_seller_stopped_comes_back_with_its_word(status: str) -> None:
    deal = approved_deal("active")
    account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": status})
    account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": "active"})
    assert stored().status == "active"


def test_a_person_lets_it_go_with_a_second_person_and_what_waited_goes_on() -> None:
    deal = approved_deal("pending_approval")
    ops = by_person("suspended")
    for let_go in ("pending_approval", "active"):
        made = account_change(account=stored(), values={"status": let_go}, actor=ops)
        assert made.waiting is not None, "one person alone would have the seller open it again"
        asked = Approval.objects.get(kind="seller_trust", status="open")
        with pytest.raises(DecisionRefusedError):
            approval_decide(approval_id=asked.pk, user=ops, verdict="approve")
        if let_go != "active":
            approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve")
            assert (stored().status, stored().switched_off_by) == ("pending_approval", "")
            by_person("suspended", ops)
    decide("seller_trust", "approve")
    drain()
    assert (fresh(deal).status, stored().switched_off_by, purchases()) == ("booking", "", 1)


def test_its_seller_may_still_close_it() -> None:
    deal = approved_deal("pending_approval")
    by_person("suspended")
    account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": "closed"})
    assert stored().status == "closed"
    account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": "active"})
    assert stored().status == "closed"


def test_nobody_asks_the_seller_around_it_and_everybody_reads_who_switched_it_off() -> None:
    approved_deal("pending_approval")
    ops = by_person("suspended")
    with pytest.raises(ValidationError, match="Maya switched it off"):
        account_request(AccountRequest.again(stored()), ops)
    told_of = explain(str(stored().pk), ops).waiting_for
    assert "Maya switched it off" in told_of
    ops.is_staff = True
    ops.save()
    client = Client()
    client.force_login(ops, backend="tasks_app.people.holders.RoleBackend")
    page = client.get(reverse("admin:tasks_app_account_change", args=[stored().pk])).content.decode()
    assert "Maya switched it off: it stays so" in page
    assert 'name="ask_again"' not in page
    [(title, body)] = told()
    assert title == "Maya suspended the account of Lindqvist Coffee with Norrland Digital"
    assert "until people let it go" in body
    deal = fresh(Deal.objects.get())
    assert "Maya switched it off" in explain(deal.reference, ops).waiting_for


# ---- kept off by a person, once its seller has switched it off


def by_seller(status: str) -> Deal:
    """The seller switched it off."""
    deal = approved_deal("pending_approval")
    account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": status})
    return deal


@pytest.mark.parametrize("status", SWITCHED_OFF)
def test_one_person_keeps_off_what_its_seller_switched_off_and_two_let_it_go(status: str) -> None:
    deal, ops = by_seller(status), make_user("Ad Ops", name="Maya")
    assert stored().switched_off_by == ""

    account_hold(account=stored(), actor=ops)

    account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": "active"})
    drain()
    assert (stored().status, stored().switched_off_by, purchases()) == (status, actor_key(ops), 0)
    assert stored().next_read_at is None, "nobody need look whether the seller is content"
    logged = SecurityEvent.objects.filter(event="seller_changed").latest("id")
    assert logged.actor == actor_key(ops)
    assert logged.detail["changes"] == {"status": [status, f"{status}, until people let it go"]}
    assert account_change(account=stored(), values={"status": "active"}, actor=ops).waiting is not None
    decide("seller_trust", "approve")
    drain()
    assert (stored().status, stored().switched_off_by) == ("active", "")


@pytest.mark.parametrize("status", [s for s in Account.Status.values if s not in SWITCHED_OFF])
def test_what_its_seller_has_not_switched_off_is_not_kept_off(status: str) -> None:
    by_seller(status)
    with pytest.raises(ValidationError, match="has not switched it off"):
        account_hold(account=stored(), actor=make_user("Ad Ops"))
    assert stored().switched_off_by == ""


def test_who_keeps_it_off_first_stays_named() -> None:
    by_seller("suspended")
    ops = make_user("Ad Ops", name="Maya")
    account_hold(account=stored(), actor=ops)
    with pytest.raises(ValidationError, match="Maya switched it off already"):
        account_hold(account=stored(), actor=make_user("Ad Ops"))
    assert stored().switched_off_by == actor_key(ops)


def test_the_accounts_page_offers_to_keep_it_off_and_says_so_after() -> None:
    by_seller("suspended")
    address = reverse("admin:tasks_app_account_change", args=[stored().pk])
    reader, ops = signed_in(make_user("Ad Ops")), signed_in(make_user("Administrator", name="Maya"))
    assert 'name="hold"' not in reader.get(address).content.decode()
    assert reader.post(address, {"hold": "1"}).status_code == 403
    page = ops.get(address).content.decode()
    assert 'name="hold"' in page
    assert "may switch it on again" in page

    after = ops.post(address, {"hold": "1"}, follow=True).content.decode()

    assert "Maya switched it off: it stays so" in after
    assert 'name="hold"' not in after
    assert 'name="ask_again"' not in after
    again = ops.post(address, {"hold": "1"}, follow=True).content.decode()
    assert "Maya switched it off already." in again


def signed_in(user: User) -> Client:
    User.objects.filter(pk=user.pk).update(is_staff=True)
    client = Client()
    client.force_login(user, backend="tasks_app.people.holders.RoleBackend")
    return client


# ---- refused because of its account

STATES = {
    "ACCOUNT_SUSPENDED": ("suspended", "terminal"),
    "ACCOUNT_PAYMENT_REQUIRED": ("payment_required", "terminal"),
    "ACCOUNT_SETUP_REQUIRED": ("pending_approval", "correctable"),
}
SETUP = "https://seller.example/setup"


def refused_for(code: str) -> tuple[Deal, Operation]:
    """A purchase that its seller refused because of its account."""
    deal = approved_deal("active")
    error = WireError(
        code=code,
        message="Two invoices are open.",
        recovery=STATES.get(code, ("", "terminal"))[1],  # type: ignore[arg-type]
        suggestion="Pay them.",
        details={"setup": {"url": SETUP}},
    )
    operation = refuse(Operation.objects.get(task_type="create_media_buy"), error)
    drain()
    assert fresh(deal).status == "failed"
    return fresh(deal), operation


def anew(operation: Operation, user: User | None = None, **changed: Any) -> Operation:
    """Asked for as the page shows it."""
    arguments = {**correction_arguments(operation), **changed}
    user = user or make_user("Ad Ops")
    return operation_correct(operation_id=operation.pk, user=user, arguments=arguments, reason="Once more")


@pytest.mark.parametrize("code", STATES)
def test_the_account_learns_from_a_refusal_and_people_are_told_why_and_what_to_do(code: str) -> None:
    deal, operation = refused_for(code)
    account = stored()
    assert (account.status, account.switched_off_by) == (STATES[code][0], "")
    assert account.setup_url == SETUP
    [(_, body)] = told()
    assert "Two invoices are open.\nPay them." in body
    note = Notification.objects.get(kind="correction_wanted")
    assert "Two invoices are open." in note.body
    assert "once the account is active" in note.body
    for named in (operation.reference, deal.reference):
        waits = explain(named, make_user("Ad Ops")).waiting_for
        assert "once the account is active" in waits, named
        assert "Two invoices are open." in waits


@pytest.mark.parametrize("code", STATES)
def test_what_was_refused_so_is_asked_for_anew_once_the_account_is_active(code: str) -> None:
    lost, operation = refused_for(code)
    with pytest.raises(SteeringRefusedError, match="once the account is active"):
        anew(operation)
    end("list_accounts", "completed", listed("active")) if accounts_read_due() else None
    assert stored().status == "active"

    new = anew(operation)
    deal = Deal.objects.get(follows=lost)
    assert (new.status, new.send_at, deal.status) == ("requested", None, "quoted")
    assert new.idempotency_key != operation.idempotency_key
    assert [line.budget for line in deal.lines.all()] == [line.budget for line in lost.lines.all()]
    with pytest.raises(SteeringRefusedError, match=f"corrected already: {new.reference}"):
        anew(operation)
    decide("deal", "approve")
    drain()
    assert (fresh(deal).status, fresh(lost).status) == ("booking", "failed")


@pytest.mark.parametrize("code", STATES)
def test_a_refusal_of_what_was_asked_earlier_says_nothing_of_an_account_that_changed_since(code: str) -> None:
    deal = approved_deal("active")
    operation = Operation.objects.get(task_type="create_media_buy")
    claim_one(operation_id=operation.pk)
    account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": "payment_required"})
    account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": "active"})
    end("create_media_buy", "failed", code=code)
    assert stored().status == "active"


def test_an_id_that_its_seller_refuses_is_asked_for_anew_by_brand_and_operator() -> None:
    """Nothing goes out by itself: people approved a purchase under the id, and one deal has one purchase."""
    lost, operation = refused_for("ACCOUNT_NOT_FOUND")
    account = stored()
    assert "account_id" not in account.reference
    note = Notification.objects.get(kind="correction_wanted")
    assert "by brand and operator" in note.body

    shown = correction_arguments(operation)
    assert shown["account"] == account.reference
    assert operation.request["account"] == {"account_id": "acc-1"}
    new = anew(operation)
    decide("deal", "approve")
    drain()
    new.refresh_from_db()
    deal = Deal.objects.get(follows=lost)
    assert (fresh(deal).status, new.send_at is not None) == ("booking", True)
    assert new.request["account"] == account.reference

    again = refuse(new, WireError(code="ACCOUNT_NOT_FOUND", message="No.", recovery="terminal"))
    drain()
    with pytest.raises(SteeringRefusedError, match="Nothing is corrected"):
        anew(again)


def test_the_page_offers_it_in_one_click_with_its_reason() -> None:
    _, operation = refused_for("ACCOUNT_NOT_FOUND")
    data = steering_data(operation, make_user("Ad Ops"))
    assert data["correctable"]
    assert "by brand and operator" in data["anew_because"]
    assert steering_data(operation, make_user("Buyer"))["correctable"] is False


def test_that_two_people_let_an_account_go_is_said_until_they_have() -> None:
    waiting = approved_deal("pending_approval")
    by_person("suspended")
    first = make_user("Administrator", name="First")
    told_of = explain(waiting.reference, first)
    assert "let the account go, on its page; a second person approves it" in told_of.who_words
    account_change(account=stored(), values={"status": "active"}, actor=first)
    asked = Approval.objects.get(kind="seller_trust")
    (decides,) = [one for one in explain(waiting.reference, first).who if asked.reference in one.does]
    assert str(first) not in decides.people
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve")
    drain()
    assert (fresh(waiting).status, purchases()) == ("booking", 1)


def test_another_change_of_an_account_that_waits_goes_first_and_does_not_let_it_go() -> None:
    waiting = approved_deal("pending_approval")
    by_person("suspended")
    asker = make_user("Administrator")
    account_change(account=stored(), values={"payment_terms": "net_60"}, actor=asker)
    asked = Approval.objects.get(kind="seller_trust")
    does = {one.does for one in explain(waiting.reference, asker).who}
    lets = "let the account go, on its page; a second person approves it"
    assert f"first decide on {asked.reference}" in does
    assert f"first withdraw the change that waits, or have it decided; then {lets}" in does
    with pytest.raises(ValidationError, match="withdraw that one first"):
        account_change(account=stored(), values={"status": "active"}, actor=asker)
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve")
    assert stored().switched_off_by
    assert lets in {one.does for one in explain(waiting.reference, asker).who}


@pytest.mark.parametrize("by_us", [False, True])
@pytest.mark.parametrize("tools", [["create_media_buy", "list_accounts"], ["create_media_buy"]])
def test_its_account_is_said_to_be_read_again_where_it_is(by_us: bool, tools: list[str]) -> None:
    deal = approved_deal("pending_approval")
    Seller.objects.update(tools=tools)
    if by_us:
        by_person("suspended")
    said = explain(deal.reference, make_user("Administrator")).otherwise
    accounts_read_due()
    is_read = Operation.objects.filter(task_type="list_accounts").exists()
    assert ("read again now and then" in said) == is_read == ("list_accounts" in tools and not by_us)
    assert "sent once it is active" in said
