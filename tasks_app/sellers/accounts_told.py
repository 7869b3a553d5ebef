"""What sellers say of advertisers' accounts: kept, and recorded where it changes what is bought under one.

Source: AdCP account/sync-accounts-response, account/list-accounts-response, core/account.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from pydantic import ValidationError as WireError

from tasks_app import clock
from tasks_app.adcp import requests
from tasks_app.adcp.account_keys import account_key, names_more, natural_reference, other_brand
from tasks_app.adcp.values import identity_of
from tasks_app.desk import text
from tasks_app.money import is_currency
from tasks_app.people.house import house
from tasks_app.people.models import Advertiser
from tasks_app.people.security import Kind
from tasks_app.sellers.accounts import ENDED, A, account_save, mapping_of, natural_key
from tasks_app.sellers.columns import ACCOUNT_TRUST
from tasks_app.sellers.models import Account, Seller
from tasks_app.sellers.trust import shown, trust_record

_IDS = 0x0F11_ACC7  # the class of advisory locks of sellers' account ids
_WORDS_CHARS, _ERRORS = 600, 10
_REFERENCE_CHARS = 1000
# What its seller's word may change of what decides whom we believe, and for whom it was asked.
_RECORDED = (*ACCOUNT_TRUST, "requested_by")
_Kept = tuple[Any, str]  # a column's value, and how people are shown it


class AccountOfAnotherError(ValueError):
    """The account that a seller tells of is another brand's here; the text says so, and not whose."""


class AnsweredLateError(ValueError):
    """Since a seller was asked for the account `account_id` people have said something of it, or it has
    answered what it was asked later; the text says which."""

    def __init__(self, account_id: uuid.UUID, since: str) -> None:
        super().__init__(since)
        self.account_id = account_id


@transaction.atomic
def account_record(
    *,
    advertiser: Advertiser,
    seller: Seller,
    answer: Mapping[str, Any],
    requested_by: str = "",
    asked_at: datetime | None = None,
) -> Account:
    """Keep one account as a seller's sync_accounts or list_accounts answered it; `requested_by` is the key of
    who asked for it, `asked_at` when the seller was asked, if it is an answer. A state that is none of AdCP's
    changes nothing, nor does any but an end where a person switched the account off. Raises
    AccountOfAnotherError and AnsweredLateError, and nothing is kept."""
    account, new = Account.objects.select_for_update(no_key=True, of=("self",)).get_or_create(
        advertiser=advertiser, seller=seller, defaults={"reference": {}}
    )
    if asked_at is not None:
        _refuse_late(account, asked_at)
        account.asked_at = asked_at
    before, known = ("", {}) if new else (account.status, _recorded(account))
    _refuse_anothers(account, answer)
    account.reference = _reference(account, answer)
    account.status = _status(answer, account)
    account.billing_party = _billed(advertiser, str(answer.get("billing") or "")) or account.billing_party
    account.payment_terms = str(answer.get("payment_terms") or account.payment_terms)[:40]
    account.said = _said(answer, account)
    account.setup_url = _web_address(mapping_of(answer.get("setup")).get("url"))
    account.requested_by = requested_by or account.requested_by
    account.read_at = clock.now()
    account_save(account, before=before)
    _record(account, known)
    return account


@transaction.atomic
def account_refused(account: Account, reference: Mapping[str, Any], *, key: Mapping[str, Any]) -> bool:
    """A seller does not know the id that it handed out: from now on its natural `key` names the account.
    Answers whether that is another name than `reference`, which was refused."""
    if "account_id" not in reference or account.reference != reference:
        return False
    known = _recorded(account)
    account.refused_reference = dict(reference)
    account.reference = dict(key)
    account.save(update_fields=["reference", "refused_reference"])
    _record(account, known)
    return True


def people_said_since(account: Account, asked_at: datetime) -> bool:
    """Whether people have said something of the account since then."""
    return account.people_said_at is not None and account.people_said_at > asked_at


def _refuse_late(account: Account, asked_at: datetime) -> None:
    """A request that is sent again under its key is answered as it was the first time, however late."""
    if people_said_since(account, asked_at):
        raise AnsweredLateError(account.pk, "People here have said something of it since it was asked")
    if account.asked_at is not None and account.asked_at > asked_at:
        raise AnsweredLateError(account.pk, "It has answered what it was asked later")


