"""Reads that integrators ask for: made at once, against a real seller process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from rest_framework.test import APIClient

from orders.models import Deal
from tasks_app.jobs.wake import wake
from tasks_app.operations.models import Observation, Operation
from tasks_app.people.models import User
from tasks_app.sellers.models import Account, Seller
from tests.api.asks import ROOM, faulty, read, sweep
from tests.api.conftest import client_of
from tests.database import Database
from tests.factories import make_account, make_advertiser, make_deal, make_team, make_user
from tests.fake_seller.driver import FakeSeller

KEY = {"Idempotency-Key": "read-1"}
HELD = [
    ("no key update", (202, "requested")),  # it is claimed from: the call is left to a sweep
    ("update", (503, 503)),  # whom we believe is being changed: nothing may begin to rely on it
]
SECRETS = ("request_text", "webhook_token", "token", "webhook_secret", "idempotency_key")


@pytest.fixture
def seller(committed_db: Database, tmp_path: Path) -> Iterator[FakeSeller]:
    with FakeSeller(tmp_path) as process:
        yield process


@pytest.fixture
def integrator(committed_db: Database) -> User:
    user = make_user("Integration")
    user.is_service = True
    user.save()
    return user


@pytest.fixture
def api(integrator: User) -> APIClient:
    return client_of(integrator)


def ask(api: APIClient, body: dict[str, Any], **headers: str) -> Any:
    return api.post(ROOM, body, format="json", headers=headers)


@pytest.mark.parametrize(("how", "told"), HELD)
def test_where_somebody_holds_the_seller_too_long_nothing_is_lost_and_asked_again_it_is_made(
    api: APIClient,
    seller: FakeSeller,
    committed_db: Database,
    how: str,
    told: tuple[int, str | int],
) -> None:
    faulty(seller)
    with psycopg.connect(committed_db.urls.app) as other, connection.cursor() as cursor:
        other.execute(f"select from tasks_app_seller for {how}")
        cursor.execute("set lock_timeout = '200ms'")
        answer = ask(api, read(), **KEY)
        cursor.execute("reset lock_timeout")
    assert (answer.status_code, answer.json().get("status")) == told
    assert answer.get("Retry-After") == ("2" if told[0] == 503 else None)
    assert Operation.objects.count() == (told[0] == 202)

    assert ask(api, read(), **KEY).status_code in (200, 202)
    sweep()
    assert Operation.objects.get().status == "completed"


def test_a_read_is_answered_with_what_the_seller_says(
    api: APIClient, seller: FakeSeller, integrator: User
) -> None:
    faulty(seller)

    answer = ask(api, read())

    told = answer.json()
    assert (answer.status_code, told["status"], told["settled_by"]) == (200, "completed", "reply")
    assert told["result"]["products"][0]["product_id"] == "fake-display"
    assert (told["webhook_configured"], told["approval_id"], told["creative_deadline"]) == (False, None, None)
    assert [seen["channel"] for seen in told["observations"]] == ["reply"]
    assert told["requested_by"] == f"agent:{integrator.pk}"
    assert not set(SECRETS) & set(told)
    assert api.get(answer["Location"]).json() == told


def test_what_an_account_holds_is_asked_for_that_account(api: APIClient, seller: FakeSeller) -> None:
    faulty(seller)

    answer = ask(api, read("get_media_buys", media_buy_ids=["x"]))

    assert answer.status_code == 200
    (call,) = seller.requests("get_media_buys")
    assert call["arguments"]["account"] == {"account_id": "acc-faulty"}


@pytest.mark.parametrize("task", ["get_media_buys", "list_accounts", "list_tasks"])
def test_another_teams_account_is_out_of_reach(api: APIClient, seller: FakeSeller, task: str) -> None:
    row = faulty(seller)
    theirs = make_account(make_advertiser("Rival Tea", team=make_team("Somebody else")), row)
    theirs.reference = {"account_id": "acc-rival"}
    theirs.save()

    by_argument = ask(api, read(task, account={"account_id": "acc-rival"}))
    by_name = ask(api, {**read(task), "account": str(theirs.pk)})

    assert list(by_argument.json()["errors"]) == ["arguments.account"]
    assert list(by_name.json()["errors"]) == ["account"]
    assert {by_argument.status_code, by_name.status_code} == {400}
    assert seller.requests(task) == []
    assert not Operation.objects.exists()


def shared(seller: FakeSeller, **fields: Any) -> Seller:
    """A seller with whom another advertiser of ours has an account too."""
    row = faulty(seller, **fields)
    theirs = make_account(make_advertiser("Rival Tea", team=make_team("Somebody else")), row)
    theirs.reference = {"account_id": "acc-rival"}
    theirs.save()
    return row


def booked_there(row: Seller) -> str:
    """A media buy of a deal of ours under our account."""
    deal = make_deal(seller=row, account=Account.objects.get(reference__account_id="acc-faulty"))
    Deal.objects.filter(pk=deal.pk).update(media_buy_id="mb-ours")
    return "mb-ours"


@pytest.mark.parametrize(
    "omits", [{"quirks": ["omit {task} account"]}, {"account_in_reads": "never"}], ids=str
)
@pytest.mark.parametrize("task", ["get_media_buys", "get_media_buy_delivery", "list_tasks"])
def test_a_seller_that_takes_no_account_is_asked_for_what_is_the_accounts_alone(
    api: APIClient, seller: FakeSeller, task: str, omits: dict[str, Any]
) -> None:
    said = {
        name: [one.format(task=task) for one in v] if isinstance(v, list) else v for name, v in omits.items()
    }
    row = shared(seller, **said)
    ours = booked_there(row)

    for named in ({}, {"media_buy_ids": ["mb-theirs"]}, {"media_buy_ids": [ours, "mb-theirs"]}):
        wrong = ask(api, read(task, **named if task != "list_tasks" else {}))
        assert (wrong.status_code, list(wrong.json()["errors"])) == (400, ["arguments.media_buy_ids"])
    assert seller.requests(task) == []
    if task == "list_tasks":
        return
    assert ask(api, read(task, media_buy_ids=[ours])).status_code == 200
    (call,) = seller.requests(task)
    assert "account" not in call["arguments"]


def test_a_refused_account_is_not_left_out_where_anothers_would_be_told(
    api: APIClient, seller: FakeSeller
) -> None:
    row = shared(seller)
    seller.fault(
        "get_media_buys", "error", 0, code="INVALID_REQUEST", message="Omit account", field="account"
    )

    told = ask(api, read("get_media_buys", media_buy_ids=["x"])).json()

    assert told["status"] == "failed"
    assert [call["arguments"].get("account") for call in seller.requests("get_media_buys")] == [
        {"account_id": "acc-faulty"}
    ]
    assert Seller.objects.get(pk=row.pk).quirks == []


def test_where_all_is_one_advertisers_the_account_is_left_out_as_ever(
    api: APIClient, seller: FakeSeller
) -> None:
    faulty(seller)
    seller.fault("get_media_buys", "error", code="INVALID_REQUEST", message="Omit account", field="account")

    assert ask(api, read("get_media_buys", media_buy_ids=["x"])).json()["status"] == "completed"
    assert len(seller.requests("get_media_buys")) == 2


def test_of_the_accounts_that_a_seller_lists_ours_is_kept(api: APIClient, seller: FakeSeller) -> None:
    """One of before AdCP 3.1 lists them all."""
    shared(seller)
    listed = [{"account_id": name, "status": "active", "name": name} for name in ("acc-rival", "acc-faulty")]
    seller.fault("list_accounts", "merge", 0, answer={"accounts": listed})

    told = ask(api, read("list_accounts"))

    assert [one["account_id"] for one in told.json()["result"]["accounts"]] == ["acc-faulty"]
    assert "acc-rival" not in told.content.decode()
    assert "acc-rival" not in str(list(Observation.objects.values_list("body", flat=True)))


def test_an_error_of_the_seller_is_the_answer(api: APIClient, seller: FakeSeller) -> None:
    faulty(seller)
    seller.fault("get_products", "error", code="INVALID_REQUEST", message="no such thing")

    answer = ask(api, read())

    assert (answer.status_code, answer.json()["status"]) == (200, "failed")
    assert answer.json()["error"]["code"] == "INVALID_REQUEST"


@pytest.mark.parametrize("kind", ["http", "html", "truncated", "refuse", "drop"])
def test_a_seller_that_is_not_well_is_asked_again_by_the_sweep(
    api: APIClient, seller: FakeSeller, kind: str
) -> None:
    faulty(seller)
    seller.fault("get_products", kind)

    answer = ask(api, read())

    assert (answer.status_code, answer.json()["status"]) == (202, "calling_adcp")
    Operation.objects.update(send_at="2020-01-01T00:00:00Z")
    sweep()
    told = api.get(answer["Location"]).json()
    assert (told["status"], told["attempts"]) == ("completed", 2)


def test_the_same_key_is_the_same_operation(api: APIClient, seller: FakeSeller) -> None:
    faulty(seller)
    first = ask(api, read(), **{"Idempotency-Key": "k-1"})
    second = ask(api, read(), **{"Idempotency-Key": "k-1"})
    other_body = ask(api, read(buying_mode="wholesale"), **{"Idempotency-Key": "k-1"})
    somebody_else = ask(client_of(make_user("Integration")), read(), **{"Idempotency-Key": "k-1"})

    assert second.json() == first.json()
    assert (other_body.status_code, other_body.json()["code"]) == (409, "IDEMPOTENCY_KEY_CONFLICT")
    assert other_body["Content-Type"] == "application/problem+json"
    assert somebody_else.json()["operation_id"] != first.json()["operation_id"]
    assert len(seller.requests("get_products")) == 2


def test_nothing_is_asked_of_a_seller_that_is_off(api: APIClient, seller: FakeSeller) -> None:
    row = faulty(seller)
    row.active = False
    row.save()

    answer = ask(api, read())

    assert (answer.status_code, answer["Content-Type"]) == (409, "application/problem+json")
    assert seller.requests() == []
    assert not Operation.objects.exists()


def test_no_wake_up_is_needed_and_the_next_sweep_finds_nothing(api: APIClient, seller: FakeSeller) -> None:
    faulty(seller)
    ask(api, read())
    wake()

    assert sweep().calls == 0
