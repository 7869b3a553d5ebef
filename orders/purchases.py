"""create_media_buy asked for by an integrator: a deal, its held operation and the question to people.

Nothing is sent before the decision. What will be sent then is frozen now, and shown whole to whoever decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from orders.accounts import account_zone
from orders.amounts import deal_amounts, units_at
from orders.ask import (
    Ask,
    account_of,
    advertisers_of,
    arguments_read,
    names_account,
    only_advertiser,
    refuse,
)
from orders.evidence import as_text
from orders.models import Deal, DealLine
from orders.offers import Offer, forecast_of
from orders.po_numbers import same_order
from orders.questions import ask_deal
from orders.request_rules import line_before, offered, purchase_check, purchase_currency
from orders.rooms import NOTHING, room_problem
from orders.services import DealDraft, LineDraft, deal_quote, purchase_purpose
from tasks_app import clock
from tasks_app.adcp import requests
from tasks_app.lifecycle.transitions import Who
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import PLACE, Order, order_propose
from tasks_app.operations.services import Subject
from tasks_app.people.scope import visible
from tasks_app.sellers.accounts import account_standing
from tasks_app.sellers.models import Account

# Stand where the operation's own key, and the account that is found, will.
_STAND_INS: dict[str, Any] = {"idempotency_key": "0" * 16, "account": {"account_id": "0"}}
_MOST_UNITS = Decimal(10) ** 18
_OFFERED = "as the seller last offered it"
_UNHEARD_OF = "never offered to us: the integrator's word alone"


def purchase_ask(ask: Ask, *, in_place_of: Deal | None = None, opened_by: Who | None = None) -> Operation:
    """Hold a purchase and ask people about it, in the caller's transaction.

    The same order under the same purchase-order number returns the operation there is. Another order under a
    number that already left is shown to people as a warning.

    Args:
        ask: The purchase, and who asked for it.
        in_place_of: The deal that came to nothing and is replaced.
        opened_by: Who acted, if that is somebody else.

    Returns:
        The held operation of a `quoted` deal.

    Raises:
        AskRefusedError: The purchase is not possible.
        OperationRefusedError: The seller or the account is switched off.
    """
    wire = arguments_read(requests.CreateMediaBuy, {**_STAND_INS, **ask.arguments})
    account = _account(ask, in_place_of)
    if in_place_of is not None and account.advertiser != in_place_of.advertiser:
        refuse("arguments.brand.domain", f"is another advertiser than that of {in_place_of.reference}")
    mine = visible(Operation.objects.all(), ask.user)
    known = offered(mine, ask.seller, account.advertiser, wire.packages or ())
    currency = purchase_currency(wire, known, in_place_of)
    purchase_check(wire, _sold(wire, known, in_place_of), currency)
    same = same_order(account=account, sent=_essence_of(account, wire))
    if same is not None:
        return same
    deal = _deal(ask, account, wire, known, currency, start=_start(wire), lost=in_place_of)
    no_room = room_problem(deal, deal_amounts(deal).approved, before=NOTHING)
    if no_room:
        refuse("arguments.packages", no_room)
    order = Order(
        kind=PLACE,
        purpose=purchase_purpose(deal),  # the booking finds it by this, and releases it
        seller=ask.seller,
        arguments=_arguments(deal, account, wire),
        team=deal.team,
        account=account,
        subject=Subject(type="deal", id=deal.pk),
    )
    operation = order_propose(order=order, actor=ask.user)
    ask_deal(deal, opened_by=opened_by or ask.user)
    return operation


def _account(ask: Ask, lost: Deal | None) -> Account:
    found = advertisers_of(ask)
    advertisers = [one for one in found if lost and one == lost.advertiser] or found
    if not advertisers:
        refuse("arguments.brand.domain", "is the brand of none of your teams' advertisers")
    if not names_account(ask):
        only_advertiser(advertisers)
    account = account_of(ask, advertisers=advertisers)
    if account.status != Account.Status.ACTIVE:
        refuse("account", account_standing(account))
    return account


def _sold(
    wire: requests.CreateMediaBuy, known: Sequence[Offer | None], lost: Deal | None
) -> list[Offer | DealLine | None]:
    """Each package's product as it is offered, else as it was put to people."""
    packages = zip(wire.packages or (), known, strict=True)
    return [offer or (line_before(package, lost) if lost else None) for package, offer in packages]


def _start(wire: requests.CreateMediaBuy) -> datetime:
    """The first moment of the flight, which is named. Raises AskRefusedError."""
    start = wire.start_time
    if isinstance(start, str) or start <= clock.now():
        refuse("arguments.start_time", "has passed")
    return start


