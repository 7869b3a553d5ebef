"""Who is locked out of signing in: a name at an address after a few failures, an address after more of them
under whatever names (django-axes counts; settings.LOGIN_FAILURES_PER_ADDRESS)."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.conf import settings
from django.db.models import Sum
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from tasks_app import clock
from tasks_app.people.models import User
from tasks_app.storable import storable

_IPV6_ONES = 64  # what one customer of a provider is given: its addresses count as one
_NAME_CHARS, _SOME = 150, 500
_NOBODY, _DIGEST_CHARS = "(no such login)", 16


class LockOut(AxesDatabaseHandler):
    """Locks by name and address as django-axes does, and by address alone."""

    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        return _address_locked(request) or super().is_locked(request, credentials)


def address_of(request: HttpRequest | None) -> str | None:
    """The client's address as the web server saw it, or as a proxy that settings.PROXIES names told it
    (config.middleware); None where there is none. No header of the client's is believed."""
    given = str(request.META.get("REMOTE_ADDR", "")) if request is not None else ""
    try:
        return str(ip_address(given.split("%")[0]))
    except ValueError:
        return None


def address_counted(request: HttpRequest) -> str | None:
    """What failures are counted under: an IPv4 address, or the network that an IPv6 address is of."""
    found = address_of(request)
    if found is None or not isinstance(ip_address(found), IPv6Address):
        return found
    return str(ip_network((found, _IPV6_ONES), strict=False).network_address)


def username_counted(request: HttpRequest, credentials: dict[str, Any] | None = None) -> str | None:
    """The name that failures are counted under: as the login that it would find is called. What is the name
    of nobody may be a password typed into the wrong field: it is masked, each by a digest of its own, so that
    a lock does not tell which names there are."""
    given = credentials.get("username") if credentials else request.POST.get("username")
    if given is None:
        return None
    typed = storable(str(User.normalize_username(str(given)))[:_NAME_CHARS], instead="")
    if User.objects.filter(username=typed).exists():
        return typed
    return f"{_NOBODY} {salted_hmac(__name__, typed).hexdigest()[:_DIGEST_CHARS]}"


def failures_forget() -> int:
    """Remove what is kept of sign-ins beside the security log once that would be forgotten too
    (settings.SECURITY_KEEP), some in each call. Answers how many."""
    old, gone = clock.now() - settings.SECURITY_KEEP, 0
    records: tuple[Any, ...] = (AccessAttempt, AccessFailureLog, AccessLog)
    for model in records:
        first = model.objects.order_by("pk")[:_SOME]  # by their key: their times have no index
        gone += model.objects.filter(pk__in=first.values("pk"), attempt_time__lt=old).delete()[0]
    return gone


def _address_locked(request: HttpRequest) -> bool:
    address = address_counted(request)
    if address is None:
        return False
    recent = AccessAttempt.objects.filter(
        ip_address=address, attempt_time__gt=clock.now() - settings.AXES_COOLOFF_TIME
    )
    failures = recent.aggregate(found=Sum("failures_since_start"))["found"] or 0
    return bool(failures >= settings.LOGIN_FAILURES_PER_ADDRESS)
