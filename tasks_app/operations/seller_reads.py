"""Sellers asked again what they can do: by schedule, by a person, and when one refuses the AdCP version it
was asked in (AdCP core/version-envelope). A worker of the lane main asks; the sweep sees that it is time."""

from __future__ import annotations

import uuid
from datetime import timedelta

import structlog
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import close_old_connections, transaction
from django.db.models import Q, QuerySet

from tasks_app import clock
from tasks_app.adcp.types import DiscoveryError
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.operations.reading import left_alone
from tasks_app.operations.sweep import chore_register
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.heard import READ_AGAIN, Reread
from tasks_app.sellers.models import Seller
from tasks_app.sellers.services import seller_read_again
from tasks_app.troubles.rows import held_back, side_by_side
from tasks_app.troubles.works import work_on
from tasks_app.waking import wake_workers

log = structlog.get_logger(__name__)
KIND = "seller_otherwise"
TASK = "tasks_app.operations.seller_reads.sellers_read_due"
_WORK = work_on("sellers_read", "seller")
_AT_ONCE = 20


def register() -> None:
    """Called when the application starts."""
    chore_register("sellers_reading_woken", sellers_wake)


def sellers_wake() -> int:
    """A chore of the sweep: wake a worker where a seller is due. Answers 1 when it did."""
    return wake_workers(TASK) if _due().exists() else 0


def sellers_read_due() -> int:
    """A task of the queue."""
    close_old_connections()
    return sellers_read()


def sellers_read() -> int:
    """Ask the sellers that are due, side by side; answers how many said what they can do."""
    ids = list(_due().order_by("capabilities_next_at").values_list("pk", flat=True)[:_AT_ONCE])
    return async_to_sync(side_by_side)(_WORK, ids, _read)


def _due() -> QuerySet[Seller]:
    now = clock.now()
    every = timedelta(seconds=settings.CAPABILITIES_EVERY_S)
    old = Q(capabilities_next_at__isnull=True, capabilities_at__lte=now - every)
    rows = Seller.objects.filter(old | Q(capabilities_next_at__lte=now), active=True)
    return rows.exclude(left_alone()).exclude(pk__in=held_back(_WORK))


async def _read(pk: uuid.UUID) -> int:
    seller = await sync_to_async(_taken)(pk)
    if seller is None:
        return 0
    try:
        told = await seller_read_again(seller=seller)
    except DiscoveryError as error:
        log.warning("seller_not_read_again", seller=seller.slug, why=str(error))
        await sync_to_async(_tell_unread)(seller, str(error))
        return 0
    if told is not None and told.words:
        await sync_to_async(_tell)(told)
    return int(told is not None)


@transaction.atomic
def _taken(pk: uuid.UUID) -> Seller | None:
    """A seller that is due and that nobody asks; it is due again after a while, whatever comes of it."""
    seller = _due().select_for_update(no_key=True, skip_locked=True, of=("self",)).filter(pk=pk).first()
    if seller is not None:
        Seller.objects.filter(pk=pk).update(capabilities_next_at=clock.now() + READ_AGAIN)
    return seller


def _tell(told: Reread) -> None:
    notify(
        kind=KIND,
        title=f"{told.seller} says otherwise what it can do",
        body="\n".join(told.words),
        about=About(type="seller", id=told.seller.pk),
        right=STEER_OPERATION,
    )


def _tell_unread(seller: Seller, why: str) -> None:
    """Once for as long as it does not say: what it said before stands until then."""
    notify(
        kind=KIND,
        title=f"{seller} does not say what it can do",
        body=f"{why}. What it said before stands, and it is asked again every hour.",
        level=Notification.Level.WARNING,
        about=About(type="seller", id=seller.pk),
        right=STEER_OPERATION,
        key=f"{KIND}:{seller.pk}:{seller.capabilities_at}",
    )
