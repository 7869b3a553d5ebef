"""update_media_buy asked for by an integrator: held until people have decided, then sent as it was shown.

One change of a media buy waits at a time: each names the revision it was made for.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from orders.ask import (
    Ask,
    AskConflictError,
    AskRefusedError,
    account_of,
    arguments_read,
    is_in_reach,
    refuse,
)
from orders.evidence import as_text, deal_evidence
from orders.models import Deal, DealLine, DealStatus
from orders.questions import deal_question
from orders.seller_state import deal_refresh
from orders.services import deal_total
from tasks_app import clock, ids, money
from tasks_app.adcp import requests
from tasks_app.adcp.envelopes import parse_time
from tasks_app.approvals.kinds import Kind, Outcome, kind_register, on_closed
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import approval_open
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.lifecycle.transitions import allowed_transitions
from tasks_app.money import decimal_of
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.ordering import CHANGE as CHANGE_BUY
from tasks_app.operations.ordering import STOP, Order, order_propose, order_release
from tasks_app.operations.publish import on_settled
from tasks_app.operations.services import Subject, operation_withdraw
from tasks_app.people.actors import SYSTEM
from tasks_app.people.scope import visible

CHANGE = "deal_change"
CHANGEABLE = (
    DealStatus.BOOKED,
    DealStatus.DELIVERING,
    DealStatus.MAKEGOOD_PENDING,
    DealStatus.PARTIALLY_CANCELED,
)
_KEY = "0" * 16  # stands where the operation's own will
_MOST = Decimal(10) ** 12
CHANGES = ("name", "paused", "canceled", "start_time", "end_time", "packages")
_NOT_HERE = {
    "new_packages": "are a media buy of their own: use create_media_buy",
    "total_budget": "is not changed here: change the packages' budgets",
}


def register() -> None:
    """Called when the application starts."""
    kind_register(
        Kind(
            name=CHANGE,
            label="Change of a media buy",
            apply=_decided,
            version=_version,
            reopen=_ask_again,
            effects={
                "approve": "Sends update_media_buy to the seller.",
                "reject": "Withdraws the change; the media buy stays as it is.",
                "nothing": "It expires at the deadline. Waiting never approves.",
            },
        )
    )
    on_closed(_closed)
    on_settled(_settled)


def change_ask(ask: Ask) -> Operation:
    """The held operation and its approval, in the caller's transaction.

    Raises AskRefusedError, AskConflictError, InvalidTransitionError (the deal is over) and
    OperationRefusedError.
    """
    wire = arguments_read(requests.UpdateMediaBuy, {**ask.arguments, "idempotency_key": _KEY})
    deal = _deal(ask, wire.media_buy_id)
    account = account_of(ask, advertisers=[deal.advertiser])
    if account != deal.account:
        refuse("account", "is not the one the media buy was booked with")
    _check(deal, wire)
    sent = wire.model_dump(mode="json", exclude_none=True, exclude={"idempotency_key"})
    sent["account"] = account.reference
    if deal.revision:
        sent.setdefault("revision", deal.revision)
    sent["context"] = {**sent.get("context", {}), "deal_id": str(deal.pk), "deal": deal.reference}
    order = Order(
        kind=STOP if wire.canceled else CHANGE_BUY,
        purpose=f"deal:{deal.pk}:change:{ids.new_id()}",
        seller=ask.seller,
        arguments=sent,
        team=deal.team,
        account=account,
        subject=Subject(type="deal", id=deal.pk),
    )
    operation = order_propose(order=order, actor=ask.user)
    _ask(deal, operation)
    return operation


def _deal(ask: Ask, media_buy_id: str) -> Deal:
    deal = (
        visible(Deal.objects.filter(seller=ask.seller, media_buy_id=media_buy_id), ask.user)
        .select_for_update(of=("self",), no_key=True)
        .select_related("seller", "team", "account", "advertiser")
        .first()
    )
    if deal is None:
        refuse("arguments.media_buy_id", f"is no media buy of your teams with {ask.seller}")
    if deal.status not in CHANGEABLE:
        raise InvalidTransitionError(
            "deal",
            deal.pk,
            deal.status,
            "changed",
            "it is not with the seller any more",
            allowed_transitions(deal),
        )
    waiting = _open(deal).first()
    if waiting is not None:
        raise AskConflictError(f"A change of this media buy waits already: {waiting.reference}.")
    return deal


def _check(deal: Deal, wire: requests.UpdateMediaBuy) -> None:
    problems = {
        f"arguments.{name}": why for name, why in _NOT_HERE.items() if getattr(wire, name) is not None
    }
    if all(getattr(wire, name) is None for name in CHANGES):
        problems["arguments"] = "nothing is changed"
    if wire.start_time == "asap":
        problems["arguments.start_time"] = "name the moment: a person approves it, and until then time passes"
    elif (wire.start_time or deal.start_at) >= (wire.end_time or deal.end_at):
        problems["arguments.end_time"] = "the flight ends before it starts"
    elif not is_in_reach(wire.start_time, wire.end_time):
        problems["arguments.end_time"] = "is too far away"
    ours = set(deal.lines.values_list("package_id", flat=True)) - {""}
    for index, package in enumerate(wire.packages or ()):
        why = _package_problem(deal, package, ours)
        if why:
            problems[f"arguments.packages.{index}"] = why
    if problems:
        raise AskRefusedError(problems)


def _package_problem(deal: Deal, package: requests.PackageUpdate, ours: set[str]) -> str:
    if package.package_id not in ours:
        return "is no package of this media buy"
    budget = package.budget
    if budget is not None and not 0 < budget < _MOST:
        return f"its budget must be above 0 and below {_MOST}"
    if budget is not None and budget != money.floor_to_unit(budget, deal.currency):
        return f"its budget is finer than the smallest unit of {deal.currency}"
    if package.start_time and package.end_time and package.start_time >= package.end_time:
        return "it ends before it starts"
    if not is_in_reach(package.start_time, package.end_time):
        return "its flight is too far away"
    return ""


def _ask(deal: Deal, operation: Operation) -> Approval:
    told = _budgets(operation)
    gross = sum((told.get(line.package_id, line.budget) for line in deal.lines.all()), Decimal(0))
    question = deal_question(
        deal,
        kind=CHANGE,
        title=f"{_verb(operation)} {deal.reference} with {deal.seller}",
        evidence={
            **deal_evidence(deal),
            "media_buy_id": deal.media_buy_id,
            "operation": operation.reference,
            "operation_id": str(operation.pk),
            "change": as_text(operation.request),
            "gross_after": str(gross),
        },
        policy="Every change, one approver",
        amount=gross,
        approved=deal_total(deal),
    )
    return approval_open(question=question, requested_by=operation.requested_by)


def _verb(operation: Operation) -> str:
    return "Cancel" if operation.request.get("canceled") is True else "Change"


def _budgets(operation: Operation) -> dict[str, Decimal]:
    packages = {p["package_id"]: decimal_of(p.get("budget")) for p in operation.request.get("packages", ())}
    return {package_id: budget for package_id, budget in packages.items() if budget is not None}


def _decided(approval: Approval, outcome: Outcome) -> None:
    operation = _operation(approval)
    if operation is None:
        return
    if outcome.answer == "approved":
        order_release(operation=operation)
    else:
        operation_withdraw(operation=operation, actor=SYSTEM, reason=outcome.comment or outcome.answer)


def _version(approval: Approval) -> int | None:
    """The deal's; None where the deal is over or the change was withdrawn."""
    if _operation(approval) is None:
        return None
    deals = Deal.objects.filter(pk=approval.subject_id, status__in=CHANGEABLE)
    return deals.values_list("version", flat=True).first()


