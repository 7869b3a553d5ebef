"""The token that we give a seller with each purchase and that its webhooks echo."""

from __future__ import annotations

import base64
import uuid

from django.utils.crypto import salted_hmac


def webhook_token_of(operation_id: uuid.UUID) -> str:
    """43 characters that only who has SECRET_KEY can make of the id: a token echoed beside the id is checked
    without reading the operation. It is stored too: with another SECRET_KEY the stored one still counts."""
    mac = salted_hmac("flightdeck.webhook_token", str(operation_id), algorithm="sha256")
    return base64.urlsafe_b64encode(mac.digest()).rstrip(b"=").decode()
