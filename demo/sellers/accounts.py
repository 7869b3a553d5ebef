"""Advertisers' accounts: opened when first named, active at once, one per brand domain and operator.

Source: AdCP `account/sync-accounts-*.json`, `core/account.json`; buyer-declared accounts
(`require_operator_auth` false).
"""

from __future__ import annotations

import hashlib
from typing import Any

from demo.sellers.books import Books
from demo.sellers.catalogue import House
from demo.sellers.refusal import refuse


def account_open(books: Books, house: House, *, domain: str, operator: str, billing: str = "operator") -> str:
    """Open the account, or find it; returns the sync_accounts action: created or unchanged."""
    if books.account_of(domain, operator):
        return "unchanged"
    suffix = hashlib.sha256(f"{domain}|{operator}".encode()).hexdigest()[:10]
    books.add_account(
        {
            "account_id": f"{house.slug}-{suffix}",
            "name": domain if domain == operator else f"{domain} c/o {operator}",
            "advertiser": domain,
            "status": "active",
            "brand": {"domain": domain},
            "operator": operator,
            "billing": billing,
            "payment_terms": house.payment_terms,
            "timezone": house.timezone,
            "account_scope": "operator_brand",
        }
    )
    return "created"


def account_resolve(books: Books, house: House, reference: dict[str, Any] | None) -> dict[str, Any]:
    """The account a request names by id or by natural key; the natural key opens it.

    Raises:
        AdcpError: ACCOUNT_NOT_FOUND, for an id that is not in the books or no reference at all.
    """
    reference = reference or {}
    if "brand" in reference:
        domain, operator = reference["brand"]["domain"], reference["operator"]
        account_open(books, house, domain=domain, operator=operator)
        account = books.account_of(domain, operator)
    else:
        account = books.account(reference.get("account_id", ""))
    if account is None:
        raise refuse(
            "ACCOUNT_NOT_FOUND",
            "No such account with this seller.",
            field="account",
            suggestion="Call sync_accounts with the brand and operator first.",
        )
    return account


def accounts_sync(books: Books, house: House, request: dict[str, Any]) -> list[dict[str, Any]]:
    """One result per entry of a sync_accounts request. `dry_run` opens nothing."""
    return [_sync_one(books, house, entry, bool(request.get("dry_run"))) for entry in request["accounts"]]


def _sync_one(books: Books, house: House, entry: dict[str, Any], dry_run: bool) -> dict[str, Any]:
    if "account" in entry:
        return _unchanged(books, house, entry["account"])
    domain, operator = entry["brand"]["domain"], entry["operator"]
    known = books.account_of(domain, operator)
    if dry_run and known is None:
        return {"brand": {"domain": domain}, "operator": operator, "action": "created", "status": "active"}
    action = account_open(
        books, house, domain=domain, operator=operator, billing=entry.get("billing", "operator")
    )
    return {**_summary(books.account_of(domain, operator) or {}), "action": action}


def _unchanged(books: Books, house: House, reference: dict[str, Any]) -> dict[str, Any]:
    account = account_resolve(books, house, reference)
    return {
        "account": {"account_id": account["account_id"]},
        "action": "unchanged",
        "status": account["status"],
    }


def _summary(account: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in account.items() if key != "advertiser"}
