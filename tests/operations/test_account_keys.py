"""What sellers tell of accounts is kept for the account it is about; another brand's is never ours."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from orders.services import deal_book
from tasks_app import clock
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.notifications.models import Notification
from tasks_app.operations.account_reads import account_ask, account_open, accounts_read_due
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Observation, Operation
from tasks_app.operations.publish import publish_due
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.models import Advertiser
from tasks_app.sellers.accounts import AccountRequest, account_currency, natural_key
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.models import Account, Seller
from tasks_app.sellers.services import account_add, account_change
from tests.factories import (
    approve_deal,
    make_account,
    make_advertiser,
    make_deal,
    make_seller,
    make_team,
    make_user,
)
from tests.operations.making import answer, ask, fresh, see
from tests.operations.wire import mcp
from tests.orders.accounts import end

pytestmark = pytest.mark.django_db
OTHER: dict[str, Any] = {"account_id": "acc-other", "brand": {"domain": "another.com"}, "status": "active"}


def opened(*rows: dict[str, Any]) -> Operation:
    """A seller was asked for an account, and answered with these."""
    advertiser = make_advertiser()
    seller = make_seller(tools=["get_products", "sync_accounts", "create_media_buy"])
    account_open(advertiser=advertiser, seller=seller, purpose="account:1", actor="system")
    ours = natural_key(advertiser)
    return end(
        "sync_accounts", "completed", {"accounts": [{"operator": ours["operator"], **row} for row in rows]}
    )


def test_of_the_accounts_that_a_seller_answers_with_ours_is_kept() -> None:
    ours = {"account_id": "acc-ours", "brand": {"domain": "lindqvist-coffee.com"}, "status": "active"}
    opened(OTHER, {**ours, "sandbox": True, "account_id": "acc-sandbox"}, ours)
    assert Account.objects.get().reference == {"account_id": "acc-ours"}


@pytest.mark.parametrize("rows", [[OTHER], [OTHER, OTHER], []], ids=["other", "others", "none"])
def test_where_none_is_ours_nothing_is_kept_and_people_are_told(rows: list[dict[str, Any]]) -> None:
    opened(*rows)
    assert not Account.objects.exists()
    note = Notification.objects.get(kind="account_changed")
    assert note.title == "Norrland Digital told of no account of Lindqvist Coffee"
    assert ("another.com" in note.body) == bool(rows)


def test_an_account_that_is_told_of_after_the_end_was_published_is_kept() -> None:
    """The seller's task completed without its result, which a webhook brings later."""
    advertiser, tools = make_advertiser(), ["get_products", "sync_accounts", "create_media_buy"]
    operation = account_open(
        advertiser=advertiser, seller=make_seller(tools=tools), purpose="account:1", actor="system"
    )
    claim_one(operation_id=operation.pk)
    see(operation, answer("completed", task_id="t-1", partial=True, payload=None), "poll")
    later = clock.now() + timedelta(minutes=6)
    with clock.injected(lambda: later):
        assert publish_due(limit=10) == 1
    assert not Account.objects.exists()

    ours = {"account_id": "acc-ours", "status": "active", **natural_key(advertiser)}
    see(operation, answer("completed", task_id="t-1", payload={"accounts": [ours]}), "webhook")

    assert Account.objects.get().reference == {"account_id": "acc-ours"}


def test_of_two_answers_of_the_seller_the_later_is_taken() -> None:
    """Two campaigns of a new client ask for the same account: what came of one is no word of people's."""
    advertiser = make_advertiser()
    seller = make_seller(tools=["get_products", "sync_accounts", "create_media_buy"], slots=2)
    first, second = (
        account_open(advertiser=advertiser, seller=seller, purpose=f"account:{n}", actor="system")
        for n in range(2)
    )
    for operation in (first, second):
        claim_one(operation_id=operation.pk)
    for operation, status in ((first, "pending_approval"), (second, "active")):
        told = {"account_id": "acc-1", "status": status, **natural_key(advertiser)}
        see(operation, answer("completed", payload={"accounts": [told]}))
        publish_due(limit=10)
    assert Account.objects.get().status == "active"
    assert not Notification.objects.filter(title__contains="late").exists()


