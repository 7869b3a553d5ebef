"""What is asked of people, and whether an approval still shows it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import rfc8785

from tasks_app.approvals.changes import evidence_changes
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policies import FactsOf, no_facts
from tasks_app.lifecycle.transitions import exact
from tasks_app.people.models import Team

TITLE = 200  # characters of a title that are kept
_I_JSON_INTEGER = 2**53 - 1


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked: `subject_version` and the digest of `evidence` bind the answer to what was shown.
    `moving`: fields of the evidence that go on by themselves while people read, such as a seller's latest
    words; they make it no other question. `instead_of`: the approved question whose subject changed before
    anything left; one that was voided is found without. `judged_as`: kinds whose policies look at it too."""

    kind: str
    team: Team | None  # None: the whole house’s, asked of whoever may decide
    title: str
    subject_type: str
    subject_id: uuid.UUID
    subject_version: int
    evidence: Mapping[str, Any]
    policy: str
    amount: Decimal | None = None
    currency: str = ""
    due_at: datetime | None = None
    quorum: int = 1
    # What policies judge by besides kind and amount.
    advertiser_id: uuid.UUID | None = None
    facts: FactsOf = no_facts
    moving: frozenset[str] = frozenset()
    instead_of: Approval | None = None
    judged_as: frozenset[str] = frozenset()


def evidence_digest(evidence: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of the evidence in RFC 8785 form; integers too large for it stand as text."""
    return hashlib.sha256(rfc8785.dumps(_i_json(exact(evidence)))).hexdigest()


def _i_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _i_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_i_json(inner) for inner in value]
    return str(value) if isinstance(value, int) and abs(value) > _I_JSON_INTEGER else value


def is_as_shown(approval: Approval, now: Question) -> bool:
    """Whether an approval shows what is asked `now`, and its evidence has its digest. An amount in another
    notation and a moment in another zone are the same."""
    shown = (approval.kind, approval.team_id, approval.title, approval.amount, approval.currency)
    asked = (now.kind, now.team.pk if now.team else None, now.title[:TITLE], now.amount, now.currency)
    return (
        shown == asked
        and approval.quorum >= now.quorum
        and approval.evidence_digest == evidence_digest(approval.evidence)
        and not evidence_changes(_still(approval.evidence, now), _still(exact(now.evidence), now))
    )


def _still(evidence: Mapping[str, Any], now: Question) -> dict[str, Any]:
    return {name: value for name, value in evidence.items() if name not in now.moving}
