"""A purchase-order number used again for the same seller and account, or one that looks the same.

The very same order asked for again is answered with the first one; another one is a person's to allow, since
one purchase order may cover many orders. Orders that came to nothing, or whose deal was given up or cancelled
since, do not count, unless a later deal holds what they bought, or it may still be at the seller
(`left_there.py`). Source: document 000 ("Idempotency").
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from orders.following import keepers_of
from orders.left_there import left_there
from orders.models import Deal, DealStatus
from tasks_app.alike import alike_digest
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.sellers.models import Account

_NOTHING = (OperationStatus.FAILED, OperationStatus.REJECTED, OperationStatus.CANCELED)
_OVER = (DealStatus.FAILED, DealStatus.CANCELLED, DealStatus.EXPIRED)
# What is ours, or about the call: two orders that differ in nothing else are the same.
_OURS = frozenset(
    {"adcp_version", "adcp_major_version", "idempotency_key", "push_notification_config", "context"}
)


def orders_under(*, account: Account, po_number: str) -> list[Operation]:
    """The purchases that stand under a purchase-order number with one account, or under one that people could
    not tell from it, the oldest first; the account is held until the caller's commit, so that of two at once
    the later sees the earlier."""
    Account.objects.select_for_update(no_key=True).get(pk=account.pk)
    return _standing(account, po_number)


def _standing(account: Account, po_number: str) -> list[Operation]:
    known = Operation.objects.filter(account=account, po_alike=alike_digest(po_number))
    found = list(known.select_related("seller", "account").order_by("id"))
    over = _over(_deals(found))
    ended = {one.pk for one in found if one.status in _NOTHING or one.subject_id in over}
    deals = _deals([one for one in found if one.pk in ended])
    there = _held(deals) | left_there(account, deals)
    return [one for one in found if one.pk not in ended or one.subject_id in there]


def the_same_order(operations: Sequence[Operation], sent: Mapping[str, Any]) -> Operation | None:
    """The purchase among `operations` whose request is `sent`, apart from what is ours; None: another, or one
    that cannot be the answer: it came to nothing by its seller's word, or its deal is over, and yet a deal
    holds what it bought, or it may be at the seller."""
    wanted, over = _essence(sent), _over(_deals(operations))
    alive = (one for one in operations if one.status not in _NOTHING and one.subject_id not in over)
    return next((one for one in alive if _essence(one.request) == wanted), None)


def others_of(deal: Deal, purchase: Operation) -> list[Operation]:
    """The other purchases under the number of a deal's own; the account is held, as by `orders_under`."""
    if purchase.account is None:
        return []
    found = orders_under(account=purchase.account, po_number=purchase.request["po_number"])
    return [one for one in found if one.subject_id != deal.pk]


def others_standing(deal: Deal, purchase: Operation) -> list[Operation]:
    """The other purchases that stand under the number of a deal's own, if it has one, as is known now."""
    number = purchase.request.get("po_number")
    if purchase.account is None or not number:
        return []
    return [one for one in _standing(purchase.account, str(number)) if one.subject_id != deal.pk]


def _deals(operations: Collection[Operation]) -> set[uuid.UUID]:
    return {one.subject_id for one in operations if one.subject_type == "deal" and one.subject_id}


def _over(deals: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those of `deals` that ended without media and whose purchase no later deal keeps."""
    ended = set(Deal.objects.filter(pk__in=deals, status__in=_OVER).values_list("pk", flat=True))
    if not ended:
        return ended
    followers = dict(Deal.objects.filter(follows__in=ended).values_list("pk", "follows_id"))
    kept = followers.keys() - _over(followers.keys())
    return ended - {followers[pk] for pk in kept}


def _held(deals: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those of `deals` whose media buy a later deal holds."""
    keepers = keepers_of(deals).exclude(status__in=_OVER)
    return {pk for pk in keepers.values_list("follows_id", flat=True) if pk is not None}


def _essence(request: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in request.items() if name not in _OURS}
    if isinstance(kept.get("packages"), list):
        kept["packages"] = [_bare(package) for package in kept["packages"]]
    return json.dumps(kept, sort_keys=True)


def _bare(package: Any) -> Any:
    if not isinstance(package, Mapping):
        return package
    return {name: value for name, value in package.items() if name != "context"}
