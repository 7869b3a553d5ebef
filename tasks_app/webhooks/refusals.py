"""Refused deliveries: answered, counted in memory and written together, about once a second. So many of an
hour are kept as rows, so that a flood fills nothing; what a killed process had not written yet is lost."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import DatabaseError, transaction

from tasks_app import clock
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.answer import Answer
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.rates import refused_name, source_admit, tally_add, window_start
from tasks_app.webhooks.unverified import LIMITED, NO_CLAIM, Claim, unverified_worth_keeping

log = structlog.get_logger(__name__)
_HOUR = timedelta(hours=1)
_MOST_NAMED = 1000  # of one seller, held until the next writing


@dataclass
class _Refused:
    """Of a seller (None: nobody's) in one hour: how many, which are kept, and which beyond those may be kept
    for what they name."""

    count: int = 0
    rows: list[WebhookDelivery] = field(default_factory=list)
    named: list[WebhookDelivery] = field(default_factory=list)


class _Unwritten:
    """What was refused and is not written yet; by seller and hour."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[str, datetime], _Refused] = {}
        self._full: dict[str, datetime] = {}  # the hour in which enough of a seller's are kept

    def add(self, seller: Seller | None, delivery: WebhookDelivery) -> bool:
        """Count it; whether it will be kept as a row, as far as this process knows."""
        name, hour = _name(seller), window_start(delivery.at, _HOUR)
        with self._lock:
            refused = self._found.setdefault((name, hour), _Refused())
            refused.count += 1
            kept = self._full.get(name) != hour and len(refused.rows) < settings.WEBHOOK_REFUSED_ROWS
            if kept:
                refused.rows.append(delivery)
            elif delivery.operation_ref or delivery.task_id:
                _last(refused.named, [delivery])
            return kept

    def count(self, seller: Seller | None) -> None:
        """Count one of which no row is kept."""
        with self._lock:
            place = _name(seller), window_start(clock.now(), _HOUR)
            self._found.setdefault(place, _Refused()).count += 1

    def take(self) -> dict[tuple[str, datetime], _Refused]:
        with self._lock:
            found, self._found = self._found, {}
            return found

    def put_back(self, found: dict[tuple[str, datetime], _Refused]) -> None:
        """They could not be written: they come with the next."""
        with self._lock:
            for place, refused in found.items():
                newer = self._found.setdefault(place, _Refused())
                newer.count += refused.count
                newer.rows = [*refused.rows, *newer.rows][: settings.WEBHOOK_REFUSED_ROWS]
                _last(newer.named, refused.named)

    def full(self, name: str, hour: datetime) -> None:
        with self._lock:
            self._full[name] = hour

    def __bool__(self) -> bool:
        return bool(self._found)


unwritten = _Unwritten()


def delivery_refuse(
    *,
    seller: Seller | None,
    source: str,
    reason: str,
    status: int,
    fingerprint: str = "",
    claim: Claim = NO_CLAIM,
) -> Answer:
    """Refuse one delivery with HTTP `status`, and remember it for `refusals_write`.

    A source that was refused too often of late is told so (429), whatever else is wrong. `fingerprint` is
    empty where the body was not read; what was tried on it (`claim`) is for us, not for its sender.
    """
    headers = {"WWW-Authenticate": f'Signature error="{reason}"'} if status == 401 else {}
    wait = source_admit(source)
    told = reason
    if wait is not None:
        status, headers = 429, {"Retry-After": str(wait)}
        told = f"{LIMITED}: {reason}"
    _remember(seller, source, told, status, fingerprint, claim)
    return Answer(status=status, word=told, headers=headers)


def delivery_turn_away(*, seller: Seller | None, source: str, wait: int) -> Answer:
    """Refuse one unread (see `rates.judge_admit`); it is counted only. `seller`: as far as is remembered."""
    unwritten.count(seller)
    wait = source_admit(source) or wait
    return Answer(status=429, word=LIMITED, headers={"Retry-After": str(wait)})


def delivery_postpone(*, seller: Seller, source: str, wait: int, fingerprint: str, word: str) -> Answer:
    """Tell a seller who is beyond an allowance of its own (`word`) when to come again."""
    _remember(seller, source, word, 429, fingerprint)
    return Answer(status=429, word=word, headers={"Retry-After": str(wait)})


def refusals_write() -> int:
    """Write what was refused since the last time, in one commit; answers how many. Raises DatabaseError, and
    nothing is lost."""
    found = unwritten.take()
    try:
        with transaction.atomic():
            kept = [row for place, refused in found.items() for row in _counted(place, refused)]
            WebhookDelivery.objects.bulk_create(kept)
    except DatabaseError:
        unwritten.put_back(found)
        raise
    count = sum(refused.count for refused in found.values())
    if count > len(kept):
        log.warning("webhooks_refused", count=count, kept=len(kept))
    return count


def _counted(place: tuple[str, datetime], refused: _Refused) -> list[WebhookDelivery]:
    """Add it to what all processes counted; those of its rows that are still to be kept this hour."""
    name, hour = place
    used = tally_add(sender=name, starts=hour, count=refused.count)
    left = max(0, settings.WEBHOOK_REFUSED_ROWS - (used - refused.count))
    if left <= refused.count:
        unwritten.full(name, hour)
    beyond = [*refused.rows[left:], *refused.named]
    named = [one for one in beyond if one.operation_ref or one.task_id]
    return [*refused.rows[:left], *(unverified_worth_keeping(named, hour) if named else ())]


def _last(kept: list[WebhookDelivery], more: list[WebhookDelivery]) -> None:
    """Add to what may be kept; of too many the latest are let go, as the earlier are written sooner."""
    kept += more[: max(0, _MOST_NAMED - len(kept))]


def _remember(
    seller: Seller | None,
    source: str,
    reason: str,
    status: int,
    fingerprint: str,
    claim: Claim = NO_CLAIM,
) -> None:
    delivery = WebhookDelivery(
        seller=seller,
        at=clock.now(),
        source=source[:45],
        fingerprint=fingerprint,
        verdict=WebhookDelivery.Verdict.REFUSED,
        reason=(f"{reason}: {claim.tried}" if claim.tried else reason)[:200],
        task_id=claim.task_id,
        operation_ref=claim.operation_ref,
    )
    if unwritten.add(seller, delivery):
        slug = seller.slug if seller else ""
        log.warning("webhook_refused", seller=slug, code=reason, status=status, source=source)


def _name(seller: Seller | None) -> str:
    return refused_name(seller.pk if seller else None)
