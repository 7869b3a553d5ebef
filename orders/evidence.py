"""What a person is shown before deciding on a deal: facts only, as stated by the seller or the brief."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from orders.amounts import approved_shown, deal_amounts, unstated
from orders.models import Deal, DealLine, DealStatus, lines_read_once
from tasks_app import clock, money
from tasks_app.adcp.values import parse_time
from tasks_app.approvals.plain import as_text
from tasks_app.desk import terms, text
from tasks_app.lifecycle.transitions import exact
from tasks_app.money import decimal_of

NO_FEE = "none"
MOVING = frozenset({"account_status"})  # a booking waits for its account, while people read


@lines_read_once
def deal_evidence(deal: Deal) -> dict[str, Any]:
    """The deal as JSON with exact values: money, account, flight, lines, terms, reasons."""
    account, silent = deal.account, unstated(deal)
    return exact(
        {
            "deal": deal.reference,
            "seller": deal.seller.name,
            "advertiser": deal.advertiser.name,
            "brand_domain": deal.advertiser.brand_domain,
            "gross": approved_shown(deal),
            "currency": deal.currency,
            "account": str(account) if account else "",
            "account_status": account.status if account else "none",
            "invoiced_to": (account.billing_party or deal.advertiser.name) if account else "",
            "payment_terms": account.payment_terms if account else "",
            "guaranteed": all(line.guaranteed for line in deal.lines.all()),
            "start": deal.start_at,
            "end": deal.end_at,
            "zone": deal.zone,
            "lines": [_line(line) for line in deal.lines.all()],
            "terms": as_text(deal.terms),
            "reasons": as_text(deal.reasons),
            **({"seller_amounts": silent} if silent else {}),
        }
    )


def held_there(line: DealLine) -> dict[str, Any]:
    """One package as its seller holds it."""
    return {
        "package_id": line.package_id,
        "budget": line.confirmed_budget,
        "start": line.confirmed_start_at,
        "end": line.confirmed_end_at,
        "targeting": as_text(line.confirmed_targeting),
    }


@lines_read_once
def cancellation_evidence(deal: Deal, request: Mapping[str, Any]) -> dict[str, Any]:
    """The requester's reason, and what cancelling the whole media buy (update_media_buy's arguments) comes
    to, as JSON: each fee as its seller stated it with the offer, in words, and until when (exclusive) there
    is none, where that is ahead; of how many packages it stated none (`silent`); and what is freed."""
    reason = str(request.get("cancellation_reason") or "")
    lines = list(deal.lines.all())
    fees = [one for line in lines if (one := _fee(deal, line))]
    told = exact(
        {
            "fees": [one for at, one in enumerate(fees) if one not in fees[:at]],
            "silent": len(lines) - len(fees),
            "packages": len(lines),
            "stated_at": deal.created_at,
            "frees": money.floor_to_unit(deal_amounts(deal).committed, deal.currency),
            "runs": deal.status != DealStatus.BOOKED or deal.start_at <= clock.now(),
            "reason": reason,
        }
    )
    return {"reason": reason, "cancellation": told}


def cancellation_words(evidence: Mapping[str, Any]) -> str:
    """Cancels the whole buy; fee as stated on Thu 12 Nov: none; frees USD 35,200. Reason: …"""
    told, currency = evidence["cancellation"], str(evidence["currency"])
    zone, fees = str(evidence["zone"]), _fees_told(told)
    day = text.day(parse_time(told["stated_at"]), zone)
    stated = "; ".join(_fee_words(one, zone) for one in fees)
    stated += unstated_words(told.get("silent", 0), told.get("packages", 0))
    fee = f"fee as stated on {day}: {stated}" if fees else "fee: not stated by the seller"
    frees = decimal_of(told["frees"]) or Decimal(0)
    whole = 0 if frees == frees.to_integral_value() else None
    due = {"what has run": told["runs"], "the fee": any(_is_due(one) for one in fees)}
    less = [part for part, is_due in due.items() if is_due]
    freed = f"{currency}{text.SPACE}{text.amount(frees, currency, whole)}"
    freed += f", less {' and '.join(less)}" if less else ""
    reason = str(told["reason"]).strip()
    ended = reason if reason.endswith((".", "!", "?", "…")) else f"{reason}."
    return f"Cancels the whole buy; {fee}; frees {freed}.{f' Reason: {ended}' if reason else ''}"


def _fees_told(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fees of a question, also of one that was put when they were kept as one text."""
    if "fees" in told:
        return list(told["fees"])
    return [{"fee": told["fee"], "free_until": None}] if told["fee"] else []


def unstated_words(silent: int, packages: int) -> str:
    """; not stated for 1 of 2 packages."""
    return f"; not stated for {silent} of {packages} packages" if silent else ""


def _fee(deal: Deal, line: DealLine) -> dict[str, Any]:
    """One package's fee, and until when there is none where notice is still given in time; empty where its
    seller states none."""
    policy = line.terms.get("cancellation_policy") if isinstance(line.terms, dict) else None
    fee = terms.cancellation_fee(policy, deal.currency)
    free = terms.last_free(policy, line.confirmed_start_at or line.start_at, deal.zone)
    is_free = free is not None and free > clock.now()
    return {"fee": fee, "free_until": free if is_free else None} if fee else {}


def _fee_words(fee: Mapping[str, Any], zone: str) -> str:
    """none until Tue 3 Nov, 00:00 Oslo, then 50 % of what has not run."""
    free = parse_time(fee["free_until"])
    return f"{NO_FEE} until {text.moment_there(free, zone)}, then {fee['fee']}" if free else str(fee["fee"])


def _is_due(fee: Mapping[str, Any]) -> bool:
    return not (fee["free_until"] or str(fee["fee"]).startswith(NO_FEE))


def _line(line: DealLine) -> dict[str, Any]:
    return {
        "channel": line.channel,
        "product": line.product_name,
        "product_id": line.product_id,
        "pricing_option_id": line.pricing_option_id,
        "rate": line.rate,
        "rate_basis": line.pricing_model,
        "fixed": line.is_fixed,
        "ceiling": line.ceiling,
        "guaranteed": line.guaranteed,
        "units": line.units,
        "minimum": line.minimum,
        "budget": line.budget,
        "targeting": as_text(line.targeting),
        "forecast": as_text(line.forecast),
        "terms": as_text(line.terms),
    }
