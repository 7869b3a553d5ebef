"""A purchase-order number used again: the same order answers the first one, another is asked about."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from orders.adopt import media_buy_adopt
from orders.models import Deal
from orders.po_numbers import orders_under
from orders.questions import LATE
from orders.services import deal_book
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import effects_of
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tests.api.asks import purchase
from tests.api.numbered import (
    another,
    ask,
    cancelled_later,
    decide,
    given_up,
    held_by,
    placed,
    questions,
    refused,
)
from tests.factories import make_account, make_advertiser, make_user
from tests.orders import late

pytestmark = pytest.mark.django_db


def test_the_same_order_again_is_the_first_one(api: APIClient) -> None:
    body = purchase(po_number="PO-4711")
    first, again = ask(api, body), ask(api, body)

    assert (first.status_code, again.status_code) == (202, 202), again.content
    assert first.json()["operation_id"] == again.json()["operation_id"]
    assert (Deal.objects.count(), Operation.objects.count()) == (1, 1)
    assert questions() == [("deal", "open")]


def test_another_order_under_the_number_warns_and_asks_before_the_deal_is_put_to_people(
    api: APIClient,
) -> None:
    body = purchase(po_number="PO-4711")
    ask(api, body)
    first = Deal.objects.get()
    other = purchase(po_number="PO-4711")
    other["arguments"]["packages"][0]["budget"] = 2500
    other["arguments"]["total_budget"]["amount"] = 2500
    told = ask(api, other)

    assert told.status_code == 202, told.content
    asked = Approval.objects.get(kind="po_number")
    assert str(asked.pk) == told.json()["approval_id"]
    assert (first.reference in asked.title, "PO-4711" in asked.title) == (True, True)
    assert [one["deal"] for one in asked.evidence["used_by"]] == [first.reference]
    assert questions() == [("deal", "open"), ("po_number", "open")], "its deal is not put to people yet"

    decide(asked, "approve")
    second = Deal.objects.exclude(pk=first.pk).get()
    assert second.status == "quoted"
    assert Approval.objects.get(kind="deal", subject_id=second.pk).status == "open"


@pytest.mark.parametrize(
    "again",
    ["PO-47 11 ", " PO-47  11", "po-47 11", "PO-\u200b47 11", "ＰＯ-47 11", "PO-47\u00a011"],
    ids=ascii,
)
def test_a_number_that_looks_the_same_is_the_same(api: APIClient, again: str) -> None:
    """People read it: what they cannot tell apart is asked about. It is kept as it was written."""
    ask(api, purchase(po_number="PO-47 11"))
    told = ask(api, purchase(po_number=again))
    assert told.status_code == 202, told.content
    assert questions() == [("deal", "open"), ("po_number", "open")]
    assert Operation.objects.latest("id").request["po_number"] == again
    assert ask(api, purchase(po_number="PO-47 12")).status_code == 202
    assert Approval.objects.filter(kind="po_number").count() == 1


def test_refused_nothing_is_bought_and_the_number_is_free_where_nothing_stands(api: APIClient) -> None:
    ask(api, purchase(po_number="PO-1"))
    other = purchase(po_number="PO-1")
    other["arguments"]["packages"][0]["budget"] = 700
    other["arguments"]["total_budget"] = {"amount": 700, "currency": "USD"}
    ask(api, other)

    decide(Approval.objects.get(kind="po_number"), "reject")
    assert sorted(Deal.objects.values_list("status", flat=True)) == ["cancelled", "quoted"]
    assert sorted(Operation.objects.values_list("status", flat=True)) == ["canceled", "requested"]
    decide(Approval.objects.get(kind="deal"), "reject")
    ask(api, other)
    assert Approval.objects.filter(status="open").values_list("kind", flat=True).get() == "deal"


def test_another_account_or_no_number_is_no_question(api: APIClient) -> None:
    ask(api, purchase(po_number="PO-1"))
    elsewhere = make_advertiser("Tamarack")
    make_account(elsewhere, Operation.objects.get().seller).save()
    told = ask(api, purchase(po_number="PO-1", brand={"domain": elsewhere.brand_domain}))
    assert told.status_code == 202, told.content
    ask(api, purchase())
    ask(api, purchase())

    assert {kind for kind, _ in questions()} == {"deal"}
    assert Deal.objects.count() == 4


def test_a_number_asked_about_again_after_the_deal_has_changed(api: APIClient) -> None:
    ask(api, purchase(po_number="PO-1"))
    other = purchase(po_number="PO-1")
    other["arguments"]["packages"][0]["budget"] = 700
    other["arguments"]["total_budget"]["amount"] = 700
    ask(api, other)
    asked = Approval.objects.get(kind="po_number")
    Approval.objects.filter(pk=asked.pk).update(subject_version=99)

    with pytest.raises(Exception, match="changed"):
        decide(asked, "approve")
    assert Approval.objects.filter(kind="po_number", status="open").count() == 1


def test_the_question_about_a_number_stands_while_the_first_order_goes_on(api: APIClient) -> None:
    _, operation = placed(api, purchase(po_number="PO-4711"))
    ask(api, another())
    asked = Approval.objects.get(kind="po_number")
    late.say(operation, "working")
    decide(asked, "approve")
    asked.refresh_from_db()
    assert (asked.status, Approval.objects.filter(kind="po_number").count()) == ("approved", 1)


def test_a_number_of_a_purchase_that_is_overdue_is_asked_about(api: APIClient) -> None:
    """Nobody knows what became of it: it may stand at the seller."""
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    late.overdue(operation)

    other = purchase(po_number="PO-4711")
    other["arguments"]["packages"][0]["budget"] = 700
    other["arguments"]["total_budget"]["amount"] = 700
    assert ask(api, other).status_code == 202

    held_by(deal)
    assert ask(api, body).json()["operation_id"] == str(operation.pk), "the same order is the first one"


@pytest.mark.parametrize("ending", [cancelled_later, given_up, refused])
def test_an_order_that_is_dead_is_not_answered_but_made_anew(api: APIClient, ending: Any) -> None:
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    ending(deal, operation)
    assert late.fresh(deal).status in ("cancelled", "failed")

    again = ask(api, body)

    assert again.status_code == 202, again.content
    assert again.json()["operation_id"] != str(operation.pk)
    assert Deal.objects.latest("id").status == "quoted"
    assert Approval.objects.filter(kind="po_number").count() == 0, "nothing else stands under the number"


def test_a_given_up_order_that_a_later_deal_keeps_stands(api: APIClient) -> None:
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    late.give_up(operation)
    late.say(operation, "completed", late.bought(deal))
    late.decide(LATE, "approve")
    assert Deal.objects.get(follows=deal).status == "booked"

    assert ask(api, body).json()["operation_id"] == str(operation.pk)

    transition(Deal.objects.get(follows=deal), "cancelled", actor="system", reason="The seller cancelled it.")
    assert ask(api, body).json()["operation_id"] != str(operation.pk)


def test_who_decides_on_what_came_late_sees_what_was_bought_under_its_number_since(api: APIClient) -> None:
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    late.give_up(operation)
    anew, bought = placed(api, body)
    late.say(bought, "completed", late.bought(anew, "nrl-2"))
    assert late.fresh(anew).status == "booked"

    late.say(operation, "completed", late.bought(deal))

    asked = Approval.objects.get(kind=LATE)
    assert (asked.evidence["po_number"], [one["deal"] for one in asked.evidence["used_by"]]) == (
        "PO-4711",
        [anew.reference],
    )
    assert f"order PO-4711 was used for {anew.reference} as well" in effects_of(asked)["approve"]
    late.decide(LATE, "approve")
    assert Deal.objects.get(follows=deal).status == "booked", "people may want both"


def test_the_late_question_stands_while_other_orders_under_its_number_move(api: APIClient) -> None:
    """They go on, or come to nothing: the first of two words on it is not lost by that."""
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    late.give_up(operation)
    _, bought = placed(api, body)
    late.say(operation, "completed", late.bought(deal))
    asked = Approval.objects.get(kind=LATE)
    assert [set(one) for one in asked.evidence["used_by"]] == [{"operation", "deal"}]
    Approval.objects.filter(pk=asked.pk).update(quorum=2)

    late.say(bought, "working")
    decide(asked, "approve")
    late.say(bought, "rejected")
    decide(asked, "approve")

    asked.refresh_from_db()
    assert (asked.status, Approval.objects.filter(kind=LATE).count()) == ("approved", 1)


def test_another_order_under_its_number_asks_the_late_question_anew(api: APIClient) -> None:
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    late.give_up(operation)
    late.say(operation, "completed", late.bought(deal))
    ask(api, another())
    with pytest.raises(DecisionRefusedError, match="asked anew"):
        late.decide(LATE, "approve")
    asked = Approval.objects.get(kind=LATE, status="open")
    assert [one["deal"] for one in asked.evidence["used_by"]] == [Deal.objects.latest("id").reference]


def test_of_many_orders_under_its_number_a_few_are_named_and_as_what_they_are(api: APIClient) -> None:
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    late.give_up(operation)
    for number in range(5):
        ask(api, another(700 + number))
    orders = list(Deal.objects.exclude(pk=deal.pk).order_by("id"))
    a, b, c, d, _ = (one.reference for one in orders)
    late.say(operation, "completed", late.bought(deal))
    asked = Approval.objects.get(kind=LATE)
    assert len(asked.evidence["used_by"]) == 5
    said = effects_of(asked)["approve"]
    assert f"{a}, {b}, {c} and 2 more are asked for under purchase order PO-4711 as well" in said
    assert "used for" not in said, "nobody has approved them"

    decide(Approval.objects.get(kind="deal", status="open", subject_id=orders[0].pk), "approve")
    claim_one(operation_id=deal_book(deal=late.fresh(orders[0])).pk)
    said = effects_of(asked)["approve"]
    assert f"purchase order PO-4711 was used for {a} as well" in said
    assert f"{b}, {c}, {d} and 1 more are asked for under purchase order PO-4711 as well" in said

    with pytest.raises(DecisionRefusedError):  # what came late stands under the number, too
        decide(Approval.objects.get(kind="po_number", subject_id=orders[1].pk), "reject")
    decide(Approval.objects.get(kind="po_number", status="open", subject_id=orders[1].pk), "reject")
    assert b not in effects_of(asked)["approve"], "it came to nothing"


@pytest.mark.parametrize("ending", [given_up, refused])
def test_a_dead_order_whose_media_buy_was_found_and_adopted_is_not_bought_again(
    api: APIClient, ending: Any
) -> None:
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    ending(deal, operation)
    assert deal.account is not None
    kept = media_buy_adopt(
        account=deal.account,
        told=late.bought(deal, status="active"),
        user=make_user("Ad Ops"),
        reason="Reconcile found it.",
        in_place_of=late.fresh(deal),
    )
    assert (kept.follows, late.fresh(deal).status in ("cancelled", "failed")) == (deal, True)

    told = ask(api, body)

    assert told.status_code == 202, told.content
    if ending is given_up:
        assert told.json()["operation_id"] == str(operation.pk)
    else:  # the answer cannot be a purchase that its seller refused
        asked = Approval.objects.get(kind="po_number", status="open")
        assert [one["deal"] for one in asked.evidence["used_by"]] == [deal.reference]


def test_what_an_account_has_bought_besides_is_not_read(api: APIClient) -> None:
    """Its other purchases are neither fetched nor looked through, however many they are."""
    ask(api, purchase(po_number="PO-47 11"))
    first = Operation.objects.get()
    assert first.account is not None
    for number in range(3):
        ask(api, purchase(po_number=f"PO-{number}"))
    with CaptureQueriesContext(connection) as queries:
        assert orders_under(account=first.account, po_number="po-47 11 ") == [first]
    told = [query["sql"] for query in queries if "tasks_app_operation" in query["sql"]]
    assert all("po_alike" in sql or "subject_id" in sql for sql in told), told
    with connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off")
        # Of so few rows every index costs the same: what serves is shown without the others.
        cursor.execute(
            "select indexname from pg_indexes where tablename = 'tasks_app_operation'"
            " and indexdef like '%(account_id%' and indexname <> 'operation_po_alike'"
        )
        for (other,) in cursor.fetchall():
            cursor.execute("select testing.as_owner(%s)", [f"drop index {other}"])
        wanted = Operation.objects.filter(account=first.account, po_alike=first.po_alike)
        plan = wanted.order_by().explain()
    assert "operation_po_alike" in plan
