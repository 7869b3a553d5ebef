"""A purchase-order number used again for the same seller and account.

The very same order asked for again is answered with the first one; another one is a person's to allow, since
one purchase order may cover many orders. Orders that came to nothing do not count. Source: document 000
("Idempotency").
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from orders.models import Deal
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.sellers.models import Account

_NOTHING = (OperationStatus.FAILED, OperationStatus.REJECTED, OperationStatus.CANCELED)
# What is ours, or about the call: two orders that differ in nothing else are the same.
_OURS = frozenset(
    {"adcp_version", "adcp_major_version", "idempotency_key", "push_notification_config", "context"}
)


def orders_under(*, account: Account, po_number: str) -> list[Operation]:
    """The purchases under a purchase-order number with one account, the oldest first; the account is held
    until the caller's commit, so that of two at once the later sees the earlier."""
    Account.objects.select_for_update(no_key=True).get(pk=account.pk)
    known = Operation.objects.filter(
        account=account, task_type="create_media_buy", request__po_number=po_number
    )
    return list(known.exclude(status__in=_NOTHING).select_related("seller", "account").order_by("id"))


def the_same_order(operations: Sequence[Operation], sent: Mapping[str, Any]) -> Operation | None:
    """The purchase among `operations` whose request is `sent`, apart from what is ours; None: another."""
    wanted = _essence(sent)
    return next((one for one in operations if _essence(one.request) == wanted), None)


def others_of(deal: Deal, purchase: Operation) -> list[Operation]:
    """The other purchases under the number of a deal's own."""
    if purchase.account is None:
        return []
    found = orders_under(account=purchase.account, po_number=purchase.request["po_number"])
    return [one for one in found if one.subject_id != deal.pk]


def _essence(request: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in request.items() if name not in _OURS}
    if isinstance(kept.get("packages"), list):
        kept["packages"] = [_bare(package) for package in kept["packages"]]
    return json.dumps(kept, sort_keys=True)


def _bare(package: Any) -> Any:
    if not isinstance(package, Mapping):
        return package
    return {name: value for name, value in package.items() if name != "context"}