@pytest.mark.parametrize("lists", [False, True], ids=["opens", "lists"])
def test_an_answer_of_a_request_sent_again_does_not_write_over_that_of_a_later_one(lists: bool) -> None:
    """Its seller answers the same key as it did the first time: what it has answered since stays."""
    advertiser = make_advertiser()
    tools = ["get_products", "sync_accounts", "create_media_buy", *(["list_accounts"] if lists else [])]
    seller = make_seller(tools=tools, slots=2)
    told = {"account_id": "acc-1", **natural_key(advertiser)}
    first = account_open(advertiser=advertiser, seller=seller, purpose="account:1", actor="system")
    claim_one(operation_id=first.pk)
    later = clock.now() + timedelta(minutes=2)
    with clock.injected(lambda: later):
        if lists:
            make_account(advertiser, seller, status="pending_approval")
            Account.objects.update(next_read_at=later, reference={"account_id": "acc-1"})
            assert accounts_read_due() == 1
        else:
            account_open(advertiser=advertiser, seller=seller, purpose="account:2", actor="system")
        second = Operation.objects.latest("id")
        claim_one(operation_id=second.pk)
        see(second, answer("completed", payload={"accounts": [{**told, "status": "active"}]}))
        publish_due(limit=10)
        assert Account.objects.get().status == "active"

        replayed = {"accounts": [{**told, "status": "pending_approval"}]}
        see(first, answer("completed", payload=replayed))
        publish_due(limit=10)

    account = Account.objects.get()
    assert (account.status, account.next_read_at) == ("active", later), "it is asked what holds now"
    assert "It has answered what it was asked later" in Notification.objects.get(title__contains="late").body


def test_people_are_believed_whatever_things_are_called_by_then() -> None:
    advertiser, ops = make_advertiser(), make_user("Ad Ops")
    Advertiser.objects.update(name="A" * 160)
    seller = make_seller("S" * 120, slug="s", tools=["get_products", "sync_accounts", "create_media_buy"])
    make_account(advertiser, seller, status="rejected")
    operation = account_open(advertiser=advertiser, seller=seller, purpose="account:1", actor="system")
    claim_one(operation_id=operation.pk)
    account = Account.objects.select_related("seller", "advertiser").get()
    account_change(account=account, values={"payment_terms": "net_45"}, actor=ops)
    connection.check_constraints()  # what is told of a change names it as it was called then
    Seller.objects.update(name="Renamed")
    told = {"account_id": "acc-1", "status": "active", "payment_terms": "prepay", **natural_key(advertiser)}
    see(operation, answer("completed", payload={"accounts": [told]}))
    publish_due(limit=10)
    assert Account.objects.get().payment_terms == "net_45"


@pytest.mark.parametrize("late", [False, True], ids=["the answer", "a result after its end"])
@pytest.mark.parametrize("way", ["entered", "changed", "renamed"])
def test_a_late_answer_does_not_write_over_what_people_said_meanwhile(way: str, late: bool) -> None:
    advertiser, ops = make_advertiser(), make_user("Ad Ops")
    seller = make_seller(tools=["get_products", "sync_accounts", "create_media_buy"])
    if way != "entered":
        make_account(advertiser, seller, status="rejected")
    operation = account_open(advertiser=advertiser, seller=seller, purpose="account:1", actor="system")
    claim_one(operation_id=operation.pk)
    if late:
        see(operation, answer("completed", task_id="t-1", partial=True, payload=None), "poll")
        after = clock.now() + timedelta(minutes=6)
        with clock.injected(lambda: after):
            assert publish_due(limit=10) == 1
    said: dict[str, Any] = {"reference": {"account_id": "acc-letter"}, "payment_terms": "net_45"}
    if way == "entered":
        account_add(account=Account(advertiser=advertiser, seller=seller, status="active", **said), actor=ops)
    else:
        account = Account.objects.select_related("seller", "advertiser").get()
        changed = {**said, "status": "active"} if way == "changed" else said
        account_change(account=account, values=changed, actor=ops)
    before = Account.objects.values("reference", "status", "payment_terms").get()

    theirs = {"account_id": "acc-theirs", "status": "rejected", **natural_key(advertiser)}
    seen = answer("completed", task_id="t-1", payload={"accounts": [{**theirs, "payment_terms": "prepay"}]})
    see(operation, seen, "webhook")
    publish_due(limit=10)

    assert Account.objects.values("reference", "status", "payment_terms").get() == before
    assert before["reference"] == said["reference"]
    assert "answered late about the account" in Notification.objects.get(title__contains="late").title


