"""What a seller makes once and keeps in its folder: bearer token, port, webhook-signing key."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from demo.ports import bindable, free_port

HOST = "127.0.0.1"


def keep_secret(path: Path, content: bytes) -> None:
    """Write a file only its owner can read, whole or not at all."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    draft.replace(path)


def token(folder: Path) -> str:
    """The bearer token buyers present, in `token`."""
    path = folder / "token"
    if not path.exists():
        keep_secret(path, secrets.token_urlsafe(32).encode())
    return path.read_text().strip()


def port(folder: Path) -> int:
    """The seller's port, in `port`: the one of last time, or a free one when that is taken."""
    path = folder / "port"
    known = int(path.read_text()) if path.exists() else 0
    if not known or not bindable(known):
        known = free_port()
        path.write_text(f"{known}\n")
    return known


def signing_key(folder: Path, *, kid: str) -> tuple[bytes, dict[str, Any]]:
    """The Ed25519 key for RFC 9421 webhooks, in `webhook-key.pem`: PEM and public JWK."""
    from adcp.signing import generate_signing_keypair, pem_to_adcp_jwk

    path = folder / "webhook-key.pem"
    if not path.exists():
        pem, _ = generate_signing_keypair(alg="ed25519", kid=kid, purpose="webhook-signing")
        keep_secret(path, pem)
    pem = path.read_bytes()
    return pem, pem_to_adcp_jwk(pem, kid=kid, purpose="webhook-signing")
