"""`@target-uri` and `@authority` in the canonical form that both sides of a signature use.

Source: AdCP reference/url-canonicalization (RFC 3986 6.2.2 and 6.2.3, UTS-46 hosts), L1/security.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit, urlunsplit

import idna

_DEFAULT_PORTS = {"https": 443, "http": 80}
_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class UrlError(ValueError):
    """A URL or authority that has no canonical form."""


def canonical_uri(url: str) -> str:
    """The canonical absolute URI of a request, without its fragment; raises UrlError."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UrlError("the URL cannot be read") from error
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        raise UrlError("the URL is neither https nor http")
    authority = canonical_authority(parts.netloc.rpartition("@")[2], scheme)
    path = _remove_dot_segments(_normal_percent(parts.path)) or "/"
    rebuilt = urlunsplit((scheme, authority, path, _normal_percent(parts.query), ""))
    # An empty query is not the same as none: RFC 3986 keeps the question mark.
    bare = url.partition("#")[0]
    return rebuilt + "?" if bare.endswith("?") and not parts.query else rebuilt


def canonical_authority(authority: str, scheme: str = "https") -> str:
    """`host[:port]`: lower case, IDN in its ASCII form, one trailing dot and the scheme's own port gone."""
    host, port = _split(authority)
    canonical = _canonical_ipv6(host) if host.startswith("[") else _canonical_name(host)
    return canonical if port in (None, _DEFAULT_PORTS.get(scheme)) else f"{canonical}:{port}"


def _split(authority: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]+)(?::([0-9]*))?", authority)
    if found is None:
        raise UrlError("the authority is malformed")
    port = int(found.group(2)[:6]) if found.group(2) else None
    if port is not None and port > 65535:
        raise UrlError("the port is out of range")
    return found.group(1), port


def _canonical_ipv6(host: str) -> str:
    try:
        if "%" in host:
            raise UrlError("an address with a zone is not allowed")
        return f"[{ipaddress.IPv6Address(host[1:-1]).compressed}]"
    except ipaddress.AddressValueError as error:
        raise UrlError("the address is malformed") from error


def _canonical_name(host: str) -> str:
    name = host.removesuffix(".")
    if not name or name.endswith(".") or ".." in name or name.startswith("."):
        raise UrlError("the host is malformed")
    if name.isascii():
        if not re.fullmatch(r"[A-Za-z0-9._~!$&'()*+,;=%-]+", name):
            raise UrlError("the host is malformed")
        return name.lower()
    try:
        return idna.encode(name, uts46=True, transitional=False).decode("ascii").lower()
    except idna.IDNAError as error:
        raise UrlError("the host is malformed") from error


def _normal_percent(text: str) -> str:
    """Escapes in upper case, and none where none is needed; nothing else is changed."""

    def normal(match: re.Match[str]) -> str:
        character = chr(int(match.group(1), 16))
        return character if character in _UNRESERVED else match.group().upper()

    return _PERCENT.sub(normal, text)


def _remove_dot_segments(path: str) -> str:
    kept: list[str] = []
    segments = path.split("/")
    for position, segment in enumerate(segments):
        last = position == len(segments) - 1
        if segment == ".":
            if last:
                kept.append("")
        elif segment == "..":
            if len(kept) > 1:
                kept.pop()
            if last:
                kept.append("")
        else:
            kept.append(segment)
    return "/".join(kept)
