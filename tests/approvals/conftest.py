"""A kind of question whose effects a test can look at."""

from __future__ import annotations

from typing import Any

import pytest

from tasks_app import ids
from tasks_app.approvals import kinds
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import approval_open
from tests.factories import make_team


def as_asked(approval: Approval) -> Question:
    """The same again, whatever it shows."""
    return Question(
        kind=approval.kind,
        team=approval.team,
        title=approval.title,
        subject_type=approval.subject_type,
        subject_id=approval.subject_id,
        subject_version=approval.subject_version,
        evidence=approval.evidence,
        policy=approval.policy,
        amount=approval.amount,
        currency=approval.currency,
    )


class Desk:
    """Asks questions about a thing of a certain version, and notes what the answers did."""

    def __init__(self) -> None:
        self.subject = ids.new_id()
        self.version: int | None = 1
        self.applied: list[Outcome] = []
        self.closed: list[Approval] = []
        self.effect: Any = lambda: None
        kind_register(
            Kind(
                name="test",
                label="Test",
                apply=self._apply,
                version=lambda approval: self.version,
                asks=as_asked,
                reopen=lambda approval: self.ask(),
                spends=True,
                wished=True,
                effects={},
            )
        )
        kinds.on_closed(self.closed.append)

    def _apply(self, approval: Approval, outcome: Outcome) -> None:
        self.effect()
        self.applied.append(outcome)

    def ask(self, *, requested_by: Any = "system", **fields: Any) -> Approval:
        defaults: dict[str, Any] = {
            "kind": "test",
            "team": make_team(),
            "title": "May it?",
            "subject_type": "thing",
            "subject_id": self.subject,
            "subject_version": self.version or 1,
            "evidence": {"gross": "10.00", "version": self.version},
            "policy": "Always",
        }
        return approval_open(
            question=Question(**{**defaults, **fields}), requested_by=requested_by, opened_by="system"
        )


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(kinds, "_kinds", {})
    monkeypatch.setattr(kinds, "_closed", [])
    return Desk()
