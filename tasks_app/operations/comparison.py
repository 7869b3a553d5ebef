"""What a comparison with a seller comes to: one finding for each task or media buy."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db.models import QuerySet

from tasks_app.adcp.types import Seen
from tasks_app.operations.line import Teams, UnreadableError
from tasks_app.operations.services import Subject
from tasks_app.sellers.models import Seller


class Verdict(StrEnum):
    """What a comparison of one task, or one media buy, comes to."""

    BOUGHT_UNKNOWN = "bought_unknown"  # a media buy with our ids that is no deal's: money is being spent
    ORPHANED = "orphaned"  # at the seller, unknown here
    MISSING = "missing"  # here, unknown at the seller
    BEHIND = "behind"  # ended at the seller, not here; or bought late, and people are asked
    AHEAD = "ahead"  # ended here, not at the seller
    UNCLEAR = "unclear"  # the seller gives it a status of its own
    UNANSWERED = "unanswered"  # ours most likely: the answer to a call is still to come
    EXTERNAL = "external"  # a media buy made without us
    IN_STEP = "in_step"  # both say the same


DIFFERENT = frozenset(
    {
        Verdict.BOUGHT_UNKNOWN,
        Verdict.ORPHANED,
        Verdict.MISSING,
        Verdict.BEHIND,
        Verdict.AHEAD,
        Verdict.UNCLEAR,
    }
)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One task or media buy: the seller's id for it, our reference, the status on either side.

    `subject` is our side of it, `team_id` and `account_id` whose it is, where that is certain. `told` is the
    seller's own record of it, asked for at `asked_at`; `seen` its answer to a question about this one alone.
    """

    verdict: Verdict
    theirs: str
    here: str = ""
    status_there: str = ""
    status_here: str = ""
    note: str = ""
    subject: Subject | None = None
    team_id: uuid.UUID | None = None
    account_id: uuid.UUID | None = None
    told: dict[str, Any] | None = field(default=None, repr=False)
    asked_at: datetime | None = None
    seen: Seen | None = field(default=None, repr=False)

    @property
    def differs(self) -> bool:
        return self.verdict in DIFFERENT

    def as_dict(self) -> dict[str, str]:
        """What a report says of it."""
        return {
            "verdict": self.verdict.value,
            "theirs": self.theirs,
            "here": self.here,
            "status_there": self.status_there,
            "status_here": self.status_here,
            "note": self.note,
        }


@dataclass(kw_only=True)
class Reading:
    """What one seller was found to know. `unread`: why it could not be asked, or not to the end.
    `unread_ours`: the same in words for everybody, where `unread` is for `unread_teams` alone.
    `notes`: what could not be compared, for everybody; `unnamed`: the same of single entities and accounts,
    with the team whose they are. `complete`: everything the seller has was looked at, but for what could not
    be found: verdicts that nothing would have shown (`unseen`) but of what was asked for by its id (`asked`),
    and what the seller was not asked about (`unjudged`, by its ids)."""

    seller: Seller
    findings: list[Finding] = field(default_factory=list)
    unread: str = ""
    unread_ours: str = ""
    unread_teams: Teams = frozenset()
    notes: list[str] = field(default_factory=list)
    unnamed: list[tuple[str, uuid.UUID | None]] = field(default_factory=list)
    complete: bool = True
    unseen: frozenset[Verdict] = frozenset()
    asked: frozenset[str] = frozenset()
    unjudged: frozenset[str] = frozenset()


Unnamed = list[tuple[str, uuid.UUID | None]]


def unnamed_of(rows: QuerySet[Any], *, state: str, name: str) -> Unnamed:
    """What a `Reading` says of entities of ours that lack the seller's `name` for them, with their teams."""
    return [
        (f"{reference} is {state} without a {name} of the seller's: it cannot be compared", team_id)
        for reference, team_id in rows.order_by("id").values_list("reference", "team_id")
    ]


def refused_of(refused: Mapping[str, Teams]) -> Unnamed:
    """What a `Reading` says of accounts and things that the seller does not tell of, once for each team."""
    return [(words, team) for words, teams in refused.items() for team in sorted(teams, key=str)]


def unread_of(seller: Seller, error: UnreadableError, refused: Mapping[str, Teams]) -> Reading:
    """The reading of a seller that could not be asked, and which accounts it had refused until then."""
    return Reading(
        seller=seller,
        unread=str(error),
        unread_ours=error.ours,
        unread_teams=error.teams,
        unnamed=refused_of(refused),
        complete=False,
    )


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What was done about a finding without a person: `how` in one word, `note` in words."""

    how: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One kind of thing that is compared.

    `read(sellers, limit_s)` asks all sellers at once, none for longer than `limit_s` seconds, and changes
    nothing; no transaction is open meanwhile. `settle(seller, finding)` does what needs no person, rows only,
    harmless when repeated; None where it has nothing to do.
    """

    kind: str
    read: Callable[[Sequence[Seller], float], list[Reading]]
    settle: Callable[[Seller, Finding], Settled | None]
