"""A change of a media buy is asked for, approved, and sent as people were shown it.

A deal has one open change of its terms. A pause or a cancellation of the whole media buy may be open beside
it.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from django.db import transaction
from django.db.models import QuerySet

from orders.accounts import account_named
from orders.amounts import amount_after, deal_amounts
from orders.ask import (
    Ask,
    AskConflictError,
    AskRefusedError,
    account_of,
    arguments_read,
    names_account,
    refuse,
)
from orders.changes.open_changes import (
    CHANGE,
    CHANGE_FIELDS,
    blocking_change,
    cancels_all,
    create_change,
    kind_of_change,
    withdraw_unsent,
)
from orders.deciding import change_effects
from orders.evidence import cancellation_evidence, cancellation_words, deal_evidence, held_there
from orders.flights import (
    change_crossing,
    change_outside,
    change_passed,
    flight_after,
)
from orders.models import Change, Deal, DealLine, DealStatus, lines_read_once
from orders.questions import deal_question, gross_shown, known_amount
from orders.request_rules import budget_problem, dates_problems, flat_change_problem, reach_problem
from orders.rooms import change_comes_to, room_problem, room_take
from orders.sent import TECHNICAL, request_shown
from orders.services import MOVE_DEALS, deal_locked
from tasks_app import ids
from tasks_app.adcp import requests
from tasks_app.approvals.kinds import Kind, Outcome, kind_register, on_closed
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import DecisionRefusedError, approval_ended_by, approval_open, approval_void
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.lifecycle.transitions import Who, allowed_transitions
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.ordering import CHANGE as CHANGE_BUY
from tasks_app.operations.ordering import (
    STOP,
    Order,
    order_let_go,
    order_propose,
    order_release,
    order_withdraw,
)
from tasks_app.operations.resend import unsent
from tasks_app.operations.services import (
    CANCELS_ALONE,
    NO_SINGLE_PACKAGES,
    OperationRefusedError,
    Subject,
    not_sent_again,
    operation_withdraw,
)
from tasks_app.people.actors import SYSTEM, actor_key
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE, SEND_OPERATION
from tasks_app.people.scope import visible
from tasks_app.sellers.accounts import account_standing
from tasks_app.sellers.models import Account

_UNCHANGEABLE = "The media buy cannot be changed any more"
CHANGEABLE = (
    DealStatus.BOOKED,
    DealStatus.DELIVERING,
    DealStatus.MAKEGOOD_PENDING,
    DealStatus.PARTIALLY_CANCELED,
)
_KEY = "0" * 16  # stands where the operation's own will
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
            asks=_question_again,
            reopen=_ask_again,
            effects={
                "approve": "Sends the change to the seller at once.",
                "reject": "Withdraws the change; the media buy stays as it is.",
                "nothing": "It expires at the deadline. Waiting never approves.",
            },
            effects_for=_effects_for,
            effects_now=change_effects,
            sends=frozenset({"approve"}),
            spends=True,
            outlives_job=True,
            wished=True,
        )
    )
    on_closed(_closed)


def change_ask(ask: Ask, opened_by: Who | None = None) -> Operation:
    """Hold a change of a media buy and ask people about it, in the caller's transaction.

    Args:
        ask: The change, and who asked for it.
        opened_by: Who acted, if that is somebody else.

    Returns:
        The held operation.

    Raises:
        AskRefusedError: The change is not possible.
        AskConflictError: Another change is open.
        InvalidTransitionError: The deal is over.
        OperationRefusedError: The seller or the account is switched off.
    """
    wire = arguments_read(requests.UpdateMediaBuy, {**ask.arguments, "idempotency_key": _KEY})
    deal = _deal(ask, wire.media_buy_id)
    account = _account(ask, deal, cancels=wire.canceled is True)
    sent = wire.model_dump(mode="json", exclude_none=True, exclude={"idempotency_key"})
    _check_open_changes(deal, kind_of_change(sent))
    change_check(deal, wire)
    comes_to = change_comes_to(deal, sent)
    if no_room := room_problem(deal, **comes_to):
        refuse("arguments.packages", no_room)
    sent["account"] = account_named(deal)
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
    create_change(deal, operation, reserved=increase(comes_to))
    change_put(deal, operation, opened_by=opened_by or ask.user)
    return operation


def _account(ask: Ask, deal: Deal, *, cancels: bool) -> Account | None:
    """The account the media buy was booked with; one that was imported without any can be cancelled all the
    same."""
    if deal.account is None and cancels and not names_account(ask):
        return None
    account = account_of(ask, advertisers=[deal.advertiser])
    if account != deal.account:
        refuse("account", "is not the one the media buy was booked with")
    if account.status != Account.Status.ACTIVE and not cancels:
        refuse("account", account_standing(account))
    return account


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
    return deal


def _check_open_changes(deal: Deal, kind: Change.Kind) -> None:
    """Withdraw an unsent change in whose place a pause or cancellation is asked for. Raise AskConflictError
    if another change is open."""
    blocking = blocking_change(deal, kind)
    if blocking is not None:
        raise AskConflictError(
            f"A change of this media buy is open already: {blocking.operation.reference}. "
            "Withdraw it, or wait until the seller has made or refused it."
        )
    if kind == Change.Kind.TERMS:
        return
    reason = f"A {kind} of the whole media buy was asked for"
    withdraw_unsent(deal, reason)
    undecided = _open(deal).first()
    if undecided is not None:  # somebody decides on it at this moment
        raise AskConflictError(f"{undecided.reference} is being decided at this moment: try again.")


def increase(comes_to: Mapping[str, Decimal]) -> Decimal:
    """Return how much more a deal comes to by a change (`rooms.change_comes_to`), 0 for less."""
    return max(comes_to["total"] - comes_to["before"], Decimal(0))


@transaction.atomic
def withdraw_change(*, operation_id: uuid.UUID, user: User, reason: str) -> Operation:
    """Withdraw a change that `user` asked for and that was not sent. Raise AskConflictError otherwise."""
    change = (
        Change.objects.filter(operation_id=operation_id, closed_at=None).select_related("operation").first()
    )
    if change is None or change.operation.requested_by != actor_key(user):
        raise AskConflictError("It is no open change that you asked for.")
    asked = _open_approvals(change.deal_id).order_by("pk")
    approvals = list(asked.select_for_update(no_key=True))  # before the deal, as decisions do
    deal_locked(change.deal_id)
    operation = Operation.objects.select_for_update(no_key=True).get(pk=change.operation_id)
    if operation.status != OperationStatus.REQUESTED:
        raise AskConflictError(f"{operation.reference} is {operation.status}: it was sent already.")
    operation_withdraw(operation=operation, actor=user, reason=reason, rights=(SEND_OPERATION,))
    for approval in approvals:
        if approval.evidence.get("operation_id") == str(operation.pk):
            approval_void(approval=approval, reason=reason, actor=user, rights=(SEND_OPERATION,))
    return operation


@lines_read_once
def change_check(deal: Deal, wire: requests.UpdateMediaBuy) -> None:
    """Raise AskRefusedError with every problem of a change."""
    problems = {
        f"arguments.{name}": why for name, why in _NOT_HERE.items() if getattr(wire, name) is not None
    }
    if all(getattr(wire, name) is None for name in CHANGE_FIELDS):
        problems["arguments"] = "nothing is changed"
    elif wire.canceled and any(getattr(wire, name) is not None for name in {*CHANGE_FIELDS} - {"canceled"}):
        problems["arguments.canceled"] = CANCELS_ALONE
    problems |= dates_problems(wire.start_time, wire.end_time)
    if wire.start_time != "asap" and (wire.start_time or deal.start_at) >= (wire.end_time or deal.end_at):
        problems["arguments.end_time"] = "the flight ends before it starts"
    ours = {line.package_id: line for line in deal.lines.all() if line.package_id}
    named = Counter(package.package_id for package in wire.packages or ())
    for index, package in enumerate(wire.packages or ()):
        why = _package_problem(deal, package, ours) or (
            "is named more than once" if named[package.package_id] > 1 else ""
        )
        if why:
            problems[f"arguments.packages.{index}"] = why
    if not problems:
        told = wire.model_dump(mode="json", exclude_none=True)
        why = change_crossing(deal, told) or change_outside(deal, told)
        problems = {"arguments": why} if why else {}
    if problems:
        raise AskRefusedError(problems)


def _package_problem(deal: Deal, package: requests.PackageUpdate, ours: Mapping[str, DealLine]) -> str:
    if package.package_id not in ours:
        return "is no package of this media buy"
    if package.canceled is not None:
        return NO_SINGLE_PACKAGES
    if package.budget is not None and (why := budget_problem(package.budget, deal.currency)):
        return why
    if why := flat_change_problem(deal, ours[package.package_id], package):
        return why
    if package.start_time and package.end_time and package.start_time >= package.end_time:
        return "it ends before it starts"
    return reach_problem(package)


def change_put(deal: Deal, operation: Operation, opened_by: Who = SYSTEM) -> Approval:
    """Ask people about a change that is held."""
    question = change_question(deal, operation)
    return approval_open(question=question, requested_by=operation.requested_by, opened_by=opened_by)


@lines_read_once
def change_question(deal: Deal, operation: Operation) -> Question:
    """Return what is asked about a change now: what is sent, and what the seller holds."""
    ends = cancels_all(operation.request)
    gross = known_amount(deal, amount_after(deal, operation.request))
    return deal_question(
        deal,
        kind=CHANGE,
        title=f"{'Cancel' if ends else 'Change'} {deal.reference} with {deal.seller}",
        evidence={
            **deal_evidence(deal),
            "media_buy_id": deal.media_buy_id,
            "operation": operation.reference,
            "operation_id": str(operation.pk),
            "sent": request_shown(operation.request),
            "revision": deal.revision,
            "seller_holds": [held_there(line) for line in deal.lines.all() if line.package_id],
            "gross_after": "0" if ends else gross_shown(deal, gross),
            **(cancellation_evidence(deal, operation.request) if ends else {}),
        },
        policy="Every change, one approver",
        amount=gross,
        approved=deal_amounts(deal).approved,
        flight=flight_after(deal, operation.request),
    )


def _question_again(approval: Approval) -> Question:
    operations = Operation.objects.filter(pk=approval.evidence["operation_id"])
    operation = operations.get(subject_id=approval.subject_id)
    return change_question(_deal_of(approval), operation)


def _effects_for(approval: Approval) -> dict[str, str]:
    """A cancellation says what it costs and frees, and why it is asked for."""
    if "cancellation" not in approval.evidence:
        return {}
    return {"approve": cancellation_words(approval.evidence)}


def _decided(approval: Approval, outcome: Outcome) -> None:
    operation = _operation(approval)
    if operation is None:
        return
    why = outcome.comment or outcome.answer
    if outcome.answer == "approved":
        deal = _deal_of(approval)
        passed = change_passed(deal, operation.request)
        if passed:
            raise DecisionRefusedError("impossible", f"{passed}: reject it, and ask for other dates.")
        room_take(deal, **change_comes_to(deal, operation.request))
        order_release(operation=operation)
        order_let_go(operation=operation)  # where it was held again after its release
    elif operation.status == OperationStatus.REQUESTED:
        operation_withdraw(operation=operation, actor=outcome.actor, reason=why, rights=(DECIDE,))
    else:  # it was let go, and taken off the way again before it reached the seller
        order_withdraw(operation=operation, reason=why, actor=outcome.actor)


def _version(approval: Approval) -> int | None:
    """The deal's, held still until the decision's commit; None where the deal is over or the change was
    withdrawn."""
    deals = Deal.objects.filter(pk=approval.subject_id, status__in=CHANGEABLE)
    if not deals.select_for_update(no_key=True).exists() or _operation(approval) is None:
        return None
    return deals.values_list("version", flat=True).first()


def _ask_again(approval: Approval) -> None:
    operation = _operation(approval)
    if operation is not None:
        deal = _deal_of(approval)
        change_put(deal, _for_now(deal, operation))


def is_left_behind(deal: Deal, operation: Operation) -> bool:
    """Whether the seller has left the revision that a change of a live media buy names, and no other change
    waits for people."""
    named = operation.request.get("revision")
    own = operation.request.get("media_buy_id") == deal.media_buy_id and deal.status in CHANGEABLE
    return own and named is not None and named != deal.revision and not _open(deal).exists()


def change_ask_again(deal: Deal, operation: Operation, approved: Approval | None) -> None:
    """Put a change to people (once more) that was about to leave, and is not what they approved. The caller
    holds the deal and the operation."""
    if deal.status not in CHANGEABLE:
        give_up_change(operation, _UNCHANGEABLE)
        return
    if approved is None and not is_change(operation):
        # It follows from another decision, and that is asked about anew.
        give_up_change(operation, f"{deal.seller} has moved on since it was decided")
        return
    other = _open(deal).first()
    if other is not None:
        give_up_change(operation, f"{deal.seller} has moved on, and {other.reference} waits: ask after that")
        return
    Operation.objects.filter(pk=operation.pk).update(send_at=None)
    question = change_question(deal, _for_now(deal, operation))
    approval_open(
        question=replace(question, instead_of=approved), requested_by=operation.requested_by, opened_by=SYSTEM
    )


def give_up_change(operation: Operation, why: str) -> None:
    """Withdraw a change that is not sent any more, and tell who waits for it."""
    if operation.status == OperationStatus.REQUESTED:
        operation_withdraw(operation=operation, actor=SYSTEM, reason=why, tell=True)
    else:  # tried, and nothing came of it
        not_sent_again(operation, why)


def _for_now(deal: Deal, operation: Operation) -> Operation:
    """The held change as it is to be sent now: where it names a revision that the seller has left, or an
    account that is called otherwise since, another in its place, for a frozen request is never rewritten."""
    frozen = {name: value for name, value in operation.request.items() if name not in TECHNICAL}
    now = {"revision": deal.revision, "account": deal.account.reference if deal.account else None}
    wanted = {**frozen, **{name: value for name, value in now.items() if value}}
    if wanted == frozen:
        return operation
    order = Order(
        kind=STOP if wanted.get("canceled") else CHANGE_BUY,
        purpose=f"deal:{deal.pk}:change:{ids.new_id()}",
        seller=deal.seller,
        arguments=wanted,
        team=deal.team,
        account=deal.account,
        subject=Subject(type="deal", id=deal.pk),
    )
    try:
        anew = order_propose(order=order, actor=operation.requested_by)
    except OperationRefusedError:
        return operation  # its seller is off: as it stands it would be refused there, by its revision
    change = Change.objects.filter(operation=operation, closed_at=None).first()
    if change is not None:
        change.operation = anew
        change.save(update_fields=["operation"])
    give_up_change(operation, f"{deal.seller} has moved on: asked anew as {anew.reference}")
    return anew


def _deal_of(approval: Approval) -> Deal:
    rows = Deal.objects.select_related("seller", "team", "account", "advertiser")
    return rows.get(pk=approval.subject_id)


def _closed(approval: Approval) -> None:
    """A question that was voided and not asked again takes its operation with it."""
    if approval.kind != CHANGE or approval.status != ApprovalStatus.VOIDED:
        return
    operation, deal = _operation(approval), Deal.objects.get(pk=approval.subject_id)
    if operation is not None and not _open(deal).exists():
        operation_withdraw(
            operation=operation,
            actor=approval_ended_by(approval),
            reason="The media buy cannot be changed any more",
            rights=MOVE_DEALS,
        )


def _open(deal: Deal) -> QuerySet[Approval]:
    return _open_approvals(deal.pk)


def _open_approvals(deal_id: uuid.UUID) -> QuerySet[Approval]:
    return Approval.objects.filter(
        kind=CHANGE, subject_type="deal", subject_id=deal_id, status=ApprovalStatus.OPEN
    )


def _operation(approval: Approval) -> Operation | None:
    """The operation the question is about, while it is held."""
    held = Operation.objects.filter(
        pk=approval.evidence["operation_id"],
        subject_id=approval.subject_id,
        send_at__isnull=True,
    )
    return held.filter(unsent()).first()


def is_change(operation: Operation) -> bool:
    """Whether it is a change of a media buy that somebody asked for."""
    return operation.purpose.startswith(f"deal:{operation.subject_id}:change:")
