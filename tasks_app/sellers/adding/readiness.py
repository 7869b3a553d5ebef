"""Requirements that a seller meets before its first order."""

from __future__ import annotations

from collections.abc import Sequence

from tasks_app.desk.items import Item, joined
from tasks_app.sellers.accounts import AWAITED, account_standing
from tasks_app.sellers.models import Account, Seller

_ORDER_TOOLS = ("get_products", "create_media_buy")
_MET, _MISSING, _SELLERS_TURN = "done", "failed", "seller"


def requirements(seller: Seller, accounts: Sequence[Account]) -> list[Item]:
    """Return each requirement of a first order, met or not, with the next step as its note.

    Args:
        seller: The seller.
        accounts: The accounts with it that the viewer sees.
    """
    if not seller.active:
        return [Item(glyph=_MISSING, text="Switched off", note="Switch it on in its settings.")]
    if seller.capabilities_at is None:
        return [Item(glyph=_MISSING, text="Not asked yet what it can do", note="Ask it now.")]
    return [_credentials(seller), _tools(seller), _repeated_orders(seller), _account(accounts)]


def is_ready(found: Sequence[Item]) -> bool:
    """Return whether every requirement is met."""
    return all(one.glyph == _MET for one in found)


def _credentials(seller: Seller) -> Item:
    if seller.read_refusal:
        note = "Give it new credentials in its settings, then ask it again."
        return Item(glyph=_MISSING, text=f"It refuses our credentials: {seller.read_refusal}", note=note)
    return Item(glyph=_MET, text="It answers us")


def _tools(seller: Seller) -> Item:
    lacking = [name for name in _ORDER_TOOLS if not seller.offers(name)]
    if lacking:
        note = "Ask the seller to offer them to us."
        return Item(glyph=_MISSING, text=f"It does not list {joined(lacking)}", note=note)
    return Item(glyph=_MET, text="It offers products and takes orders")


def _repeated_orders(seller: Seller) -> Item:
    if seller.idempotency_ttl_s is not None:
        return Item(glyph=_MET, text="It books a repeated order only once")
    if seller.may_be_sent_mutations:
        return Item(glyph=_MET, text="An administrator accepted that an order may be booked twice")
    note = "An administrator accepts this risk in its settings."
    return Item(glyph=_MISSING, text="It does not promise to book a repeated order only once", note=note)


def _account(accounts: Sequence[Account]) -> Item:
    active = [one.advertiser.name for one in accounts if one.status == Account.Status.ACTIVE]
    if active:
        more = f" and {len(active) - 2} more" if len(active) > 2 else ""
        return Item(glyph=_MET, text=f"Active account of {', '.join(active[:2])}{more}")
    if not accounts:
        return Item(glyph=_MISSING, text="No account yet", note="Ask the seller for one.")
    first = accounts[0]
    theirs = first.status in AWAITED and not first.switched_off_by
    glyph = _SELLERS_TURN if theirs else _MISSING
    return Item(glyph=glyph, text=f"No active account: {account_standing(first)}")
