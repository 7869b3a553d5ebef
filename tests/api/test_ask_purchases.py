"""create_media_buy asked for by an integrator: nothing is sent before a person's decision."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from orders.models import Deal, RequestKey
from orders.request_rules import offered as of_packages
from tasks_app import clock
from tasks_app.adcp import requests
from tasks_app.approvals.models import Approval
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.models import Operation
from tasks_app.operations.reads import read_ensure
from tasks_app.people.models import Advertiser
from tasks_app.sellers.models import Account, Seller
from tests.api.asks import ROOM, faulty, integrator, known, purchase, read, shown, sweep
from tests.api.conftest import Open, client_of
from tests.database import Database
from tests.factories import make_advertiser, make_team, make_user
from tests.fake_seller.driver import FakeSeller
from tests.operations.making import answer, see

KEY = {"Idempotency-Key": "order-77"}


def ask(api: APIClient, body: dict[str, Any], **headers: str) -> Any:
    return api.post(ROOM, body, format="json", headers=headers)


def nothing_made() -> bool:
    return not (Deal.objects.exists() or Operation.objects.exists() or Approval.objects.exists())


def offered(seller: Seller, buyer: Advertiser | None, rate: int) -> None:
    """The seller has answered get_products, asked for that advertiser."""
    operation = read_ensure(
        purpose=f"test:{rate}",
        task_type="get_products",
        seller=seller,
        arguments={},
        actor="system",
        team=make_team(),
        advertiser_id=buyer.pk if buyer else None,
    )
    option = {
        "pricing_option_id": "fake-cpm",
        "pricing_model": "cpm",
        "currency": "USD",
        "fixed_price": rate,
    }
    policy = {"cancellation_fee": {"type": "fixed", "description": f"terms of {rate}"}}
    product = {
        "product_id": "fake-display",
        "name": f"terms of {rate}",
        "channels": ["display"],
        "pricing_options": [option],
        "cancellation_policy": policy,
    }
    transition(operation, "calling_adcp", actor="system", changes={"attempts": 1, "sent_at": clock.now()})
    see(operation, answer("completed", payload={"products": [product]}))


def work(api: APIClient, address: str) -> dict[str, Any]:
    """Let workers and sweep do what there is to do; the operation afterwards."""
    for _ in range(3):
        drain()
        sweep()
    return dict(api.get(address).json())


@pytest.fixture
def seller(committed_db: Database, tmp_path: Path) -> Iterator[FakeSeller]:
    with FakeSeller(tmp_path) as process:
        yield process


def test_after_approval_exactly_what_was_frozen_is_sent_once(seller: FakeSeller) -> None:
    faulty(seller)
    api = client_of(integrator())
    ask(api, read())

    body = purchase()
    answer = ask(api, body, **KEY)

    told = answer.json()
    assert (answer.status_code, told["status"], told["task_id"]) == (202, "requested", "")
    frozen = json.loads(Operation.objects.get(pk=told["operation_id"]).request_text)
    assert work(api, answer["Location"])["status"] == "requested"
    assert seller.books() == []

    approver = client_of(make_user("Approver"))
    asked = approver.get(f"/api/v1/approvals/{told['approval_id']}/").json()
    assert (asked["amount"], asked["currency"]) == ("1500.5000", "USD")
    assert asked["evidence"]["lines"][0]["rate"] == "10.000000"
    decided = approver.post(
        f"/api/v1/approvals/{told['approval_id']}/decide/",
        {"verdict": "approve", "evidence_digest": asked["evidence_digest"]},
        format="json",
    )
    assert decided.status_code == 200
    after = work(api, answer["Location"])

    assert (after["status"], after["operation_id"]) == ("completed", told["operation_id"])
    (bought,) = seller.requests("create_media_buy")
    assert bought["arguments"] == frozen
    assert len(seller.books()) == 1
    deal = api.get(f"/api/v1/deals/{told['deal_id']}/").json()
    assert (deal["status"], deal["differs"], deal["media_buy_status"]) == (
        "booked",
        False,
        "pending_creatives",
    )
    assert [entry["to_status"] for entry in deal["audit"]] == ["quoted", "accepted", "booking", "booked"]
    assert deal["audit"][1]["actor_name"].startswith("approver")
    assert deal["lines"][0]["confirmed_budget"] == deal["lines"][0]["budget"] == "1500.5000"
    again = ask(api, body, **KEY)
    assert (again.status_code, again.json()["operation_id"]) == (200, told["operation_id"])
    assert len(seller.books()) == 1


def test_after_rejection_it_is_withdrawn_and_never_sent(seller: FakeSeller) -> None:
    faulty(seller)
    api = client_of(integrator())
    answer = ask(api, purchase())

    client_of(make_user("Approver")).post(
        f"/api/v1/approvals/{answer.json()['approval_id']}/decide/",
        {"verdict": "reject", "comment": "Not now.", "evidence_digest": shown(answer.json()["approval_id"])},
        format="json",
    )

    told = work(api, answer["Location"])
    assert told["status"] == "canceled"
    assert seller.requests("create_media_buy") == []
    assert Deal.objects.get().status == "cancelled"


def test_when_the_account_is_closed_meanwhile_nothing_is_sent_and_nothing_hangs(seller: FakeSeller) -> None:
    faulty(seller)
    api = client_of(integrator())
    answer = ask(api, purchase())
    Account.objects.update(status="closed")

    client_of(make_user("Approver")).post(
        f"/api/v1/approvals/{answer.json()['approval_id']}/decide/",
        {"verdict": "approve", "evidence_digest": shown(answer.json()["approval_id"])},
        format="json",
    )

    assert work(api, answer["Location"])["status"] == "canceled"
    assert Deal.objects.get().status == "cancelled"
    assert seller.requests("create_media_buy") == []


@pytest.mark.django_db
class TestWhatIsMade:
    """The deal, the held operation and the question, in one commit."""

    def test_lines_and_evidence_hold_what_was_asked(self) -> None:
        known()
        user = integrator()

        told = ask(client_of(user), purchase()).json()

        deal = Deal.objects.get(pk=told["deal_id"])
        (line,) = deal.lines.all()
        assert (deal.status, deal.currency, deal.requested_by) == ("quoted", "USD", f"agent:{user.pk}")
        assert (line.budget, line.product_id, line.targeting) == (
            Decimal("1500.5"),
            "fake-display",
            {"geo_countries": ["US"]},
        )
        evidence = Approval.objects.get(pk=told["approval_id"]).evidence
        assert evidence["reasons"]["asked_for"]["packages"][0]["budget"] == "1500.5"
        assert evidence["reasons"]["lines"][0]["facts"] == "never offered to us: the integrator's word alone"

    @pytest.mark.parametrize(
        ("told", "rate"),
        [
            (["own 14", "another's 10"], "14"),
            (["another's 10", "own 14"], "14"),
            (["nobody's 12", "another's 10"], "12"),
            (["own 14", "nobody's 12"], "14"),
            (["another's 10"], ""),
        ],
        ids=str,
    )
    def test_its_rates_and_terms_are_those_that_its_own_advertiser_was_offered(
        self, told: list[str], rate: str
    ) -> None:
        """Sellers negotiate with each; what another pays is none of these people's business."""
        seller, own = known()
        buyers = {"own": own, "another's": make_advertiser("Ostrom Tools"), "nobody's": None}
        for whose, _, stated in (one.partition(" ") for one in told):
            offered(seller, buyers[whose], int(stated))

        made = ask(client_of(integrator()), purchase()).json()

        line = Deal.objects.get(pk=made["deal_id"]).lines.get()
        evidence = json.dumps(Approval.objects.get(pk=made["approval_id"]).evidence)
        assert line.rate == (Decimal(rate) if rate else None)
        assert [words for words in ("terms of 14", "terms of 12", "terms of 10") if words in evidence] == (
            [f"terms of {rate}"] if rate else []
        )

    def test_answers_are_read_once_however_many_packages_are_asked_for(
        self, django_assert_num_queries: Any
    ) -> None:
        seller, own = known()
        for whose, rate in ((None, 9), (own, 12), (own, 14), (None, 10)):
            offered(seller, whose, rate)
        package = requests.PackageRequest.model_validate(purchase()["arguments"]["packages"][0])
        unheard = package.model_copy(update={"product_id": "unheard-of"})
        packages = [package, unheard, package.model_copy(update={"bid_price": Decimal(3)})] * 20
        with django_assert_num_queries(2):  # what was offered to it, and to nobody by name
            found = of_packages(Operation.objects.all(), seller, own, packages)
        assert [one and one.rate for one in found] == [Decimal(14), None, Decimal(3)] * 20
        with django_assert_num_queries(1):
            of_packages(Operation.objects.all(), seller, own, [package])

    def test_the_operation_is_held_under_the_purpose_of_the_booking(self) -> None:
        known(webhook_mode="hmac", webhook_secret="s" * 32)

        told = ask(client_of(integrator()), purchase()).json()

        operation = Operation.objects.get()
        assert operation.purpose == f"deal:{told['deal_id']}:create_media_buy"
        assert operation.send_at is None
        assert told["webhook_configured"] is True
        sent = json.loads(operation.request_text)
        assert sent["account"] == {"account_id": "acc-faulty"}
        assert sent["context"]["deal_id"] == told["deal_id"]
        line = Deal.objects.get().lines.get()
        assert sent["packages"][0]["context"] == {"theirs": "kept", "line_id": str(line.pk)}
        assert "s" * 32 not in json.dumps(told)
        assert operation.webhook_token not in json.dumps(told)

    def test_the_same_key_makes_one_deal_and_another_body_is_409(self) -> None:
        known()
        api = client_of(integrator())
        body = purchase()

        first = ask(api, body, **KEY)
        again = ask(api, body, **KEY)
        other = ask(api, {**body, "arguments": {**body["arguments"], "name": "Another"}}, **KEY)

        assert first.json() == again.json()
        assert (again.status_code, other.status_code) == (202, 409)
        assert (Deal.objects.count(), Approval.objects.count(), RequestKey.objects.count()) == (1, 1, 1)

    def test_an_operation_of_another_team_is_not_there(self, opened: Open) -> None:
        known()
        told = ask(client_of(integrator()), purchase()).json()

        stranger = opened("Administrator", make_team("Somebody else"))

        for room in ("operations", "deals"):
            assert stranger.get(f"/api/v1/{room}/").json()["results"] == []
        assert stranger.get(f"{ROOM}{told['operation_id']}/").status_code == 404
        assert stranger.get(f"/api/v1/deals/{told['deal_id']}/").status_code == 404


