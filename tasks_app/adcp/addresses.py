"""Which network addresses we connect to when somebody else chose the name.

Source: AdCP L1/security "Webhook URL validation (SSRF)", steps 1 to 3.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import urlsplit

import anyio

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# Ranges that carry an IPv4 address inside an IPv6 one: the usual way around a check of the outer address.
_CARRIERS = tuple(
    ipaddress.ip_network(block)
    for block in ("::ffff:0:0/96", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")
)
_CGNAT = ipaddress.ip_network("100.64.0.0/10")
_PRIVATE = tuple(
    ipaddress.ip_network(block)
    for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "127.0.0.0/8", "::1/128")
)
_LOOPBACK = ("127.0.0.0/8", "::1/128")
_permitted = tuple(ipaddress.ip_network(block) for block in _LOOPBACK)
# Instance metadata of a cloud inside the unique-local range; IPv4's twin is link-local and refused anyway.
_METADATA_V6 = ipaddress.ip_address("fd00:ec2::254")
MAX_ADDRESSES = 4

# Host and port to the text of its addresses; fails with OSError.
Resolver = Callable[[str, int], Awaitable[list[str]]]


class AddressError(Exception):
    """The address of a URL is one we do not connect to; the text names the rule, not what was resolved.

    `remedy` is what would allow it: "https", "allow_private", "network" (FLIGHTDECK_PRIVATE_NETWORKS), or
    empty if nothing would.
    """

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy


class NameNotFoundError(Exception):
    """The host's name does not resolve."""


def is_public(address: IPAddress) -> bool:
    """Whether an address lies on the public internet: global unicast, and no carrier of another address."""
    if any(address in block for block in _CARRIERS if block.version == address.version):
        return False
    if address.version == 4 and address in _CGNAT:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def private_networks_set(networks: Iterable[str]) -> None:
    """Which private networks sellers may live on, where an administrator allowed one a private address; in
    CIDR notation. Raises ValueError for one that is not private or loopback (then nothing is changed)."""
    global _permitted
    _permitted = tuple(_private_network(network) for network in networks)


def _private_network(network: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    block = ipaddress.ip_network(network)
    for private in _PRIVATE:
        if block.version == private.version and private.supernet_of(block):  # type: ignore[arg-type]
            return block
    raise ValueError(f"{network} is no private network")


def is_permitted(address: IPAddress, *, allow_private: bool) -> bool:
    """Whether we connect to `address`. Private and loopback ones only where an administrator allowed it and
    the network is listed; link-local (cloud metadata), multicast and unspecified ones never."""
    if is_public(address):
        return True
    if not allow_private or address == _METADATA_V6:
        return False
    return any(address in block for block in _permitted if block.version == address.version)


def check_url(url: str, *, allow_private: bool) -> tuple[str, int]:
    """Host and port of `url`; raises AddressError unless it is https (http where private is allowed) without
    credentials in it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise AddressError("the URL cannot be read") from error
    if parts.scheme not in ("https", "http"):
        raise AddressError("the URL is neither https nor http")
    if parts.scheme == "http" and not allow_private:
        raise AddressError("the URL is not https, and this seller has no leave for plain http", "https")
    if parts.username is not None or parts.password is not None:
        raise AddressError("the URL holds credentials")
    if not host or "%" in host:
        raise AddressError("the URL names no host")
    return host, port or (443 if parts.scheme == "https" else 80)


async def system_resolver(host: str, port: int) -> list[str]:
    """The addresses of a host by the system's own resolver; raises OSError or UnicodeError."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]).partition("%")[0] for entry in found]


async def resolve(
    host: str, port: int, *, allow_private: bool, resolver: Resolver = system_resolver
) -> list[str]:
    """The addresses of a host, in the resolver's order, at most four; each was checked.

    One forbidden address among them refuses the name: a host of a seller has no business with such a
    neighbour. Raises AddressError or NameNotFoundError.
    """
    try:
        addresses = list(dict.fromkeys(await resolver(host, port)))
    except (OSError, UnicodeError) as error:
        raise NameNotFoundError(f"the name {host} does not resolve") from error
    if not addresses:
        raise NameNotFoundError(f"the name {host} does not resolve")
    for address in addresses:
        found = ipaddress.ip_address(address)
        if not is_permitted(found, allow_private=allow_private):
            raise _refusal(found, allow_private=allow_private)
    return addresses[:MAX_ADDRESSES]


def _refusal(address: IPAddress, *, allow_private: bool) -> AddressError:
    private = any(address in block for block in _PRIVATE if block.version == address.version)
    if not private or address == _METADATA_V6:
        return AddressError("the host's address is reserved: nobody is ever called there")
    if not allow_private:
        text = "the host's address is private, and this seller has no leave for a private address"
        return AddressError(text, "allow_private")
    text = "the host's address is private and in none of the networks of FLIGHTDECK_PRIVATE_NETWORKS"
    return AddressError(text, "network")
