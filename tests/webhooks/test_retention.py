"""How long a key stays bound, and what is left of a delivery afterwards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings as configured
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tasks_app import clock
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.models import SenderTally, WebhookDelivery
from tasks_app.webhooks.rates import tallies_forget
from tasks_app.webhooks.retention import deliveries_forget
from tests.clocks import host
from tests.factories import make_seller
from tests.operations.making import stand
from tests.webhooks.signing import hmac, payload
from tests.webhooks.taking import SECRET, take

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_process")]
DAY = timedelta(days=1)


def seller_with(horizon: Any = None) -> Seller:
    told = {} if horizon is None else {"webhook_signing": {"delivery_retry_horizon_seconds": horizon}}
    return make_seller("Keeps", webhook_mode="hmac", webhook_secret=SECRET, capabilities=told)


def at(moment: datetime, seller: Seller, body: dict[str, Any]) -> str:
    with clock.injected(lambda: moment):
        return take(seller, body, hmac(body, SECRET, at=moment.timestamp())).word


@pytest.mark.parametrize(
    ("declared", "bound"),
    [
        (None, DAY),
        (3600, DAY),
        (3 * 86400, 3 * DAY),
        (30 * 86400, 7 * DAY),
        ("long", DAY),
        (True, DAY),
        (-1, DAY),
    ],
)
def test_a_key_is_bound_for_the_sellers_horizon_within_a_day_and_a_week(
    declared: Any, bound: timedelta
) -> None:
    seller, body, now = seller_with(declared), payload(task_id="t-1"), clock.now()
    changed = {**body, "message": "changed"}

    assert at(now, seller, body) == "early"
    assert at(now + bound - timedelta(seconds=1), seller, body) == "duplicate"
    assert at(now + bound - timedelta(seconds=1), seller, changed) == "key_conflict"
    assert at(now + bound, seller, changed) == "early", "measured from the first, not from a repeated one"
    assert at(now + bound, seller, body) == "key_conflict"


def test_afterwards_the_body_is_gone_and_what_an_audit_needs_stays() -> None:
    seller = seller_with()
    operation = stand(S.SUBMITTED, seller=seller, task_id="t-1")
    body = payload(task_id="t-1")
    assert take(seller, body).word == "applied"
    kept = WebhookDelivery.objects.get(seller=seller)
    assert deliveries_forget() == 0

    with clock.injected(lambda: kept.bound_until):
        assert deliveries_forget() == 1
        assert deliveries_forget() == 0

    left = WebhookDelivery.objects.get(seller=seller)
    assert (left.body, left.bound_until, left.key) == (None, None, body["idempotency_key"][:8])
    same = ("at", "source", "verdict", "fingerprint", "task_id", "operation_id", "status", "seller_id")
    assert [getattr(left, name) for name in same] == [getattr(kept, name) for name in same]
    assert operation.observations.get(channel="webhook").body, "what was seen stays whole"


def test_what_a_person_may_have_to_look_at_keeps_its_body() -> None:
    seller = seller_with()
    stand(S.COMPLETED, seller=seller)
    assert take(seller, payload("failed", task_id="task-1")).word == "conflict"
    waiting = WebhookDelivery.objects.create(
        seller=seller, key="k", bound_until=clock.now(), verdict="received", fingerprint="0", body={"a": 1}
    )

    with clock.injected(lambda: clock._system() + 2 * DAY):
        assert deliveries_forget() == 1

    conflict = WebhookDelivery.objects.get(verdict="conflict")
    assert conflict.body is not None
    assert conflict.bound_until is None
    waiting.refresh_from_db()
    assert (waiting.body, waiting.key) == ({"a": 1}, "k"), "it is still to be applied"


def test_refused_and_repeated_ones_go_after_their_time_and_their_counts_too() -> None:
    seller, body = seller_with(), payload(task_id="t-1")
    assert take(seller, body).word == "early"
    assert take(seller, body).word == "duplicate"
    assert take(seller, body, hmac(body, "x" * 40)).status == 401
    now = clock.now()

    with clock.injected(lambda: now + configured.WEBHOOK_KEEP - timedelta(hours=2)):
        deliveries_forget()
        tallies_forget()
        assert WebhookDelivery.objects.count() == 3
        assert [one.sender.partition(":")[0] for one in SenderTally.objects.all()] == ["refused"]
    with clock.injected(lambda: now + configured.WEBHOOK_KEEP + timedelta(hours=2)):
        assert deliveries_forget() == 2
        tallies_forget()
    assert [one.verdict for one in WebhookDelivery.objects.all()] == ["early"]
    assert not SenderTally.objects.exists()


def test_every_delivery_has_a_horizon_native_ones_of_a2a_too() -> None:
    seller = make_seller("Quill", webhook_mode="hmac", webhook_secret=SECRET, protocol="a2a")
    stand(S.SUBMITTED, seller=seller, task_id="task-1")
    result = {"status": "completed", "task_id": "task-1", "media_buy_id": "mb-1", "packages": []}
    told = take(
        seller,
        {
            "kind": "task",
            "id": "native-1",
            "contextId": "c-1",
            "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "a", "parts": [{"data": result}]}],
        },
    )
    kept = WebhookDelivery.objects.get()
    assert (told.status, kept.verdict, kept.key) == (200, "applied", "")
    assert kept.bound_until is not None
    assert timedelta(0) <= kept.bound_until - kept.at - seller.delivery_horizon < timedelta(hours=1)

    later = kept.bound_until
    with clock.injected(lambda: later):
        deliveries_forget()
    kept.refresh_from_db()
    assert (kept.body, kept.bound_until) == (None, None)


def test_what_goes_is_chosen_by_the_clock_that_lets_it_go() -> None:
    """The database's: a host whose clock is ahead would choose what is refused."""
    with CaptureQueriesContext(connection) as asked:
        deliveries_forget()
        take(seller_with(), payload(task_id="t-1"), {})
    chosen = [one["sql"] for one in asked if '"bound_until" <=' in one["sql"]]
    assert chosen
    assert all('"bound_until" <= (statement_timestamp())' in sql.lower() for sql in chosen), chosen


@pytest.mark.parametrize("wrong_by", [timedelta(hours=-2), timedelta(hours=2)])
def test_a_key_is_bound_for_its_horizon_whichever_host_took_the_delivery(wrong_by: timedelta) -> None:
    seller, body = seller_with(), payload(task_id="t-1")
    with host(wrong_by):
        signed = hmac(body, SECRET, at=clock.now().timestamp())
        assert take(seller, body, signed).word == "early"
    bound = WebhookDelivery.objects.get().bound_until
    assert bound is not None
    left = bound - datetime.now(UTC)
    assert seller.delivery_horizon - timedelta(hours=1) < left <= seller.delivery_horizon
