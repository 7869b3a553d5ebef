"""Webhooks of a known seller that do not verify: Ad Ops hear soon what was tried and what else it may be
set to; and its webhook health tells of them."""

from __future__ import annotations

import base64
import hashlib
import hmac as digests
import json
import time
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache

from tasks_app import clock
from tasks_app.notifications.models import Notification
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.tokens import webhook_token_of
from tasks_app.operations.webhook_health import rates, webhooks_judge
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.health import Calls, Out, SellerHealth
from tasks_app.sellers.models import Seller
from tasks_app.sellers.presenters import health_figures
from tasks_app.webhooks import alarms
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.unverified import unverified_tell
from tests.factories import make_seller
from tests.operations.making import answer, see, stand
from tests.webhooks.signing import as_bytes, hmac, payload, rfc
from tests.webhooks.taking import ADDRESS, SECRET, take

pytestmark = [pytest.mark.deep, pytest.mark.django_db, pytest.mark.usefixtures("fresh_process")]
OLD = "the-secret-before-0123456789-0123456789-abc"


def signing(mode: str = "hmac", **fields: Any) -> Seller:
    secret = None if mode == "rfc9421" else SECRET
    return make_seller(f"Signs {mode}", webhook_mode=mode, webhook_secret=secret, **fields)


def over(message: bytes, secret: str = SECRET) -> str:
    return f"sha256={digests.new(secret.encode(), message, hashlib.sha256).hexdigest()}"


def stamped(body: dict[str, Any], form: bytes, secret: str = SECRET, **odd: Any) -> dict[str, str]:
    """As the seller of the body signs, but over `form`."""
    stamp = str(int(odd.get("at", time.time())))
    signature = over(stamp.encode() + b"." + form, secret)
    return {"x-adcp-signature": odd.get("write", str)(signature), "x-adcp-timestamp": stamp}


def b64(signature: str) -> str:
    return base64.b64encode(bytes.fromhex(signature.removeprefix("sha256="))).decode()


def refuse(seller: Seller, body: dict[str, Any], headers: dict[str, str]) -> WebhookDelivery:
    """Refused now, and looked at closely: the last look was long ago."""
    cache.clear()
    told = take(seller, body, headers)
    assert told.status == 401
    assert "tried" not in told.word
    assert ":" not in told.word, "what was tried is for us, not for the sender"
    return WebhookDelivery.objects.filter(verdict="refused").latest("at")


def tell() -> int:
    cache.clear()
    return unverified_tell()


def named(seller: Seller, number: int = 1) -> tuple[Operation, dict[str, Any]]:
    operation = stand(S.SUBMITTED, seller=seller, task_id=f"task-{number}")
    return operation, payload(task_id=f"task-{number}", operation_id=str(operation.pk))


