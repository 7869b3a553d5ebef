"""What surrounds the subject of a question: told by the storey that owns the subject.

An approval knows its subject by type and id alone; campaign, money left and history live above.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from tasks_app.approvals.models import Approval
from tasks_app.people.models import User


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a subject belongs: its own page, its campaign (empty: none), the money it is about."""

    reference: str
    link: str = ""
    campaign: str = ""
    campaign_link: str = ""
    amount: Decimal | None = None
    currency: str = ""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The campaign's money at this moment, in `currency`; `taken` is confirmed and approved elsewhere, and
    `besides` says in words what is owed besides that nobody can count."""

    total: Decimal
    taken: Decimal
    currency: str
    besides: str = ""

    def left_after(self, amount: Decimal) -> Decimal:
        """What is left once `amount` is spent too; negative when it goes beyond the budget."""
        return self.total - self.taken - amount


@dataclass(frozen=True, kw_only=True)
class Detail:
    """What the page of one question shows besides its evidence: where its subject belongs among them.

    `group`: ids of the subjects in the same campaign. `history`: (label, value) of real rows. `answer_time`:
    the seller's median time to settle a purchase, None without any. `creative_deadline_unread`: as the seller
    states it, where that is no moment.
    """

    place: Place | None = None
    budget: Budget | None = None
    group: tuple[uuid.UUID, ...] = ()
    history: tuple[tuple[str, str], ...] = ()
    answer_time: timedelta | None = None
    creative_deadline: datetime | None = None
    creative_deadline_unread: str = ""


PlacesOf = Callable[[Collection[uuid.UUID], User], dict[uuid.UUID, Place]]
DetailOf = Callable[[uuid.UUID, User], Detail]
_known: dict[str, tuple[PlacesOf, DetailOf]] = {}


def around_register(subject_type: str, *, places: PlacesOf, detail: DetailOf) -> None:
    """Let the owner of `subject_type` tell what surrounds its subjects."""
    _known[subject_type] = (places, detail)


def places_of(approvals: Collection[Approval], viewer: User) -> dict[uuid.UUID, Place]:
    """Subject id to its place, for those that are known; one call for each type of subject."""
    return places_about([(approval.subject_type, approval.subject_id) for approval in approvals], viewer)


def places_about(subjects: Collection[tuple[str, uuid.UUID]], viewer: User) -> dict[uuid.UUID, Place]:
    """The same of (type, id) pairs."""
    found: dict[uuid.UUID, Place] = {}
    for kind in {kind for kind, _ in subjects} & _known.keys():
        found |= _known[kind][0]({subject for named, subject in subjects if named == kind}, viewer)
    return found


def detail_of(approval: Approval, viewer: User) -> Detail:
    """What surrounds one question's subject."""
    known = _known.get(approval.subject_type)
    return known[1](approval.subject_id, viewer) if known else Detail()
