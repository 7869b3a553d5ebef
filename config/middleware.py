"""What every request passes through that is ours."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from tasks_app.days import zone_of
from tasks_app.storable import is_storable


class TimeZoneMiddleware:
    """Shows times in the person's own zone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with timezone.override(zone_of(getattr(request.user, "time_zone", "") or "UTC")):
            return self.get_response(request)


class KeptTextMiddleware:
    """Refuses a form with NUL in it, which PostgreSQL keeps in no text: 400, before a view reads
    it. The API reads its own bodies (`tasks_app/api/parsers.py`)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, _args: Any, _kwargs: Any) -> None:
        if getattr(view, "csrf_exempt", False):
            return
        for name, values in request.POST.lists():
            if not all(map(is_storable, (name, *values))):
                raise BadRequest("a text holds NUL, which nothing can keep")


_FORWARDED = b"x-forwarded-for"
_SCHEME = b"x-forwarded-proto"
_CLAIMS = frozenset({_FORWARDED, b"forwarded", b"x-real-ip", b"client-ip", b"true-client-ip"})


class TrustedProxies:
    """An ASGI application before all others: who sends is who connects, or whom a proxy that `networks` name
    says it forwards for. Behind it no header tells an address: whoever wants to know it reads one place; and
    X-Forwarded-Proto, by which Django tells https, is there only where such a proxy sent it."""

    def __init__(
        self,
        app: Callable[[Any, Any, Any], Awaitable[None]],
        networks: Sequence[IPv4Network | IPv6Network],
    ) -> None:
        self._app, self._networks = app, networks

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket"):
            headers, client, claims = scope["headers"], scope.get("client"), _CLAIMS | {_SCHEME}
            if client is not None:
                client = (_address(client[0]) or client[0], client[1])
            if client is not None and self._is_proxy(client[0]):
                told = [value for name, value in headers if name == _FORWARDED]
                client, claims = (self._sender(client[0], told), 0), _CLAIMS
            kept = [one for one in headers if one[0] not in claims]
            scope = {**scope, "client": client, "headers": kept}
        await self._app(scope, receive, send)

    def _sender(self, peer: str, told: Iterable[bytes]) -> str:
        """The latest address that no proxy of ours has, from the end: what stands before it anybody may have
        written."""
        hops = b",".join(told).decode("latin-1").split(",")
        sender = peer
        for hop in reversed(hops):
            found = _address(hop)
            if found is None:
                return sender
            sender = found
            if not self._is_proxy(sender):
                return sender
        return sender

    def _is_proxy(self, given: str) -> bool:
        found = _address(given)
        return found is not None and any(ip_address(found) in network for network in self._networks)


def _address(given: str) -> str | None:
    """An address without its port and brackets; None of what is none."""
    text = given.strip()
    host = text[1:].partition("]")[0] if text.startswith("[") else text
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        found = ip_address(host)
    except ValueError:
        return None
    return str(getattr(found, "ipv4_mapped", None) or found)
