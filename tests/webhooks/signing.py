"""What a seller does to a webhook: build it, sign it in either way, send it."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import requests
from cryptography.hazmat.primitives.asymmetric import ed25519

from tasks_app.adcp.signatures import hmac_sha256, rfc9421
from tasks_app.adcp.signatures.structured_fields import parse_signature_input
from tests.adcp.raw_server import Request, Script, response
from tests.support import PATIENCE_S

KEY = ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a seller's key in tests").digest())


def b64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def jwks(*kids: str) -> str:
    """The key set a seller publishes, its one key under every name."""
    key = {
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": "EdDSA",
        "use": "sig",
        "key_ops": ["verify"],
        "adcp_use": "request-signing",
        "x": b64url(KEY.public_key().public_bytes_raw()),
    }
    return json.dumps({"keys": [{**key, "kid": kid} for kid in kids]})


def revocations(
    issuer: str,
    *revoked: str,
    kid: str = "k1",
    updated: datetime | None = None,
    lasts: timedelta = timedelta(minutes=10),
    **header: str,
) -> str:
    """A seller's signed list of revoked keys (JWS, general JSON form)."""
    made = updated or datetime.now(UTC)
    told = {
        "version": 1,
        "issuer": issuer,
        "updated": made.isoformat(),
        "next_update": (made + lasts).isoformat(),
        "revoked_kids": list(revoked),
    }
    head = {"kid": kid, "alg": "EdDSA", "typ": "adcp-gov-revocation+jws", **header}
    protected, body = (b64url(json.dumps(part).encode()) for part in (head, told))
    signature = b64url(KEY.sign(f"{protected}.{body}".encode()))
    return json.dumps({"payload": body, "signatures": [{"protected": protected, "signature": signature}]})


def publishing(keys: str, revoked: str | None = None) -> Script:
    """What a seller's operator serves: its keys, and its list of revoked ones where it has one."""

    def answer(request: Request, connection: socket.socket) -> None:
        if request.path.endswith("/governance-revocations.json"):
            answered = response(revoked) if revoked else response("{}", status="404 Not Found")
        else:
            answered = response(keys)
        connection.sendall(answered)

    return answer


def payload(status: str = "completed", **told: Any) -> dict[str, Any]:
    """A webhook's body; None leaves a field out."""
    body = {
        "idempotency_key": f"whk-{uuid.uuid4()}",
        "task_id": "task-1",
        "task_type": "create_media_buy",
        "protocol": "media-buy",
        "status": status,
        "timestamp": datetime.now(UTC).isoformat(),
        "result": {"media_buy_id": "mb-1", "packages": []} if status == "completed" else None,
        **told,
    }
    return {name: value for name, value in body.items() if value is not None}


def as_bytes(body: dict[str, Any] | bytes) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()


def hmac(body: dict[str, Any] | bytes, secret: str, *, at: float | None = None) -> dict[str, str]:
    """Headers; made by hand where our own signer refuses the body."""
    raw, stamp = as_bytes(body), str(int(at if at is not None else time.time()))
    return {
        hmac_sha256.SIGNATURE_HEADER: hmac_sha256._signature(secret, stamp, raw),
        hmac_sha256.TIMESTAMP_HEADER: stamp,
    }


def rfc(url: str, body: dict[str, Any] | bytes, *, key_id: str = "k1", **params: Any) -> dict[str, str]:
    """Headers; `params` replace the signature's own."""
    raw, now = as_bytes(body), int(time.time())
    values = {
        "created": now,
        "expires": now + 300,
        "nonce": b64url(uuid.uuid4().bytes),
        "keyid": key_id,
        "alg": "ed25519",
        "tag": rfc9421.TAG,
        **params,
    }
    written = "".join(
        f";{name}={value}" if isinstance(value, int) else f';{name}="{value}"'
        for name, value in values.items()
    )
    covered = f'("@method" "@target-uri" "@authority" "content-type" "content-digest"){written}'
    headers = {
        "content-type": "application/json",
        "content-digest": f"sha-256=:{base64.b64encode(hashlib.sha256(raw).digest()).decode()}:",
        "signature-input": f"sig1={covered}",
    }
    signed = parse_signature_input(headers["signature-input"])["sig1"]
    base = rfc9421.signature_base("POST", url, headers, signed)
    return {**headers, "signature": f"sig1=:{b64url(KEY.sign(base))}:"}


def post(
    url: str, body: dict[str, Any] | bytes, headers: dict[str, str], *, kind: str = "application/json"
) -> requests.Response:
    return requests.post(
        url, data=as_bytes(body), headers={"Content-Type": kind, **headers}, timeout=PATIENCE_S
    )