def _ask_again(approval: Approval) -> None:
    operation = _operation(approval)
    deal = Deal.objects.select_related("seller", "team", "account", "advertiser").get(pk=approval.subject_id)
    if operation is not None:
        _ask(deal, operation)


def _closed(approval: Approval) -> None:
    """A question that was voided and not asked again takes its operation with it."""
    if approval.kind != CHANGE or approval.status != ApprovalStatus.VOIDED:
        return
    operation, deal = _operation(approval), Deal.objects.get(pk=approval.subject_id)
    if operation is not None and not _open(deal).exists():
        operation_withdraw(
            operation=operation, actor=SYSTEM, reason="The media buy cannot be changed any more"
        )


def _open(deal: Deal) -> Any:
    return Approval.objects.filter(
        kind=CHANGE, subject_type="deal", subject_id=deal.pk, status=ApprovalStatus.OPEN
    )


def _operation(approval: Approval) -> Operation | None:
    """The operation the question is about, while it is held."""
    held = Operation.objects.filter(
        pk=approval.evidence["operation_id"], status=OperationStatus.REQUESTED, send_at__isnull=True
    )
    return held.first()


def is_change(operation: Operation) -> bool:
    """Whether it is a change of a media buy that somebody asked for."""
    return operation.purpose.startswith(f"deal:{operation.subject_id}:change:")


def _settled(operation: Operation) -> None:
    """A change that was done in time is taken; a late one is a person's (orders/late.py)."""
    if is_change(operation) and operation.status == OperationStatus.COMPLETED and not operation.overdue_at:
        change_take(operation)


def change_take(operation: Operation) -> None:
    """What was changed as approved is from now on what was approved; then the seller's word is compared."""
    changed: Any = operation.subject_id
    deal = Deal.objects.select_for_update(of=("self",), no_key=True).get(pk=changed)
    _apply(deal, operation.request)
    change_compare(deal, operation)


def change_compare(deal: Deal, operation: Operation) -> None:
    """Bring the mirror up to date with what a change came to."""
    result = operation.result or {}
    told = {**result, "packages": result.get("affected_packages")}
    deal_refresh(deal_id=deal.pk, buy=told, asked_at=operation.settled_at or clock.now())


def _apply(deal: Deal, change: Mapping[str, Any]) -> None:
    start, end = parse_time(change.get("start_time")), parse_time(change.get("end_time"))
    packages = {package["package_id"]: package for package in change.get("packages", ())}
    lines = list(deal.lines.all())
    for line in lines:
        line.start_at = _moved(line.start_at, deal.start_at, start)
        line.end_at = _moved(line.end_at, deal.end_at, end)
        _apply_package(line, packages.get(line.package_id, {}))
    DealLine.objects.bulk_update(lines, ["budget", "start_at", "end_at", "targeting"])
    Deal.objects.filter(pk=deal.pk).update(start_at=start or deal.start_at, end_at=end or deal.end_at)


def _moved(own: datetime, whole: datetime, to: datetime | None) -> datetime:
    """A line that ran with the whole media buy still does."""
    return to if to is not None and own == whole else own


def _apply_package(line: DealLine, package: Mapping[str, Any]) -> None:
    line.budget = decimal_of(package.get("budget")) or line.budget
    line.start_at = parse_time(package.get("start_time")) or line.start_at
    line.end_at = parse_time(package.get("end_time")) or line.end_at
    line.targeting = package.get("targeting_overlay", line.targeting)
