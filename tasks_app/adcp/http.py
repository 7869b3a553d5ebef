"""Guarded outbound HTTP: the only way bytes leave for an address somebody else gave us.

Each request resolves once, checks the address, connects to exactly that address with the name kept for Host
and TLS, follows no redirect, takes no proxy from the environment and counts what comes back. What happened is
written into a `Ledger`, because the protocol libraries above hide it and the outcome of a purchase depends on
it. Source: AdCP L1/security "Webhook URL validation (SSRF)".
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import httpx
import httpx2

from .addresses import AddressError, NameNotFoundError, Resolver, check_url, resolve, system_resolver

# Either library: `mcp` speaks httpx2, `a2a-sdk` speaks httpx; both have the same transport interface.
Library = Any

Failure = Literal["address", "dns", "connect", "lost", "too_large", "encoded"]
# Failures before a connection stood: no byte of that request left.
BEFORE_SENDING: frozenset[str] = frozenset({"address", "dns", "connect"})

CONNECT_TIMEOUT_S = 10.0
GOODBYE_TIMEOUT_S = 2.0
KEPT_BYTES = 64 * 2**10


@dataclass(kw_only=True)
class Exchange:
    """One HTTP request and what became of it. `body` holds at most `Ledger.keep_bytes` of the response."""

    method: str
    is_task: bool
    left: bool = False
    http_status: int | None = None
    content_type: str = ""
    location: str | None = None
    retry_after: str | None = None
    failure: Failure | None = None
    reason: str = ""
    remedy: str = ""  # what would allow an address that was refused (AddressError)
    received: int = 0
    finished: bool = False
    body: bytearray = field(default_factory=bytearray)


@dataclass(kw_only=True)
class Ledger:
    """Every exchange of one call. `sending_task` is set by the transport just before the task itself is sent;
    `credentialed` tells whether a token went along."""

    credentialed: bool = False
    keep_bytes: int = KEPT_BYTES
    sending_task: bool = False
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def request_left(self) -> bool:
        """Whether any byte of the task's request may have left."""
        return any(exchange.left for exchange in self.exchanges if exchange.is_task)

    @property
    def anything_left(self) -> bool:
        return any(exchange.left for exchange in self.exchanges)

    @property
    def last(self) -> Exchange | None:
        """The exchange that decides: the last one that was no goodbye to a session."""
        return next((one for one in reversed(self.exchanges) if one.method != "DELETE"), None)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Limits of guarded requests. `max_bytes` bounds each response; `tls` replaces the public certificate
    roots, `resolver` the system's. `closed_methods` are answered with 405 here and never sent."""

    allow_private: bool = False
    max_bytes: int = 10 * 2**20
    timeout_s: float = 30.0
    tls: ssl.SSLContext | None = None
    resolver: Resolver = system_resolver
    closed_methods: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A plain response: status, headers (lower-case names) and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class FetchError(Exception):
    """A guarded GET failed; the text says how, without the response."""


def client(lib: Library, policy: Policy, ledger: Ledger, *, headers: Mapping[str, str]) -> Any:
    """An async client of `lib` (the module httpx or httpx2) whose every request is guarded and recorded."""
    return lib.AsyncClient(
        transport=_transport_class(lib)(policy, ledger),
        headers={"Accept-Encoding": "identity", **headers},
        timeout=lib.Timeout(policy.timeout_s, connect=min(CONNECT_TIMEOUT_S, policy.timeout_s)),
        follow_redirects=False,
        trust_env=False,
    )


