"""What leaves in a request is what was shown: every leaf of it stands in the evidence, and on the page, but
for what is named as technical or ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from orders.acts import deal_cancel_ask
from orders.ask import Ask
from orders.changes.send import _NOT_HERE, change_ask
from orders.models import Deal
from orders.purchases import purchase_ask
from orders.questions import ask_deal
from orders.request_rules import OTHER_FORMS
from orders.sent import OUR_CONTEXT, OUR_PACKAGE_CONTEXT, TECHNICAL
from orders.services import deal_book, deal_cancel_at_seller
from tasks_app import clock
from tasks_app.adcp import requests
from tasks_app.approvals import kinds
from tasks_app.approvals.models import Approval
from tasks_app.approvals.plain import as_text
from tasks_app.approvals.sent import leaves, sent_leaves
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.models import Operation
from tasks_app.people.models import Advertiser
from tasks_app.sellers.models import Seller
from tests.factories import approve_deal, make_account, make_advertiser, make_deal, make_seller, make_user
from tests.orders.late import answered, booking, bought, decide, give_up, paused, say
from tests.orders.live import booked

pytestmark = pytest.mark.django_db
Keys = tuple[str, ...]

# Every field that create_media_buy and update_media_buy have, as an integrator may send it.
_PACKAGE: dict[str, Any] = {
    "product_id": "prod-x",
    "pricing_option_id": "opt-x",
    "budget": 1500.5,
    "bid_price": 12.25,
    "impressions": 77_000,
    "pacing": "front_loaded",
    "paused": True,
    "targeting_overlay": {"geo_countries": ["BR"], "age": {"min": 25}, "empty": []},
    "optimization_goals": [{"kind": "metric", "metric": "clicks"}],
    "measurement_terms": {"vendor": "Third Party Ltd"},
    "agency_estimate_number": "EST-PACKAGE",
    "format_option_refs": [{"id": "fmt-option"}],
    "format_ids": [{"agent_url": "https://formats.example", "id": "fmt-1"}],
    "context": {"theirs": "kept-by-them", "deal_id": "a deal of theirs"},
    "ext": {"acme": {"rebate": "12 percent"}},
}
_BUY: dict[str, Any] = {
    "total_budget": {"amount": 1500.5, "currency": "USD"},
    "pacing": "asap",
    "name": "Spring flight",
    "po_number": "PO-4711",
    "agency_estimate_number": "EST-WHOLE",
    "invoice_recipient": {"name": "Shellcompany Ltd", "address": {"city": "Valletta"}},
    "io_acceptance": {"signatory": "Nobody Known"},
    "governance_context": "plan-7",
    "paused": False,
    "context": {"their_order": "A-1", "line_id": "one of theirs"},
    "ext": {"acme": {"kickback": True}},
}
_CHANGED: dict[str, Any] = {
    "budget": 999.75,
    "pacing": "even",
    "paused": True,
    "targeting_overlay": {"geo_countries": ["BR"]},
    "context": {"theirs": "kept-by-them"},
    "ext": {"acme": {"why": "because"}},
}
_UPDATE: dict[str, Any] = {
    "name": "Another name",
    "paused": True,
    "context": {"their_change": "C-1"},
    "ext": {"acme": {"kickback": True}},
}


def _flight(days: int) -> dict[str, str]:
    start = clock.now().replace(microsecond=0) + timedelta(days=10)
    return {"start_time": start.isoformat(), "end_time": (start + timedelta(days=days)).isoformat()}


def _integrators_purchase() -> Operation:
    advertiser = make_advertiser()
    seller = make_seller(webhook_mode="bearer", webhook_secret="s" * 40)
    make_account(advertiser, seller)
    return _asked_of(seller, advertiser)


def _asked_of(seller: Seller, advertiser: Advertiser, **more: Any) -> Operation:
    arguments = {
        "brand": {"domain": advertiser.brand_domain, "brand_id": "cold-brew"},
        **_BUY,
        **_flight(20),
        "packages": [{**_PACKAGE, **_flight(2)}],
    }
    asker = make_user("Integration")
    return purchase_ask(Ask(user=asker, task="create_media_buy", seller=seller, arguments=arguments | more))


def _integrators_change() -> Operation:
    deal = booked()
    arguments = {
        "media_buy_id": deal.media_buy_id,
        **_UPDATE,
        **_flight(60),
        "packages": [{"package_id": "pkg-1", **_CHANGED, **_flight(3)}],
    }
    asker = make_user("Integration")
    return change_ask(Ask(user=asker, task="update_media_buy", seller=deal.seller, arguments=arguments))


def _own_purchase() -> Operation:
    deal = make_deal()
    approve_deal(deal)
    return deal_book(deal=deal)


def _cancellation() -> Operation:
    deal = booked()
    deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="The client withdrew")
    return Operation.objects.get(task_type="update_media_buy")


def _purchase_answered() -> Continuation:
    """The whole purchase leaves again, with what was said otherwise."""
    operation = _integrators_purchase()
    approve_deal(Deal.objects.get())
    operation = paused(deal_book(deal=Deal.objects.get()))
    package = {**operation.request["packages"][0], "budget": 2500.75, "pacing": "even"}
    total = {"amount": 2500.75, "currency": "USD"}
    return answered(operation, packages=[package], total_budget=total, name="Another flight")


def _change_answered() -> Continuation:
    operation = _integrators_change()
    decide("deal_change", "approve")
    operation = paused(operation)
    package = {**operation.request["packages"][0], "budget": 700.25}
    return answered(operation, packages=[package], ext={"acme": {"kickback": "twice"}})


def _stopped(ordered: Callable[[], Operation]) -> Operation:
    """Waits at the kill switch."""
    kill_switch_set(on=True, reason="A drill", actor="system")
    return ordered()


def _cancellation_stopped() -> Operation:
    deal = booked()
    return _stopped(lambda: deal_cancel_at_seller(deal=deal, actor="system", reason="Not wanted"))


def _purchase_stopped() -> Operation:
    deal = make_deal()
    approve_deal(deal)
    return _stopped(lambda: deal_book(deal=deal))


SENT: dict[str, tuple[str, Callable[[], Operation | Continuation]]] = {
    "an integrator's purchase": ("deal", _integrators_purchase),
    "a purchase of ours": ("deal", _own_purchase),
    "an integrator's change": ("deal_change", _integrators_change),
    "a cancellation": ("deal_change", _cancellation),
    "an answer about a purchase": ("answer", _purchase_answered),
    "an answer about a change": ("answer", _change_answered),
    "a purchase at the kill switch": ("kill_switch", _purchase_stopped),
    "a cancellation at the kill switch": ("kill_switch", _cancellation_stopped),
}


def _late() -> str:
    deal, operation = booking()
    give_up(operation)
    say(operation, "completed", bought(deal, "mb-late"))
    return "mb-late"


def _different() -> str:
    deal, operation = booking()
    say(operation, "completed", bought(deal, "mb-other", budget=1.0))
    return "mb-other"


# Answers by which a media buy is cancelled at its seller, in the words of who gives them.
CANCELS: dict[str, tuple[str, Callable[[], str]]] = {
    "unclaimed": ("reject", _late),
    "booked_differently": ("reject", _different),
}


def _sent(what: str) -> tuple[Approval, dict[str, Any]]:
    """The question, and the request as it leaves."""
    kind, make = SENT[what]
    frozen = make()
    request = json.loads(frozen.request_text or "")
    return Approval.objects.filter(kind=kind).latest("pk"), request


def _is_named(keys: Keys) -> bool:
    """Whether a leaf is one that is named, with its reason, as technical or ours."""
    if len(keys) == 2 and keys[0] == "context":
        return keys[1] in OUR_CONTEXT
    if len(keys) == 4 and (keys[0], keys[2]) == ("packages", "context"):
        return keys[3] in OUR_PACKAGE_CONTEXT
    return keys[0] in TECHNICAL


def _walk(value: Any, keys: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Every leaf of a request with the keys that lead to it."""
    inner = list(
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    if not inner:
        yield keys, value
    for key, one in inner:
        yield from _walk(one, (*keys, str(key)))


@pytest.mark.parametrize("what", SENT)
def test_every_leaf_that_leaves_is_in_the_evidence_and_no_other(what: str) -> None:
    approval, request = _sent(what)
    leaving = {keys: as_text(value) for keys, value in _walk(request) if not _is_named(keys)}

    assert dict(_walk(approval.evidence["sent"])) == leaving
    assert len(leaving) > 3


@pytest.mark.parametrize("what", SENT)
def test_every_leaf_that_leaves_is_on_the_page(what: str) -> None:
    approval, request = _sent(what)
    client = Client()
    client.force_login(make_user("Approver", is_staff=True))
    html = client.get(reverse("admin:tasks_app_approval_change", args=[approval.pk])).content.decode()
    card = html.split("What is sent to the seller")[1].split("Comments")[0]

    shown = sent_leaves(approval)
    assert len(shown) == sum(not _is_named(keys) for keys, _ in _walk(request))
    for field, value in shown:
        assert f"<dd>{escape(value)}</dd>" in card, field
    for keys, value in _walk(request):
        if not _is_named(keys) and isinstance(value, str):
            assert escape(value) in card, keys


@pytest.mark.parametrize("kind", CANCELS)
def test_a_cancellation_in_the_words_of_who_decides_names_what_was_shown(kind: str) -> None:
    verdict, make = CANCELS[kind]
    media_buy_id = make()
    approval = decide(kind, verdict)
    operation = Operation.objects.get(task_type="update_media_buy")
    assert operation.account is not None

    request = {name: value for name, value in operation.request.items() if name not in TECHNICAL}
    assert set(request.pop("context")) <= set(OUR_CONTEXT)
    request.pop("revision", None)
    assert request == {
        "media_buy_id": media_buy_id,
        "canceled": True,
        "cancellation_reason": "So.",
        "account": operation.account.reference,
    }
    assert media_buy_id in json.dumps(approval.evidence)


def test_every_question_whose_answer_is_sent_is_tried_here() -> None:
    tried = {kind for kind, _ in SENT.values()} | CANCELS.keys()
    assert {name for name, kind in kinds._kinds.items() if kind.sends} <= tried


def test_it_is_told_as_people_read_an_order() -> None:
    approval, _ = _sent("a purchase of ours")
    fields = [field for field, _ in sent_leaves(approval)]
    of_packages = [field.startswith("packages 1") for field in fields]

    assert "PO number" in fields
    assert fields.index("start time") + 1 == fields.index("end time")
    assert of_packages == sorted(of_packages), "packages come last"


@pytest.mark.parametrize(
    ("model", "sent", "not_sent"),
    [
        (
            requests.CreateMediaBuy,
            {*_BUY, "brand", "start_time", "end_time", "packages"},
            {*OTHER_FORMS, "account"},
        ),
        (requests.PackageRequest, {*_PACKAGE, "start_time", "end_time"}, set()),
        (
            requests.UpdateMediaBuy,
            {*_UPDATE, "media_buy_id", "start_time", "end_time", "packages"},
            # Put there by us, or asked for with a cancellation, which is tried by itself.
            {*_NOT_HERE, "account", "revision", "canceled", "cancellation_reason"},
        ),
        (
            requests.PackageUpdate,
            {*_CHANGED, "package_id", "start_time", "end_time"},
            {"canceled", "cancellation_reason"},  # refused: no single package is cancelled
        ),
    ],
    ids=["purchase", "package", "change", "changed package"],
)
def test_these_tests_send_every_field_there_is(model: Any, sent: set[str], not_sent: set[str]) -> None:
    assert set(model.model_fields) - set(TECHNICAL) == sent | not_sent


def test_what_is_technical_has_its_reason_and_says_nothing_of_the_purchase() -> None:
    for reasons in (TECHNICAL, OUR_CONTEXT, OUR_PACKAGE_CONTEXT):
        assert all(len(why.split()) > 5 for why in reasons.values())
    bought = {"account", "brand", "packages", "start_time", "end_time", "invoice_recipient", "context", "ext"}
    assert not bought & set(TECHNICAL)


def test_a_purchase_that_cannot_be_sent_says_why() -> None:
    deal = make_deal()
    deal.advertiser.brand_domain = "Not A Domain"
    deal.advertiser.save()
    assert ask_deal(deal).evidence["sent"]["cannot_be_sent"]


def test_leaves_of_deep_evidence_keep_their_names() -> None:
    assert list(leaves({"a_b": [{"c": None}, {}], "d": "x"})) == [
        (("a b", "1", "c"), None),
        (("a b", "2"), {}),
        (("d",), "x"),
    ]
