"""create_media_buy asked for by an integrator: a deal, its held operation and the question to people.

Nothing is sent before the decision. What will be sent then is frozen now, and shown whole to whoever decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from orders.ask import (
    Ask,
    AskRefusedError,
    account_of,
    advertisers_of,
    arguments_read,
    is_in_reach,
    refuse,
)
from orders.evidence import as_text
from orders.models import Deal, DealLine
from orders.offers import Offer, forecast_of, offers, terms_of
from orders.po_numbers import orders_under, the_same_order
from orders.questions import ask_deal, ask_po_number
from orders.services import DealDraft, LineDraft, deal_quote, purchase_purpose
from tasks_app import clock, money
from tasks_app.adcp import requests
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.ordering import PLACE, Order, order_propose
from tasks_app.operations.services import Subject
from tasks_app.people.scope import visible
from tasks_app.sellers.models import Account

# Stand where the operation's own key, and the account that is found, will.
_STAND_INS: dict[str, Any] = {"idempotency_key": "0" * 16, "account": {"account_id": "0"}}
_MOST = Decimal(10) ** 12  # what a budget may come to, and a rate's columns can hold
_MOST_UNITS = Decimal(10) ** 18
_OFFERED = "as the seller last offered it"
_UNHEARD_OF = "never offered to us: the integrator's word alone"
_LONGEST_ID = 255
_ANSWERS = 5  # so many of the seller's latest answers are looked through for a product
_OTHER_FORMS = {
    "proposal_id": "is not bought here: name the packages with their budgets",
    "budget_allocation": "is not supported here: give every package its budget",
}


def purchase_ask(ask: Ask) -> Operation:
    """The deal (`quoted`), the held operation and the approval, in the caller's transaction.

    The very same order under the same purchase-order number answers the one there is; another one under a
    number that was used asks people about the number first. Raises AskRefusedError and OperationRefusedError.
    """
    wire = arguments_read(requests.CreateMediaBuy, {**_STAND_INS, **ask.arguments})
    account = _account(ask)
    known = [_offer(ask, package) for package in wire.packages or ()]
    currency = _currency(wire, known)
    _check(wire, known, currency)
    earlier = orders_under(account=account, po_number=wire.po_number) if wire.po_number else []
    same = the_same_order(earlier, _essence_of(account, wire))
    if same is not None:
        return same
    deal = _deal(ask, account, wire, known, currency, start=_start(wire))
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
    if earlier:
        ask_po_number(deal, operation, earlier)
    else:
        ask_deal(deal)
    return operation


def _account(ask: Ask) -> Account:
    advertisers = advertisers_of(ask)
    if not advertisers:
        refuse("arguments.brand.domain", "is the brand of none of your teams' advertisers")
    account = account_of(ask, advertisers=advertisers)
    if account.status != Account.Status.ACTIVE:
        refuse("account", f"the account with {ask.seller} is {account.status}")
    return account


def _offer(ask: Ask, package: requests.PackageRequest) -> Offer | None:
    """The product as the seller last offered it to the caller's teams; None where it never did."""
    answered = visible(
        Operation.objects.filter(
            seller=ask.seller, task_type="get_products", status=OperationStatus.COMPLETED
        ),
        ask.user,
    )
    for result in answered.order_by("-id").values_list("result", flat=True)[:_ANSWERS]:
        for offer in offers(ask.seller, (result or {}).get("products"), {}):
            if (offer.product_id, offer.option["pricing_option_id"]) == (
                package.product_id,
                package.pricing_option_id,
            ):
                return offer if package.bid_price is None else replace(offer, rate=package.bid_price)
    return None


def _currency(wire: requests.CreateMediaBuy, known: Sequence[Offer | None]) -> str:
    """The one currency of the buy: as the products are sold in, or as total_budget says."""
    said = {offer.currency for offer in known if offer is not None}
    if wire.total_budget is not None:
        said.add(wire.total_budget.currency)
    if len(said) > 1:
        refuse("arguments.packages", f"one media buy has one currency, these have {', '.join(sorted(said))}")
    currency = next(iter(said), "")
    if not money.is_currency(currency):
        refuse(
            "arguments.total_budget",
            "say the amount and currency: these products are not known from get_products",
        )
    return currency


def _check(wire: requests.CreateMediaBuy, known: Sequence[Offer | None], currency: str) -> None:
    """Raises AskRefusedError with everything that no person should have to find."""
    problems = {
        f"arguments.{name}": why for name, why in _OTHER_FORMS.items() if getattr(wire, name) is not None
    }
    for index, (package, offer) in enumerate(zip(wire.packages or (), known, strict=True)):
        why = _offer_problem(package, offer) or _package_problem(package, currency)
        if why:
            problems[f"arguments.packages.{index}"] = why
    if not is_in_reach(wire.end_time):
        problems["arguments.end_time"] = "is too far away"
    total = sum((package.budget or Decimal(0) for package in wire.packages or ()), Decimal(0))
    if total > _MOST:
        problems["arguments.packages"] = f"come to more than {_MOST}"
    if wire.total_budget is not None and wire.total_budget.amount != total:
        problems["arguments.total_budget.amount"] = f"is not the sum of the packages' budgets, {total}"
    if problems:
        raise AskRefusedError(problems)