@pytest.mark.parametrize(
    "zone", [{}, {"mode": "seller_fixed", "fixed_timezone": "UTC"}], ids=["not-said", "of-the-seller"]
)
def test_the_whole_natural_key_is_kept(zone: dict[str, Any]) -> None:
    seller = make_seller(capabilities={"account": {"timezone": zone}})
    told = {
        "brand": {"domain": "lindqvist-coffee.com", "countries": ["SE"], "industries": ["food"]},
        "operator": "haldenmarsh.com",
        "operator_unit": {"id": "ny", "name": "New York"},
        "currency": "USD",
        "timezone": "UTC",
        "status": "active",
    }
    account = account_record(advertiser=make_advertiser(), seller=seller, answer=told)
    assert account.reference == {
        "brand": {"domain": "lindqvist-coffee.com", "countries": ["SE"]},
        "operator": "haldenmarsh.com",
        "operator_unit": {"id": "ny"},
        "currency": "USD",
        **({} if zone else {"timezone": "UTC"}),
    }
    again = account_record(
        advertiser=account.advertiser, seller=seller, answer={**told, "brand": {"domain": "another.com"}}
    )
    assert again.reference == account.reference


def read_again(reference: dict[str, Any], *rows: dict[str, Any]) -> str:
    """The status of a pending account of that name after its seller listed these."""
    seller = make_seller(tools=["get_products", "list_accounts", "create_media_buy"])
    account = make_account(make_advertiser(), seller, status="pending_approval")
    Account.objects.update(reference=reference, next_read_at=clock.now() - timedelta(seconds=1))
    assert accounts_read_due() == 1
    end("list_accounts", "completed", {"accounts": list(rows)})
    account.refresh_from_db()
    return str(account.status)


OURS: dict[str, Any] = {"brand": {"domain": "lindqvist-coffee.com"}, "operator": "haldenmarsh.com"}
OF_ANOTHER: dict[str, Any] = {"brand": {"domain": "another.com"}}


def unit(name: str) -> dict[str, Any]:
    return {"operator_unit": {"id": name}}


@pytest.mark.parametrize(
    ("reference", "row", "status"),
    [
        (OURS, OURS, "active"),
        (OURS, {**OURS, **OF_ANOTHER}, "pending_approval"),
        (OURS, {**OURS, "sandbox": True}, "pending_approval"),
        (
            {**OURS, "operator_unit": {"id": "ny"}},
            {**OURS, "operator_unit": {"id": "la"}},
            "pending_approval",
        ),
        ({"account_id": "acc-1"}, {"account_id": "acc-1"}, "active"),
        ({"account_id": "acc-1"}, {"account_id": "acc-1", **OURS}, "active"),
        (
            {"account_id": "acc-1"},
            {"account_id": "acc-1", "brand": {"domain": "another.com"}},
            "pending_approval",
        ),
    ],
    ids=["ours", "other-brand", "sandbox", "other-unit", "id", "id-and-brand", "id-of-another-brand"],
)
def test_an_account_becomes_active_by_word_of_itself_alone(
    reference: dict[str, Any], row: dict[str, Any], status: str
) -> None:
    assert read_again(reference, {**row, "status": "active"}) == status


def test_a_purchase_answered_for_another_brands_account_is_a_conflict() -> None:
    account = make_account(make_advertiser(), make_seller())
    Account.objects.update(reference=OURS)
    operation = ask(seller=account.seller, account=Account.objects.get())
    payload = {"media_buy_id": "mb-1", "account": {"account_id": "a", "brand": {"domain": "another.com"}}}
    see(operation, mcp({**payload, "status": "completed"}))
    assert fresh(operation).status != "completed"
    assert Observation.objects.get().outcome == "conflict"


