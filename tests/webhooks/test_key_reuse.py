"""One delivery key with ever other bodies: a seller cannot fill the disk with them, nor people's notices."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tasks_app import clock, days
from tasks_app.notifications.models import Notification
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import OperationStatus as S
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.retention import deliveries_forget
from tests.factories import make_seller
from tests.operations.making import stand
from tests.webhooks.signing import hmac, payload
from tests.webhooks.taking import SECRET, take

pytestmark = [pytest.mark.deep, pytest.mark.django_db, pytest.mark.usefixtures("fresh_process")]


@pytest.mark.parametrize("known", [False, True], ids=["of no task of ours", "of a task of ours"])
def test_one_key_with_ever_other_bodies_is_kept_once_and_counted(known: bool) -> None:
    seller = make_seller("Repeats", webhook_mode="hmac", webhook_secret=SECRET)
    if known:
        stand(S.SUBMITTED, seller=seller, task_id="task-0")
    first = payload(task_id="task-0")
    told = [take(seller, {**first, "message": f"words {number}"}).status for number in range(12)]

    assert told == [200] + 11 * [409]
    bound = WebhookDelivery.objects.get(seller=seller, bound_until__isnull=False)
    kept = WebhookDelivery.objects.get(seller=seller, verdict="key_conflict")
    assert bound.others == 11
    assert kept.body is not None
    assert "words 1" in str(kept.body)
    asked = Conflict.objects.filter(operation__seller=seller, kind=Conflict.Kind.KEY).count()
    told_of = Notification.objects.filter(kind="delivery_key_conflict")
    notices = told_of.count()
    assert (asked, notices) == ((1, 0) if known else (0, 1))


def test_what_is_told_on_another_day_leads_to_a_delivery_that_is_kept() -> None:
    seller = make_seller("Repeats", webhook_mode="hmac", webhook_secret=SECRET)
    first = payload(task_id="task-0")
    midnight = days.start_of(days.day_of(clock.now(), "UTC") + timedelta(days=1), "UTC")
    told = {timedelta(hours=-1): (200, {}), timedelta(minutes=-30): (409, {"message": "other"})}
    told[timedelta(hours=1)] = (409, {"message": "yet another"})
    for after, (status, more) in told.items():
        with clock.injected(lambda at=midnight + after: at):
            body = {**first, **more}
            assert take(seller, body, hmac(body, SECRET, at=clock.now().timestamp())).status == status
    about = Notification.objects.filter(kind="delivery_key_conflict").values_list("subject_id", flat=True)
    assert len(about) == 2
    assert WebhookDelivery.objects.filter(pk__in=about).exists()
    assert not {*about} - {*WebhookDelivery.objects.values_list("pk", flat=True)}


def test_a_key_used_again_just_after_its_time_leaves_no_words_behind() -> None:
    seller = make_seller("Repeats", webhook_mode="hmac", webhook_secret=SECRET)
    body = payload(task_id="task-0")
    take(seller, body)
    kept = WebhookDelivery.objects.get()
    assert (kept.verdict, kept.body is None) == ("early", False)
    assert kept.bound_until is not None
    later = kept.bound_until + timedelta(seconds=1)
    with clock.injected(lambda: later):
        assert take(seller, body, hmac(body, SECRET, at=later.timestamp())).status == 200
    kept.refresh_from_db()
    assert (kept.body, kept.bound_until) == (None, None)


def test_other_bodies_under_used_keys_count_in_the_sellers_room(settings: Any) -> None:
    settings.WEBHOOK_WAITING_BYTES = 20 * 1024
    seller = make_seller("Repeats", webhook_mode="hmac", webhook_secret=SECRET)
    stand(S.SUBMITTED, seller=seller, task_id="task-0")
    for number in range(30):
        body = payload(task_id="task-0", idempotency_key=f"whk-{number:02}-long-enough-to-be-a-key")
        take(seller, body)
        assert take(seller, {**body, "message": "other words"}).word == "key_conflict"
    contradicting = WebhookDelivery.objects.filter(seller=seller, verdict="key_conflict")
    assert (contradicting.count(), contradicting.filter(body__isnull=False).count()) == (30, 20)
    assert Notification.objects.filter(kind="webhook_waiting_full", subject_id=seller.pk).count() == 1
    assert take(seller, payload("working", task_id="nobodys")).word == "webhook_waiting_full"


def test_past_the_longest_horizon_no_contradicting_body_is_left() -> None:
    seller = make_seller("Repeats", webhook_mode="hmac", webhook_secret=SECRET)
    first = payload(task_id="task-0")
    for words in ("these", "others"):
        take(seller, {**first, "message": words})
    now = clock.now()
    for later, left in ((6, 1), (8, 0)):
        with clock.injected(lambda later=later: now + timedelta(days=later)):  # type: ignore[misc]
            while deliveries_forget():
                continue
        contradicting = WebhookDelivery.objects.filter(seller=seller, verdict="key_conflict")
        assert contradicting.filter(body__isnull=False).count() == left
    gone = contradicting.get()
    assert len(gone.fingerprint) == 64
