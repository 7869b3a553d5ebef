"""What names an account by nature, and which of the accounts that a seller tells of is the one meant.

An account is its whole key: brand (domain, brand_id, countries), operator, the operator's unit, currency,
timezone and sandbox; of brand and unit nothing else. Source: AdCP core/account-ref, core/brand-ref and
core/operator-unit, account/sync-accounts-request ("BrandKey projection").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from .values import identity_of, text_of

# Before 3.2 an account is brand, operator and sandbox, and a reference with more is refused.
_KEY_SINCE_3_2 = ("operator_unit", "currency", "timezone")
_OLDER = ("3.0", "3.1")
_NAME_CHARS = 80


@dataclass(frozen=True, kw_only=True)
class AccountKey:
    """The parts of a natural key; what is not stated is None, and what is not called a sandbox is none."""

    domain: str | None
    brand_id: str | None
    countries: frozenset[str]
    operator: str | None
    unit: str | None
    currency: str | None
    timezone: str | None
    sandbox: bool


# What a seller may settle where nobody asked for it: every account of 3.2 has a timezone.
_SETTLED_BY_SELLER = ("currency", "timezone")
_ALWAYS = tuple(one.name for one in fields(AccountKey) if one.name not in _SETTLED_BY_SELLER)


def names_more(version: str) -> bool:
    """Whether a seller of that version takes more of an account's key than brand, operator and sandbox."""
    return version not in _OLDER


def account_key(told: Mapping[str, Any]) -> AccountKey:
    """The natural key in an account, or in a reference to one."""
    brand, unit = _mapping(told.get("brand")), _mapping(told.get("operator_unit"))
    countries = brand.get("countries")
    return AccountKey(
        domain=_domain(brand.get("domain")),
        brand_id=text_of(brand.get("brand_id")),
        countries=frozenset(one for one in countries if isinstance(one, str))
        if isinstance(countries, list)
        else frozenset(),
        operator=_domain(told.get("operator")),
        unit=identity_of(unit.get("id")),
        currency=text_of(told.get("currency")),
        timezone=text_of(told.get("timezone")),
        sandbox=told.get("sandbox") is True,
    )


def natural_reference(
    told: Mapping[str, Any], *, version: str, timezone_is_chosen: bool = True
) -> dict[str, Any]:
    """The reference that names by nature the account told of, as a seller of that version takes it: parts
    of the key alone. A timezone is one only where the buyer chooses it."""
    key = account_key(told)
    brand = {
        "domain": key.domain,
        "brand_id": key.brand_id,
        "countries": sorted(key.countries) if names_more(version) else None,
    }
    named = {
        "brand": {name: part for name, part in brand.items() if part},
        "operator": key.operator,
        "operator_unit": {"id": key.unit} if key.unit else None,
        "currency": key.currency,
        "timezone": key.timezone if timezone_is_chosen else None,
        "sandbox": key.sandbox,
    }
    left_out = () if names_more(version) else _KEY_SINCE_3_2
    return {name: part for name, part in named.items() if part and name not in left_out}


def account_in(rows: Sequence[Mapping[str, Any]], asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The one among the accounts told of that `asked` refers to; None where none is, or several may be."""
    named = identity_of(asked.get("account_id"))
    found = [row for row in rows if _of_id(row, named)] if named else _of_key(rows, asked)
    return found[0] if len(found) == 1 else None


def other_brand(told: Mapping[str, Any], domain: str) -> str:
    """The domain of the brand that an account states, where it is another; empty where it states none."""
    stated = account_key(_identity(told)).domain
    return stated if stated and stated != _domain(domain) else ""


def other_account(told: Mapping[str, Any], reference: Mapping[str, Any] | None) -> str:
    """The id of the account that a record states, where it is another than that of `reference`; empty where
    either states none."""
    stated, ours = (
        identity_of(_identity(told).get("account_id")),
        identity_of((reference or {}).get("account_id")),
    )
    return stated if stated and ours and stated != ours else ""


def account_stated(told: Mapping[str, Any]) -> dict[str, Any]:
    """Whose a record says that it is, and no more: the account's id and its brand's domain; empty where it
    states neither."""
    row = _identity(told)
    account_id, domain = identity_of(row.get("account_id")), account_key(row).domain
    return {
        **({"account_id": account_id} if account_id else {}),
        **({"brand": {"domain": domain}} if domain else {}),
    }


def account_name(told: Mapping[str, Any]) -> str:
    """How a seller names an account it tells of, for people."""
    row = _identity(told)
    key = account_key(row)
    named = [key.domain, key.brand_id, key.operator, key.unit, identity_of(row.get("account_id"))]
    said = " / ".join(part[:_NAME_CHARS] for part in named if part) or "one that it does not name"
    return f"{said} (sandbox)" if key.sandbox else said


def _of_id(row: Mapping[str, Any], named: str) -> bool:
    return identity_of(row.get("account_id") or _mapping(row.get("account")).get("account_id")) == named


def _of_key(rows: Sequence[Mapping[str, Any]], asked: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Those with this key: of several the one whose key is as it was asked for, whatever its timezone, which
    a seller states of every account. An only one need not repeat what was asked."""
    wanted = account_key(asked)
    if len(rows) == 1:
        told = {**_asked_alone(asked), **_stated(_identity(rows[0]))}
        return [row for row in rows if _is_of(account_key(told), wanted)]
    found = [(row, account_key(_identity(row))) for row in rows]
    fitting = [(row, key) for row, key in found if _is_of(key, wanted)]
    exact = [row for row, key in fitting if key == wanted]
    zoned = [row for row, key in fitting if key.currency == wanted.currency]
    return exact or zoned or [row for row, _ in fitting]


def _is_of(key: AccountKey, wanted: AccountKey) -> bool:
    settled = [name for name in _SETTLED_BY_SELLER if getattr(wanted, name) is not None]
    return all(getattr(key, name) == getattr(wanted, name) for name in (*_ALWAYS, *settled))


def _identity(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a row says whose it is: the reference that it repeats, where it has one (settings of an account
    that exists), else itself."""
    return {**row, **_mapping(row.get("account"))}


def _asked_alone(asked: Mapping[str, Any]) -> dict[str, Any]:
    names = ("brand", "operator", "operator_unit", "currency", "timezone", "sandbox")
    return {name: asked[name] for name in names if asked.get(name) is not None}


def _stated(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _domain(value: object) -> str | None:
    text = text_of(value)
    return text.lower().rstrip(".") or None if text else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
