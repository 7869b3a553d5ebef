"""The shape of questions to people about one operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks_app.approvals.question import Question
from tasks_app.operations.models import Operation
from tasks_app.people.models import Team


def operation_question(
    operation: Operation,
    *,
    kind: str,
    team: Team | None,
    title: str,
    evidence: Mapping[str, Any],
    policy: str,
    version: int | None = None,
) -> Question:
    """A question about an operation as it is now; `version`: what else the answer is bound to (a pause's
    generation), `team` None: the whole house is asked. The evidence always names the operation."""
    return Question(
        kind=kind,
        team=team,
        title=title,
        subject_type="operation",
        subject_id=operation.pk,
        subject_version=operation.version if version is None else version,
        evidence={"operation": operation.reference, **evidence},
        policy=policy,
        moving=frozenset({"last_message", "account_status"}),
    )
