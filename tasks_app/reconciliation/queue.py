"""Findings that nobody has taken, for the queue of what waits on a person."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Exists, OuterRef, Q, QuerySet

from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.waiting import Asked, Source, Waiting, waiting_register
from tasks_app.lifecycle.names import link_to
from tasks_app.operations.comparison import Verdict
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.reconciliation.models import ReconciliationFinding
from tasks_app.reconciliation.presenters import KINDS, verdict_words
from tasks_app.reconciliation.selectors import findings_of

_KIND = "finding"
_HEAVY = ("told", "seller__token", "seller__webhook_secret", "seller__capabilities", "seller__tools")


def register() -> None:
    """Called when the application starts."""
    waiting_register(
        Source(labels={_KIND: "Reconciliation finding"}, rows=findings_waiting, tell=_findings_told)
    )


def findings_waiting(viewer: User, asked: Asked) -> QuerySet[ReconciliationFinding]:
    """Open differences that no approval asks about, none for who may not read them; on who steers those wait
    that nobody else has taken. They have no deadline."""
    reads = viewer.has_perm("tasks_app.view_reconciliationfinding")
    if not reads or asked.late or (asked.mine and not viewer.has_perm(STEER_OPERATION)):
        return ReconciliationFinding.objects.none()
    about = Approval.objects.filter(
        subject_type=OuterRef("subject_type"),
        subject_id=OuterRef("subject_id"),
        status=ApprovalStatus.OPEN,
    )
    rows = findings_of(viewer).filter(resolved_at__isnull=True).exclude(verdict=Verdict.EXTERNAL)
    if asked.mine:
        rows = rows.filter(Q(holder__isnull=True) | Q(holder=viewer))
    return rows.exclude(Exists(about)).select_related("seller", "holder").defer(*_HEAVY).order_by("pk")


def _findings_told(viewer: User, rows: Sequence[ReconciliationFinding]) -> list[Waiting]:
    steers = viewer.has_perm(STEER_OPERATION)
    return [_finding(one, viewer, steers) for one in rows]


def _finding(finding: ReconciliationFinding, viewer: User, steers: bool) -> Waiting:
    words = verdict_words(finding.verdict)
    subject = finding.subject_id
    return Waiting(
        kind=_KIND,
        label="Reconciliation finding",
        reference=finding.here or finding.theirs[:60],
        title=f"{KINDS.get(finding.kind, finding.kind)}: {words.word.lower()}",
        link=link_to(ReconciliationFinding, finding.pk),
        glyph=words.glyph,
        seller=finding.seller.name,
        caught="The seller tells it differently",
        who=str(finding.holder) if finding.holder else "Ad Ops, nobody has taken it",
        since=finding.first_seen_at,
        mine=steers and finding.holder_id in (None, viewer.pk),
        note=finding.note or words.means,
        answers=(("Take it", words.advice), ("Nothing", "Every reconciliation tells it again.")),
        subject=(finding.subject_type, subject) if subject else None,
    )
