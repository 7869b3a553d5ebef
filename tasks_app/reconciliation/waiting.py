"""Who has a finding: whoever took it, an open question about its subject, or all who may steer operations."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.people.holders import people_with
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.reconciliation.models import ReconciliationFinding

_NAMED = 3


class Waiting:
    """On whom open findings wait, by name: one query for their questions, two for who decides on
    these, one for each team's people."""

    def __init__(self, findings: Iterable[ReconciliationFinding]) -> None:
        subjects = [one.subject_id for one in findings if one.subject_id and one.resolved_at is None]
        asked = Approval.objects.filter(subject_id__in=subjects, status=ApprovalStatus.OPEN)
        # The most urgent one stands: later rows are written over.
        self._questions = {
            (approval.subject_type, approval.subject_id): approval
            for approval in asked.defer("evidence").order_by("-due_at")
        }
        self._deciders = deciders(list(self._questions.values()))
        self._people: dict[tuple[str, uuid.UUID | None, uuid.UUID | None], str] = {}

    def question(self, finding: ReconciliationFinding) -> Approval | None:
        """The open approval about what the finding is about."""
        if finding.subject_id is None:
            return None
        return self._questions.get((finding.subject_type, finding.subject_id))

    def words(self, finding: ReconciliationFinding) -> str:
        """Names; empty where nobody may do anything about it, or nothing is to be done."""
        if finding.resolved_at is not None or not finding.differs:
            return ""
        if finding.holder is not None:
            return str(finding.holder)
        question = self.question(finding)
        if question is not None and (able := self._deciders[question.pk]):
            return f"{question.reference}: {_named([str(user) for user in able])}"
        return self._with(STEER_OPERATION, finding)

    def _with(self, right: str, finding: ReconciliationFinding) -> str:
        advertiser_id = finding.account.advertiser_id if finding.account else None
        key = (right, finding.team_id, advertiser_id)
        if key not in self._people:
            people = people_with(right, finding.team_id, advertiser_id)[: _NAMED + 1]
            self._people[key] = _named([str(person) for person in people])
        return self._people[key]


def _named(people: Sequence[str]) -> str:
    named = ", ".join(people[:_NAMED])
    return f"{named} and others" if len(people) > _NAMED else named
