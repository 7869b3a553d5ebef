"""What a deal that came to nothing here may have left at its seller: it costs money there, and holds the
purchase-order number it was bought under (`po_numbers.py`) until it is known to be gone.

Left out on purpose, since nothing would ever say that it is gone: what people gave up waiting for and nobody
has heard of since, and what they said may stay at the seller as it is. What they, or the seller, called
cancelled is gone, unless reconciliation shows it running.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db.models import Q

from orders.doubt import READ_BACK, cancels
from orders.following import DIFFERENT, LATE, keepers_of
from orders.models import Deal
from tasks_app.adcp.types import BUY_GONE
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.operations.comparison import Verdict
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.reconciliation.models import ReconciliationFinding
from tasks_app.sellers.models import Account

_BOUGHT_NOTHING = (OperationStatus.FAILED, OperationStatus.REJECTED, OperationStatus.CANCELED)
_PURCHASE = "create_media_buy"


def left_there(account: Account, deals: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those of `deals`, bought under one account and over here, of which something may be at the seller
    still."""
    if not deals:
        return set()
    undecided = _asked_about(deals) | _contradicted(deals)
    return undecided | _not_cancelled(account, deals) | _found(account, deals)


def _asked_about(deals: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those of which people have not said what becomes of what came late; and those of which they refused
    what came late, or has no name to cancel it by. That is gone once its seller is known to have cancelled
    it, as what is named later is put to people and cancelled, or once a deal was made of it that speaks for
    it, as of what reconciliation found."""
    about = Approval.objects.filter(kind__in=(LATE, DIFFERENT), subject_type="deal", subject_id__in=deals)
    latest = about.order_by("subject_id", "-id").distinct("subject_id")
    asked = list(latest.values_list("subject_id", "kind", "status"))
    refused = {pk: kind for pk, kind, status in asked if status == ApprovalStatus.REJECTED}
    late = [pk for pk, kind in refused.items() if kind == LATE]
    there = Deal.objects.filter(Q(pk__in=late) | Q(pk__in=list(refused), media_buy_id=""))
    there = there.exclude(media_buy_status__in=BUY_GONE)
    kept = set(keepers_of(list(refused)).values_list("follows_id", flat=True))
    undecided = {pk for pk, _, status in asked if status == ApprovalStatus.OPEN}
    return undecided | {pk for pk in there.values_list("pk", flat=True) if pk not in kept}


def _contradicted(deals: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those of whose purchase, or cancellation, the seller says something else than what stands, and people
    have not decided: but that the purchase came to nothing."""
    about = Conflict.objects.filter(operation__subject_type="deal", operation__subject_id__in=deals)
    about = about.filter(Q(operation__task_type=_PURCHASE) | Q(operation__request__canceled=True))
    undecided = about.filter(Q(resolved_at__isnull=True) | ~Q(waits_because=""))
    said = undecided.values_list("operation__subject_id", "operation__task_type", "second__status")
    return {pk for pk, task, end in said if pk and (task != _PURCHASE or end not in _BOUGHT_NOTHING)}


def _not_cancelled(account: Account, deals: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those of which the seller is being asked to cancel a media buy that no deal has, or was and has not."""
    changes = Operation.objects.filter(
        subject_type="deal", subject_id__in=deals, task_type="update_media_buy"
    ).order_by("id")
    # The last time it was asked for, by the media buy.
    asked = {str(one.request.get("media_buy_id")): one for one in changes if cancels(one)}
    held = Deal.objects.filter(seller=account.seller_id, media_buy_id__in=list(asked))
    for named in held.values_list("media_buy_id", flat=True):
        del asked[named]
    gone = set(Deal.objects.filter(pk__in=deals, media_buy_status__in=BUY_GONE).values_list("pk", flat=True))
    read = _read_back(asked.values())
    return {one.subject_id for one in asked.values() if one.subject_id and not _is_done(one, gone, read)}


def _is_done(cancellation: Operation, gone: Collection[uuid.UUID], read: Collection[str]) -> bool:
    """Whether the media buy is known to be gone. `gone`: the deals whose seller says so; `read`: the purposes
    of what is being read back."""
    if cancellation.published_at is None or cancellation.purpose in read:
        return False
    return cancellation.status == OperationStatus.COMPLETED or cancellation.subject_id in gone


def _read_back(cancellations: Collection[Operation]) -> set[str]:
    """The purposes of those that nothing has shown yet: they are read back."""
    purposes = [f"{one.purpose}{READ_BACK}" for one in cancellations]
    waiting = Operation.objects.filter(purpose__in=purposes, published_at__isnull=True)
    return {one.removesuffix(READ_BACK) for one in waiting.values_list("purpose", flat=True)}


def _found(account: Account, deals: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those that reconciliation shows to run at the seller, for as long as it does."""
    running = ReconciliationFinding.objects.filter(
        seller=account.seller_id,
        resolved_at__isnull=True,
        verdict__in=(Verdict.BOUGHT_UNKNOWN, Verdict.AHEAD),
        subject_type="deal",
        subject_id__in=deals,
    )
    return {pk for pk in running.values_list("subject_id", flat=True) if pk is not None}
