"""Changes of what decides whom we believe, and what people are asked of them."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse

from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.people.models import User
from tasks_app.sellers import trust
from tasks_app.sellers.models import Account, Seller
from tests.factories import make_user
from tests.ui.pages import send

SECRET = "the-webhook-secret-of-the-tests-1234567890"
OTHER: dict[str, Any] = {
    "name": "Vasa Media",
    "active": True,
    "url": "http://127.0.0.1:10/mcp",
    "protocol": "a2a",
    "token": "another-token",
    "auth_scheme": "basic",
    "headers": {"X-Tenant": "acme"},
    "secret_headers": '{"X-Api-Key": "a-key-of-the-gateway"}',
    "webhook_mode": "bearer",
    "jwks_url": "https://elsewhere.example/jwks.json",
    "allow_private": True,
    "contact_email": "somebody@elsewhere.example",
    "status_tool": "task_state",
}
# How a seller stands before one of them becomes other, where it would not do as it is.
BEFORE: dict[str, dict[str, Any]] = {"auth_scheme": {"token": "name:password"}, "active": {"active": False}}
OTHER_ACCOUNT: dict[str, Any] = {
    "reference": {"account_id": "acc-of-another"},
    "status": "active",
    "setup_url": "https://elsewhere.example/setup",
    "billing_party": "Somebody else",
    "payment_terms": "net_0",
}


def change(row: Seller | Account, user: User, reason: str = "", **values: Any) -> trust.Made:
    return trust.row_change(row=row, values=values, actor=user, reason=reason)


def stored(row: Seller | Account, name: str) -> Any:
    return getattr(type(row)._default_manager.get(pk=row.pk), name)


def question() -> Approval:
    return Approval.objects.get(kind="seller_trust", status="open")


def approve(user: User | None = None) -> None:
    approval_decide(approval_id=question().pk, user=user or make_user("Approver"), verdict="approve")


def by_form(seller: Seller, ops: User, values: dict[str, Any]) -> None:
    """The settings card of its page, as a browser sends it."""
    client = Client()
    client.force_login(ops)
    form = {
        "name": seller.name,
        "slots": seller.slots,
        "active": "on",
        "webhook_mode": seller.webhook_mode,
        "jwks_url": seller.jwks_url,
        "contact_email": seller.contact_email,
        **({"allow_private": "on"} if seller.allow_private else {}),
        **values,
    }
    answer = send(client, reverse("admin:tasks_app_seller_change", args=[seller.pk]), form)
    assert answer.status_code == 302, answer.content.decode()
