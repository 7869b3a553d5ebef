"""Reads that integrators ask for: made at once, against a real seller process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from rest_framework.test import APIClient

from tasks_app.jobs.wake import wake
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tests.api.asks import ROOM, faulty, read, sweep
from tests.api.conftest import client_of
from tests.database import Database
from tests.factories import make_account, make_advertiser, make_team, make_user
from tests.faulty_seller import FaultySeller

KEY = {"Idempotency-Key": "read-1"}
HELD = [
    ("no key update", (202, "requested")),  # it is claimed from: the call is left to a sweep
    ("update", (503, 503)),  # whom we believe is being changed: nothing may begin to rely on it
]
SECRETS = ("request_text", "webhook_token", "token", "webhook_secret", "idempotency_key")


@pytest.fixture
def seller(committed_db: Database, tmp_path: Path) -> Iterator[FaultySeller]:
    with FaultySeller(tmp_path) as process:
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
    seller: FaultySeller,
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
    api: APIClient, seller: FaultySeller, integrator: User
) -> None:
    faulty(seller)

    answer = ask(api, read())

    told = answer.json()
    assert (answer.status_code, told["status"], told["settled_by"]) == (200, "completed", "reply")
    assert told["result"]["products"][0]["product_id"] == "faulty-display"
    assert (told["webhook_configured"], told["approval_id"], told["creative_deadline"]) == (False, None, None)
    assert [seen["channel"] for seen in told["observations"]] == ["reply"]
    assert told["requested_by"] == f"agent:{integrator.pk}"
    assert not set(SECRETS) & set(told)
    assert api.get(answer["Location"]).json() == told


def test_what_an_account_holds_is_asked_for_that_account(api: APIClient, seller: FaultySeller) -> None:
    faulty(seller)

    answer = ask(api, read("get_media_buys", media_buy_ids=["x"]))

    assert answer.status_code == 200
    (call,) = seller.requests("get_media_buys")
    assert call["arguments"]["account"] == {"account_id": "acc-faulty"}


@pytest.mark.parametrize("task", ["get_media_buys", "list_accounts", "list_tasks"])
def test_another_teams_account_is_out_of_reach(api: APIClient, seller: FaultySeller, task: str) -> None:
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


def test_an_error_of_the_seller_is_the_answer(api: APIClient, seller: FaultySeller) -> None:
    faulty(seller)
    seller.fault("get_products", "error", code="INVALID_REQUEST", message="no such thing")

    answer = ask(api, read())

    assert (answer.status_code, answer.json()["status"]) == (200, "failed")
    assert answer.json()["error"]["code"] == "INVALID_REQUEST"


@pytest.mark.parametrize("kind", ["http", "html", "truncated", "refuse", "drop"])
def test_a_seller_that_is_not_well_is_asked_again_by_the_sweep(
    api: APIClient, seller: FaultySeller, kind: str
) -> None:
    faulty(seller)
    seller.fault("get_products", kind)

    answer = ask(api, read())

    assert (answer.status_code, answer.json()["status"]) == (202, "calling_adcp")
    Operation.objects.update(send_at="2020-01-01T00:00:00Z")
    sweep()
    told = api.get(answer["Location"]).json()
    assert (told["status"], told["attempts"]) == ("completed", 2)


def test_the_same_key_is_the_same_operation(api: APIClient, seller: FaultySeller) -> None:
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


def test_nothing_is_asked_of_a_seller_that_is_off(api: APIClient, seller: FaultySeller) -> None:
    row = faulty(seller)
    row.active = False
    row.save()

    answer = ask(api, read())

    assert (answer.status_code, answer["Content-Type"]) == (409, "application/problem+json")
    assert seller.requests() == []
    assert not Operation.objects.exists()


def test_no_wake_up_is_needed_and_the_next_sweep_finds_nothing(api: APIClient, seller: FaultySeller) -> None:
    faulty(seller)
    ask(api, read())
    wake()

    assert sweep().calls == 0
