"""The key pair that signs anchors (ed25519), in files: made once, never in the database."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings


class KeyFileError(Exception):
    """A key's file holds no key of ours, or others may read it. The text says why, never what is in it."""


def key_path() -> Path:
    """Where the private key is kept (settings.ANCHOR_KEY); its public half lies beside it, as `….pub`."""
    return Path(settings.ANCHOR_KEY)


def public_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.pub")


def fingerprint(key: Ed25519PublicKey) -> str:
    """What people compare two keys by: hex of the SHA-256 of the 32 raw bytes."""
    return sha256(key.public_bytes_raw()).hexdigest()


def private_key(path: Path) -> Ed25519PrivateKey:
    """The key in `path`, made there on first use (0600); its public half is put beside it where it lacks.
    Raises KeyFileError, OSError."""
    try:
        key = _read_private(path)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        key = _made(path)
    if not public_path(path).exists():
        public_path(path).write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    return key


def _made(path: Path) -> Ed25519PrivateKey:
    key = Ed25519PrivateKey.generate()
    try:
        with open(path, "xb", opener=_private) as file:
            file.write(
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                )
            )
    except FileExistsError:  # another process was faster
        return _read_private(path)
    return key


def public_key(path: Path) -> Ed25519PublicKey:
    """The public key in a PEM file. Raises KeyFileError, OSError."""
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (ValueError, UnsupportedAlgorithm):
        raise KeyFileError(f"{path} holds no public key") from None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError(f"{path} holds no ed25519 key")
    return key


def _read_private(path: Path) -> Ed25519PrivateKey:
    data = path.read_bytes()
    if path.stat().st_mode & 0o077:
        raise KeyFileError(f"{path} may be read by others: chmod 600 it, and ask who did")
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFileError(f"{path} holds no private key") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path} holds no ed25519 key")
    return key


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