PACKAGE = purchase()["arguments"]["packages"][0]


@pytest.mark.django_db
class TestRefusals:
    """What is wrong is named by field, and nothing is made."""

    @pytest.mark.parametrize(
        ("changed", "field"),
        [
            ({"brand": {"domain": "rival.com"}}, "arguments.brand.domain"),
            ({"brand": None}, "arguments.brand"),
            ({"packages": [{**PACKAGE, "budget": -1}]}, "arguments.packages.0.budget"),
            ({"packages": [{**PACKAGE, "budget": 0}]}, "arguments.packages.0"),
            ({"packages": [{**PACKAGE, "budget": 10.001}]}, "arguments.packages.0"),
            ({"packages": [{**PACKAGE, "bugdet": 1}]}, "arguments.packages.0.bugdet"),
            ({"packages": [{**PACKAGE, "product_id": "p" * 300}]}, "arguments.packages.0"),
            ({"packages": [{**PACKAGE, "bid_price": 9e12}]}, "arguments.packages.0"),
            ({"packages": [{**PACKAGE, "budget": 9e12}]}, "arguments.packages"),
            ({"packages": []}, "arguments.packages"),
            ({"total_budget": None}, "arguments.total_budget"),
            ({"total_budget": {"amount": 1, "currency": "USD"}}, "arguments.total_budget.amount"),
            ({"total_budget": {"amount": 1500.5, "currency": "XXQ"}}, "arguments.total_budget.currency"),
            ({"start_time": "asap"}, "arguments.start_time"),
            ({"start_time": "2020-01-01T00:00:00Z"}, "arguments.start_time"),
            ({"start_time": "2030-01-01"}, "arguments.start_time.datetime"),
            ({"end_time": "2020-01-01T00:00:00Z"}, "arguments"),
            ({"end_time": "9999-12-31T23:59:59-12:00"}, "arguments.end_time"),
            ({"account": {"account_id": "acc-rival"}}, "arguments.account"),
            ({"idempotency_key": "k" * 20}, "arguments.idempotency_key"),
            ({"push_notification_config": {}}, "arguments.push_notification_config"),
        ],
    )
    def test_by_field(self, changed: dict[str, Any], field: str) -> None:
        known()

        answer = ask(client_of(integrator()), purchase(**changed))

        assert answer.status_code == 400, answer.content
        assert field in answer.json()["errors"]
        assert nothing_made()

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"task": "delete_everything", "seller": "faulty"}, "task"),
            ({"task": "get_task_status", "seller": "faulty", "arguments": {"task_id": "t"}}, "task"),
            ({"task": "get_products", "seller": "nobody"}, "seller"),
            ({"task": "list_accounts", "seller": "faulty"}, "task"),
            ({"task": "get_products", "seller": "faulty", "arguments": []}, "arguments"),
            ({"task": "get_products", "seller": "faulty", "arguments": {"brief": 7}}, "arguments.brief"),
            ({"seller": "faulty"}, "task"),
            (lambda: {**purchase(), "argument": {}}, "argument"),
            (lambda: {**purchase(), "account": "acc-rival"}, "account"),
        ],
    )
    def test_the_body(self, body: dict[str, Any] | Callable[[], dict[str, Any]], field: str) -> None:
        known()

        answer = ask(client_of(integrator()), body() if callable(body) else body)

        assert answer.status_code == 400, answer.content
        assert field in answer.json()["errors"]
        assert nothing_made()

    def test_an_unknown_task_lists_the_known_ones(self) -> None:
        told = ask(client_of(integrator()), {"task": "x", "seller": "faulty"}).json()

        assert "create_media_buy" in told["errors"]["task"][0]
        assert "get_products" in told["errors"]["task"][0]

    def test_a_body_with_nan_or_without_end(self) -> None:
        api = client_of(integrator())
        for body in (b'{"task": NaN}', b'{"a":' * 5000, b'{"task": "a", "task": "b"}'):
            assert api.post(ROOM, body, content_type="application/json").status_code == 400
        huge = b'{"task": "' + b"a" * 2**21 + b'"}'
        assert api.post(ROOM, huge, content_type="application/json").status_code == 413

    def test_an_account_that_is_not_active(self) -> None:
        known()
        Account.objects.update(status="pending_approval")

        answer = ask(client_of(integrator()), purchase())

        assert list(answer.json()["errors"]) == ["account"]
        assert nothing_made()

    def test_a_seller_without_idempotency(self) -> None:
        known(idempotency_ttl_s=None)

        assert ask(client_of(integrator()), purchase()).status_code == 409
        assert nothing_made()

    def test_who_may_not(self, opened: Open) -> None:
        known()
        for role in ("Buyer", "Approver", "Ad Ops", "Finance", "Auditor"):
            assert ask(opened(role), purchase()).status_code == 403
        assert ask(APIClient(), purchase()).status_code == 401
        assert nothing_made()

    def test_a_brand_of_another_team(self, opened: Open) -> None:
        known()

        answer = ask(opened("Integration", make_team("Somebody else")), purchase())

        assert list(answer.json()["errors"]) == ["arguments.brand.domain"]
        assert nothing_made()

    def test_a_key_that_is_none(self) -> None:
        known()

        assert ask(client_of(integrator()), purchase(), **{"Idempotency-Key": "k" * 300}).status_code == 400
        assert nothing_made()
