"""Webhook deliveries in words."""

from __future__ import annotations

from tasks_app.webhooks.models import WebhookDelivery

V = WebhookDelivery.Verdict
# Verdict to glyph and word.
VERDICTS: dict[WebhookDelivery.Verdict, tuple[str, str]] = {
    V.RECEIVED: ("waiting", "Received"),
    V.APPLIED: ("done", "Applied"),
    V.DUPLICATE: ("waiting", "Duplicate"),
    V.EARLY: ("seller", "Early, kept"),
    V.CONFLICT: ("conflict", "Conflict"),
    V.KEY_CONFLICT: ("conflict", "Key used twice"),
    V.REFUSED: ("failed", "Refused"),
}


def verified_words(delivery: WebhookDelivery) -> str:
    """By which key its sender was proven."""
    if delivery.verdict == V.REFUSED:
        return "not verified"
    return f"key {delivery.key_id}" if delivery.key_id else "shared secret"
