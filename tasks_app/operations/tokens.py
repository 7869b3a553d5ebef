"""The token that we give a seller with each purchase and that its webhooks echo; it is shown to nobody."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import Any

from django.utils.crypto import salted_hmac

HIDDEN = "(hidden)"


def webhook_token_of(operation_id: uuid.UUID) -> str:
    """43 characters that only who has SECRET_KEY can make of the id: a token echoed beside the id is checked
    without reading the operation. It is stored too: with another SECRET_KEY the stored one still counts."""
    mac = salted_hmac("flightdeck.webhook_token", str(operation_id), algorithm="sha256")
    return base64.urlsafe_b64encode(mac.digest()).rstrip(b"=").decode()


def for_eyes(sent: Mapping[str, Any]) -> dict[str, Any]:
    """A request without our webhook credentials."""
    shown = dict(sent)
    config = shown.get("push_notification_config")
    if config:
        config = {**config, "token": HIDDEN}
        if "authentication" in config:
            config["authentication"] = {**config["authentication"], "credentials": HIDDEN}
        shown["push_notification_config"] = config
    return shown