def _refuse_anothers(account: Account, answer: Mapping[str, Any]) -> None:
    """An id under which another brand of ours buys there is not taken on the seller's word alone: it may list
    one account, whichever was asked about. People may enter it by hand. Of two answers at one moment the
    second waits until the first is kept."""
    named = identity_of(answer.get("account_id"))
    if not named or account.reference.get("account_id") == named:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "select pg_advisory_xact_lock(%s, hashtext(%s))", [_IDS, f"{account.seller_id}:{named}"]
        )
    holders = Account.objects.filter(seller=account.seller, reference__account_id=named)
    if holders.exclude(advertiser__brand_domain__iexact=account.advertiser.brand_domain).exists():
        raise AccountOfAnotherError(
            f"the account {text.stated(named)} that it tells of is another advertiser’s here"
        )


def _recorded(account: Account) -> dict[str, _Kept]:
    return {name: (getattr(account, name), shown(account, name)) for name in _RECORDED}


def _record(account: Account, before: Mapping[str, _Kept]) -> None:
    """In the security log, in the transaction that changes it; `before` is empty for a new account. Values
    are compared, never their words: a seller may call something "none"."""
    changed = {
        name: (before[name][1] if before else "none", words)
        for name, (value, words) in _recorded(account).items()
        if (value != before[name][0] if before else value)
    }
    if changed:
        by = f"agent:{account.seller.slug}"
        trust_record(account, changed, by, told=False, event=Kind.ACCOUNT_TOLD)


def _reference(account: Account, answer: Mapping[str, Any]) -> dict[str, Any]:
    """How the account is named from now on: by the seller's id, else by the whole natural key that it told;
    another brand's key is never ours."""
    named = identity_of(answer.get("account_id"))
    told = {"account_id": named} if named else _natural(account, answer)
    if told != account.refused_reference and _is_reference(told):
        return told
    return account.reference or natural_key(account.advertiser)


def _natural(account: Account, answer: Mapping[str, Any]) -> dict[str, Any]:
    if other_brand(answer, account.advertiser.brand_domain):
        return {}
    seller = account.seller
    zone = mapping_of(mapping_of(seller.capabilities.get("account")).get("timezone"))
    chosen = not zone or zone.get("account_selection") == "buyer_selected"
    return natural_reference(answer, version=seller.adcp_version, timezone_is_chosen=chosen)


def _is_reference(told: Mapping[str, Any]) -> bool:
    """Whether an account can be named so in a request, and kept: it has AdCP's shape and is no text
    without end."""
    try:
        requests.Account.model_validate(told)
    except WireError:
        return False
    return len(json.dumps(told)) <= _REFERENCE_CHARS


def _status(answer: Mapping[str, Any], account: Account) -> str:
    said = answer.get("status")
    if said not in A.values:
        failed = answer.get("action") == "failed" and account.status != A.ACTIVE
        said = A.REJECTED if failed else account.status
    return str(account.status if account.switched_off_by and said not in ENDED else said)


def _bound_to(answer: Mapping[str, Any], account: Account) -> str:
    """The currency that the account is bound to, as a seller of 3.2 tells it: before, nothing was said of
    that."""
    told = account_key(answer).currency or ""
    return told if names_more(account.seller.adcp_version) and is_currency(told) else ""


def _said(answer: Mapping[str, Any], account: Account) -> dict[str, Any]:
    setup = mapping_of(answer.get("setup"))
    errors = answer.get("errors")
    told = [error for error in errors if isinstance(error, Mapping)] if isinstance(errors, list) else []
    said = {
        "message": _words(setup.get("message")),
        "expires_at": _words(setup.get("expires_at")),
        "currency": _bound_to(answer, account),
        "errors": [
            {name: _words(error.get(name)) for name in ("code", "message", "field", "suggestion")}
            for error in told[:_ERRORS]
        ],
    }
    return {name: value for name, value in said.items() if value}


def _words(value: Any) -> str:
    return " ".join(value.split())[:_WORDS_CHARS] if isinstance(value, str) else ""


def _web_address(value: Any) -> str:
    shown = isinstance(value, str) and value.startswith(("https://", "http://")) and len(value) <= 500
    return value if shown else ""


def _billed(advertiser: Advertiser, party: str) -> str:
    """Who gets the invoice, by name: AdCP says which party (enums/billing-party), not who that is."""
    ours = house().name
    names = {"operator": ours, "agent": ours, "advertiser": advertiser.name, "brand": advertiser.name}
    return str(names.get(party) or party)[:120]
