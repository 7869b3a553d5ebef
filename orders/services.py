"""Deals: put forward, booked, cancelled at the seller."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from orders.accounts import account_named
from orders.changes.open_changes import blocking_change, create_change, withdraw_unsent
from orders.flights import deal_passed
from orders.models import LIVE, Change, Deal, DealLine, DealStatus
from orders.terms.terms import COLUMNS
from tasks_app import clock, ids
from tasks_app.adcp import requests
from tasks_app.adcp.values import identity_of
from tasks_app.lifecycle.errors import StaleVersionError
from tasks_app.lifecycle.prepared import prepared_row
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import Who, create, exact, recorded, transition
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.ordering import (
    PLACE,
    STOP,
    Order,
    order_question,
    order_release,
    order_run,
)
from tasks_app.operations.services import OperationRefusedError, Subject, operation_withdraw
from tasks_app.people.actors import SYSTEM, actor_key
from tasks_app.people.models import Advertiser, Team
from tasks_app.people.roles import CANCEL_DEAL, DECIDE, STEER_JOB, STEER_OPERATION, SUBMIT_CAMPAIGN
from tasks_app.sellers.models import Account, Seller
from tasks_app.tracing import trace_id

# Who moves a deal does it by one of these: they decide, call off, end its job or campaign, or steer.
MOVE_DEALS = (DECIDE, CANCEL_DEAL, STEER_JOB, SUBMIT_CAMPAIGN, STEER_OPERATION)
_UNSENT = OperationStatus.REQUESTED
# The columns of a line that people approve, and those that a line begins with.
_APPROVED = ("units", *COLUMNS.values())
_NEW = (
    *("position", "channel", "product_name", "pricing_model", "is_fixed", "guaranteed"),
    *("package_id", "confirmed_budget"),
)


@dataclass(frozen=True, kw_only=True)
class LineDraft:
    """One package to be bought: money in the deal's currency, `rate` per the pricing model's unit. Its
    flight, where it has one of its own, lies within the deal's."""

    channel: str
    product_id: str
    product_name: str
    pricing_option_id: str
    pricing_model: str
    is_fixed: bool
    guaranteed: bool
    rate: Decimal | None
    ceiling: Decimal | None
    budget: Decimal
    minimum: Decimal | None
    units: Decimal | None
    paused: bool = False
    targeting: dict[str, Any] = field(default_factory=dict)
    forecast: dict[str, Any] = field(default_factory=dict)
    terms: dict[str, Any] = field(default_factory=dict)
    start_at: datetime | None = None
    end_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class DealDraft:
    """One media buy to be put forward. The flight is [start_at, end_at) in `zone`; `follows`: the deal that
    came to nothing and in whose place it is."""

    team: Team
    advertiser: Advertiser
    seller: Seller
    account: Account | None
    currency: str
    start_at: datetime
    end_at: datetime
    zone: str
    lines: Sequence[LineDraft]
    terms: dict[str, Any]
    reasons: dict[str, Any]
    campaign_id: uuid.UUID | None = None
    follows: Deal | None = None


@transaction.atomic
def deal_quote(*, draft: DealDraft, actor: Who, requested_by: Who, reason: str) -> Deal:
    """Put a deal forward (`quoted`), one line per package, in one commit."""
    deal = Deal(
        id=ids.new_id(),
        reference=next_reference("DEAL"),
        team=draft.team,
        advertiser=draft.advertiser,
        seller=draft.seller,
        account=draft.account,
        campaign_id=draft.campaign_id,
        follows=draft.follows,
        requested_by=actor_key(requested_by),
        currency=draft.currency,
        start_at=draft.start_at,
        end_at=draft.end_at,
        zone=draft.zone,
        terms=draft.terms,
        reasons=draft.reasons,
    )
    create(deal, actor=actor, reason=reason)
    DealLine.objects.bulk_create(
        DealLine(deal=deal, position=position, **{**vars(line), **_flight(line, draft)})
        for position, line in enumerate(draft.lines, start=1)
    )
    return deal


def _flight(line: LineDraft, draft: DealDraft) -> dict[str, datetime]:
    return {"start_at": line.start_at or draft.start_at, "end_at": line.end_at or draft.end_at}


def deal_locked(deal_id: uuid.UUID) -> Deal:
    """The stored deal, held still until the caller's commit. Raises Deal.DoesNotExist."""
    return (
        Deal.objects.select_for_update(of=("self",), no_key=True)
        .select_related("seller", "team", "account", "advertiser")
        .get(pk=deal_id)
    )


