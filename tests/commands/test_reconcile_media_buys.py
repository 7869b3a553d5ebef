"""reconcile, media buys: the loudest alarm is one that carries our ids and is no deal of ours."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from orders.models import Deal
from orders.services import deal_book, purchases_of
from orders.unclaimed.question import UNCLAIMED
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.asking import operation_ensure
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.services import Subject
from tasks_app.sellers.models import Seller
from tests.commands.reconciling import booking, bought, lists, settle, task, verdicts
from tests.commands.running import call, run
from tests.factories import approve_deal, make_account, make_advertiser, make_deal, make_seller, make_user
from tests.fake_seller.driver import FakeSeller
from tests.operations.making import observed
from tests.orders import late


def test_bought_with_our_ids_and_unknown_here_is_the_loudest(faulty: FakeSeller, seller: Seller) -> None:
    make_account(make_advertiser(), seller)
    nobodys = uuid.uuid4()
    ours = bought(faulty, seller, {"deal_id": str(nobodys)})
    theirs = bought(faulty, seller, {"campaign": "spring"})
    lists(faulty, task("orphan"))

    listed, read = run("reconcile", "--json"), call("reconcile")

    assert listed.code == read.code == 1
    assert verdicts(listed, "media_buys") == {ours: "bought_unknown", theirs: "external"}
    assert str(nobodys) in listed.json["sellers"][0]["media_buys"][0]["note"]
    first_row = read.out.splitlines()[1]
    assert first_row.startswith("BOUGHT, UNKNOWN HERE")
    assert ours in first_row


def test_external_ones_alone_are_no_difference(faulty: FakeSeller, seller: Seller) -> None:
    make_account(make_advertiser(), seller)
    bought(faulty, seller, None)
    bought(faulty, seller, {"deal_id": "spring-24"})

    ran = call("reconcile", "--json")

    assert ran.code == 0
    assert ran.json["counts"]["external"] == 2


def test_a_booked_deal_is_in_step_then_missing_then_cancelled_there(
    faulty: FakeSeller, seller: Seller
) -> None:
    deal = booking(seller)
    media_buy_id = bought(faulty, seller, {"deal_id": str(deal.pk)})
    settle(deal, "completed", {"media_buy_id": media_buy_id, "media_buy_status": "pending_creatives"})
    assert deal.status == "booked"

    in_step = call("reconcile", "--json")
    faulty.fault("get_media_buys", "merge", 2, answer={"media_buys": []})
    missing = call("reconcile", "--json")
    faulty.fault(
        "get_media_buys",
        "merge",
        answer={"media_buys": [{"media_buy_id": media_buy_id, "status": "canceled", "revision": 2}]},
    )
    cancelled = call("reconcile", "--json")

    assert (in_step.code, verdicts(in_step, "media_buys")) == (0, {media_buy_id: "in_step"})
    assert (missing.code, verdicts(missing, "media_buys")) == (1, {media_buy_id: "missing"})
    assert (cancelled.code, verdicts(cancelled, "media_buys")) == (1, {media_buy_id: "behind"})
    deal.refresh_from_db()
    assert deal.status == "cancelled"
    assert cancelled.json["unattended"] == 0
    assert "is cancelled now" in cancelled.json["sellers"][0]["media_buys"][0]["handled"]


def test_a_purchase_rejected_at_the_seller_fails_its_deal(faulty: FakeSeller, seller: Seller) -> None:
    deal = booking(seller)
    refused = {"media_buy_id": "mb-1", "status": "rejected", "context": {"deal_id": str(deal.pk)}}
    faulty.fault("get_media_buys", "merge", answer={"media_buys": [refused]})

    ran = call("reconcile", "--json")

    deal.refresh_from_db()
    assert (ran.code, verdicts(ran, "media_buys")) == (1, {"mb-1": "behind"})
    assert (deal.status, deal.media_buy_id) == ("failed", "mb-1")


@pytest.mark.parametrize("first", ["dead", "alive"])
@pytest.mark.parametrize("gone", ["rejected", "canceled"])
def test_what_came_to_nothing_beside_one_that_lives_ends_no_deal(
    faulty: FakeSeller, seller: Seller, gone: str, first: str
) -> None:
    deal = booking(seller)
    dead = {"media_buy_id": "mb-1", "status": gone, "context": {"deal_id": str(deal.pk)}}
    alive = {**dead, "media_buy_id": "mb-2", "status": "active"}
    told = [dead, alive] if first == "dead" else [alive, dead]
    faulty.fault("get_media_buys", "merge", 0, answer={"media_buys": told})

    ran = call("reconcile", "--json")

    deal.refresh_from_db()
    assert verdicts(ran, "media_buys") == {"mb-1": "in_step", "mb-2": "unanswered"}
    assert (deal.status, deal.media_buy_id) == ("booking", "")


def test_another_sellers_word_moves_no_deal(faulty: FakeSeller, seller: Seller, tmp_path: Path) -> None:
    make_user("Ad Ops")
    with FakeSeller(tmp_path) as elsewhere:
        other = make_seller("Elsewhere", url=elsewhere.url, token=elsewhere.token)
        deal = booking(other)
        make_account(deal.advertiser, seller)
        forged = {"media_buy_id": "mb-1", "status": "rejected", "context": {"deal_id": str(deal.pk)}}
        faulty.fault("get_media_buys", "merge", answer={"media_buys": [forged]})

        ran = call("reconcile", "--json", "--seller", "faulty")

    deal.refresh_from_db()
    assert deal.status == "booking"
    (found,) = ran.json["sellers"][0]["media_buys"]
    assert (found["verdict"], found["here"]) == ("bought_unknown", "")
    assert "does not exist with Faulty" in found["note"]


def test_all_statuses_and_the_account_are_asked_for_and_the_missing_by_id(
    faulty: FakeSeller, seller: Seller
) -> None:
    deal = booking(seller)
    settle(deal, "completed", {"media_buy_id": "mb-gone", "media_buy_status": "active"})

    call("reconcile")

    listed, single = (r["arguments"] for r in faulty.requests("get_media_buys"))
    assert len(listed["status_filter"]) == len(single["status_filter"]) == 7
    assert listed["account"] == single["account"] == {"account_id": f"acc-{seller.slug}"}
    assert single["media_buy_ids"] == ["mb-gone"]
    assert "media_buy_ids" not in listed


def test_a_purchase_on_its_way_is_no_alarm(faulty: FakeSeller, seller: Seller) -> None:
    deal = booking(seller)
    media_buy_id = bought(faulty, seller, {"deal_id": str(deal.pk)})

    ran = call("reconcile", "--json")

    assert (ran.code, verdicts(ran, "media_buys")) == (0, {media_buy_id: "unanswered"})


def awaited(deal: Deal) -> str:
    late.overdue(purchases_of(deal).get())
    late.decide("overdue", "approve")
    return "booking"


def failed(deal: Deal) -> str:
    late.give_up(purchases_of(deal).get())
    return "failed"


@pytest.mark.parametrize("ends", [awaited, failed])
def test_what_was_bought_late_is_asked_about_until_people_have_decided(
    ends: Callable[[Deal], str], faulty: FakeSeller, seller: Seller
) -> None:
    deal = booking(seller)
    media_buy_id = bought(faulty, seller, {"deal_id": str(deal.pk)})
    status = ends(deal)
    settle(deal, "completed", {"media_buy_id": media_buy_id, "media_buy_status": "active"})
    assert deal.status == status

    asked = call("reconcile", "--json")

    (found,) = asked.json["sellers"][0]["media_buys"]
    question = Approval.objects.get(kind=UNCLAIMED, status="open")
    assert (asked.code, found["theirs"], found["verdict"]) == (1, media_buy_id, "bought_unknown")
    assert found["handled"] == f"People are asked whether to keep {media_buy_id}"
    assert question.evidence["media_buy_id"] == media_buy_id
    with suppress(DecisionRefusedError):  # asked anew with what the list states
        late.decide(UNCLAIMED, "approve")
    late.decide(UNCLAIMED, "approve")
    assert verdicts(call("reconcile", "--json"), "media_buys") == {media_buy_id: "in_step"}


def test_a_purchase_that_has_not_left_is_no_answer_to_wait_for(faulty: FakeSeller, seller: Seller) -> None:
    deal = make_deal(seller=seller)
    approve_deal(deal)
    deal_book(deal=deal)
    media_buy_id = bought(faulty, seller, {"deal_id": str(deal.pk)})

    ran = call("reconcile", "--json")

    assert (ran.code, verdicts(ran, "media_buys")) == (1, {media_buy_id: "bought_unknown"})


def test_what_buys_nothing_is_no_answer_to_wait_for(faulty: FakeSeller, seller: Seller) -> None:
    deal = make_deal(seller=seller)
    approve_deal(deal)
    reading = operation_ensure(
        purpose=f"deal:{deal.pk}:read",
        task_type="get_media_buys",
        seller=seller,
        arguments={},
        actor="system",
        team=deal.team,
        subject=Subject(type="deal", id=deal.pk),
    )
    claim_one(operation_id=reading.pk)
    media_buy_id = bought(faulty, seller, {"deal_id": str(deal.pk)})

    ran = call("reconcile", "--json")

    assert (ran.code, verdicts(ran, "media_buys")) == (1, {media_buy_id: "bought_unknown"})


def test_what_runs_for_a_deal_that_nothing_was_sent_for_is_an_alarm(
    faulty: FakeSeller, seller: Seller
) -> None:
    deal = make_deal(seller=seller)
    approve_deal(deal)
    media_buy_id = bought(faulty, seller, {"deal_id": str(deal.pk)})

    ran = call("reconcile", "--json")

    (found,) = ran.json["sellers"][0]["media_buys"]
    assert (ran.code, found["theirs"], found["verdict"]) == (1, media_buy_id, "bought_unknown")
    assert (found["here"], "accepted" in found["note"]) == (deal.reference, True)


def test_an_end_that_is_still_to_have_its_effect_is_no_alarm(faulty: FakeSeller, seller: Seller) -> None:
    deal = booking(seller)
    media_buy_id = bought(faulty, seller, {"deal_id": str(deal.pk)})
    payload = {"media_buy_id": media_buy_id, "media_buy_status": "active"}
    seen = Seen(kind="answer", status="completed", payload=payload)
    observed(operation_id=purchases_of(deal).get().pk, seen=seen, channel="reply")

    read = run("reconcile", "--json")

    assert (read.code, verdicts(read, "media_buys")) == (0, {media_buy_id: "unanswered"})


def test_a_deal_given_up_that_the_seller_booked_is_an_alarm(faulty: FakeSeller, seller: Seller) -> None:
    deal = booking(seller)
    line = deal.lines.get()
    media_buy_id = bought(faulty, seller, None)
    context = {"packages": [{"package_id": "1", "context": {"line_id": str(line.pk)}}]}
    settle(deal, "failed")
    answer = {"media_buys": [{"media_buy_id": media_buy_id, "status": "active", **context}]}
    faulty.fault("get_media_buys", "merge", answer=answer)

    ran = call("reconcile", "--json")

    (found,) = ran.json["sellers"][0]["media_buys"]
    assert (ran.code, found["verdict"], found["here"]) == (1, "bought_unknown", deal.reference)
    assert "the deal is failed here" in found["note"]


def test_bought_twice_is_an_alarm(faulty: FakeSeller, seller: Seller) -> None:
    deal = booking(seller)
    once, twice = (bought(faulty, seller, {"deal_id": str(deal.pk)}) for _ in range(2))
    settle(deal, "completed", {"media_buy_id": once, "media_buy_status": "active"})

    ran = call("reconcile", "--json")

    assert (ran.code, verdicts(ran, "media_buys")) == (1, {once: "in_step", twice: "bought_unknown"})


def test_a_purchase_that_came_to_nothing_on_both_sides(faulty: FakeSeller, seller: Seller) -> None:
    deal = booking(seller)
    settle(deal, "rejected")
    refused = {"media_buy_id": "mb-1", "status": "rejected", "context": {"deal_id": str(deal.pk)}}
    faulty.fault("get_media_buys", "merge", answer={"media_buys": [refused]})

    ran = call("reconcile", "--json")

    assert (ran.code, verdicts(ran, "media_buys")) == (0, {"mb-1": "in_step"})
