"""The same request under one Idempotency-Key, sent again while the first is under way: it is made once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections
from rest_framework.test import APIClient

from campaigns.models import Campaign
from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.jobs.models import Job
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tests.api.asks import ROOM, booked, change, integrator, known, purchase
from tests.api.conftest import client_of
from tests.api.test_schedules import ROOM as SCHEDULES
from tests.api.test_schedules import body
from tests.campaigns.briefs import future
from tests.database import Database
from tests.factories import make_advertiser, make_user
from tests.jobs.conftest import Bench, bench
from tests.support import PATIENCE_S

__all__ = ["bench"]
KEY = {"Idempotency-Key": "once-1"}


def at_once(user: User, send: Callable[[APIClient], Any], *, times: int = 4) -> list[Any]:
    """What the person's requests are answered that set out at the same moment."""
    clients = [client_of(user) for _ in range(times)]
    together = threading.Barrier(times, timeout=PATIENCE_S)

    def one(api: APIClient) -> Any:
        together.wait()
        try:
            return send(api)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(times) as threads:
        return list(threads.map(one, clients))


def test_a_brief_is_one_campaign(committed_db: Database) -> None:
    make_advertiser()
    body = future()

    def submit(api: APIClient) -> Any:
        return api.post("/api/v1/campaigns/", body, format="json", headers=KEY).json()["id"]

    assert len(set(at_once(make_user("Buyer"), submit))) == 1
    assert (Campaign.objects.count(), Job.objects.count()) == (1, 1)


def test_one_key_of_two_briefs_is_the_firsts(committed_db: Database) -> None:
    make_advertiser()
    bodies = [future(), future(name="Another")] * 2

    def submit(api: APIClient) -> Any:
        return api.post("/api/v1/campaigns/", bodies.pop(), format="json", headers=KEY)

    answers = at_once(make_user("Buyer"), submit)
    assert sorted(answer.status_code for answer in answers) == [200, 201, 409, 409]
    assert (Campaign.objects.count(), Job.objects.count()) == (1, 1)


def test_a_purchase_is_one_deal(committed_db: Database) -> None:
    known()
    body = purchase()

    def order(api: APIClient) -> Any:
        return api.post(ROOM, body, format="json", headers=KEY).json()["operation_id"]

    assert len(set(at_once(integrator(), order))) == 1
    assert (Deal.objects.count(), Approval.objects.count(), Operation.objects.count()) == (1, 1, 1)


def test_a_change_is_one_operation_and_none_conflicts_with_itself(committed_db: Database) -> None:
    booked()
    body = change()

    def order(api: APIClient) -> Any:
        return api.post(ROOM, body, format="json", headers=KEY)

    answers = at_once(make_user("Integration"), order)
    assert {answer.status_code for answer in answers} == {202}, [answer.content for answer in answers]
    assert len({answer.json()["operation_id"] for answer in answers}) == 1
    assert Operation.objects.filter(task_type="update_media_buy").count() == 1


def test_a_run_is_one_job(committed_db: Database, bench: Bench) -> None:
    bench.recipe({"id": "a"}, name="stock", startable=True)
    user = make_user("Ad Ops")
    made = client_of(user).post(SCHEDULES, body(inputs={}), format="json").json()

    def run(api: APIClient) -> Any:
        return api.post(f"{SCHEDULES}{made['id']}/run/", headers=KEY).json()["reference"]

    assert set(at_once(user, run)) == {Job.objects.get().reference}
