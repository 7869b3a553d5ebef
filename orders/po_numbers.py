"""Purchase-order numbers: the same order is not placed twice, another one under a used number is shown.

Source: document 000 ("Idempotency").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from orders.models import Deal, DealStatus
from tasks_app.alike import alike_digest
from tasks_app.desk.items import joined
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.sellers.models import Account

NUMBER_USED = "purchase_order_used"  # of a question's evidence
_NAMED = 3  # other orders named in one sentence
_FAILED = (OperationStatus.FAILED, OperationStatus.REJECTED, OperationStatus.CANCELED)
_OVER = (DealStatus.FAILED, DealStatus.CANCELLED, DealStatus.EXPIRED)
# What is ours, or about the call: two orders that differ in nothing else are the same.
_OURS = frozenset(
    {"adcp_version", "adcp_major_version", "idempotency_key", "push_notification_config", "context"}
)


def same_order(*, account: Account, sent: Mapping[str, Any]) -> Operation | None:
    """Return the purchase of an account that is the same order under the same purchase-order number.

    A purchase that failed, or whose deal is over, is not the answer. Locks the account until the caller's
    commit, so that of two at once the later one sees the earlier one.
    """
    number = sent.get("po_number")
    if not number:
        return None
    Account.objects.select_for_update(no_key=True).get(pk=account.pk)
    known = Operation.objects.filter(account=account, po_alike=alike_digest(str(number)))
    known = known.exclude(status__in=_FAILED).order_by("id")
    over = Deal.objects.filter(status__in=_OVER).values("pk")
    wanted = _essence(sent)
    found = known.exclude(subject_type="deal", subject_id__in=over).select_related("seller", "account")
    return next((one for one in found if _essence(one.request) == wanted), None)


def number_warning(deal: Deal, purchase: Operation | None) -> dict[str, str]:
    """Return, as evidence, that other orders left under the purchase-order number of a purchase.

    Also under a number that people could not tell from it.
    """
    number = purchase.request.get("po_number") if purchase is not None else None
    if purchase is None or purchase.account_id is None or not number:
        return {}
    sent = Operation.objects.filter(account=purchase.account_id, po_alike=alike_digest(str(number)))
    others = sent.filter(sent_at__isnull=False).exclude(subject_id=deal.pk).order_by("id")
    found = list(others.values_list("request__context__deal", "reference"))
    if not found:
        return {}
    named = [of_deal or reference for of_deal, reference in found[:_NAMED]]
    more = len(found) - _NAMED
    listed = joined([*named, f"{more:,} more"] if more > 0 else named)
    return {NUMBER_USED: f"Purchase order {str(number)[:60]} is already on {listed}"}


def _essence(request: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in request.items() if name not in _OURS}
    if isinstance(kept.get("packages"), list):
        kept["packages"] = [_bare(package) for package in kept["packages"]]
    return json.dumps(kept, sort_keys=True)


def _bare(package: Any) -> Any:
    if not isinstance(package, Mapping):
        return package
    return {name: value for name, value in package.items() if name != "context"}
