"""Whose the imported rows are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from campaigns.legacy.values import UnmappableError
from tasks_app.people.models import Advertiser, Team, User


class UnknownAdvertiserError(ValueError):
    """The team has no advertiser of that name, or several."""


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The team, who answers for the import, the name of the source (part of what makes a row the same row),
    the zone of its flights, and advertisers by what the source calls them ("": names none)."""

    team: Team
    user: User
    source: str = "ad_buyer"
    zone: str = "UTC"
    advertisers: dict[str, Advertiser] = field(default_factory=dict)

    def advertiser(self, column: str, told: str) -> Advertiser | None:
        """None where the source names none. Raises UnmappableError for a name that nobody here has."""
        found = self.advertisers.get(told) or self.advertisers.get(told.casefold())
        if found is None and told:
            problem = f"{told!r} is no advertiser of {self.team}: say --advertiser {told}=NAME"
            raise UnmappableError(column, problem)
        return found


def advertisers_named(team: Team, said: Iterable[str]) -> dict[str, Advertiser]:
    """The team's advertisers by name and brand domain, and as said: `NAME`, for rows that name none, or
    `LEGACY=NAME`. What several are called stands for none. Raises UnknownAdvertiserError."""
    called: dict[str, set[Advertiser]] = {}
    for one in team.advertisers.all():
        for name in (one.brand_domain, one.name):
            called.setdefault(name.casefold(), set()).add(one)
    found = {name: next(iter(ones)) for name, ones in called.items() if len(ones) == 1}
    named = dict(found)
    for told in said:
        legacy, equals, name = told.rpartition("=")
        advertiser = found.get(name.strip().casefold())
        several = called.get(name.strip().casefold(), set())
        if len(several) > 1:
            names = ", ".join(sorted(one.name for one in several))
            raise UnknownAdvertiserError(f"{name.strip()!r} is several advertisers of {team}: {names}")
        if advertiser is None or (equals and not legacy.strip()):
            raise UnknownAdvertiserError(f"{team} has no advertiser {name.strip()!r}")
        named[legacy.strip()] = advertiser
    return named
