"""Advertisers' accounts with sellers: what may be bought under one, and who hears when its state changes.

Source: AdCP accounts/overview ("Account Status Lifecycle", "Operations by Account Status"),
account/sync-accounts-response, core/account.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.adcp.account_keys import account_key, account_name, names_more, other_account, other_brand
from tasks_app.adcp.values import identity_of, parse_time
from tasks_app.desk import text
from tasks_app.money import is_currency
from tasks_app.people.actors import actor_key, actor_names
from tasks_app.people.house import house
from tasks_app.people.models import Actor, Advertiser, User
from tasks_app.sellers.models import SELLER_HEAVY, Account, Seller

A = Account.Status
AWAITED = (A.PENDING, A.PAYMENT_REQUIRED, A.SUSPENDED)  # the seller may still make it active
ASKABLE = (A.ACTIVE, A.PAYMENT_REQUIRED)  # products may be asked for under it
ENDED = (A.REJECTED, A.CLOSED)  # terminal: only a new request leads on
SWITCHED_OFF = (A.SUSPENDED, A.CLOSED)  # set by a person, it stays until people let it go
# A seller shows a change within 300 s, so nobody need look more often; after a day less often does.
_SOON, _LATER = timedelta(seconds=300), timedelta(minutes=30)
_SOON_FOR = timedelta(days=1)

_listeners: list[Callable[[Account, str], object]] = []
_requesters: list[Callable[[AccountRequest, User], object]] = []


def on_account_changed(listener: Callable[[Account, str], object]) -> None:
    """Call `listener(account, status before)` in the commit in which an account's state changes; the status
    before is empty for a new account."""
    if listener not in _listeners:
        _listeners.append(listener)


@dataclass(frozen=True, kw_only=True)
class AccountRequest:
    """A person's request for an advertiser's account with a seller.

    `currency` and `zone` are what the seller binds the account to; empty means as it was asked before.
    """

    advertiser: Advertiser
    seller: Seller
    currency: str = ""
    zone: str = ""

    @classmethod
    def again(cls, account: Account) -> AccountRequest:
        """Return the request for an account that is already known."""
        return cls(advertiser=account.advertiser, seller=account.seller)


def account_requester_register(send: Callable[[AccountRequest, User], object]) -> None:
    """Register how a request for an account is sent to its seller."""
    _requesters[:] = [send]


def account_request(request: AccountRequest, user: User) -> None:
    """Ask the seller for the account by brand and operator. Raise ValidationError if it cannot be asked."""
    for send in _requesters:
        send(request, user)


def open_account_requests(seller: Seller) -> QuerySet[Any]:
    """Return the operations that ask the seller for an account and have not ended."""
    rows: QuerySet[Any] = seller.operations.filter(task_type="sync_accounts", settled_at=None)
    return rows


@transaction.atomic
def account_save(account: Account, *, before: str) -> None:
    """Save an account whose state was `before` (empty: it is new), plan its next reading, and tell the
    listeners where the state is another."""
    changed = account.status != before
    if changed:
        account.status_since = clock.now()
    awaited = account.status in AWAITED and not account.switched_off_by
    account.next_read_at = clock.now() + _pause(account) if awaited else None
    account.save()
    if changed:
        for listener in _listeners:
            listener(account, before)


def account_switched(account: Account, actor: str | User | Actor) -> None:
    """Keep who switched an account off, now that a person set its status; any other status lets it go."""
    account.switched_off_by = actor_key(actor) if account.status in SWITCHED_OFF else ""


def askable(account: Account) -> bool:
    """Whether its seller can be asked for it anew: it is not active, nobody here switched it off, and the
    seller opens accounts over AdCP."""
    opens = account.seller.offers("sync_accounts")
    return account.status != Account.Status.ACTIVE and not account.switched_off_by and opens


def is_read(account: Account) -> bool:
    """Whether its seller is asked now and then how it stands."""
    return account.next_read_at is not None and account.seller.offers("list_accounts")


def is_shared(account: Account) -> bool:
    """Whether other advertisers of ours have accounts with its seller: what is asked there without naming an
    account may be answered with theirs."""
    others = Account.objects.filter(seller=account.seller_id).exclude(advertiser=account.advertiser_id)
    return others.exists()


def holdable(account: Account) -> bool:
    """Whether its seller switched it off and may switch it on again: people may keep it off."""
    return account.status in SWITCHED_OFF and not account.switched_off_by


def switched_off_words(account: Account, off_by: str = "") -> str:
    """Who here switched it off; empty where nobody did. `off_by`: their name, looked up if not given."""
    by = account.switched_off_by
    return f"{off_by or actor_names({by})[by]} switched it off" if by else ""


def natural_key(advertiser: Advertiser) -> dict[str, Any]:
    """The account of an advertiser with any seller, by brand and operator (AdCP core/account-ref)."""
    return {"brand": {"domain": advertiser.brand_domain}, "operator": house().domain}


class AccountNotWantedError(ValueError):
    """The seller's accounts are bound to a currency or a time zone that nobody has said, or that it does not
    offer; the text says which."""


def account_wanted(advertiser: Advertiser, seller: Seller, *, currency: str, zone: str) -> dict[str, Any]:
    """The account that a seller is asked for: an advertiser's natural key, with the currency where its
    accounts are bound to one, and with the time zone where the buyer chooses it. Where the seller leaves the
    choice, none is bound. Both last as long as the account. Raises AccountNotWantedError.

    Source: AdCP account/sync-accounts-request.
    """
    wanted, binding = natural_key(advertiser), account_binding(seller)
    if binding.currency:
        if not is_currency(currency):
            raise AccountNotWantedError(f"{seller} opens accounts of one currency, and none is said")
        wanted["currency"] = currency
    if binding.zones is not None:
        if zone not in binding.zones:
            said = f"not for {zone}" if zone else "and none is said"
            raise AccountNotWantedError(f"{seller} opens accounts for time zones that it lists, {said}")
        wanted["timezone"] = zone
    return wanted


@dataclass(frozen=True, kw_only=True)
class AccountBinding:
    """How a seller limits an account.

    Attributes:
        currency: Whether the account has one currency for good.
        zones: The time zones that the buyer chooses from; None if the buyer has no choice.
    """

    currency: bool
    zones: list[str] | None


def account_binding(seller: Seller) -> AccountBinding:
    """Return what the seller declares that an account is bound to.

    Source: `account.supported_account_currency_modes` and `account.timezone` of get_adcp_capabilities.
    """
    declared = mapping_of(seller.capabilities.get("account")) if names_more(seller.adcp_version) else {}
    zone = mapping_of(declared.get("timezone"))
    if zone.get("account_selection") != "buyer_selected":
        return AccountBinding(currency=_is_fixed(declared), zones=None)
    listed = zone.get("supported_timezones")
    zones = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    return AccountBinding(currency=_is_fixed(declared), zones=zones)


def _is_fixed(declared: Mapping[str, Any]) -> bool:
    return declared.get("supported_account_currency_modes") == ["fixed"]


def account_currency(account: Account) -> str:
    """The one currency that media buys under the account are in; empty where each has its own, or the seller
    does not say."""
    return account_key(account.reference).currency or str(account.said.get("currency", ""))


def currency_problem(account: Account, currency: str) -> str:
    """Why nothing in that currency is bought under the account; empty where it may be."""
    bound = account_currency(account)
    other = bound and bound != currency
    return f"the account with {account.seller} is bound to {bound}, this is in {currency}" if other else ""


def is_anothers(told: Mapping[str, Any], account: Account, *, sent: Mapping[str, Any] | None = None) -> bool:
    """Whether a record names another brand or account than this one. `sent`: the reference to it that its
    seller was sent, which it may have had before: what names that one is its own too."""
    brand, number = (
        other_brand(told, account.advertiser.brand_domain),
        other_account(told, account.reference),
    )
    before = sent or {}
    is_anothers_brand = bool(brand) and brand != account_key(before).domain
    return is_anothers_brand or (bool(number) and number != identity_of(before.get("account_id")))


def names_another(told: Mapping[str, Any], account: Account) -> str:
    """That a seller's record names another brand or account than this one; empty where it does not."""
    if not is_anothers(told, account):
        return ""
    own = f"{account} of {account.advertiser.brand_domain}"
    return f"the seller's record names {account_name(told)}, not {own}"


