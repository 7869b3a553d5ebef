"""Which URLs belong to one owner: the registrable domain (eTLD+1), by the Public Suffix List.

The list is the snapshot that the pinned library brings, ICANN and private sections (pages.dev and the like
are suffixes); nothing is fetched. Source: AdCP L1/security "Discovering an agent's signing keys via
`brand_json_url`", step 3.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import idna
from publicsuffixlist import PublicSuffixList


def registrable_domain(url: str) -> str | None:
    """The eTLD+1 of a URL's host, lower case, as A-labels; an address or a name of one label is its own. None
    for what has none: no host, or a public suffix itself."""
    host = _host(url)
    if not host:
        return None
    if "." not in host or _is_address(host):
        return host
    return _list().privatesuffix(host)


def belongs_together(agent_url: str, brand_json_url: str, brand: Mapping[str, Any]) -> bool:
    """Whether a brand.json speaks for an agent: of the same registrable domain, or it names the agent's among
    its `authorized_operators`."""
    agent = registrable_domain(agent_url)
    if agent is None:
        return False
    return agent == registrable_domain(brand_json_url) or agent in _operators(brand)


def same_origin(url: str, origin: str) -> bool:
    """Whether a URL is of an origin: scheme, host and port."""
    return _origin(url) is not None and _origin(url) == _origin(origin)


def key_origin(capabilities: Mapping[str, Any]) -> str | None:
    """The origin at which a seller says that its keys for signing webhooks are (get_adcp_capabilities,
    identity.key_origins); None where it does not say."""
    identity = capabilities.get("identity")
    origins = identity.get("key_origins") if isinstance(identity, Mapping) else None
    told = origins.get("webhook_signing") if isinstance(origins, Mapping) else None
    return told if isinstance(told, str) else None


def _origin(url: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    return (parts.scheme, _host(url), port) if _host(url) else None


def _operators(brand: Mapping[str, Any]) -> Iterator[str]:
    listed = brand.get("authorized_operators")
    for one in listed if isinstance(listed, list) else ():
        domain = one.get("domain") if isinstance(one, dict) else None
        if isinstance(domain, str):
            yield _canonical(domain)


def _host(url: str) -> str:
    try:
        return _canonical(urlsplit(url).hostname or "")
    except ValueError:
        return ""


def _canonical(host: str) -> str:
    """Lower case, A-labels; "" for what is no name."""
    host = host.rstrip(".").lower()
    if host.isascii():
        return host
    try:
        return idna.encode(host, uts46=True).decode()
    except idna.IDNAError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1)
def _list() -> PublicSuffixList:
    """Read when it is first asked: registering a seller is seldom."""
    return PublicSuffixList()