def lock_deal_if_free(deal_id: uuid.UUID) -> Deal | None:
    """Return the stored deal, locked until the caller's commit; None while somebody else holds it."""
    rows = Deal.objects.select_related("seller", "team", "account", "advertiser")
    return rows.select_for_update(of=("self",), no_key=True, skip_locked=True).filter(pk=deal_id).first()


def deal_amended(
    deal: Deal,
    *,
    actor: Who,
    reason: str,
    lines: Iterable[DealLine] = (),
    gone: Iterable[DealLine] = (),
    new: Iterable[DealLine] = (),
    changes: Mapping[str, Any] | None = None,
) -> None:
    """Write the approved terms of a deal, with an entry of its trail, in the transaction that holds the deal.

    Args:
        deal: The deal.
        actor: Who acts.
        reason: Why, for the trail.
        lines: Lines with other terms than before.
        gone: Lines that are deleted.
        new: Lines that are added.
        changes: Columns of the deal.

    Raises:
        StaleVersionError: Somebody else changed the deal meanwhile.
    """
    told = [_columns(line, _APPROVED) for line in lines]
    row = prepared_row(
        "select fd_deal_amend(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [
            deal.pk,
            deal.version,
            recorded(told, floats=True),
            [line.pk for line in gone],
            recorded([_columns(line, (*_NEW, *_APPROVED)) for line in new], floats=True),
            actor_key(actor),
            reason,
            recorded(dict(changes)) if changes else None,
            trace_id(),
            clock.frozen(),
        ],
    )
    if row is None or row[0] is None:
        why = "it was changed by somebody else meanwhile"
        raise StaleVersionError(deal.entity, deal.pk, deal.status, deal.status, why)
    deal.version += 1
    for name, value in (changes or {}).items():
        setattr(deal, name, value)


def _columns(line: DealLine, names: Iterable[str]) -> dict[str, Any]:
    return {"id": str(line.pk), **{name: exact(getattr(line, name), floats=True) for name in names}}


@transaction.atomic
def deal_book(*, deal: Deal) -> Operation:
    """Begin the purchase: accepted → booking, and its operation, durable before anything is sent.

    Harmless when repeated. Where a risk gate is closed the deal stays accepted and the operation held, and
    `order_question` is what people are asked. Raises InvalidTransitionError (a guard says no),
    OperationRefusedError, CommandRefusedError (a person said no at the gate).
    """
    deal = deal_locked(deal.pk)
    proposed = Operation.objects.filter(purpose=purchase_purpose(deal)).first()
    if deal.status != DealStatus.ACCEPTED:
        # A deal that nobody accepted buys nothing; what was commanded is answered.
        if proposed is None or (deal.status != DealStatus.BOOKING and proposed.status == _UNSENT):
            raise OperationRefusedError(f"{deal.reference} is {deal.status}, not accepted")
        return proposed
    passed = deal_passed(deal)
    if passed:
        raise OperationRefusedError(f"{passed}: {deal.reference} is not bought as it was")
    if proposed is None:
        operation = order_run(order=_purchase(deal), actor=SYSTEM, awaited=True)
    else:
        operation = order_release(operation=proposed, awaited=True)
    if order_question(operation) is None:
        transition(
            deal,
            DealStatus.BOOKING,
            actor=SYSTEM,
            reason="create_media_buy let go, to be sent",
            metadata={"operation": operation.reference},
        )
    return operation


@transaction.atomic
def deal_cancel_at_seller(*, deal: Deal, actor: Who, reason: str, media_buy_id: str = "") -> Operation:
    """Ask the seller to cancel a media buy; the deal is cancelled when the seller has done it.

    `media_buy_id`: one that the deal does not hold, such as a late purchase's; else the deal's own. Raises
    OperationRefusedError.
    """
    media_buy_id = media_buy_id or deal.media_buy_id
    if not media_buy_id:
        raise OperationRefusedError("the seller has named no media buy: only the seller can cancel it")
    is_own = media_buy_id == deal.media_buy_id and deal.status in LIVE
    if is_own:
        withdraw_unsent(deal, f"{deal.reference} is to be cancelled")
        sent = blocking_change(deal, Change.Kind.CANCELLATION)
        if sent is not None:
            return sent.operation
    tried = Operation.objects.filter(purpose__startswith=f"deal:{deal.pk}:cancel:").count()
    order = Order(
        kind=STOP,
        purpose=f"deal:{deal.pk}:cancel:{tried + 1}",
        seller=deal.seller,
        arguments=cancellation_arguments(deal, reason, media_buy_id=media_buy_id),
        team=deal.team,
        account=deal.account,
        subject=Subject(type="deal", id=deal.pk),
    )
    operation = order_run(order=order, actor=actor)
    if is_own:
        create_change(deal, operation)
    return operation


