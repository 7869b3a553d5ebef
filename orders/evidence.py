"""What a person is shown before deciding on a deal: facts only, as stated by the seller or the brief."""

from __future__ import annotations

from typing import Any

from orders.models import Deal, DealLine
from orders.services import deal_total
from tasks_app.approvals.plain import as_text
from tasks_app.lifecycle.transitions import exact


def deal_evidence(deal: Deal) -> dict[str, Any]:
    """The deal as JSON with exact values: money, account, flight, lines, terms, reasons."""
    account = deal.account
    return exact(
        {
            "deal": deal.reference,
            "seller": deal.seller.name,
            "advertiser": deal.advertiser.name,
            "gross": deal_total(deal),
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
        }
    )


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
