"""What each column of a seller and of an account is: what decides whom we believe, what decides how a seller
is handled, what it says of itself, what we rotate ourselves, and what nobody changes (`trust.py` does so).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import models

from tasks_app.sellers.models import Account, Seller

Row = Seller | Account


@dataclass(frozen=True, kw_only=True)
class Trusted:
    """One column that decides whom we believe. `takes` tells of a new value whether it only takes trust away;
    a `secret` is shown by its fingerprint alone."""

    label: str
    takes: Callable[[Any], bool] = lambda value: not value
    secret: bool = False


def _never(_value: Any) -> bool:
    return False


SELLER_TRUST: dict[str, Trusted] = {
    "name": Trusted(label="Name", takes=_never),
    "active": Trusted(label="Active"),
    "url": Trusted(label="Address", takes=_never),
    "protocol": Trusted(label="Protocol", takes=_never),
    "token": Trusted(label="Our credentials", secret=True),
    "auth_scheme": Trusted(label="Kind of credentials", takes=_never),
    "headers": Trusted(label="Its own headers", takes=_never),
    "secret_headers": Trusted(label="Its own secret headers", secret=True),
    "webhook_mode": Trusted(
        label="How it proves its webhooks", takes=lambda value: value == Seller.WebhookMode.NONE
    ),
    "jwks_url": Trusted(label="Where its keys are"),
    "allow_private": Trusted(label="Private address allowed"),
    "contact_email": Trusted(label="Contact"),
    "status_tool": Trusted(label="Status tool"),
}
ACCOUNT_TRUST: dict[str, Trusted] = {
    "reference": Trusted(label="What the seller calls it", takes=_never),
    "status": Trusted(label="Status", takes=lambda value: value != Account.Status.ACTIVE),
    "setup_url": Trusted(label="Where it is set up"),
    "billing_party": Trusted(label="Billed to", takes=_never),
    "payment_terms": Trusted(label="Payment terms", takes=_never),
}
# Changed by one person, recorded: they decide how a seller is handled, not whom we believe.
SELLER_HANDLING = frozenset(
    {
        "slots",
        "account_in_reads",
        "timing",
        "business_hours",
        "idempotency_risk_accepted_by",
        "idempotency_risk_accepted_at",
    }
)
# What the seller said of itself over the trusted wire; no person writes it.
SELLER_HEARD = frozenset(
    {
        "capabilities",
        "capabilities_at",
        "capabilities_next_at",
        "adcp_version",
        "tools",
        "idempotency_ttl_s",
        "quirks",
        "read_refusal",
    }
)
# Made by ourselves and chosen by nobody: `webhook_secret_rotate`.
SELLER_ROTATED = frozenset({"webhook_secret", "webhook_secret_previous", "webhook_secret_previous_until"})
# Never changed by a person: who it is, and what the sweep keeps.
SELLER_FIXED = frozenset(
    {"id", "slug", "created_at", "webhook_paused_until", "webhook_judged_since", "webhook_checked_at"}
)
ACCOUNT_HEARD = frozenset(
    {"said", "refused_reference", "status_since", "read_at", "next_read_at", "asked_at"}
)
# `switched_off_by` follows the status that a person sets, `people_said_at` whatever a person sets.
ACCOUNT_FIXED = frozenset(
    {"id", "advertiser", "seller", "requested_by", "created_at", "switched_off_by", "people_said_at"}
)


def trusted_of(row: Row) -> dict[str, Trusted]:
    """The columns of a row that decide whom we believe."""
    return SELLER_TRUST if isinstance(row, Seller) else ACCOUNT_TRUST


def all_columns(model: type[models.Model]) -> set[str]:
    """Names of a model's own columns."""
    return {field.name for field in model._meta.concrete_fields}
