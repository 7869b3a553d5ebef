"""Whose campaign a brief is: the advertiser that it names, and the team that buys for it.

A name is taken for nobody but who it names: where it is unknown, or several have it, the brief is refused
with the names that are known, and no team sees it but the one that was meant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from campaigns.brief import Problem
from tasks_app.people.models import Advertiser, Team, User
from tasks_app.people.scope import advertisers_seen, teams_of

_KNOWN = 200  # advertisers that are looked through for one that was meant
_TOLD = 5


@dataclass(frozen=True, kw_only=True)
class Buyer:
    """Of a brief: its team, None where no single one was meant; its advertiser, None where none is known by
    that name or several are; and what is wrong with either name."""

    team: Team | None = None
    advertiser: Advertiser | None = None
    problems: list[Problem] = field(default_factory=list)


def buyer_of(user: User, raw: dict[str, Any]) -> Buyer:
    """Whom the brief's `advertiser` and `team` mean, of what the user sees. Where several teams have an
    advertiser of that name, the brief says which; its brand domain says it too."""
    known = advertisers_seen(user).select_related("team").order_by("name", "team__name")
    said, teams = _text(raw.get("team")), list(user.teams.order_by("name"))
    if said:
        teams = list(teams_of(user).filter(name__iexact=said))
        known = known.filter(team__in=teams)
        if len(teams) != 1:
            return Buyer(problems=[{"field": "team", "problem": "is none of your teams"}])
    named = _text(raw.get("advertiser"))
    found = list(known.filter(name__iexact=named)) if named else []
    for only in (_of_domain(found, _text(raw.get("brand_domain"))), [a for a in found if a.name == named]):
        found = only if len(found) > 1 and only else found
    if len(found) == 1:
        return Buyer(team=found[0].team, advertiser=found[0])
    problem = _which(found) if found else _unknown(named, list(known[:_KNOWN]))
    problems = [{"field": "advertiser", "problem": problem}]
    return Buyer(team=teams[0] if len(teams) == 1 else None, problems=problems)


def _text(given: object) -> str:
    return given.strip() if isinstance(given, str) else ""


def _of_domain(found: list[Advertiser], domain: str) -> list[Advertiser]:
    return [one for one in found if one.brand_domain == domain.lower()]


def _which(found: list[Advertiser]) -> str:
    """Of several of one name: in which teams they are."""
    teams = sorted({one.team.name for one in found})
    if len(teams) == 1:
        names = ", ".join(f"{one.name} ({one.brand_domain})" for one in found[:_TOLD])
        return f"is the name of several: {names}; write it as it is"
    return f"is one of several teams: {', '.join(teams[:_TOLD])}; say which as `team`"


def _unknown(named: str, known: list[Advertiser]) -> str:
    """What the user may have meant: names like it, or the first that there are."""
    names = {one.name.casefold(): f"{one.name} ({one.team.name})" for one in known}
    like = get_close_matches(named.casefold()[:_KNOWN], names, n=_TOLD, cutoff=0.6) or list(names)[:_TOLD]
    told = ", ".join(names[one] for one in like)
    return f"is none of your teams' advertisers{f'; known: {told}' if told else ''}"