NAMED = {"account_id": "acc-a", "status": "active"}


def waiting_beside(holder: Advertiser, mine: Advertiser) -> tuple[Account, Seller]:
    """`holder` buys at the seller as acc-a, and the account of `mine` is pending there and due to be read."""
    seller = make_seller(tools=["get_products", "list_accounts", "sync_accounts", "create_media_buy"])
    make_account(holder, seller)
    Account.objects.update(reference={"account_id": "acc-a"})
    waits = make_account(mine, seller, status="pending_approval")
    due = clock.now() - timedelta(seconds=1)
    Account.objects.filter(pk=waits.pk).update(reference=natural_key(mine), next_read_at=due)
    return Account.objects.get(pk=waits.pk), seller


@pytest.mark.parametrize("named", [{}, {"name": "Lindqvist Coffee"}, {"brand": {"domain": "northwind.com"}}])
def test_an_id_that_another_brand_of_ours_buys_under_is_not_taken(named: dict[str, Any]) -> None:
    northwind = make_advertiser("Northwind", team=make_team("Another house"))
    account, _seller = waiting_beside(make_advertiser(), northwind)
    for _ in range(2):
        Account.objects.filter(pk=account.pk).update(next_read_at=clock.now() - timedelta(seconds=1))
        assert accounts_read_due() == 1
        end("list_accounts", "completed", {"accounts": [{**NAMED, **named}]})

    now = Account.objects.get(pk=account.pk)
    assert (now.reference, now.status) == (natural_key(northwind), "pending_approval")
    note = Notification.objects.get(kind="account_changed")
    assert (note.team, note.title) == (
        northwind.team,
        "Norrland Digital told of another’s account as that of Northwind",
    )
    assert "acc-a" in note.body
    assert "Lindqvist" not in note.body


def test_nor_is_it_opened_as_one_of_ours() -> None:
    northwind = make_advertiser("Northwind")
    account, seller = waiting_beside(make_advertiser(), northwind)
    Account.objects.filter(pk=account.pk).delete()
    account_open(advertiser=northwind, seller=seller, purpose="account:1", actor="system")
    end("sync_accounts", "completed", {"accounts": [NAMED]})
    assert not Account.objects.filter(advertiser=northwind).exists()
    assert Notification.objects.filter(kind="account_changed").count() == 1


def test_one_brand_of_two_teams_has_one_account() -> None:
    """By nature it is the same account: brand and operator name it."""
    same = make_advertiser("Lindqvist Coffee", team=make_team("Another house"))
    account, _seller = waiting_beside(make_advertiser(), same)
    assert accounts_read_due() == 1
    end("list_accounts", "completed", {"accounts": [NAMED]})
    now = Account.objects.get(pk=account.pk)
    assert (now.reference, now.status) == ({"account_id": "acc-a"}, "active")


def test_an_id_that_people_entered_for_both_is_read_on() -> None:
    northwind = make_advertiser("Northwind")
    account, _seller = waiting_beside(make_advertiser(), northwind)
    Account.objects.filter(pk=account.pk).update(reference={"account_id": "acc-a"})
    assert accounts_read_due() == 1
    end("list_accounts", "completed", {"accounts": [NAMED]})
    assert Account.objects.get(pk=account.pk).status == "active"


FIXED = {"supported_account_currency_modes": ["fixed"]}
ZONES = ["America/New_York", "UTC"]
CHOSEN = {
    "timezone": {"mode": "account_fixed", "account_selection": "buyer_selected", "supported_timezones": ZONES}
}
SELLERS = {"timezone": {"mode": "account_fixed", "account_selection": "seller_assigned"}}
EITHER = {"supported_account_currency_modes": ["per_media_buy", "fixed"]}


def asking(declared: dict[str, Any], *, version: str = "3.2") -> Seller:
    return make_seller(
        tools=["get_products", "list_accounts", "sync_accounts", "create_media_buy"],
        capabilities={"account": declared},
        adcp_version=version,
    )


