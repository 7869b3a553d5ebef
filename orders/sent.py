"""What leaves in a request to a seller, as an approval shows it: all of it but what is named here.

A person approves the request, not our reading of it: what is sent by an integrator's wish, or by ours, is
evidence, leaf by leaf, in AdCP's own words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError

from orders.models import Deal
from orders.services import purchase_arguments, purchase_purpose
from tasks_app.approvals.plain import as_text
from tasks_app.operations.models import Operation

# Fields of a request that say nothing of what is bought, each with why nobody approves it.
TECHNICAL = {
    "idempotency_key": "made anew with every operation, so that a repeated call buys nothing twice",
    "adcp_version": "negotiated with the seller: how the request is written, not what it asks for",
    "adcp_major_version": "the same, as older sellers read it",
    "push_notification_config": "where the seller tells us of the task; it holds our webhook credentials",
}
# Fields that we put into the contexts, which a seller echoes and never reads, each with why nobody approves
# it.
OUR_CONTEXT = {
    "deal_id": "our id of the deal, by which its answers are found again",
    "deal": "the deal's reference, which the question names",
    "operation_id": "our id of the operation, which is made after the question where nobody proposed it",
}
OUR_PACKAGE_CONTEXT = {"line_id": "our id of the line, by which a package is matched with it"}


def purchase_sent(deal: Deal) -> dict[str, Any]:
    """create_media_buy as it leaves for a deal: as it is frozen, else as it would be frozen now."""
    frozen = Operation.objects.filter(purpose=purchase_purpose(deal)).values_list("request", flat=True)
    request = frozen.first()
    if request is not None:
        return request_shown(request)
    try:
        return request_shown(purchase_arguments(deal))
    except ValidationError as error:
        return {"cannot_be_sent": [str(problem["msg"]) for problem in error.errors()]}


def request_shown(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request as evidence: without what is technical or ours, and with fractions as text."""
    bare = {name: value for name, value in request.items() if name not in TECHNICAL}
    shown = _without(OUR_CONTEXT, bare)
    if "packages" in shown:
        shown["packages"] = [_without(OUR_PACKAGE_CONTEXT, package) for package in shown["packages"]]
    told: dict[str, Any] = as_text(shown)
    return told


def _without(ours: Collection[str], part: Mapping[str, Any]) -> dict[str, Any]:
    """Part of a request, its context without our fields; what else a caller put there leaves too."""
    context = part.get("context", {})
    theirs = {name: value for name, value in context.items() if name not in ours}
    bare = {name: value for name, value in part.items() if name != "context"}
    return {**bare, "context": theirs} if theirs else bare
