"""How the account stands under which a deal is bought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orders.models import Deal
from tasks_app.adcp.account_keys import account_key
from tasks_app.days import zone_of
from tasks_app.sellers.accounts import (
    AWAITED,
    ENDED,
    account_standing,
    currency_problem,
    natural_key,
)
from tasks_app.sellers.models import Account


@dataclass(frozen=True, kw_only=True)
class UnderAccount:
    """`awaited`: what its seller, or who switched it off, has still to do before anything is bought;
    `refused`: why nothing will be, `unless` its seller says otherwise first, where it may. Both empty: it may
    be bought now."""

    awaited: str = ""
    refused: str = ""
    unless: str = ""


def account_stands(account: Account, off_by: str = "") -> UnderAccount:
    """The same by the account's status alone: so far a change of what is booked depends on it too. `off_by`:
    the name of who here switched it off, looked up where it is not given."""
    if account.status in AWAITED:
        return UnderAccount(awaited=account_standing(account, off_by))
    if account.status in ENDED:
        return UnderAccount(refused=account_standing(account, off_by), unless="the account is active")
    return UnderAccount()


def account_named(deal: Deal) -> dict[str, Any]:
    """How a deal's account is named to its seller, as AdCP wants it of every purchase and change; that of one
    imported without any by brand and operator (core/account-ref)."""
    return deal.account.reference if deal.account is not None else natural_key(deal.advertiser)


def account_zone(account: Account) -> str:
    """The zone of what is bought under an account: its own where its seller names one that there is."""
    return zone_of(str(account.reference.get("timezone") or "UTC")).key


def deal_account(deal: Deal, off_by: str = "") -> UnderAccount:
    """Booking needs an active account of the advertiser with the seller, in the deal's currency where it is
    bound to one; it waits for one that may still become active, in that currency. `off_by` as of
    `account_stands`."""
    account = deal.account
    if account is None:
        return UnderAccount(refused=f"{deal.advertiser} has no account with {deal.seller}")
    standing = account_stands(account, off_by)
    other = currency_problem(account, deal.currency)
    if not other:
        return standing
    for_good = account_key(account.reference).currency
    active = "active and " if standing != UnderAccount() else ""
    return UnderAccount(
        refused=standing.refused or other,
        unless="" if for_good else f"the account is {active}in {deal.currency}",
    )