@pytest.mark.parametrize(
    ("declared", "version", "bound"),
    [
        (FIXED, "3.2", {"currency": "USD"}),
        (CHOSEN, "3.2", {"timezone": "America/New_York"}),
        ({**FIXED, **CHOSEN}, "3.2", {"currency": "USD", "timezone": "America/New_York"}),
        (EITHER, "3.2", {}),
        ({"supported_account_currency_modes": ["per_media_buy"]}, "3.2", {}),
        (SELLERS, "3.2", {}),
        ({"timezone": {"mode": "seller_fixed", "fixed_timezone": "UTC"}}, "3.2", {}),
        ({}, "3.2", {}),
        ({**FIXED, **CHOSEN}, "3.1", {}),
        ({**FIXED, **CHOSEN}, "3.0", {}),
    ],
    ids=[
        *("currency", "zone", "both", "either", "each-buy", "sellers", "one-for-all", "not-said"),
        *("3.1", "3.0"),
    ],
)
def test_an_account_is_asked_for_in_what_the_seller_binds_it_to(
    declared: dict[str, Any], version: str, bound: dict[str, str]
) -> None:
    operation = account_open(
        advertiser=make_advertiser(), seller=asking(declared, version=version), purpose="account:1",
        actor="system", currency="USD", zone="America/New_York",
    )  # fmt: skip
    (wanted,) = operation.request["accounts"]
    named = {name: wanted[name] for name in ("currency", "timezone") if name in wanted}
    assert (named, wanted["billing"]) == (bound, "operator")


@pytest.mark.parametrize(
    ("declared", "currency", "zone", "why"),
    [
        (FIXED, "", "UTC", "opens accounts of one currency, and none is said"),
        (FIXED, "usd", "UTC", "opens accounts of one currency, and none is said"),
        (CHOSEN, "USD", "", "opens accounts for time zones that it lists, and none is said"),
        (CHOSEN, "USD", "Asia/Tokyo", "opens accounts for time zones that it lists, not for Asia/Tokyo"),
        ({"timezone": {"account_selection": "buyer_selected"}}, "USD", "UTC", "not for UTC"),
    ],
    ids=["no-currency", "no-such-currency", "no-zone", "another-zone", "no-zones"],
)
def test_what_the_seller_wants_and_nobody_says_is_not_made_up(
    declared: dict[str, Any], currency: str, zone: str, why: str
) -> None:
    seller = asking(declared)
    with pytest.raises(OperationRefusedError, match=why):
        account_open(
            advertiser=make_advertiser(), seller=seller, purpose="account:1", actor="system",
            currency=currency, zone=zone,
        )  # fmt: skip
    assert not Operation.objects.exists()


def test_of_accounts_of_several_currencies_the_one_asked_for_is_ours_and_asked_for_again() -> None:
    advertiser, seller = make_advertiser(), asking({**FIXED, **CHOSEN})
    account_open(
        advertiser=advertiser, seller=seller, purpose="account:1", actor="system", currency="USD", zone="UTC"
    )
    rows = [
        {
            **natural_key(advertiser),
            "currency": currency,
            "timezone": zone,
            "account_id": f"acc-{currency}-{zone}",
            "status": "active" if currency == "EUR" else "pending_approval",
        }
        for currency, zone in (("EUR", "UTC"), ("USD", "America/New_York"), ("USD", "UTC"))
    ]
    end("sync_accounts", "completed", {"accounts": rows})
    account = Account.objects.get()
    assert (account.reference, account.status) == ({"account_id": "acc-USD-UTC"}, "pending_approval")
    assert account_currency(account) == "USD"

    again = account_ask(AccountRequest.again(account), make_user("Ad Ops"))
    (wanted,) = again.request["accounts"]
    assert (wanted["currency"], wanted["timezone"]) == ("USD", "UTC")


def test_a_deal_in_another_currency_than_the_accounts_is_not_booked() -> None:
    deal = make_deal()
    approve_deal(deal)
    deal.account.said = {"currency": "EUR"}
    deal.account.save()
    with pytest.raises(InvalidTransitionError, match="is bound to EUR, this is in USD"):
        deal_book(deal=deal)
    assert not Operation.objects.filter(task_type="create_media_buy").exists()
