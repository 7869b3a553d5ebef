"""Deciding on several questions with one word: each by a decision of its own, none held up by another."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from django.db import DatabaseError, InterfaceError, OperationalError

from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.refusals import refusal_of
from tasks_app.people.models import User

log = structlog.get_logger(__name__)
_UNKNOWN = "The database refused it; nothing of it was recorded."
Refusal = DecisionRefusedError | TransitionError


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What became of one: recorded, where nothing refused it."""

    approval_id: uuid.UUID
    refusal: Refusal | None = None


def approvals_decide(
    *, shown: Mapping[uuid.UUID, str], user: User, verdict: str, comment: str = ""
) -> list[Decided]:
    """Decide on each of `shown` (its id to the digest of what was shown), in that order, each in its own
    commit: what our rules or PostgreSQL refuse of one is told for that one, and the next follows.

    Raises what a lost connection raises; what was decided before stands.
    """
    return [
        Decided(approval_id=approval_id, refusal=_refusal(approval_id, digest, user, verdict, comment))
        for approval_id, digest in shown.items()
    ]


def _refusal(approval_id: uuid.UUID, digest: str, user: User, verdict: str, comment: str) -> Refusal | None:
    try:
        approval_decide(
            approval_id=approval_id, user=user, verdict=verdict, comment=comment, expected_digest=digest
        )
    except (DecisionRefusedError, TransitionError) as refused:
        return refused
    except (OperationalError, InterfaceError):
        raise
    except DatabaseError as error:
        known = refusal_of(error)
        if known is None:
            log.exception("decision_refused_by_database", approval=str(approval_id))
        return known or DecisionRefusedError("impossible", _UNKNOWN)
    return None
