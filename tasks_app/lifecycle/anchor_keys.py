"""The key pair that signs anchors (ed25519), in files: made once, never in the database."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings

from tasks_app.kept_files import file_made_once


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
    if not path.exists():
        file_made_once(path, _new())
    key = _read_private(path)
    if not public_path(path).exists():
        file_made_once(public_path(path), _public_pem(key), mode=0o644)
    return key


def signing_key(path: Path) -> Ed25519PrivateKey:
    """The private key of whose signatures the public half beside it is to tell. Raises KeyFileError, also
    where another's lies there, OSError."""
    key = private_key(path)
    if public_key(public_path(path)) != key.public_key():
        raise KeyFileError(f"{public_path(path)} is not the public half of {path}")
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


def _new() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public_pem(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