def _start(wire: requests.CreateMediaBuy) -> datetime:
    """The first moment of the flight. Raises AskRefusedError."""
    if wire.start_time == "asap":
        refuse("arguments.start_time", "name the moment: a person approves it, and until then time passes")
    if wire.start_time <= clock.now():
        refuse("arguments.start_time", "has passed")
    return wire.start_time


def _package_problem(package: requests.PackageRequest, currency: str) -> str:
    budget = package.budget or Decimal(0)
    if budget <= 0:
        return "its budget must be above 0"
    if budget != money.floor_to_unit(budget, currency):
        return f"its budget is finer than the smallest unit of {currency}"
    if package.start_time and package.end_time and package.start_time >= package.end_time:
        return "it ends before it starts"
    if not is_in_reach(package.start_time, package.end_time):
        return "its flight is too far away"
    return ""


def _offer_problem(package: requests.PackageRequest, offer: Offer | None) -> str:
    if max(len(package.product_id), len(package.pricing_option_id)) > _LONGEST_ID:
        return f"its ids may have {_LONGEST_ID} characters"
    rate = offer.rate if offer else package.bid_price
    if rate is not None and not 0 < rate < _MOST:
        return f"its rate of {rate} cannot be bought at"
    if offer is not None and offer.minimum is not None and (package.budget or 0) < offer.minimum:
        return f"its budget is below the seller's minimum of {offer.minimum}"
    if offer is not None and offer.expires_at is not None and offer.expires_at <= clock.now():
        return "the offer has expired: ask get_products again"
    return ""


def _deal(
    ask: Ask,
    account: Account,
    wire: requests.CreateMediaBuy,
    known: Sequence[Offer | None],
    currency: str,
    *,
    start: datetime,
) -> Deal:
    packages = wire.packages or []
    holds = [offer.expires_at for offer in known if offer is not None and offer.expires_at is not None]
    deal = deal_quote(
        draft=DealDraft(
            team=account.advertiser.team,
            advertiser=account.advertiser,
            seller=ask.seller,
            account=account,
            currency=currency,
            start_at=start,
            end_at=wire.end_time,
            zone=str(account.reference.get("timezone") or "UTC"),
            lines=[_line(package, offer) for package, offer in zip(packages, known, strict=True)],
            terms={"hold_expires_at": min(holds).isoformat()} if holds else {},
            reasons={
                "lines": [_reason(package, offer) for package, offer in zip(packages, known, strict=True)],
                "passed_over": [],
                "asked_for": as_text(dict(ask.arguments)),
            },
        ),
        actor=ask.user,
        requested_by=ask.user,
        reason="Asked for through the API",
    )
    _own_flights(deal, packages)
    return deal


def _line(package: requests.PackageRequest, offer: Offer | None) -> LineDraft:
    budget = package.budget or Decimal(0)
    return LineDraft(
        channel=_channel(offer),
        product_id=package.product_id,
        product_name=(offer.name if offer else package.product_id)[:255],
        pricing_option_id=package.pricing_option_id,
        pricing_model=offer.model[:20] if offer else "",
        is_fixed=package.bid_price is None and (offer is None or offer.is_fixed),
        guaranteed=offer.guaranteed if offer else False,
        rate=offer.rate if offer else package.bid_price,
        ceiling=None,
        budget=budget,
        minimum=offer.minimum if offer else None,
        units=_units(offer, budget),
        targeting=package.targeting_overlay or {},
        forecast=forecast_of(offer.product) if offer else {},
        terms=terms_of(offer.product, offer.expires_at) if offer else {},
    )


def _channel(offer: Offer | None) -> str:
    return offer.channels[0][:40] if offer and offer.channels else ""


def _units(offer: Offer | None, budget: Decimal) -> Decimal | None:
    """What the budget buys; None where nobody said at which rate, or at a rate that means nothing."""
    if offer is None or not offer.rate or budget / offer.rate > _MOST_UNITS / 1000:
        return None
    return offer.units(budget)


def _reason(package: requests.PackageRequest, offer: Offer | None) -> dict[str, Any]:
    stated = forecast_of(offer.product).get("method") if offer else None
    return {
        "product": offer.name if offer else package.product_id,
        "channel": _channel(offer),
        "matches": [],
        "forecast_source": stated or "none stated",
        "facts": _OFFERED if offer else _UNHEARD_OF,
    }


def _own_flights(deal: Deal, packages: Sequence[requests.PackageRequest]) -> None:
    """A package may run in a part of the media buy's flight."""
    lines = list(deal.lines.all())
    for line, package in zip(lines, packages, strict=True):
        line.start_at = package.start_time or line.start_at
        line.end_at = package.end_time or line.end_at
    DealLine.objects.bulk_update(lines, ["start_at", "end_at"])


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