def _deal(
    ask: Ask,
    account: Account,
    wire: requests.CreateMediaBuy,
    known: Sequence[Offer | None],
    currency: str,
    *,
    start: datetime,
    lost: Deal | None,
) -> Deal:
    packages = wire.packages or []
    holds = [
        offer.product.expires_at
        for offer in known
        if offer is not None and offer.product.expires_at is not None
    ]
    return deal_quote(
        draft=DealDraft(
            team=account.advertiser.team,
            advertiser=account.advertiser,
            seller=ask.seller,
            account=account,
            currency=currency,
            start_at=start,
            end_at=wire.end_time,
            zone=lost.zone if lost else account_zone(account),
            lines=[_line(package, offer, lost) for package, offer in zip(packages, known, strict=True)],
            terms={"hold_expires_at": min(holds).isoformat()} if holds else {},
            reasons={
                "lines": [_reason(package, offer) for package, offer in zip(packages, known, strict=True)],
                "passed_over": [],
                "asked_for": as_text(dict(ask.arguments)),
                **({"replaces": lost.reference} if lost else {}),
            },
            campaign_id=lost.campaign_id if lost else None,
            follows=lost,
        ),
        actor=ask.user,
        requested_by=ask.user,
        reason=f"{lost.reference}, corrected" if lost else "Asked for through the API",
    )


def _line(package: requests.PackageRequest, offer: Offer | None, lost: Deal | None = None) -> LineDraft:
    before = line_before(package, lost) if lost and offer is None else None
    return _line_again(package, before) if before else _line_anew(package, offer)


def _line_again(package: requests.PackageRequest, before: DealLine) -> LineDraft:
    """As it was put forward, with what was corrected."""
    budget, rate = package.budget or Decimal(0), package.bid_price or before.rate
    taken = ("channel", "product_id", "product_name", "pricing_option_id", "pricing_model")
    kept = ("guaranteed", "ceiling", "minimum", "forecast", "terms")
    return LineDraft(
        **{name: getattr(before, name) for name in (*taken, *kept)},
        is_fixed=before.is_fixed and package.bid_price is None,
        rate=rate,
        budget=budget,
        units=units_at(before, budget) if rate == before.rate else None,
        paused=bool(package.paused),
        targeting=package.targeting_overlay or {},
        start_at=package.start_time,
        end_at=package.end_time,
    )


def _line_anew(package: requests.PackageRequest, offer: Offer | None) -> LineDraft:
    budget = package.budget or Decimal(0)
    return LineDraft(
        channel=_channel(offer),
        product_id=package.product_id,
        product_name=offer.product.name if offer else package.product_id,
        pricing_option_id=package.pricing_option_id,
        pricing_model=offer.model[:20] if offer else "",
        is_fixed=package.bid_price is None and (offer is None or offer.is_fixed),
        guaranteed=offer.guaranteed if offer else False,
        rate=offer.rate if offer else package.bid_price,
        ceiling=None,
        budget=budget,
        minimum=offer.minimum if offer else None,
        units=_units(offer, budget),
        paused=bool(package.paused),
        targeting=package.targeting_overlay or {},
        forecast=forecast_of(offer.product.stated) if offer else {},
        terms=offer.terms if offer else {},
        start_at=package.start_time,
        end_at=package.end_time,
    )


def _channel(offer: Offer | None) -> str:
    return offer.product.channels[0] if offer and offer.product.channels else ""


def _units(offer: Offer | None, budget: Decimal) -> Decimal | None:
    """What the budget buys; None where nobody said at which rate, or at a rate that means nothing."""
    if offer is None or not offer.rate or budget / offer.rate > _MOST_UNITS / 1000:
        return None
    return offer.units(budget)


def _reason(package: requests.PackageRequest, offer: Offer | None) -> dict[str, Any]:
    return {
        "product": offer.product.name if offer else package.product_id,
        "channel": _channel(offer),
        "matches": [],
        "forecast_source": offer.forecast_source if offer else "none stated",
        "facts": _OFFERED if offer else _UNHEARD_OF,
    }


def _essence_of(account: Account, wire: requests.CreateMediaBuy) -> dict[str, Any]:
    """What is asked for, at the account that was found."""
    sent = wire.model_dump(mode="json", exclude_none=True, exclude={"idempotency_key"})
    return {**sent, "account": account.reference}


def _arguments(deal: Deal, account: Account, wire: requests.CreateMediaBuy) -> dict[str, Any]:
    """What will be sent: as asked, with our context on the request and on each package."""
    sent = _essence_of(account, wire)
    sent["context"] = {**sent.get("context", {}), "deal_id": str(deal.pk), "deal": deal.reference}
    sent.setdefault("po_number", deal.reference)
    for line, package in zip(deal.lines.all(), sent["packages"], strict=True):
        package["context"] = {**package.get("context", {}), "line_id": str(line.pk)}
    return sent
