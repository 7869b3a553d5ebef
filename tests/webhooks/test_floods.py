"""Refused deliveries without end: nothing is written for each, and little is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.core.cache import cache
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from tasks_app import clock
from tasks_app.allowances import Allowance
from tasks_app.notifications.models import Notification
from tasks_app.sellers.models import Seller
from tasks_app.webhooks import rates, refusals, senders
from tasks_app.webhooks.answer import Answer, Incoming
from tasks_app.webhooks.models import SenderTally, WebhookDelivery
from tasks_app.webhooks.rates import refused_count
from tasks_app.webhooks.receive import delivery_receive
from tasks_app.webhooks.refusals import refusals_write
from tasks_app.webhooks.unverified import unverified_tell
from tests.factories import make_seller
from tests.webhooks.signing import as_bytes, hmac, payload
from tests.webhooks.taking import ADDRESS, SECRET, take

pytestmark = [pytest.mark.deep, pytest.mark.django_db, pytest.mark.usefixtures("fresh_process", "still")]
_MANY = 60


@pytest.fixture
def seller() -> Seller:
    return make_seller("Norrland", webhook_mode="hmac", webhook_secret=SECRET)


def forged(slug: str, proof: dict[str, str], *, body: bytes | None = None, source: str = "") -> Answer:
    body = as_bytes(payload()) if body is None else body
    headers = {"content-type": "application/json", **{k.lower(): v for k, v in proof.items()}}
    source = source or "192.0.2.66"
    return delivery_receive(
        Incoming(seller=slug, url=ADDRESS.format(slug), headers=headers, body=body, source=source)
    )


@pytest.mark.parametrize(
    ("slug", "proof", "body"),
    [
        ("norrland", lambda: hmac(payload(), "x" * 40), None),
        ("norrland", dict, None),
        ("norrland", lambda: {"Signature": "sig1=:AA:", "Signature-Input": "sig1=()"}, None),
        ("norrland", lambda: hmac(payload(), SECRET), b"{}"),
        ("nobody", lambda: hmac(payload(), SECRET), None),
        ("nobody-else", dict, None),
    ],
)
@pytest.mark.parametrize("crowd", [False, True], ids=["one address", "each another"])
def test_nothing_is_written_and_little_is_read(
    seller: Seller,
    slug: str,
    proof: Callable[[], dict[str, str]],
    body: bytes | None,
    crowd: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However slow the machine is: in one moment."""
    looks = Allowance(each=rates.LOOKS_EACH, in_all=rates.LOOKS_IN_ALL, time=lambda: 0.0)
    monkeypatch.setattr(rates, "_looks", looks)
    monkeypatch.setattr(senders, "_KEEP_S", 3600)
    slug, headers = slug if slug.startswith("nobody") else seller.slug, proof()
    assert take(seller, payload(task_id="t-0")).status == 200  # the seller is remembered
    with CaptureQueriesContext(connection) as asked:
        for number in range(3 * _MANY):
            source = f"192.0.2.{number}" if crowd else ""
            assert forged(slug, headers, body=body, source=source).status in (400, 401, 404, 429, 503)
    assert not [one["sql"] for one in asked if not one["sql"].lower().startswith("select")]
    assert len(asked) <= rates.LOOKS_IN_ALL.most, "looked up again so often at most, by all together"


def test_they_are_written_together_all_counted_and_some_kept(seller: Seller, settings: Any) -> None:
    settings.WEBHOOK_REFUSED_ROWS = 7
    for _ in range(_MANY):
        forged(seller.slug, hmac(payload(), "x" * 40))
        forged("nobody", {})
    assert not WebhookDelivery.objects.exists()
    with CaptureQueriesContext(connection) as asked:
        assert refusals_write() == 2 * _MANY
    assert len(asked) <= 7, "one of them: whether what there is no room for names an operation of ours"
    assert refused_count(since=clock.now() - timedelta(hours=2)) == 2 * _MANY
    assert WebhookDelivery.objects.filter(seller=seller).count() == 7
    assert WebhookDelivery.objects.filter(seller=None).count() == 7
    forged(seller.slug, {})
    assert refusals_write() == 1
    assert WebhookDelivery.objects.filter(seller=seller).count() == 7, "enough of this hour are kept"
    assert refusals_write() == 0


def test_what_other_processes_kept_this_hour_leaves_no_room_for_more(seller: Seller, settings: Any) -> None:
    settings.WEBHOOK_REFUSED_ROWS = 7
    hour = rates.window_start(clock.now(), timedelta(hours=1))
    rates.tally_add(sender=f"refused:{seller.pk}", starts=hour, count=5)
    for _ in range(4):
        forged(seller.slug, {})
    assert refusals_write() == 4
    assert WebhookDelivery.objects.filter(seller=seller).count() == 2


def test_what_could_not_be_written_comes_with_the_next(
    seller: Seller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(**_: Any) -> int:
        raise OperationalError from psycopg.OperationalError("away")

    forged(seller.slug, {})
    with monkeypatch.context() as patch:
        patch.setattr(refusals, "tally_add", away)
        with pytest.raises(OperationalError):
            refusals_write()
    forged(seller.slug, {})
    assert refusals_write() == 2
    assert SenderTally.objects.get(sender=f"refused:{seller.pk}").used == 2
    assert WebhookDelivery.objects.count() == 2


def test_the_alarm_is_raised_once_however_many_are_proven_otherwise(seller: Seller) -> None:
    for _ in range(_MANY):
        forged(seller.slug, {"Authorization": "Bearer of-nobody"})
    refusals_write()
    assert unverified_tell() == 1
    forged(seller.slug, {"Authorization": "Bearer of-nobody"})
    refusals_write()
    cache.delete("unverified-looked")
    assert unverified_tell() == 0
    assert Notification.objects.filter(kind="webhook_mode_mismatch").count() == 1


def test_none_is_lost_between_threads(seller: Seller, settings: Any) -> None:
    settings.WEBHOOK_REFUSED_ROWS = 10_000
    row = {"seller": seller, "source": "192.0.2.7", "reason": "webhook_signature_invalid", "status": 401}
    written = []

    def refuse() -> None:
        for _ in range(200):
            refusals.delivery_refuse(**row)  # type: ignore[arg-type]

    threads = [threading.Thread(target=refuse) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        written.append(refusals_write())
    written.append(refusals_write())
    assert sum(written) == 800 == WebhookDelivery.objects.filter(verdict="refused").count()


def test_a_new_seller_and_a_new_secret_are_taken_in_the_midst_of_it(seller: Seller) -> None:
    for _ in range(_MANY):
        forged("vasa", {})
        forged(seller.slug, {})
    body = payload(task_id="t-1")
    vasa = make_seller("Vasa", slug="vasa", webhook_mode="hmac", webhook_secret=SECRET)
    honest = {"body": as_bytes(body), "source": "192.0.2.9"}
    assert forged(vasa.slug, hmac(body, SECRET), **honest).status == 200  # type: ignore[arg-type]
    Seller.objects.filter(pk=seller.pk).update(webhook_secret="y" * 40)
    assert forged(seller.slug, hmac(body, "y" * 40), **honest).status == 200  # type: ignore[arg-type]
