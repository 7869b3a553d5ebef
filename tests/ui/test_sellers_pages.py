"""Sellers, their few settings, accounts and webhook deliveries."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from orders.models import Deal
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.desk import text
from tasks_app.desk.text import SPACE
from tasks_app.ids import first_id_at
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import notify
from tasks_app.operations.models import Operation
from tasks_app.people.models import Actor
from tasks_app.sellers import presenters
from tasks_app.sellers.models import Account, Seller, SellerBreaker
from tasks_app.sellers.selectors import answer_times
from tasks_app.webhooks.models import WebhookDelivery
from tests.operations.making import answer, see, silent
from tests.ui.pages import STAFF, ClientOf, list_of, page_of, read, send, stranger
from tests.ui.seed import Agency

# Alpine's attributes (x-…, @…) need no inline script; only these would.
INLINE = re.compile(r"<[^>]+\s(?:style|on[a-z]+)\s*=|<script(?![^>]*\ssrc=)", re.IGNORECASE)
_CHANGERS = ("Ad Ops", "Administrator")
_SETTINGS = {
    "name": "Cobalt Bay",
    "slots": "6",
    "active": "on",
    "jwks_url": "https://cobalt.example/jwks.json",
}


@pytest.mark.parametrize("role", STAFF)
def test_lists_and_pages_render_for_every_role_with_few_queries(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any, role: str
) -> None:
    client = client_of(role)
    for address in (list_of(Seller), list_of(Account), *(page_of(s) for s in agency.sellers.values())):
        with django_assert_max_num_queries(26):
            assert client.get(address).status_code == 200, address


def test_the_page_says_what_it_can_and_cannot_do(agency: Agency, client_of: ClientOf) -> None:
    page = read(client_of("Buyer"), page_of(agency.sellers["quill"]))
    assert "can be booked" in page
    assert "cannot open accounts by brand" in page
    assert "None it is polled" in page
    assert "24 h so long the same key gets the same answer" in page


def test_answer_times_are_those_of_real_operations(agency: Agency) -> None:
    norrland = agency.sellers["norrland"]
    settled = Operation.objects.filter(
        seller=norrland, task_type="create_media_buy", settled_at__isnull=False
    )
    spans = sorted(o.settled_at - o.sent_at for o in settled if o.settled_at and o.sent_at)
    (found,) = answer_times(settled, since=clock.now() - timedelta(days=30))
    assert found.count == len(spans) == 2
    assert found.median == (spans[0] + spans[1]) / 2
    assert found.success == 100
    assert answer_times(settled, since=clock.now()) == []


def test_health_is_on_the_page_and_in_the_list(agency: Agency, client_of: ClientOf) -> None:
    seller, client = agency.sellers["cobalt"], client_of("Buyer")
    assert "No calls in 24 h" in read(client, list_of(Seller))
    assert "no call was made" in read(client, page_of(seller))
    operation = Operation.objects.get(subject_id=agency.deals["lindqvist-cobalt"].pk)
    for ms in (200, 300, 400):
        see(operation, answer("submitted", task_id=operation.task_id, duration_ms=ms), "poll")
    assert "No errors median 300 ms, 1 open" in read(client, list_of(Seller))
    see(operation, replace(silent(), duration_ms=30_000), "poll")
    page = read(client, page_of(seller))
    assert "Calls, 24 h 4 25 % without an answer or with an error" in page
    assert "median; nine in ten within 21 s, slowest 30 s" in page
    assert "X_FLIGHTDECK_NO_ANSWER 1 25 %" in page
    assert "Open now 1 0 of 1 slot in use, oldest since" in page
    assert "25 % errors median 350 ms, 1 open" in read(client, list_of(Seller))


def test_webhooks_that_do_not_come_are_said(agency: Agency, client_of: ClientOf) -> None:
    seller, client = agency.sellers["cobalt"], client_of("Auditor")
    Seller.objects.filter(pk=seller.pk).update(webhook_mode="none")
    assert "Webhooks that came None it is polled" in read(client, page_of(seller))
    Seller.objects.filter(pk=seller.pk).update(tools=["create_media_buy"], status_tool="")
    page = read(client, page_of(seller))
    assert "Webhooks that came None only reconciliation looks at it" in page
    assert "it is polled" not in page
    Seller.objects.filter(pk=seller.pk).update(webhook_mode="hmac")
    assert "Webhooks that came Waited for 0 of 1 came (0 %)" in read(client, page_of(seller))
    paused = {"webhook_paused_until": clock.now() + timedelta(minutes=30)}
    Seller.objects.filter(pk=seller.pk).update(**paused)
    assert "Webhooks that came Not waited for only reconciliation looks at it until" in read(
        client, page_of(seller)
    )
    trial = clock.now() - timedelta(minutes=30)
    Seller.objects.filter(pk=seller.pk).update(webhook_paused_until=trial, webhook_judged_since=trial)
    assert "Webhooks that came On trial since" in read(client, page_of(seller))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("closed", "Circuit closed calls go through"),
        ("open", "Circuit open no call is made, 5 failures, the last: timed out"),
        ("half-open", "Circuit half open one call tries whether it answers again, 5 failures"),
    ],
)
def test_a_circuit_breaker_is_shown_where_there_is_one(
    agency: Agency, client_of: ClientOf, state: str, said: str
) -> None:
    seller, client = agency.sellers["cobalt"], client_of("Buyer")
    assert "Circuit" not in read(client, page_of(seller))
    failed = {"failures": 5, "reason": "timed out"} if state != "closed" else {}
    SellerBreaker.objects.create(seller=seller, state=state, probe_at=clock.now(), **failed)
    assert said in read(client, page_of(seller))


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [
        (0, 7, "0 %"),
        (7, 7, "100 %"),
        (1, 2, "50 %"),
        (1, 3, "33.3 %"),
        (2, 100, "2 %"),
        (1, 5000, "under 0.1 %"),
        (4999, 5000, "over 99.9 %"),
    ],
)
def test_a_share_is_never_rounded_to_none_or_all(part: int, whole: int, said: str) -> None:
    assert presenters.percent(part, whole).replace(SPACE, " ") == said


def test_pages_of_sellers_and_notifications_hold_no_inline_style_or_script(
    agency: Agency, client_of: ClientOf
) -> None:
    notify(kind="test", title="Told", body="In full.", level="alarm", team=agency.deals["halvorsen"].team)
    client = client_of("Ad Ops")
    for address in (list_of(Notification), list_of(Seller), page_of(agency.sellers["cobalt"])):
        assert not INLINE.findall(client.get(address).content.decode()), address


def test_the_smallest_key_of_a_moment_is_below_what_is_made_then() -> None:
    moment = clock.now()
    assert first_id_at(moment - timedelta(milliseconds=2)) < first_id_at(moment)
    assert first_id_at(moment).version == 7


@pytest.mark.parametrize("role", STAFF)
def test_only_ad_ops_and_administrators_change_settings(
    agency: Agency, client_of: ClientOf, role: str
) -> None:
    seller = agency.sellers["cobalt"]
    client = client_of(role)
    answer = send(client, page_of(seller), _SETTINGS)
    stored = Seller.objects.get(pk=seller.pk)
    if role in _CHANGERS:
        assert answer.status_code == 302
        assert (stored.name, stored.slots, stored.allow_private) == ("Cobalt Bay TV", 6, False)
        asked = Approval.objects.get(kind="seller_trust")  # it is in use
        approval_decide(approval_id=asked.pk, user=agency.people["Approver"], verdict="approve")
        assert Seller.objects.get(pk=seller.pk).name == "Cobalt Bay"
        assert Actor.objects.get(key="agent:cobalt").name == "Cobalt Bay"
    else:
        assert answer.status_code == 403
        assert (stored.name, stored.slots) == ("Cobalt Bay TV", 1)
        assert "Settings" not in read(client, page_of(seller))


def test_a_token_is_written_and_never_shown(agency: Agency, client_of: ClientOf) -> None:
    seller, client = agency.sellers["quill"], client_of("Ad Ops")
    secret = "tok-4f1d0c77"
    assert send(client, page_of(seller), {**_SETTINGS, "token": secret}).status_code == 302
    assert Seller.objects.get(pk=seller.pk).token is None, "it is in use: a second person approves"
    asked = Approval.objects.get(kind="seller_trust")
    for address in (page_of(seller), list_of(Seller), page_of(asked)):
        assert secret not in client_of("Approver").get(address).content.decode()
    approval_decide(approval_id=asked.pk, user=agency.people["Approver"], verdict="approve")
    stored = Seller.objects.get(pk=seller.pk)
    assert (stored.token, stored.jwks_url) == (secret, _SETTINGS["jwks_url"])
    assert send(client, page_of(seller), _SETTINGS).status_code == 302  # left empty: it stays
    assert Seller.objects.get(pk=seller.pk).token == secret
    for address in (page_of(seller), list_of(Seller), page_of(asked)):
        assert secret not in client.get(address).content.decode()
    send(client, page_of(seller), {**_SETTINGS, "forget_token": "on"})
    assert Seller.objects.get(pk=seller.pk).token is None, "one person may always revoke"


def test_what_waits_for_a_second_person_is_on_the_page_and_can_be_withdrawn(
    agency: Agency, client_of: ClientOf
) -> None:
    seller, client = agency.sellers["cobalt"], client_of("Ad Ops")
    send(client, page_of(seller), {**_SETTINGS, "webhook_mode": "rfc9421", "reason": "They told us"})
    page = read(client_of("Buyer"), page_of(seller))
    assert "Waits for a second person" in page
    assert "none → https://cobalt.example/jwks.json" in page
    assert "They told us" in page
    asked = Approval.objects.get(kind="seller_trust")
    assert "They told us" in read(client_of("Approver"), page_of(asked))
    assert asked.reference in client_of("Approver").get(list_of(Approval)).content.decode()
    assert client_of("Buyer").post(page_of(seller), {"withdraw": "1"}).status_code == 403
    assert send(client, page_of(seller), {"withdraw": "1"}).status_code == 302
    assert "They told us" not in read(client, page_of(seller))
    asked.refresh_from_db()
    assert asked.status == "voided"


def test_a_wrong_setting_is_said_at_its_field_and_changes_nothing(
    agency: Agency, client_of: ClientOf
) -> None:
    seller, client = agency.sellers["cobalt"], client_of("Ad Ops")
    form = {**_SETTINGS, "slots": "0", "jwks_url": "nonsense", "token": "t-9"}
    answer = send(client, page_of(seller), form)
    assert answer.status_code == 422
    body = answer.content.decode()
    assert "greater than or equal to 1" in body
    assert "Enter a valid URL" in body
    assert "t-9" not in body
    assert Seller.objects.get(pk=seller.pk).name == "Cobalt Bay TV"


def test_who_accepts_the_idempotency_risk_is_recorded(agency: Agency, client_of: ClientOf) -> None:
    seller, client = agency.sellers["quill"], client_of("Administrator")
    Seller.objects.filter(pk=seller.pk).update(idempotency_ttl_s=None)
    assert "no purchase is sent" in read(client, page_of(seller))
    refused = send(client_of("Ad Ops"), page_of(seller), {**_SETTINGS, "risk_accepted": "on"})
    assert refused.status_code == 422
    assert not Seller.objects.get(pk=seller.pk).may_be_sent_mutations
    send(client, page_of(seller), {**_SETTINGS, "risk_accepted": "on"})
    stored = Seller.objects.get(pk=seller.pk)
    person = agency.people["Administrator"]
    assert stored.idempotency_risk_accepted_by == f"human:{person.pk}"
    assert stored.idempotency_risk_accepted_at is not None
    assert stored.may_be_sent_mutations
    with timezone.override(person.time_zone):
        on = text.day(stored.idempotency_risk_accepted_at).replace(SPACE, " ")
    assert f"risk accepted by {person.get_full_name()} on {on}" in read(client, page_of(seller))
    Seller.objects.filter(pk=seller.pk).update(idempotency_ttl_s=86_400)
    send(client, page_of(seller), _SETTINGS)  # its form asks for nothing now, and takes nothing back
    Seller.objects.filter(pk=seller.pk).update(idempotency_ttl_s=None)
    assert Seller.objects.get(pk=seller.pk).may_be_sent_mutations
    send(client, page_of(seller), _SETTINGS)
    assert not Seller.objects.get(pk=seller.pk).may_be_sent_mutations


def test_only_administrators_edit_accounts(agency: Agency, client_of: ClientOf) -> None:
    account = Account.objects.filter(seller=agency.sellers["quill"]).first()
    assert account is not None
    form = {
        "advertiser": account.advertiser_id,
        "seller": account.seller_id,
        "status": "closed",
        "reference": '{"account_id": "acc-9"}',
        "billing_party": "",
        "payment_terms": "",
        "setup_url": "",
    }
    assert client_of("Ad Ops").post(page_of(account), form).status_code == 403
    admin = client_of("Administrator")
    wrong = send(admin, page_of(account), {**form, "reference": '{"account": 3}'})
    assert wrong.status_code == 200
    account.refresh_from_db()
    assert account.status == "active"
    assert send(admin, page_of(account), form).status_code == 302
    account.refresh_from_db()
    assert account.status == "closed"
    assert account.reference != {"account_id": "acc-9"}, "it is in use: a second person approves"
    page = admin.get(page_of(account)).content.decode()
    assert "Waits for a second person" in page
    asked = Approval.objects.get(kind="seller_trust")
    approval_decide(approval_id=asked.pk, user=agency.people["Approver"], verdict="approve")
    account.refresh_from_db()
    assert (account.status, account.reference) == ("closed", {"account_id": "acc-9"})


def test_another_teams_accounts_are_not_seen(agency: Agency) -> None:
    client = stranger()
    assert "Lindqvist" not in read(client, list_of(Account))
    assert "acc-cobalt-lindqvist" not in read(client, page_of(agency.sellers["cobalt"]))
    add = client.get(reverse("admin:tasks_app_account_add")).content.decode()
    assert "Lindqvist" not in add


@pytest.mark.parametrize("role", STAFF)
def test_deliveries_are_for_ad_ops_auditors_and_administrators(
    agency: Agency, client_of: ClientOf, role: str
) -> None:
    delivery = _delivery(agency)
    client = client_of(role)
    allowed = role in ("Ad Ops", "Auditor", "Administrator")
    for address in (list_of(WebhookDelivery), page_of(delivery)):
        assert client.get(address).status_code == (200 if allowed else 403)
    assert ("Recent webhook deliveries" in read(client, page_of(agency.sellers["cobalt"]))) is allowed


def test_a_delivery_leads_to_its_operation_and_shows_its_body(agency: Agency, client_of: ClientOf) -> None:
    delivery = _delivery(agency)
    page = read(client_of("Auditor"), page_of(delivery))
    assert Operation.objects.get(task_id=delivery.task_id).reference in page
    assert "with the desk" in page


def test_a_delivery_about_another_team_is_not_shown(agency: Agency) -> None:
    delivery = _delivery(agency)
    client = stranger()
    assert delivery.task_id not in read(client, list_of(WebhookDelivery))
    assert "with the desk" not in client.get(page_of(delivery), follow=True).content.decode()


def test_a_delivery_about_nothing_known_hides_its_body(agency: Agency) -> None:
    delivery = _delivery(agency)
    WebhookDelivery.objects.filter(pk=delivery.pk).update(task_id="nobody-knows")
    page = read(stranger(), page_of(delivery))
    assert "with the desk" not in page
    assert "It is about no operation of your teams." in page


def test_refused_deliveries_are_listed_apart(agency: Agency, client_of: ClientOf) -> None:
    _delivery(agency)
    WebhookDelivery.objects.create(
        seller=agency.sellers["norrland"],
        fingerprint="f" * 64,
        verdict="refused",
        reason="webhook_signature_invalid",
    )
    page = read(client_of("Ad Ops"), f"{list_of(WebhookDelivery)}?view=refused")
    assert "webhook_signature_invalid" in page
    assert "Applied" not in page


def _delivery(agency: Agency) -> WebhookDelivery:
    deal: Deal = agency.deals["lindqvist-cobalt"]
    operation = Operation.objects.get(subject_id=deal.pk)
    return WebhookDelivery.objects.create(
        seller=agency.sellers["cobalt"],
        key="k-1",
        fingerprint="a" * 64,
        verdict="applied",
        status="working",
        task_id=operation.task_id,
        body={"message": "with the desk"},
    )


def test_the_webhook_secret_is_rotated_and_never_shown(agency: Agency, client_of: ClientOf) -> None:
    seller = agency.sellers["norrland"]
    Seller.objects.filter(pk=seller.pk).update(webhook_mode="hmac", webhook_secret="s" * 40)
    address = page_of(seller)

    assert client_of("Buyer").post(address, {"rotate": "keep"}).status_code == 403
    assert Seller.objects.get(pk=seller.pk).webhook_secret == "s" * 40
    ops = client_of("Ad Ops")
    assert send(ops, address, {"rotate": "keep"}).status_code == 302
    kept = Seller.objects.get(pk=seller.pk)
    assert kept.webhook_secret_previous == "s" * 40
    page = ops.get(address).content.decode()
    assert "The previous secret is accepted until" in page
    assert not [secret for secret in ("s" * 40, str(kept.webhook_secret)) if secret in page]
    send(ops, address, {"rotate": "drop"})
    assert Seller.objects.get(pk=seller.pk).webhook_secret_previous is None


def test_a_refused_account_shows_the_sellers_words_and_can_be_asked_for_again(
    agency: Agency, client_of: ClientOf
) -> None:
    account = Account.objects.filter(seller=agency.sellers["quill"]).first()
    assert account is not None
    said = {"code": "X", "message": "We bill agencies only.", "field": "billing", "suggestion": "Name one."}
    Account.objects.filter(pk=account.pk).update(status="rejected", said={"errors": [said]})
    Seller.objects.filter(pk=account.seller_id).update(tools=["sync_accounts"])

    page = read(client_of("Administrator"), page_of(account))
    assert "We bill agencies only. (billing) Name one." in page
    assert client_of("Ad Ops").post(page_of(account), {"ask_again": "1"}).status_code == 403
    told = client_of("Administrator").post(page_of(account), {"ask_again": "1"}, follow=True)
    assert "is asked again" in told.content.decode()
    again = client_of("Administrator").post(page_of(account), {"ask_again": "1"}, follow=True)
    assert "has been asked already" in again.content.decode()
    assert Operation.objects.filter(task_type="sync_accounts").count() == 1
    assert "Ask Quill Audio again" in page
    Seller.objects.filter(pk=account.seller_id).update(tools=["create_media_buy"])
    assert "Ask Quill Audio again" not in read(client_of("Administrator"), page_of(account))
    Seller.objects.filter(pk=account.seller_id).update(tools=["sync_accounts"])
    card = read(client_of("Administrator"), reverse("explain_card", args=["account", account.pk]))
    assert "We bill agencies only." in card
    assert "ask the seller for it again" in card
