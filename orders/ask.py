"""What an integrator asks for, checked: every problem named by field, nothing of another team reachable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from tasks_app import clock
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.models import Advertiser, Team, User
from tasks_app.people.scope import visible
from tasks_app.sellers.models import Account, Seller

M = TypeVar("M", bound=BaseModel)
# Set by Flightdeck itself, with every operation.
_OURS = {
    "adcp_version": "is negotiated with the seller by Flightdeck",
    "adcp_major_version": "is negotiated with the seller by Flightdeck",
    "idempotency_key": "is made by Flightdeck: send your own in the header Idempotency-Key",
    "push_notification_config": "is set by Flightdeck: the seller's webhooks come to it",
}

_REACH = timedelta(days=3660)
_BRAND = "arguments.brand.domain"
_TOLD = 5  # of several, so many are named


class AskRefusedError(Exception):
    """What is asked for is wrong; `problems` maps each field to what is wrong with it. Nothing was made."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__("; ".join(f"{field}: {what}" for field, what in self.problems.items()))


class AskConflictError(Exception):
    """It contradicts what is there: the text says what. Nothing was made."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One task with one seller: `account` is our id or the seller's, where the caller named one;
    `arguments` are the task's own, as AdCP has them; `team` is the one of theirs that they named."""

    user: User
    task: str
    seller: Seller
    arguments: Mapping[str, Any]
    account: str = ""
    team: Team | None = None

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of what is asked for."""
        said = [self.task, self.seller.slug, self.account, self.arguments]
        said += [str(self.team.pk)] if self.team else []
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def refuse(field: str, problem: str) -> NoReturn:
    """Raises AskRefusedError with one problem."""
    raise AskRefusedError({field: problem})


def arguments_read(model: type[M], arguments: Mapping[str, Any]) -> M:
    """The task's arguments as `model`. Raises AskRefusedError with every problem."""
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        raise AskRefusedError(dict(_problem(dict(found)) for found in error.errors())) from error


def ours_refused(arguments: Mapping[str, Any]) -> None:
    """Raises AskRefusedError for fields that are not the caller's."""
    problems = {f"arguments.{name}": why for name, why in _OURS.items() if name in arguments}
    if problems:
        raise AskRefusedError(problems)


def names_account(ask: Ask) -> bool:
    """Whether the caller says which account is meant."""
    return bool(ask.account) or ask.arguments.get("account") is not None


def account_of(ask: Ask, *, advertisers: list[Advertiser] | None = None) -> Account:
    """The account that is meant, among those of the caller's teams (or of `advertisers`) with the seller;
    the only one there is need not be named. Raises AskRefusedError."""
    told = ask.arguments.get("account")
    mine = visible(Account.objects.filter(seller=ask.seller), ask.user, team="advertiser__team")
    if advertisers is not None:
        mine = mine.filter(advertiser__in=advertisers)
    if ask.team is not None:
        mine = mine.filter(advertiser__team=ask.team)
    found = list(mine.select_related("advertiser__team").order_by("id"))
    if ask.account:
        found = [a for a in found if ask.account in (str(a.pk), a.reference.get("account_id"))]
    if told is not None:
        found = [a for a in found if a.reference == told]
    if len(found) == 1:
        return found[0]
    field = "account" if ask.account or told is None else "arguments.account"
    if found:
        refuse(field, f"there are several, name one: {', '.join(str(a.pk) for a in found)}")
    refuse(field, f"there is no such account with {ask.seller} in your teams")


def advertisers_of(ask: Ask) -> list[Advertiser]:
    """The caller's advertisers (of the team that they named) with the brand domain of the arguments; empty
    where they name no brand."""
    domain = _domain(ask)
    if not domain:
        return []
    mine = visible(Advertiser.objects.select_related("team"), ask.user)
    if ask.team is not None:
        mine = mine.filter(team=ask.team)
    return list(mine.filter(brand_domain__iexact=domain).order_by("name", "id"))


def only_advertiser(advertisers: Sequence[Advertiser]) -> Advertiser | None:
    """The one that a brand means where nobody names the account; None where nobody has it. Raises
    AskRefusedError where several do: it is taken for none of them."""
    if len(advertisers) > 1:
        names = ", ".join(f"{one.name} ({one.team.name})" for one in advertisers[:_TOLD])
        teams = {one.team_id for one in advertisers}
        which = "say which `team`, or name an `account`" if len(teams) > 1 else "name an `account`"
        refuse(_BRAND, f"is the brand of several: {names}; {which}")
    return advertisers[0] if advertisers else None


def team_meant(ask: Ask) -> Team:
    """Whose it is where neither an account nor an advertiser says it: the team that is named, or the only one
    that the caller has. Raises AskRefusedError where several may be meant, OperationRefusedError: they have
    none."""
    teams = [ask.team] if ask.team else list(ask.user.teams.order_by("name"))
    if not teams:
        raise OperationRefusedError("You belong to no team: ask an administrator.")
    if len(teams) == 1:
        return teams[0]
    names = ", ".join(team.name for team in teams[:_TOLD])
    if _domain(ask):
        refuse(
            _BRAND, f"is the brand of none of your teams' advertisers; your teams: {names}; say which `team`"
        )
    refuse("team", f"say for which of your teams: {names}")


def is_in_reach(*moments: datetime | str | None) -> bool:
    """Whether every moment given is within ten years of now."""
    now = clock.now()
    return all(abs(moment - now) < _REACH for moment in moments if isinstance(moment, datetime))


def _domain(ask: Ask) -> str:
    brand = ask.arguments.get("brand")
    domain = brand.get("domain") if isinstance(brand, Mapping) else None
    return domain if isinstance(domain, str) else ""


def _problem(found: Mapping[str, Any]) -> tuple[str, str]:
    field = ".".join(["arguments", *(str(part) for part in found["loc"])])
    text = str(found["msg"]).removeprefix("Value error, ")
    if found["type"] == "extra_forbidden":
        text = "is not a field of this task"
    elif found["type"] == "missing":
        text = "is missing"
    return field, text