def account_words(account: Account, moment: Callable[[datetime], str] = text.moment_kept) -> list[str]:
    """Return what the seller says of the account, a sentence each; `moment` writes a moment.

    They say what to do, until when, its reasons and suggestions.
    """
    said = [str(account.said.get("message") or ""), _possible_until(account, moment)]
    for error in account.said.get("errors", ()):
        where = f" ({error['field']})" if error["field"] else ""
        said.append(f"{error['message'] or error['code']}{where}")
        said.append(error["suggestion"])
    return [words for words in said if words]


def _possible_until(account: Account, moment: Callable[[datetime], str]) -> str:
    stated = account.said.get("expires_at")
    at = parse_time(stated)
    if at is not None:
        return f"Possible until {moment(at)}."
    return f"Possible until, as stated: {text.stated(stated)}." if stated else ""


def account_standing(account: Account, off_by: str = "") -> str:
    """Why nothing is bought under an account that is not active, with the seller's words; `off_by`: the name
    of who here switched it off, looked up where it is not given."""
    state = account.get_status_display().lower()
    off = switched_off_words(account, off_by)
    if off:
        return f"the account with {account.seller} is {state}: {off}"
    words = " ".join(account_words(account))
    return f"the account with {account.seller} is {state}" + (f": {words}" if words else "")


def accounts_awaited(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """By id those of them that may be made active still, and why nothing is bought under each."""
    awaited = Account.objects.filter(pk__in=ids, status__in=AWAITED).select_related("seller")
    return accounts_standing(awaited.defer(*SELLER_HEAVY))


def accounts_standing(accounts: Iterable[Account]) -> dict[uuid.UUID, str]:
    """`account_standing` of several, each with its seller, by id; one query."""
    rows = list(accounts)
    off_by = {one.switched_off_by for one in rows if one.switched_off_by}
    names = actor_names(off_by) if off_by else {}
    return {one.pk: account_standing(one, names.get(one.switched_off_by, "")) for one in rows}


def _pause(account: Account) -> timedelta:
    since: datetime | None = account.status_since
    return _SOON if since is None or clock.now() - since < _SOON_FOR else _LATER


def mapping_of(value: Any) -> Mapping[str, Any]:
    """A mapping as it is, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}
