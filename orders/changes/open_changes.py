"""The open changes of a deal: opening, closing, and the money they reserve."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet, Sum

from orders.models import LIVE, Change, Deal, DealStatus
from tasks_app import clock
from tasks_app.approvals.subjects import questions_withdraw
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.services import on_withdrawn, operation_withdraw
from tasks_app.people.actors import SYSTEM

CHANGE = "deal_change"  # the kind of the approval of a change
# What a change of a media buy may name of it (AdCP media-buy/update-media-buy-request).
CHANGE_FIELDS = ("name", "paused", "canceled", "start_time", "end_time", "packages")
_NOTHING = Decimal(0)
_PROOF = timedelta(minutes=10)


def register() -> None:
    """Called when the application starts."""
    on_withdrawn(_withdrawn)


def kind_of_change(request: Mapping[str, Any]) -> Change.Kind:
    """Return what update_media_buy's arguments change."""
    if cancels_all(request):
        return Change.Kind.CANCELLATION
    named = {name for name in CHANGE_FIELDS if request.get(name) not in (None, [])}
    return Change.Kind.PAUSE if named == {"paused"} and request["paused"] is True else Change.Kind.TERMS


def cancels_all(request: Mapping[str, Any]) -> bool:
    """Return whether update_media_buy's arguments cancel the whole media buy."""
    return request.get("canceled") is True


def blocking_change(deal: Deal, kind: Change.Kind) -> Change | None:
    """Return the open change because of which a new one is refused.

    Terms wait for every open change, a pause for a pause or a cancellation, a cancellation for another one.
    """
    refused_by = {
        Change.Kind.TERMS: list(Change.Kind),
        Change.Kind.PAUSE: [Change.Kind.PAUSE, Change.Kind.CANCELLATION],
        Change.Kind.CANCELLATION: [Change.Kind.CANCELLATION],
    }[kind]
    return open_changes(deal).filter(kind__in=refused_by).order_by("opened_at").first()


def open_changes(deal: Deal) -> QuerySet[Change]:
    """Return the open changes of a deal."""
    return deal.changes.filter(closed_at__isnull=True).select_related("operation")


def create_change(deal: Deal, operation: Operation, *, reserved: Decimal = _NOTHING) -> Change:
    """Open a change in the transaction that holds the deal. `reserved`: in the deal's currency."""
    return Change.objects.create(
        deal=deal,
        operation=operation,
        kind=kind_of_change(operation.request),
        reserved=reserved,
        opened_at=clock.now(),
    )


def withdraw_unsent(deal: Deal, reason: str) -> None:
    """Withdraw the deal's changes that were not sent, with the approvals that ask about them."""
    questions_withdraw("deal", deal.pk, kinds=(CHANGE,), reason=reason)
    held = Operation.objects.filter(
        status=OperationStatus.REQUESTED, change__deal=deal, change__closed_at__isnull=True
    )
    for operation in held.select_for_update(of=("self",), no_key=True):
        operation_withdraw(operation=operation, actor=SYSTEM, reason=reason[:500])


def close_change(change: Change, outcome: Change.Outcome) -> None:
    """Close an open change for good."""
    change.closed_at, change.outcome = clock.now(), outcome
    change.save(update_fields=["closed_at", "outcome"])


def is_rejected_buy_being_cancelled(deal: Deal) -> bool:
    """Return whether the seller is being asked to cancel what people did not accept."""
    cancelling = open_changes(deal).filter(kind=Change.Kind.CANCELLATION)
    return cancelling.exclude(operation__purpose__startswith=f"deal:{deal.pk}:change:").exists()


def ended_changes(deal: Deal) -> QuerySet[Change]:
    """Return the open changes that a record of the media buy is to prove.

    The seller completed them, or people gave up waiting. While the operation has an open conflict a change
    waits for the people who decide it.
    """
    conflicts = Conflict.objects.filter(operation=OuterRef("operation"), resolved_at__isnull=True)
    return open_changes(deal).filter(
        ~Exists(conflicts),
        operation__settled_at__isnull=False,
        operation__status__in=(OperationStatus.COMPLETED, OperationStatus.TIMED_OUT),
    )


def close_changes_of_ended_deal(deal: Deal) -> None:
    """Close the changes of a deal that has ended, but for those that are with the seller."""
    for change in open_changes(deal).filter(operation__settled_at__isnull=False):
        is_made = change.kind == Change.Kind.CANCELLATION and deal.status == DealStatus.CANCELLED
        close_change(change, Change.Outcome.MADE if is_made else Change.Outcome.WITHDRAWN)


def raise_reservation(change: Change, increase: Decimal) -> None:
    """Reserve more for a change whose seller is answered with a larger amount."""
    if increase > change.reserved:
        change.reserved = increase
        change.save(update_fields=["reserved"])


def has_proof_window_ended(change: Change) -> bool:
    """Return whether the operation of a change ended ten minutes ago."""
    ended_at = change.operation.settled_at
    return ended_at is not None and clock.now() >= ended_at + _PROOF * settings.POLL_SCALE


def needs_proof_reading(deal: Deal) -> bool:
    """Return whether the media buy is read soon, for a change that it is to show."""
    return ended_changes(deal).exists()


def reserved_by_deal(deals: QuerySet[Deal]) -> dict[uuid.UUID, Decimal]:
    """Return what the open changes of live deals reserve, by deal, without those that reserve nothing."""
    rows = Change.objects.filter(
        deal__in=deals.order_by().values("pk"), deal__status__in=LIVE, closed_at__isnull=True, reserved__gt=0
    )
    return dict(rows.order_by().values_list("deal").annotate(total=Sum("reserved")))


def _withdrawn(operation: Operation) -> None:
    """The operation was withdrawn before it was sent: its change is closed, its reservation released."""
    change = Change.objects.filter(operation=operation, closed_at__isnull=True).first()
    if change is not None:
        close_change(change, Change.Outcome.WITHDRAWN)
