"""What integrators ask for in these tests, and a seller to ask."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync

from orders.models import Deal
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.sweep import Swept, sweep_once
from tasks_app.people.models import Advertiser, User
from tasks_app.sellers.models import Seller
from tests.factories import approve_deal, make_account, make_advertiser, make_deal, make_seller, make_user
from tests.fake_seller.driver import FakeSeller
from tests.fake_seller.shop import TOOLS

ROOM = "/api/v1/operations/"
BOUGHT = "nrl-1"


def faulty(seller: FakeSeller, **fields: Any) -> Seller:
    """The row of a running seller, with an active account of Lindqvist Coffee."""
    row = make_seller("Faulty", url=seller.url, token=seller.token, tools=sorted(TOOLS), slots=4, **fields)
    make_account(make_advertiser(), row)
    return row


def known(**fields: Any) -> tuple[Seller, Advertiser]:
    """A seller nobody is behind, with an active account of Lindqvist Coffee."""
    advertiser = make_advertiser()
    seller = make_seller("Faulty", **fields)
    make_account(advertiser, seller)
    return seller, advertiser


def purchase(**changed: Any) -> dict[str, Any]:
    """The body that asks for one package of the fake seller's product."""
    start = clock.now().replace(microsecond=0) + timedelta(days=10)
    arguments: dict[str, Any] = {
        "brand": {"domain": "lindqvist-coffee.com"},
        "start_time": start.isoformat(),
        "end_time": (start + timedelta(days=20)).isoformat(),
        "total_budget": {"amount": 1500.5, "currency": "USD"},
        "packages": [
            {
                "product_id": "fake-display",
                "pricing_option_id": "fake-cpm",
                "budget": 1500.5,
                "targeting_overlay": {"geo_countries": ["US"]},
                "context": {"theirs": "kept"},
            }
        ],
    }
    arguments |= changed
    return {
        "task": "create_media_buy",
        "seller": "faulty",
        "arguments": {name: value for name, value in arguments.items() if value is not None},
    }


def read(task: str = "get_products", **arguments: Any) -> dict[str, Any]:
    """The body that asks for a read."""
    if task == "get_products" and not arguments:
        arguments = {"buying_mode": "brief", "brief": "Cold brew in spring"}
    return {"task": task, "seller": "faulty", "arguments": arguments}


def sweep() -> Swept:
    """One pass of the sweep, on this thread's connection: the test's database goes with the test."""
    return async_to_sync(sweep_once)()


def shown(approval_id: str) -> str:
    """The digest of what is asked."""
    return Approval.objects.get(pk=approval_id).evidence_digest


def booked() -> Deal:
    """A booked deal with one package, in revision 3."""
    deal = make_deal()
    approve_deal(deal)
    transition(deal, "booking", actor="system")
    transition(deal, "booked", actor="system")
    Deal.objects.filter(pk=deal.pk).update(media_buy_id=BOUGHT, revision=3)
    deal.lines.update(package_id="pkg-1")
    deal.refresh_from_db()
    return deal


def change(**arguments: Any) -> dict[str, Any]:
    arguments = arguments or {"packages": [{"package_id": "pkg-1", "budget": 90_000}]}
    return {
        "task": "update_media_buy",
        "seller": "norrland-digital",
        "arguments": {"media_buy_id": BOUGHT, **arguments},
    }


def integrator() -> User:
    user = make_user("Integration")
    user.is_service = True
    user.save()
    return user
