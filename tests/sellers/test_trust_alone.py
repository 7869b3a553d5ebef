"""What one person changes alone of whom we believe: the first setup, what is taken back, what stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from tasks_app.approvals.models import Approval
from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import notifications_of
from tasks_app.people.models import User
from tasks_app.people.security_models import SecurityEvent
from tasks_app.sellers import columns, trust
from tasks_app.sellers.models import Account, Seller, TrustChange
from tasks_app.sellers.services import (
    account_change,
    webhook_secret_rotate,
)
from tasks_app.webhooks import senders
from tests.adcp.raw_server import serve
from tests.factories import make_account, make_advertiser, make_seller, make_team, make_user
from tests.sellers.trusting import OTHER, SECRET, approve, by_form, change, question, stored
from tests.ui.pages import send
from tests.webhooks.signing import jwks, payload, publishing, rfc
from tests.webhooks.taking import ADDRESS, take

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


def test_the_first_setup_needs_nobody_else_and_is_recorded(ops: User) -> None:
    seller = make_seller("New", allow_private=False, active=False)
    made = change(seller, ops, **{**OTHER, "token": "name:password"})
    assert sorted(made.changed) == sorted(OTHER)
    assert made.waiting is None
    entry = SecurityEvent.objects.get(event="seller_changed")
    # The shared secret that its webhooks need then is made here, and recorded with them.
    assert (entry.actor, set(entry.detail["changes"])) == (f"human:{ops.pk}", {*OTHER, "webhook_secret"})
    assert entry.detail["changes"]["webhook_secret"] == ["none", trust.shown(seller, "webhook_secret")]
    assert not Notification.objects.filter(kind="seller_changed").exists()


_OFF = {
    "active": False,
    "token": None,
    "webhook_mode": "none",
    "jwks_url": "",
    "allow_private": False,
    "contact_email": "",
    "status_tool": "",
}


@pytest.mark.parametrize("name", _OFF)
def test_one_person_always_revokes_and_approvers_are_told(name: str, seller: Seller, ops: User) -> None:
    Seller.objects.filter(pk=seller.pk).update(**{name: OTHER[name]})
    seller.refresh_from_db()
    made = change(seller, ops, **{name: _OFF[name]})
    assert (made.changed, made.waiting, stored(seller, name)) == ([name], None, _OFF[name])
    told = Notification.objects.get(kind="seller_changed")
    assert (told.right, told.not_for) == ("tasks_app.decide_approval", f"human:{ops.pk}")
    assert SecurityEvent.objects.get(event="seller_changed").detail["changes"].keys() == {name}


def test_every_column_that_can_be_revoked_is_tried_above() -> None:
    """The others only become others: what we are asked for by, a name, whose account a header decides, be it
    a secret one."""
    others = {"name", "url", "protocol", "auth_scheme", "headers", "secret_headers"}
    revocable = {name for name, value in _OFF.items() if columns.SELLER_TRUST[name].takes(value)}
    assert revocable == columns.SELLER_TRUST.keys() - others


@pytest.mark.parametrize(("token", "values", "waits"), [
    ("t-1", {}, True),
    ("t-1", {"token": "t-2"}, True),
    ("t-1", {"token": None}, False),
    (None, {}, False),
    (None, {"token": "t-2"}, True),
])  # fmt: skip
def test_secret_headers_go_at_once_only_where_no_token_stays(
    seller: Seller, ops: User, token: str | None, values: dict[str, Any], waits: bool
) -> None:
    """With the token alone the next purchase would go to whatever account the seller takes it for."""
    Seller.objects.filter(pk=seller.pk).update(secret_headers=OTHER["secret_headers"], token=token)
    seller.refresh_from_db()
    assert trust.needs_second(seller, "secret_headers", None) == bool(token)
    made = change(seller, ops, secret_headers=None, **values)
    assert (made.waiting is not None) == waits
    assert stored(seller, "secret_headers") == (OTHER["secret_headers"] if waits else None)
    assert stored(seller, "token") == (token if waits else None)
    if waits:
        approve()
        assert stored(seller, "secret_headers") is None


def test_the_form_asks_before_it_forgets_secret_headers(seller: Seller, ops: User) -> None:
    Seller.objects.filter(pk=seller.pk).update(secret_headers=OTHER["secret_headers"])
    by_form(seller, ops, {"forget_secret_headers": "on"})
    assert stored(seller, "secret_headers") == OTHER["secret_headers"]
    approve()
    assert stored(seller, "secret_headers") is None
    Seller.objects.filter(pk=seller.pk).update(secret_headers=OTHER["secret_headers"])
    by_form(seller, ops, {"forget_secret_headers": "on", "forget_token": "on"})
    assert (stored(seller, "secret_headers"), stored(seller, "token")) == (None, None)


def test_one_person_switches_off_and_an_account_is_closed(account: Account, ops: User) -> None:
    made = change(account.seller, ops, active=False)
    assert made.changed == ["active"]
    assert Notification.objects.filter(kind="seller_changed").count() == 1
    elsewhere = make_user("Approver", team=make_team("Another house"))
    assert account_change(account=account, values={"status": "closed"}, actor=ops).changed == ["status"]
    told = Notification.objects.filter(kind="seller_changed").latest("id")
    assert (told.subject_type, told.subject_id, told.team) == ("account", account.pk, account.advertiser.team)
    assert f"The account of {account.advertiser} with {account.seller} was changed by" in told.title
    assert not notifications_of(elsewhere).filter(pk=told.pk).exists(), "it is no business of other teams"


@pytest.mark.parametrize("drop", [False, True])
def test_a_rotated_secret_is_no_change_of_trust_and_on_record(drop: bool, seller: Seller, ops: User) -> None:
    webhook_secret_rotate(seller=seller, actor=ops, drop_present=drop)
    assert not Approval.objects.filter(kind="seller_trust").exists()
    entry = SecurityEvent.objects.get(event="seller_changed")
    before, after = entry.detail["changes"]["webhook_secret"]
    assert before == trust.fingerprint(SECRET) != after
    assert Notification.objects.filter(kind="seller_changed").exists()


def test_keys_rotated_at_the_same_address_are_no_change(
    ops: User, seller: Seller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The set may change whole: nobody is asked, nothing goes on record as a change, and what the old keys
    proved stays proven; the same set at another address waits for a second person."""
    cache.clear()
    monkeypatch.setattr(senders, "_known", {})
    keys = [jwks("k1")]

    def publisher(_server: Any) -> Any:
        return lambda request, connection: publishing(keys[0])(request, connection)

    def signed_with(key_id: str) -> str:
        cache.delete(f"jwks-cool-down:{seller.pk}:{seller.jwks_url}")
        body = payload(task_id="task-of-nobody")
        return take(seller, body, rfc(ADDRESS.format(seller.slug), body, key_id=key_id)).word

    with serve(publisher) as server:
        seller.jwks_url, seller.webhook_mode = f"{server.url}/jwks.json", "rfc9421"
        seller.allow_private = True
        seller.save()
        recorded = SecurityEvent.objects.count()
        assert signed_with("k1") == "early"
        keys[0] = jwks("k2")
        assert signed_with("k2") == "early"
        assert (TrustChange.objects.count(), Approval.objects.count()) == (0, 0)
        assert SecurityEvent.objects.count() == recorded
        assert stored(seller, "jwks_url") == f"{server.url}/jwks.json"

        with serve(publisher) as elsewhere:
            made = change(seller, ops, "It moved", jwks_url=f"{elsewhere.url}/jwks.json")
            assert made.changed == []
            assert question().status == "open"
            assert signed_with("k2") == "early"
            assert not elsewhere.requests, "nobody asks there before it is approved"


@pytest.mark.django_db
def test_an_account_stays_its_advertisers_with_its_seller() -> None:
    """Neither by its page nor by whoever calls the service: deals hold it."""
    account = make_account(make_advertiser("Lindqvist"), make_seller("Norrland"))
    other, elsewhere = make_advertiser("Other"), make_seller("Cobalt")
    admin = make_user("Administrator", is_staff=True)
    for values in ({"advertiser": other}, {"seller": elsewhere}):
        with pytest.raises(ValidationError, match="stays"):
            account_change(account=account, values=values, actor=admin)
    client = Client()
    client.force_login(admin, backend="tasks_app.people.holders.RoleBackend")
    form = {
        "advertiser": str(other.pk),
        "seller": str(elsewhere.pk),
        "status": account.status,
        "reference": json.dumps(account.reference),
        "billing_party": "",
        "setup_url": "",
        "payment_terms": "",
    }
    send(client, reverse("admin:tasks_app_account_change", args=[account.pk]), form)
    kept = Account.objects.get(pk=account.pk)
    assert (kept.advertiser, kept.seller) == (account.advertiser, account.seller)
