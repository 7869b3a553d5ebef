"""The webhooks of the fake seller: stored with the change that they announce, signed, sent until accepted.

How a script announces the end of a task (`webhooks`):

| value              | webhooks                                                        |
|--------------------|-----------------------------------------------------------------|
| `none`             | none                                                            |
| `once`             | the end                                                         |
| `twice`            | the end, two copies at the same time                            |
| `reordered`        | the end, then an older "working"                                |
| `then_rejected`    | the end, then "rejected"                                        |
| `first_rejected`   | "rejected", then the end                                        |
| `then_another_buy` | the end, then the end with another media buy                    |

Faults of an attempt (`webhook_faults`): `bad_signature`, `cut` (half of the body), `not_json`. Sources of the
signatures: AdCP L1/security, "Webhook callbacks" and "Legacy HMAC-SHA256".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import sqlite3
import threading
import time
import uuid
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from tests.fake_seller.books import Books, Json, dump, timestamp

_GAP_S = 1.5  # between the first webhook and the one that contradicts it
_TIMEOUT_S = 10
_RETRY_S = (0.5, 1, 2, 4)
_AT_ONCE = 16
_KEY_ID = "fake-seller-1"
_WRONG_HMAC = {"X-AdCP-Signature": f"sha256={'0' * 64}"}
_WRONG_RFC9421 = {"Signature": f"sig1=:{'A' * 86}:"}
_COVERED = '("@method" "@target-uri" "@authority" "content-type" "content-digest")'


def add_announcement(
    db: sqlite3.Connection, script: Json, push: Json | None, task_id: str, end: Json
) -> None:
    """Store the webhooks about the end of a task."""
    kind = script["webhooks"]
    if push is None or kind == "none":
        return
    now = time.time()
    right = _body(push, task_id, script["end"], end, at=now)
    rejected = _body(push, task_id, "rejected", {"reason": "We changed our mind."}, at=now)
    other_buy = {**end, "media_buy_id": f"fake-mb-{uuid.uuid4().hex[:10]}"}
    bodies = {
        "reordered": (right, _body(push, task_id, "working", {"percentage": 50}, at=now - _GAP_S)),
        "then_rejected": (right, rejected),
        "first_rejected": (rejected, right),
        "then_another_buy": (right, _body(push, task_id, script["end"], other_buy, at=now)),
    }.get(kind, (right,))
    for position, body in enumerate(bodies):
        faults = script["webhook_faults"] if position == 0 else []
        copies = 2 if kind == "twice" else 1
        _add(db, push, body, due_at=now + position * _GAP_S, copies=copies, faults=faults)


def add_progress(db: sqlite3.Connection, script: Json, push: Json | None, task_id: str) -> None:
    """Store a webhook that says "working"."""
    if push is not None and script["webhooks"] != "none":
        now = time.time()
        _add(db, push, _body(push, task_id, "working", {"percentage": 10}, at=now), due_at=now)


def send_due_webhooks(books: Books) -> None:
    """Start one attempt for each webhook that is due, in a thread per copy."""
    query = "select * from webhooks where due_at <= ? order by due_at limit ?"
    for row in books.rows(query, time.time(), _AT_ONCE):
        retry_at = time.time() + _TIMEOUT_S + _retry_s(row)
        statement = "update webhooks set attempts = attempts + 1, due_at = ? where id = ?"
        books.execute(statement, retry_at, row["id"])
        for copy in range(row["copies"]):
            threading.Thread(target=_attempt, args=(books, row, copy == 0), daemon=True).start()


@cache
def public_keys() -> Json:
    """Return the JWKS of the seller. Needs the package cryptography."""
    key = {
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": "EdDSA",
        "use": "sig",
        "key_ops": ["verify"],
        "adcp_use": "request-signing",
        "kid": _KEY_ID,
        "x": _unpadded(_private_key().public_key().public_bytes_raw()),
    }
    return {"keys": [key]}


@cache
def _private_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"the key of the fake seller").digest())


def _body(push: Json, task_id: str, status: str, result: Json, *, at: float) -> Json:
    body = {
        "idempotency_key": f"whk-{uuid.uuid4()}",
        "task_id": task_id,
        "task_type": "create_media_buy",
        "protocol": "media-buy",
        "status": status,
        "timestamp": timestamp(at),
        "message": "News of your order.",
        "token": push.get("token"),
        "result": result,
    }
    if task_id[-1] in "0123456789":  # a seller of AdCP 3.0 does not echo it: send both kinds
        body["operation_id"] = push.get("operation_id")
    if status != "working":
        body["notification_id"] = f"{task_id}:{status}"
    return body


def _add(
    db: sqlite3.Connection, push: Json, body: Json, *, due_at: float, copies: int = 1, faults: Any = ()
) -> None:
    secret = (push.get("authentication") or {}).get("credentials")
    db.execute(
        "insert into webhooks (url, secret, body, copies, faults, due_at) values (?, ?, ?, ?, ?, ?)",
        (push["url"], secret, dump(body), copies, dump([*faults]), due_at),
    )


def _retry_s(row: sqlite3.Row) -> float:
    return _RETRY_S[min(row["attempts"], len(_RETRY_S) - 1)]


def _attempt(books: Books, row: sqlite3.Row, is_first_copy: bool) -> None:
    right, faults, attempt = row["body"].encode(), json.loads(row["faults"]), row["attempts"]
    fault = faults[attempt] if attempt < len(faults) else ""
    sent = {"cut": right[: len(right) // 2], "not_json": b"<html>gateway</html>"}.get(fault, right)
    signed = right if fault == "cut" else sent
    headers = {"Content-Type": "application/json"}
    if row["secret"]:
        headers |= _hmac_headers(signed, row["secret"]) | (_WRONG_HMAC if fault == "bad_signature" else {})
    else:
        headers |= _rfc9421_headers(signed, row["url"]) | (_WRONG_RFC9421 if fault == "bad_signature" else {})
    status = _post(row["url"], sent, headers)
    if is_first_copy:
        is_over = 200 <= status < 300 or status == 409  # AdCP L3/webhooks: a sender stops after 409
        due_at = None if is_over else time.time() + _retry_s(row)
        books.execute("update webhooks set due_at = ?, answer = ? where id = ?", due_at, status, row["id"])


def _post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """Return the HTTP status of the answer, 0 without one."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        connection.request("POST", parts.path, body, headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _hmac_headers(body: bytes, secret: str) -> dict[str, str]:
    now = str(int(time.time()))
    digest = hmac.new(secret.encode(), now.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {"X-AdCP-Signature": f"sha256={digest}", "X-AdCP-Timestamp": now}


def _rfc9421_headers(body: bytes, url: str) -> dict[str, str]:
    now = int(time.time())
    digest = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
    params = (
        f'{_COVERED};created={now};expires={now + 300};nonce="{_unpadded(uuid.uuid4().bytes)}"'
        f';keyid="{_KEY_ID}";alg="ed25519";tag="adcp/webhook-signing/v1"'
    )
    base = (
        '"@method": POST',
        f'"@target-uri": {url}',
        f'"@authority": {urlsplit(url).netloc}',
        '"content-type": application/json',
        f'"content-digest": {digest}',
        f'"@signature-params": {params}',
    )
    signature = _unpadded(_private_key().sign("\n".join(base).encode()))
    return {
        "Content-Digest": digest,
        "Signature-Input": f"sig1={params}",
        "Signature": f"sig1=:{signature}:",
    }


def _unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
