"""Webhooks: written to the books with the change they tell of, then delivered until the receiver takes them.

Source: AdCP L3/webhooks; the `adcp` package writes the body and signs it (RFC 9421 with the seller's
Ed25519 key, or the legacy HMAC with the credentials of `push_notification_config.authentication`).
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from adcp.webhook_sender import PreparedWebhook, WebhookSender

from demo.sellers.books import Books
from demo.sellers.catalogue import House
from demo.sellers.refusal import refuse

#: Seconds before the next attempt; afterwards the delivery is given up and only polling tells.
_BACKOFF = (1, 2, 5, 10, 30, 60, 120, 300)


class Post:
    """One seller's outgoing post. `signing_key`: PEM of the RFC 9421 key, None for a seller without one."""

    def __init__(self, house: House, books: Books, *, signing_key: bytes | None, key_id: str) -> None:
        self._house = house
        self._books = books
        self._key_id = key_id
        # A buyer's receiver on this machine is a private address: the package refuses those unless told.
        self._signer = (
            WebhookSender.from_pem(signing_key, key_id=key_id, allow_private_destinations=True)
            if signing_key
            else None
        )

    def subscription(self, config: dict[str, Any] | None) -> dict[str, Any] | None:
        """What to keep of a `push_notification_config`; None when this task is only polled.

        Raises:
            AdcpError: the seller cannot sign as asked.
        """
        if config is None or self._house.webhooks == "none":
            return None
        authentication = config.get("authentication")
        if authentication and authentication["schemes"] != ["HMAC-SHA256"]:
            raise refuse("UNSUPPORTED_FEATURE", "Webhooks are signed, never sent with a bearer token.")
        if not authentication and self._signer is None:
            raise refuse(
                "INVALID_REQUEST",
                "This seller signs webhooks with HMAC-SHA256 and needs the shared secret.",
                field="push_notification_config.authentication",
            )
        if not config.get("operation_id"):
            raise refuse(
                "INVALID_REQUEST", "operation_id is missing.", field="push_notification_config.operation_id"
            )
        return {
            "url": config["url"],
            "operation_id": config["operation_id"],
            "token": config.get("token"),
            "secret": authentication["credentials"] if authentication else None,
        }

    def announce(self, task: dict[str, Any]) -> None:
        """Put a webhook about the task's present state into the books, in the caller's transaction."""
        push = task.get("push")
        if not push:
            return
        prepared = WebhookSender.prepare_mcp(
            url=push["url"],
            task_id=task["task_id"],
            task_type=task["task_type"],
            status=task["status"],
            protocol="media-buy",
            operation_id=push["operation_id"],
            notification_id=f"{task['task_id']}:{task['status']}" if "completed_at" in task else None,
            message=task["message"],
            token=push["token"],
            result=task.get("result") or task.get("progress"),
        )
        self._books.add_delivery(
            url=prepared.url,
            key=prepared.idempotency_key,
            body=prepared.body,
            secret=push["secret"],
            due_at=time.time(),
        )

    async def deliver_due(self) -> int:
        """One attempt for every delivery that is due, side by side; how many were tried."""
        due = self._books.due_deliveries(time.time())
        outcomes = await asyncio.gather(*(self._attempt(row) for row in due))
        for row, outcome in zip(due, outcomes, strict=True):
            attempts = row["attempts"]
            again = (
                None
                if outcome == "delivered" or attempts >= len(_BACKOFF)
                else time.time() + _BACKOFF[attempts]
            )
            self._books.settle_delivery(row["number"], outcome=outcome, due_at=again)
        return len(due)

    async def _attempt(self, row: Any) -> str:
        sender = self._sender(row["secret"])
        if sender is None:
            return "no key to sign with"
        prepared = PreparedWebhook(url=row["url"], idempotency_key=row["idempotency_key"], body=row["body"])
        try:
            result = await sender.send_prepared(prepared)
        except Exception as failure:  # whatever a receiver's address leads to, the others have their post
            return type(failure).__name__
        return "delivered" if result.ok else f"HTTP {result.status_code}"

    def _sender(self, secret: str | None) -> WebhookSender | None:
        if secret is None:
            return self._signer
        return WebhookSender.from_adcp_legacy_hmac(
            secret.encode(), key_id=self._key_id, allow_private_destinations=True
        )
