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
    """The page, advertiser, campaign and amount of a subject; empty where it has none."""

    reference: str
    link: str = ""
    advertiser: str = ""
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
class StartedOperation:
    """One operation with the seller, for a link to its page."""

    reference: str
    link: str
    task_type: str
    status: str


@dataclass(frozen=True, kw_only=True)
class Detail:
    """Facts around one approval, for its page.

    Attributes:
        group: Ids of the subjects in the same campaign.
        history: (label, value) of the seller's earlier deals.
        answer_time: The seller's median time to settle a purchase, None without any.
        creative_deadline_unread: The deadline as the seller states it, if that is no moment.
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
StartedBy = Callable[[Approval, User], list[StartedOperation]]
_known: dict[str, tuple[PlacesOf, DetailOf]] = {}
_started: dict[str, StartedBy] = {}


def around_register(
    subject_type: str, *, places: PlacesOf, detail: DetailOf, started: StartedBy | None = None
) -> None:
    """Let the owner of `subject_type` tell what surrounds its subjects, and what a decision started."""
    _known[subject_type] = (places, detail)
    if started is not None:
        _started[subject_type] = started


def operations_started(approval: Approval, viewer: User) -> list[StartedOperation]:
    """Return the operations that a decision started, as far as they exist yet."""
    started = _started.get(approval.subject_type)
    return started(approval, viewer) if started else []


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
