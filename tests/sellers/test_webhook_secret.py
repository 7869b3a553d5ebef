"""Rotating a seller's shared webhook secret: what waits goes on, what is new gets the new one."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError

from tasks_app import clock
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.sellers.services import webhook_secret_rotate
from tests.clocks import Clock
from tests.commands.running import call
from tests.factories import make_seller, make_user
from tests.operations.making import ask, stand

pytestmark = pytest.mark.django_db
SECRET = "the-first-secret-0123456789-0123456789-abcdef"


@pytest.fixture
def seller() -> Seller:
    return make_seller("Rotates", webhook_mode="hmac", webhook_secret=SECRET)


def registered(operation: Operation) -> str:
    sent = json.loads(operation.request_text)["push_notification_config"]
    return str(sent["authentication"]["credentials"])


def test_the_secret_before_lasts_until_what_was_told_it_is_done(seller: Seller) -> None:
    waits = stand(S.SUBMITTED, seller=seller)
    stand(S.COMPLETED, seller=seller, task_id="task-2")
    deadline = clock.now() + timedelta(hours=30)
    Operation.objects.filter(pk=waits.pk).update(deadline_at=deadline)

    until = webhook_secret_rotate(seller=seller, actor=make_user("Ad Ops"))

    seller.refresh_from_db()
    assert until == deadline + timedelta(hours=24), "the seller's retry window follows"
    assert seller.webhook_secret_previous_until == until
    assert seller.webhook_secret_previous == SECRET
    assert seller.webhook_secret not in (None, SECRET)
    assert len(str(seller.webhook_secret)) >= 32
    assert registered(waits) == SECRET
    assert registered(ask(seller=seller)) == seller.webhook_secret
    assert seller.webhook_secrets(until - timedelta(seconds=1)) == [seller.webhook_secret, SECRET]
    assert seller.webhook_secrets(until) == [seller.webhook_secret]


def test_with_nothing_waiting_it_lasts_the_replay_window(seller: Seller, still: Clock) -> None:
    until = webhook_secret_rotate(seller=seller, actor=make_user("Ad Ops"))
    assert until == still.now + timedelta(minutes=5)


def test_it_is_not_rotated_again_while_purchases_rely_on_the_one_before(seller: Seller) -> None:
    stand(S.SUBMITTED, seller=seller)
    ops = make_user("Ad Ops")
    webhook_secret_rotate(seller=seller, actor=ops)
    present = Seller.objects.get(pk=seller.pk).webhook_secret

    with pytest.raises(ValidationError, match="purchases still rely on it"):
        webhook_secret_rotate(seller=seller, actor=ops)
    assert Seller.objects.get(pk=seller.pk).webhook_secret == present

    assert webhook_secret_rotate(seller=seller, actor=ops, drop_present=True) is None
    after = Seller.objects.get(pk=seller.pk)
    assert after.webhook_secrets(clock.now()) == [after.webhook_secret]
    assert after.webhook_secret not in (present, SECRET)


@pytest.mark.parametrize("mode", ["rfc9421", "none"])
def test_a_seller_without_a_shared_secret_has_none_to_rotate(mode: str) -> None:
    seller = make_seller("Signs", webhook_mode=mode)
    with pytest.raises(ValidationError):
        webhook_secret_rotate(seller=seller, actor=make_user("Ad Ops"))
    seller.refresh_from_db()
    assert seller.webhook_secret is None


def test_the_command(seller: Seller, caplog: pytest.LogCaptureFixture) -> None:
    ops, buyer = make_user("Ad Ops"), make_user("Buyer")

    ran = call("rotate_webhook_secret", seller.slug, "--as", ops.username, "--json")

    assert ran.code == 0
    assert ran.json["seller"] == seller.slug
    kept = Seller.objects.get(pk=seller.pk)
    told = ran.out + caplog.text
    assert not [secret for secret in (SECRET, str(kept.webhook_secret)) if secret in told]
    assert f"human:{ops.pk}" in caplog.text
    assert call("rotate_webhook_secret", seller.slug, "--as", ops.username).code == 2, "it still lasts"
    dropped = call("rotate_webhook_secret", seller.slug, "--as", ops.username, "--drop-present")
    assert "accepted no more" in dropped.out
    assert call("rotate_webhook_secret", seller.slug, "--as", buyer.username).code == 2
    assert call("rotate_webhook_secret", "nobody", "--as", ops.username).code == 2


def test_no_secret_is_in_a_sellers_repr(seller: Seller) -> None:
    webhook_secret_rotate(seller=seller, actor=make_user("Ad Ops"))
    assert SECRET not in repr(Seller.objects.get(pk=seller.pk))
