"""What the environment may say: one reader for each kind of value, which refuses at the start what cannot be
meant."""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from tasks_app.kept_files import file_made_once

env = environ.Env()
_YES, _NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})
# The most that a span may be, by the unit at the end of its name (else seconds): a hundred years.
_LONGEST = {"DAYS": 36_500, "HOURS": 876_000, "H": 876_000}
_LONGEST_S = 3_000_000_000
_MOST = 10**9
_SECRET_CHARS = 32  # what a key has at least, so that nobody guesses it


def listed(name: str, default: Sequence[str] = (), *, known: Collection[str] | None = None) -> list[str]:
    """The words of a list, between commas and any spaces. Raises ImproperlyConfigured for one that is not
    `known`, where that is given."""
    words = [word.strip() for word in env.list(name, default=list(default))]
    found = [word for word in words if word]
    unknown = [word for word in found if known is not None and word not in known]
    if unknown:
        raise ImproperlyConfigured(
            f"{name} names {', '.join(unknown)}; known are {', '.join(sorted(known or ()))}"
        )
    return found


def yes_no(name: str, default: bool) -> bool:
    """Whether it is 1 (true, yes, on) or 0 (false, no, off). Raises ImproperlyConfigured for another word."""
    told = env.str(name, "1" if default else "0").strip().lower()
    if told not in _YES | _NO:
        raise ImproperlyConfigured(f"{name} is 1 or 0, got {told!r}")
    return told in _YES


def positive(name: str, default: float, *, most: float | None = None) -> float:
    """A number above 0, at most `most`, and no longer than a hundred years. Raises ImproperlyConfigured."""
    value, most = _number(name, default), most or _LONGEST.get(name.rpartition("_")[2], _LONGEST_S)
    if not 0 < value <= most:
        raise ImproperlyConfigured(f"{name} must be above 0 and at most {most:,}, got {value:g}")
    return value


def count(name: str, default: int, *, least: int = 1, most: int = _MOST) -> int:
    """A whole number from `least` to `most`. Raises ImproperlyConfigured."""
    value = _number(name, default)
    if not least <= value <= most or not value.is_integer():
        raise ImproperlyConfigured(f"{name} must be a whole number from {least} to {most:,}, got {value:g}")
    return int(value)


def web_address(name: str, default: str) -> str:
    """An address of the web, without the slash at its end. Raises ImproperlyConfigured."""
    told = env.str(name, default).strip().rstrip("/")
    try:
        parts = urlsplit(told)
        readable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        readable = False
    if "@" in told:  # pages and logs show addresses
        raise ImproperlyConfigured(f"{name} must be an address without a user name or password")
    if not readable:
        raise ImproperlyConfigured(
            f"{name} must be an address such as https://desk.example.com, got {told!r}"
        )
    return told


def secret(name: str) -> tuple[str, list[str]]:
    """A key, without spaces around it, empty where none is given; and the same with them, which what was
    made by an earlier version is under. Raises ImproperlyConfigured for one that can be guessed."""
    told = env.str(name, "")
    key = _unguessable(name, told.strip())
    return key, [told] if key and told != key else []


def earlier_secrets(name: str) -> list[str]:
    """The keys of before, between commas, and the whole as it stands: one of them may hold a comma, or spaces
    around it. Commas and spaces alone are no key."""
    told, keys = env.str(name, ""), listed(name)
    return list(dict.fromkeys([*keys, told])) if keys else []


def key_ring(name: str) -> list[str]:
    """The keys of a list, between commas: the first is used from now on, and the others only read what was
    made by them. Raises ImproperlyConfigured for a first that can be guessed."""
    keys = listed(name)
    return [_unguessable(name, keys[0]), *keys[1:]] if keys else []


def _unguessable(name: str, key: str) -> str:
    if key and len(key) < _SECRET_CHARS:
        raise ImproperlyConfigured(
            f"{name}: a key has at least {_SECRET_CHARS} characters. Put a new one in its place; what the "
            "one before made is read as long as that is kept beside it (docs/operating.md)"
        )
    return key


def kept_secret(path: Path) -> str:
    """A random secret kept in a file (0600), made whole on first use: of processes that race all read the
    same. Raises ImproperlyConfigured for a file without one, or with one that is short."""
    if not path.exists():
        file_made_once(path, secrets.token_urlsafe(48).encode())
    kept = path.read_text().strip()
    if not kept:
        raise ImproperlyConfigured(f"{path} is empty: put the secret back, or delete the file for a new one")
    return _unguessable(str(path), kept)


def _number(name: str, default: float) -> float:
    told = env.str(name, str(default))
    try:
        value = float(told)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ImproperlyConfigured(f"{name} must be a number, got {told!r}")
    return value