def cancellation_arguments(deal: Deal, reason: str, *, media_buy_id: str) -> dict[str, Any]:
    """What update_media_buy is sent with to cancel a whole media buy, the deal's own or another's that was
    bought for it; of the deal's own with the revision that we have seen."""
    arguments = requests.UpdateMediaBuy.model_construct(
        media_buy_id=media_buy_id,
        account=_account(deal),
        revision=deal.revision if media_buy_id == deal.media_buy_id else None,
        canceled=True,
        cancellation_reason=reason[:500],
        context={"deal_id": str(deal.pk)},
    )
    return arguments.model_dump(mode="json", exclude_none=True)


def purchase_purpose(deal: Deal) -> str:
    """The key of a deal's purchase: one deal, one media buy."""
    return f"deal:{deal.pk}:create_media_buy"


def _purchase(deal: Deal) -> Order:
    return Order(
        kind=PLACE,
        purpose=purchase_purpose(deal),
        seller=deal.seller,
        arguments=purchase_arguments(deal),
        team=deal.team,
        account=deal.account,
        subject=Subject(type="deal", id=deal.pk),
    )


def deal_withdraw_held(
    *, deal: Deal, reason: str, actor: Who, rights: Sequence[str], tell: bool = False
) -> None:
    """Withdraw what was asked for and nobody has sent: it never will be. `actor`: whose act that follows
    from, by one of `rights`; `tell`: somebody waits for its end."""
    held = Operation.objects.filter(
        subject_type="deal", subject_id=deal.pk, status=OperationStatus.REQUESTED, send_at__isnull=True
    )
    for operation in held.select_for_update(no_key=True):
        operation_withdraw(operation=operation, actor=actor, reason=reason, rights=rights, tell=tell)


def purchase_held(deal: Deal) -> Operation | None:
    """The purchase of a deal while nothing of it has left and it is not to be sent."""
    held = Operation.objects.select_related("seller").filter(
        purpose=purchase_purpose(deal), status=OperationStatus.REQUESTED, send_at__isnull=True
    )
    return held.first()


def bought_by(purchase: Operation) -> str:
    """Return the media buy that a purchase is answered with; empty if it names none."""
    return identity_of((purchase.result or {}).get("media_buy_id")) or ""


def end_status(deal: Deal) -> str:
    """Return the status of a deal that its seller does not hold: cancelled, else failed.

    Empty if the deal is over.
    """
    targets = deal.declared().targets(deal.status)
    return next((to for to in (DealStatus.CANCELLED, DealStatus.FAILED) if to in targets), "")


def purchases_of(deal: Deal) -> QuerySet[Operation]:
    """The create_media_buy of a deal, or none."""
    rows = Operation.objects.select_related("seller")
    return rows.filter(subject_type="deal", subject_id=deal.pk, task_type="create_media_buy")


def purchase_arguments(deal: Deal) -> dict[str, Any]:
    """The purchase as AdCP's create_media_buy arguments. Raises pydantic's ValidationError."""
    wire = requests.CreateMediaBuy(
        idempotency_key="0" * 16,  # replaced by the operation's own
        account=_account(deal),
        brand=requests.Brand(domain=deal.advertiser.brand_domain),
        start_time=deal.start_at,
        end_time=deal.end_at,
        packages=[_package(line) for line in deal.lines.all()],
        po_number=deal.reference,
        context={"deal_id": str(deal.pk), "deal": deal.reference},
    )
    return wire.model_dump(mode="json", exclude_none=True, exclude={"idempotency_key"})


def _package(line: DealLine) -> requests.PackageRequest:
    return requests.PackageRequest(
        product_id=line.product_id,
        pricing_option_id=line.pricing_option_id,
        budget=line.budget,
        bid_price=None if line.is_fixed else line.rate,
        targeting_overlay=line.targeting or None,
        context={"line_id": str(line.pk)},
    )


def _account(deal: Deal) -> requests.Account:
    return requests.Account.model_validate(account_named(deal))
