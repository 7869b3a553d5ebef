"""Sellers and accounts as the product keeps them: with their entry in the security log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks_app.people.models import Advertiser
    from tasks_app.sellers.models import Account, Seller


def seller_made(**columns: Any) -> Seller:
    """At an address where nobody answers, unless told."""
    from tasks_app.people.actors import SYSTEM
    from tasks_app.sellers.models import Seller
    from tasks_app.sellers.services import seller_born

    known = {"url": "http://127.0.0.1:9/mcp", "protocol": "mcp", "allow_private": True}
    seller = Seller(**{**known, **columns})
    seller_born(seller, SYSTEM, {"added": True})
    return seller


def account_made(advertiser: Advertiser, seller: Seller, account_id: str) -> Account:
    """An active one."""
    from tasks_app.people.actors import SYSTEM
    from tasks_app.sellers.models import Account
    from tasks_app.sellers.services import account_add

    reference = {"account_id": account_id}
    account = Account(advertiser=advertiser, seller=seller, reference=reference, status="active")
    account_add(account=account, actor=SYSTEM)
    return account