FAULTS: dict[str, tuple[Any, str]] = {
    "spaces": (
        lambda b: stamped(b, json.dumps(b).encode()),
        "it signs other bytes than it sends: JSON with spaces",
    ),
    "lines": (
        lambda b: stamped(b, json.dumps(b, indent=2).encode()),
        "it signs other bytes than it sends: JSON in lines",
    ),
    "sorted": (
        lambda b: stamped(b, json.dumps(b, sort_keys=True, separators=(",", ":")).encode()),
        "it signs other bytes than it sends: JSON without spaces, names sorted",
    ),
    "body alone": (
        lambda b: {**stamped(b, b""), "x-adcp-signature": over(as_bytes(b))},
        "it signs the body alone, without the time",
    ),
    "secret before": (lambda b: stamped(b, as_bytes(b), OLD), "with the secret before, which has run out"),
    "another secret": (
        lambda b: stamped(b, as_bytes(b), "x" * 40),
        "It has another secret, or signs something else",
    ),
    "time": (
        lambda b: stamped(b, as_bytes(b), at=time.time() - 4000),
        "s from ours, where 300 s are allowed",
    ),
    "nothing": (lambda b: {}, "it carries no proof at all"),
    "rfc9421": (lambda b: rfc(ADDRESS.format("signs-hmac"), b), "received: signed, RFC 9421"),
    "bearer": (lambda b: {"authorization": f"Bearer {SECRET}"}, "received: bearer credentials"),
    "capitals": (
        lambda b: stamped(b, as_bytes(b), write=lambda said: said[:7] + said[7:].upper()),
        "its signature is in capitals",
    ),
    "base64": (lambda b: stamped(b, as_bytes(b), write=b64), "its signature is base64, not hex"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_refusal_about_an_operation_of_ours_says_what_was_tried_and_what_else_may_be_set(
    fault: str,
) -> None:
    seller = signing(
        webhook_secret_previous=OLD, webhook_secret_previous_until=clock.now() - timedelta(hours=1)
    )
    operation, body = named(seller)
    make, tried = FAULTS[fault]

    kept = refuse(seller, body, make(body))

    assert tried in kept.reason
    assert (kept.operation_ref, kept.task_id, kept.body) == (str(operation.pk), "task-1", None)
    assert tell() == 1
    assert tell() == 0
    alarm = Notification.objects.get()
    assert alarm.kind == ("webhook_mode_mismatch" if "mode_mismatch" in kept.reason else "webhook_unverified")
    assert (alarm.level, alarm.right, alarm.subject_id) == ("alarm", STEER_OPERATION, seller.pk)
    assert tried in alarm.body
    for other in ("bearer credentials", "RFC 9421", "polling only"):
        assert other in alarm.body.partition("something else: ")[2]
    assert "HMAC-SHA256 with a time" not in alarm.body, "what it is set to already"
    assert SECRET not in alarm.body
    assert OLD not in alarm.body


@pytest.mark.parametrize(
    ("tool", "looked_at"),
    [("get_task_status", "it is polled"), ("create_media_buy", "only reconciliation looks at it")],
)
def test_alarms_say_how_it_is_seen_meanwhile(tool: str, looked_at: str) -> None:
    """A seller without a tool for a task's state is not polled."""
    seller = make_seller("Tells little", tools=[tool], webhook_mode="hmac")
    alarms.unverified_alarm(seller, count=1, since=clock.now(), code="x", tried="y", instead="z")
    alarms.nonces_full_alarm(seller, key_id="k1")
    alarms.waiting_full_alarm(seller, count=1, size=1)
    alarms.day_full_alarm(seller)
    told = [one.body for one in Notification.objects.filter(subject_id=seller.pk)]
    assert len(told) == 4
    assert all(looked_at in body for body in told)
    assert ("polled" in " ".join(told)) == ("polled" in looked_at)


def test_strangers_raise_no_alarm_with_one_and_change_no_health() -> None:
    seller = signing()
    named(seller)
    refuse(seller, payload(task_id="nobody's"), hmac(payload(), "x" * 40))
    assert tell() == 0
    for _ in range(2):
        refuse(seller, payload(task_id="nobody's"), hmac(payload(), "x" * 40))
    assert tell() == 1, "three are enough, whatever they name"
    assert (rates([seller])[seller.pk].due, rates([seller])[seller.pk].refused) == (0, 0)


def test_strangers_who_count_up_a_sellers_task_ids_change_no_health() -> None:
    """The ids of its tasks are the seller's own and may be guessed; our operations' are told to it alone."""
    seller = signing()
    for number in range(12):
        stand(S.SUBMITTED, seller=seller, task_id=f"{1000 + number}")
        refuse(seller, payload(task_id=f"{1000 + number}"), hmac(payload(), "x" * 40))
    assert (rates([seller])[seller.pk].due, rates([seller])[seller.pk].refused) == (0, 0)
    webhooks_judge()
    assert Seller.objects.get(pk=seller.pk).webhook_paused_until is None


def tasks_alone(seller: Seller, number: int, *, token: str = "") -> tuple[Operation, dict[str, Any]]:
    """As a seller of AdCP 3.0 tells of a purchase: its own task, and the token that it was given."""
    operation = stand(S.SUBMITTED, seller=seller, task_id=f"{1000 + number}")
    body = payload(task_id=f"{1000 + number}", token=token or webhook_token_of(operation.pk))
    assert "operation_id" not in body
    return operation, body


@pytest.mark.parametrize("mode", ["hmac", "hmac_body", "rfc9421", "bearer"])
def test_who_names_its_task_alone_and_echoes_the_purchases_token_counts(mode: str) -> None:
    seller = signing(mode)
    pairs = [tasks_alone(seller, number) for number in range(6)]
    for operation, body in pairs:
        for _ in range(2):  # sent again, as sellers do
            assert refuse(seller, body, {}).operation_ref == str(operation.pk)
    rate = rates([seller])[seller.pk]
    assert (rate.came, rate.due, rate.refused) == (0, 6, 6)


def test_the_token_of_another_purchase_or_of_nobodys_counts_nothing() -> None:
    seller, another = signing(), signing("bearer")
    theirs, _ = tasks_alone(another, 90)
    ours, body = tasks_alone(seller, 1)
    for token in (webhook_token_of(theirs.pk), webhook_token_of(another.pk), "x", ""):
        assert refuse(seller, {**body, "task_id": "1002", "token": token}, {}).operation_ref == ""
        assert refuse(seller, {**body, "token": token}, {}).operation_ref == ""
    Operation.objects.filter(pk=ours.pk).update(webhook_token=None)
    assert refuse(seller, body, {}).operation_ref == "", "none was given with it"
    assert refuse(another, body, {}).operation_ref == "", "it is another seller's"
    found = rates([seller, another])
    assert [(one.due, one.refused) for one in found.values()] == [(0, 0), (0, 0)]


def test_a_native_a2a_push_echoes_the_token_in_its_header() -> None:
    seller = signing()
    operation, body = tasks_alone(seller, 1)
    token = body.pop("token")
    assert refuse(seller, body, {"X-A2A-Notification-Token": token}).operation_ref == str(operation.pk)


def test_a_seller_that_names_anothers_operation_changes_nothing_of_either() -> None:
    seller, another = signing(), signing("bearer")
    _, body = named(seller)
    refuse(another, body, {"authorization": "Bearer wrong"})
    assert tell() == 0, "it is none of its own"
    found = rates([seller, another])
    assert [(found[one.pk].due, found[one.pk].refused) for one in (seller, another)] == [(0, 0), (0, 0)]


def test_refused_ones_stand_on_the_page_and_count_against_its_webhooks() -> None:
    """Two came, six were refused: "2 of 2 came" is no health."""
    seller = signing()
    begin = clock.now() - timedelta(minutes=20)
    with clock.injected(lambda: begin):
        for number in range(2):
            operation = stand(S.SUBMITTED, seller=seller, task_id=f"came-{number}")
            see(operation, answer("completed", task_id=f"came-{number}"), "webhook")
    for number in range(6):
        _, body = named(seller, number)
        for _ in range(2):  # sent again, as sellers do
            refuse(seller, body, hmac(body, "x" * 40))
    another = signing("bearer")
    refuse(another, {**body, "task_id": "task-0"}, {"authorization": "Bearer wrong"})

    rate = rates([seller])[seller.pk]
    assert (rate.came, rate.due, rate.refused) == (2, 8, 6)
    assert rates([another])[another.pk].due == 0, "it is another seller's operation"
    health = SellerHealth(calls=Calls(), webhooks=rate, out=Out())
    figure = next(one for one in health_figures(seller, health) if "Webhooks" in one.label)
    assert figure.glyph == "failed"
    assert "2 of 8 came" in figure.note
    assert "6 did not verify" in figure.note


def test_a_seller_of_which_all_are_refused_is_polled_and_one_that_is_mended_counts_no_longer() -> None:
    seller = signing()
    bodies = [named(seller, number)[1] for number in range(10)]
    for body in bodies:
        refuse(seller, body, hmac(body, "x" * 40))
    assert (rates([seller])[seller.pk].came, rates([seller])[seller.pk].due) == (0, 10)

    assert take(seller, bodies[0]).word == "applied"
    assert rates([seller])[seller.pk].refused == 9
    _, more = named(seller, 11)
    refuse(seller, more, hmac(more, "x" * 40))
    assert webhooks_judge() == 1
    note = Notification.objects.get(kind="webhooks_paused")
    assert "Of 10 what came did not verify." in note.body
