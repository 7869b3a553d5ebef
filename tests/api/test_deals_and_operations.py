"""/api/v1/deals/ and the reading half of /api/v1/operations/."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from orders.amounts import deal_amounts
from orders.models import Deal, DealStatus
from orders.presenters import mirror_facts
from orders.questions import DIFFERENT, ask_deal
from orders.services import deal_book
from tasks_app.adcp.types import Seen
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tests.api.conftest import Open
from tests.factories import approve_deal, make_deal, make_line, make_seller
from tests.operations.making import observed
from tests.orders.late import bought, decide, say
from tests.orders.live import led, packages

pytestmark = pytest.mark.django_db
DEALS, OPERATIONS = "/api/v1/deals/", "/api/v1/operations/"


@pytest.fixture
def booking() -> tuple[Deal, Operation]:
    """A deal whose purchase is out with a seller that uses webhooks."""
    seller = make_seller(webhook_mode="hmac", webhook_secret="w" * 40, token="seller-token-1234")
    deal = make_deal(make_line(), make_line(channel="display"), seller=seller)
    approve_deal(deal)
    operation = deal_book(deal=deal)
    claim_one(operation_id=operation.pk)
    observed(
        operation_id=operation.pk,
        seen=Seen(kind="answer", status="submitted", task_id="t-9", message="With our desk"),
        channel="reply",
    )
    operation.refresh_from_db()
    return deal, operation


_BOUGHT = {"booked", "delivering", "completed", "makegood_pending", "partially_canceled"}


@pytest.mark.parametrize("status", DealStatus.values)
def test_what_is_confirmed_is_told_as_everywhere_else(opened: Open, status: str) -> None:
    """What was confirmed of a deal that is over by now is in no sum, nor here."""
    deal = make_deal()
    Deal.objects.update(confirmed_gross=20_500, media_buy_id="m-1")
    led(Deal.objects.get(pk=deal.pk), status)
    amount = deal_amounts(Deal.objects.get(pk=deal.pk)).confirmed
    assert amount == (20_500 if status in _BOUGHT else None)
    api = opened("Finance")
    told = [api.get(f"{DEALS}{deal.pk}/").json(), *api.get(DEALS).json()["results"]]
    assert [one["confirmed_gross"] for one in told] == [amount and f"{amount:.4f}"] * 2


def test_a_deal_shows_approved_beside_confirmed(opened: Open) -> None:
    deal = make_deal()
    deal.lines.update(confirmed_budget=10_000, package_id="pkg-1")
    Deal.objects.update(
        differs=True, differences=[{"field": "budget"}], media_buy_id="m-1", media_buy_status="active"
    )

    told = opened("Finance").get(f"{DEALS}{deal.reference}/").json()

    (line,) = told["lines"]
    assert (line["budget"], line["confirmed_budget"]) == ("10250.0000", "10000.0000")
    assert (told["media_buy_status"], told["differs"], told["differences"]) == (
        "active",
        True,
        [{"field": "budget"}],
    )
    (entry,) = told["audit"]
    assert (entry["seq"], entry["to_status"], entry["actor"], len(entry["hash"])) == (
        1,
        "quoted",
        "system",
        64,
    )


def test_lines_come_to_what_people_accepted(opened: Open, booking: tuple[Deal, Operation]) -> None:
    """Of two packages the seller booked one smaller, and people took it so."""
    deal, operation = booking
    said = {"media_buy_id": "mb-9", "packages": packages(deal, budget=6000)}
    say(operation, "completed", said, task_id="t-9")
    decide(DIFFERENT, "approve")

    told = opened("Finance").get(f"{DEALS}{deal.reference}/").json()

    first, second = told["lines"]
    assert (first["budget"], first["approved"], first["committed"]) == ("6000.0000",) * 3
    assert (second["budget"], second["approved"], second["committed"]) == ("10250.0000",) * 3
    assert (told["gross"], told["differences"]) == ("16250.0000", [])


def test_what_nobody_approved_has_no_approved_lines(opened: Open) -> None:
    deal = make_deal()
    Deal.objects.update(differs=True, unapproved=True)

    told = opened("Finance").get(f"{DEALS}{deal.reference}/").json()

    assert (told["gross"], [line["approved"] for line in told["lines"]]) == (None, [None])


def test_deals_by_status_seller_and_campaign(opened: Open) -> None:
    campaign = uuid.uuid4()
    deal = make_deal(seller=make_seller("Kestrel Video"), campaign_id=campaign)
    make_deal()
    api = opened("Finance")

    for query in ({"seller": "kestrel-video"}, {"campaign": str(campaign)}):
        found = api.get(DEALS, {**query, "status": "quoted"}).json()["results"]
        assert [d["id"] for d in found] == [str(deal.pk)]
    assert api.get(DEALS, {"status": "booked"}).json()["results"] == []
    for wrong in ({"status": "sold"}, {"campaign": "x"}, {"seller": "\x00"}):
        assert api.get(DEALS, wrong).status_code == 400


def test_an_operation_tells_what_is_known(opened: Open, booking: tuple[Deal, Operation]) -> None:
    deal, operation = booking
    approval = ask_deal(make_deal(seller=make_seller("Other")))
    Deal.objects.filter(pk=deal.pk).update(creative_deadline="2030-01-02T03:04:05Z")

    told = opened("Ad Ops").get(f"{OPERATIONS}{operation.reference}/").json()

    assert (told["status"], told["task_id"], told["message"]) == ("submitted", "t-9", "With our desk")
    assert (told["webhook_configured"], told["deal_id"]) == (True, str(deal.pk))
    assert told["creative_deadline"] == "2030-01-02T03:04:05Z"
    assert told["approval_id"] not in (None, str(approval.pk))
    assert [(o["channel"], o["outcome"]) for o in told["observations"]] == [("reply", "applied")]


def test_no_secret_is_told(opened: Open, booking: tuple[Deal, Operation]) -> None:
    _, operation = booking
    api = opened("Administrator")

    for address in (OPERATIONS, f"{OPERATIONS}{operation.pk}/"):
        text = api.get(address).content.decode()
        for secret in ("w" * 40, "seller-token-1234", operation.webhook_token):
            assert secret not in text
        assert "request_text" not in text
        assert "webhook_token" not in text


def test_operations_by_status_seller_and_task(opened: Open, booking: tuple[Deal, Operation]) -> None:
    _, operation = booking
    api = opened("Ad Ops")

    right = {"status": "submitted", "seller": operation.seller.slug, "task_type": "create_media_buy"}
    assert [o["reference"] for o in api.get(OPERATIONS, right).json()["results"]] == [operation.reference]
    for name, other in {"status": "failed", "seller": "x", "task_type": "x"}.items():
        assert api.get(OPERATIONS, {**right, name: other}).json()["results"] == []


def test_who_sees_nothing(opened: Open, strangers: Any, booking: tuple[Deal, Operation]) -> None:
    deal, operation = booking
    stranger = opened("Administrator", strangers())

    for room, row in ((DEALS, deal), (OPERATIONS, operation)):
        assert stranger.get(room).json()["results"] == []
        assert stranger.get(f"{room}{row.pk}/").status_code == 404
        assert stranger.get(f"{room}{row.reference}/").status_code == 404


def test_lists_ask_as_often_for_many_as_for_one(
    opened: Open, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for name in ("a", "b", "c", "d"):
        deal = make_deal(seller=make_seller(name))
        approve_deal(deal)
        deal_book(deal=deal)
    api = opened("Administrator")
    with django_assert_max_num_queries(7):
        assert len(api.get(DEALS).json()["results"]) == 4
    with django_assert_max_num_queries(8):
        assert len(api.get(OPERATIONS).json()["results"]) == 4


def test_what_a_seller_states_and_nobody_can_read_is_told_as_stated(
    opened: Open, booking: tuple[Deal, Operation]
) -> None:
    deal, operation = booking
    client = opened("Finance")
    assert client.get(f"{DEALS}{deal.reference}/").json()["as_stated"] == {}
    odd = {"creative_deadline": "a week before", "revision": "second", "confirmed_at": "2030-01-02T03:04:05Z"}
    say(operation, "completed", {**bought(deal), **odd}, task_id="t-9")

    stated = {"creative_deadline": "a week before", "revision": "second"}
    told = client.get(f"{DEALS}{deal.reference}/").json()
    assert (told["as_stated"], told["creative_deadline"], told["revision"]) == (stated, None, None)
    (listed,) = client.get(DEALS).json()["results"]
    assert listed["as_stated"] == stated
    about = client.get(f"{OPERATIONS}{operation.reference}/").json()
    assert about["creative_deadline_as_stated"] == "a week before"
    pages = dict(mirror_facts(Deal.objects.get(pk=deal.pk)))
    assert (pages["Revision"], pages["Creatives due"]) == (
        "as stated: second",
        "as stated: a week before",
    )