async def fetch(url: str, policy: Policy, *, headers: Mapping[str, str] | None = None) -> Fetched:
    """GET one public document within the policy's limits (bytes, seconds in all); raises FetchError."""
    ledger = Ledger(sending_task=True)
    try:
        with anyio.fail_after(policy.timeout_s):
            async with client(httpx, policy, ledger, headers=headers or {}) as http_client:
                response = await http_client.get(url)
    except TimeoutError as error:
        raise FetchError(f"no answer within {policy.timeout_s:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        last = ledger.last
        raise FetchError(last.reason if last and last.reason else "the address cannot be read") from error
    return Fetched(status=response.status_code, headers=dict(response.headers), body=response.content)


@functools.cache
def public_roots() -> ssl.SSLContext:
    """One TLS context with the public certificate roots: building it costs more than a handshake."""
    context = httpx.create_ssl_context(trust_env=False)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@functools.cache
def _transport_class(lib: Library) -> Any:
    """The guard as a transport of the given library."""
    stream = type("CountedStream", (_CountedStream, lib.AsyncByteStream), {"lib": lib})
    return type("GuardedTransport", (_Guard, lib.AsyncBaseTransport), {"lib": lib, "stream_class": stream})


class _Guard:
    """The body of a transport; `lib` and `stream_class` come from the library it is made for."""

    lib: Library
    stream_class: Any

    def __init__(self, policy: Policy, ledger: Ledger) -> None:
        self._policy = policy
        self._ledger = ledger
        self._pinned: dict[tuple[str, int], list[str]] = {}
        self._inner = self.lib.AsyncHTTPTransport(
            verify=policy.tls or public_roots(), trust_env=False, limits=self.lib.Limits(max_connections=8)
        )

    async def handle_async_request(self, request: Any) -> Any:
        if request.method in self._policy.closed_methods:
            return self.lib.Response(405, request=request)
        exchange = Exchange(method=request.method, is_task=self._ledger.sending_task)
        self._ledger.exchanges.append(exchange)
        addresses = await self._addresses(request, exchange)
        response = await self._send(request, exchange, addresses)
        return await self._receive(response, exchange)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _addresses(self, request: Any, exchange: Exchange) -> list[str]:
        policy = self._policy
        try:
            host, port = check_url(str(request.url), allow_private=policy.allow_private)
            if (host, port) not in self._pinned:
                self._pinned[host, port] = await resolve(
                    host, port, allow_private=policy.allow_private, resolver=policy.resolver
                )
            return self._pinned[host, port]
        except AddressError as error:
            exchange.failure, exchange.reason, exchange.remedy = "address", str(error), error.remedy
            raise self.lib.ConnectError(str(error), request=request) from error
        except NameNotFoundError as error:
            exchange.failure, exchange.reason = "dns", str(error)
            raise self.lib.ConnectError(str(error), request=request) from error

    async def _send(self, request: Any, exchange: Exchange, addresses: list[str]) -> Any:
        lib = self.lib
        for position, address in enumerate(addresses):
            try:
                return await self._inner.handle_async_request(_pin(lib, request, address, exchange))
            except (lib.ConnectError, lib.ConnectTimeout, lib.PoolTimeout) as error:
                if position + 1 < len(addresses):
                    continue
                exchange.failure, exchange.reason = "connect", _describe(error)
                raise
            except lib.TransportError as error:
                exchange.failure, exchange.reason = "lost", _describe(error)
                raise
        raise lib.ConnectError("the name has no address", request=request)

    async def _receive(self, response: Any, exchange: Exchange) -> Any:
        headers = response.headers
        exchange.http_status = response.status_code
        exchange.content_type = headers.get("content-type", "").lower()
        exchange.retry_after = headers.get("retry-after")
        if 300 <= response.status_code < 400:
            # Without the header no library above can follow it.
            exchange.location = headers.pop("location", None)
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            # We asked for none; a compressed body could unpack to any size.
            exchange.failure = "encoded"
            exchange.reason = "the response is compressed although we asked for none"
            await response.aclose()
            raise self.lib.RemoteProtocolError(exchange.reason)
        stream = self.stream_class(response.stream, exchange, self._policy.max_bytes, self._ledger.keep_bytes)
        return self.lib.Response(
            response.status_code, headers=headers, stream=stream, extensions=response.extensions
        )


class _CountedStream:
    """The body of a response stream that counts, keeps the beginning and stops at the limit."""

    lib: Library

    def __init__(self, inner: Any, exchange: Exchange, max_bytes: int, keep_bytes: int) -> None:
        self._inner = inner
        self._exchange = exchange
        self._max_bytes = max_bytes
        self._keep_bytes = keep_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        exchange = self._exchange
        try:
            async for chunk in self._inner:
                exchange.received += len(chunk)
                if exchange.received > self._max_bytes:
                    exchange.failure = "too_large"
                    exchange.reason = f"the response is larger than {self._max_bytes} bytes"
                    raise self.lib.RemoteProtocolError(exchange.reason)
                exchange.body += chunk[: max(0, self._keep_bytes - len(exchange.body))]
                yield chunk
        except self.lib.TransportError as error:
            if exchange.failure is None:
                exchange.failure, exchange.reason = "lost", _describe(error)
            raise
        exchange.finished = True

    async def aclose(self) -> None:
        await self._inner.aclose()


def _pin(lib: Library, request: Any, address: str, exchange: Exchange) -> Any:
    """The same request aimed at one checked address; Host is already set, TLS keeps the name."""

    async def trace(event: str, _info: Mapping[str, Any]) -> None:
        if event.endswith("send_request_headers.started"):
            exchange.left = True

    extensions = {**request.extensions, "trace": trace, "sni_hostname": request.url.host}
    if request.method == "DELETE":
        extensions["timeout"] = lib.Timeout(GOODBYE_TIMEOUT_S).as_dict()
    return lib.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions=extensions,
    )


def _describe(error: Exception) -> str:
    """What went wrong, without addresses or text of the other side."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "its certificate is expired, not trusted, or for another host"
        if isinstance(cause, ssl.SSLError):
            return "the TLS handshake failed"
        cause = cause.__cause__ or cause.__context__
    known = {
        "ConnectError": "no connection",
        "ConnectTimeout": "no connection in time",
        "PoolTimeout": "no connection in time",
        "ReadTimeout": "no answer in time",
        "WriteTimeout": "the request could not be sent in time",
        "ReadError": "the connection was lost",
        "WriteError": "the connection was lost while sending",
        "RemoteProtocolError": "the connection ended before the response did",
    }
    return known.get(type(error).__name__, "the connection failed")


__all__ = [
    "BEFORE_SENDING",
    "Exchange",
    "FetchError",
    "Fetched",
    "Ledger",
    "Policy",
    "client",
    "fetch",
    "httpx",
    "httpx2",
]
