"""Reading get_adcp_capabilities, and agreeing on a version.

Sources: AdCP protocol/get-adcp-capabilities, core/version-envelope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .hygiene import clean
from .tasks import TASK_NAMES
from .types import Capabilities, DiscoveryError, Seen
from .values import identity_of, whole_of

# AdCP allows no more; beyond it nothing is promised that we count on.
_LONGEST_TTL_S = 7 * 86_400
VERSION_UNSUPPORTED = "VERSION_UNSUPPORTED"
# It is read with each row of a seller's: of what it says of itself no more is kept.
_LARGEST = 2**20
_MOST_NAMES, _LONGEST_NAME = 1000, 128
# What we speak, best first.
OUR_VERSIONS = ("3.2", "3.1", "3.0")


def negotiate(payload: Mapping[str, Any]) -> str:
    """The best release both sides speak.

    A seller that lists none and declares major version 3 is a 3.0 seller. A patch ("3.2.4") counts as its
    release; a pre-release is never assumed from its number. Raises DiscoveryError when there is none.
    """
    theirs = listed_versions(payload)
    releases = {_release(version) for version in theirs}
    for version in OUR_VERSIONS:
        if version in releases:
            return version
    spoken = ", ".join(theirs) or "no version it names"
    raise DiscoveryError(f"the seller speaks {spoken}; Flightdeck speaks {', '.join(OUR_VERSIONS)}")


def version_named(seen: Seen) -> str | None:
    """The best release that both sides speak, of those that a refusal of our version names; None for anything
    else (error-details/version-unsupported)."""
    details = seen.error.details if seen.error and seen.error.code == VERSION_UNSUPPORTED else None
    try:
        return negotiate({"adcp": details}) if isinstance(details, Mapping) else None
    except DiscoveryError:
        return None


def listed_versions(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """The versions a seller lists; ("3.0",) for one that only declares major version 3."""
    adcp = _mapping(payload.get("adcp"))
    listed = _texts(adcp.get("supported_versions"))
    if listed:
        return listed
    majors = adcp.get("major_versions")
    spoken = {identity_of(one) for one in majors} if isinstance(majors, list) else set()
    return ("3.0",) if "3" in spoken else ()


def regions_not_targeted(payload: Mapping[str, Any], regions: Sequence[str]) -> list[str]:
    """Those of the regions (ISO 3166-2) that a seller's capabilities do not promise to honour as
    `geo_regions`: of all, or from 3.2 on country by country and no more than a package may have
    (core/geo-region-support)."""
    execution = _mapping(_mapping(payload.get("media_buy")).get("execution"))
    return _beyond(_mapping(execution.get("targeting")).get("geo_regions"), regions)


def lets_choose_regions(product: Mapping[str, Any], regions: Sequence[str]) -> bool:
    """Whether packages of a product may be cut to those: by its `overlay_support`, which binds, or by what
    its seller declares where it states none (3.2, core/targeting-overlay-support)."""
    if not regions or not isinstance(product.get("overlay_support"), Mapping):
        return True
    return not _beyond(product["overlay_support"].get("geo_regions"), regions)


def _beyond(support: object, regions: Sequence[str]) -> list[str]:
    if support is True:
        return []
    most = whole_of(_mapping(support).get("max_values_per_package"))
    if most is not None and len(regions) > most:
        return list(regions[max(most, 0) :])
    declared = _mapping(_mapping(support).get("countries"))
    countries = {name: _mapping(declared.get(name)) for name in {one.partition("-")[0] for one in regions}}
    named = {
        name: frozenset(_texts(country.get("values")))
        for name, country in countries.items()
        if country.get("all_values") is not True
    }
    return [one for one in regions if one not in named.get(one.partition("-")[0], {one})]


def names_kept(names: Iterable[str]) -> frozenset[str]:
    """A seller's tools or skills as they are kept: readable ones, the tasks of AdCP's first, no more than
    anybody has."""
    readable = {str(clean(name)) for name in names if 0 < len(name) <= _LONGEST_NAME}
    return frozenset(sorted(readable, key=lambda name: (name not in TASK_NAMES, name))[:_MOST_NAMES])


def read_capabilities(
    payload: Mapping[str, Any],
    *,
    tools: frozenset[str],
    agent_name: str,
    quirks: frozenset[str],
    version: str,
) -> Capabilities:
    """The parts of a seller's capabilities that decide anything; all of it stays in `raw`. Raises
    DiscoveryError for more than is kept of a seller."""
    size = _size(payload)
    if size > _LARGEST:
        raise DiscoveryError(f"the seller says {size:,} characters of itself, more than {_LARGEST:,}")
    account = payload.get("account")
    account = account if isinstance(account, dict) else None
    signing = payload.get("webhook_signing")
    signing = signing if isinstance(signing, dict) else None
    media_buy = _mapping(payload.get("media_buy"))
    operator_auth = account.get("require_operator_auth") if account else None
    return Capabilities(
        agent_name=str(clean(agent_name))[:_LONGEST_NAME],
        version=version,
        supported_versions=listed_versions(payload),
        tools=tools,
        lifecycle_tools=_texts(media_buy.get("lifecycle_tools")),
        supported_protocols=_texts(payload.get("supported_protocols")),
        specialisms=_texts(payload.get("specialisms")),
        idempotency_ttl_s=_idempotency_ttl(_mapping(payload.get("adcp"))),
        webhook_signing=signing,
        legacy_hmac_fallback=bool(signing and signing.get("legacy_hmac_fallback") is True),
        require_operator_auth=operator_auth if isinstance(operator_auth, bool) else None,
        account=account,
        brand_json_url=_brand_json_url(_mapping(payload.get("identity"))),
        channels=_texts(_mapping(media_buy.get("portfolio")).get("primary_channels")),
        quirks=quirks,
        raw=payload,
    )


def _size(value: Any) -> int:
    """About as many characters as a JSON value has when it is written."""
    if isinstance(value, dict):
        return sum(len(str(name)) + _size(item) for name, item in value.items())
    if isinstance(value, list):
        return sum(_size(item) + 1 for item in value)
    return len(value) if isinstance(value, str) else 8


def _release(version: str) -> str:
    """ "3.2.4" -> "3.2"; anything with more than digits and dots stays as it is."""
    parts = version.split(".")
    return ".".join(parts[:2]) if len(parts) == 3 and all(part.isdecimal() for part in parts) else version


def _idempotency_ttl(adcp: Mapping[str, Any]) -> int | None:
    declared = _mapping(adcp.get("idempotency"))
    if declared.get("supported") is False:
        return None
    ttl = whole_of(declared.get("replay_ttl_seconds"))
    return min(ttl, _LONGEST_TTL_S) if ttl is not None and ttl > 0 else None


def _brand_json_url(identity: Mapping[str, Any]) -> str | None:
    url = identity.get("brand_json_url")
    return url if isinstance(url, str) and url.startswith("https://") else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
