"""A media buy that runs at its seller although its deal was completed, has failed, or was cancelled by its
seller: whether it is cancelled is asked of people, as every cancellation that nobody has decided on yet.

What people ended themselves was decided, and is cancelled at its seller without asking again.
"""

from __future__ import annotations

from orders.amounts import deal_amounts
from orders.changes.open_changes import cancels_all
from orders.evidence import cancellation_evidence, cancellation_words, deal_evidence
from orders.models import Deal, DealMirror, DealStatus
from orders.questions import deal_question
from orders.sent import request_shown
from orders.services import cancellation_arguments, deal_cancel_at_seller, deal_locked
from tasks_app.adcp.types import BUY_GONE
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import DecisionRefusedError, approval_open
from tasks_app.approvals.subjects import questions_review
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.models import Operation
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.actors import SYSTEM, is_login
from tasks_app.people.models import User

RUNS_ON = "runs_on"
_SELLERS_WORD = (DealStatus.COMPLETED, DealStatus.FAILED)  # nobody here has decided to end these


def register() -> None:
    """Called when the application starts."""
    kind_register(
        Kind(
            name=RUNS_ON,
            label="Cancellation of what runs on",
            apply=_decided,
            version=_version,
            asks=_question_again,
            reopen=_reopen,
            effects={
                "approve": "Asks the seller to cancel it.",
                "reject": "Nothing is sent; it runs on at the seller.",
                "nothing": "Nothing is sent. Waiting never approves.",
            },
            effects_for=lambda approval: {"approve": cancellation_words(approval.evidence)},
            sends=frozenset({"approve"}),
            outlives_job=True,
            wished=True,
        )
    )


def is_ended_by_seller(deal: Deal) -> bool:
    """Whether a deal that is over is over by its seller's word alone: nobody here ended it, or had asked the
    seller to."""
    if deal.status in _SELLERS_WORD:
        return True
    entries = AuditEntry.objects.filter(entity_type="deal", entity_id=deal.pk, to_status=deal.status)
    ended_by = str(entries.order_by("-seq").values_list("actor", flat=True).first())
    if is_login(ended_by) or not ended_by.startswith("agent:"):
        return False
    changes = Operation.objects.filter(subject_type="deal", subject_id=deal.pk, task_type="update_media_buy")
    return not any(cancels_all(one.request) for one in changes)


def runs_on_ask(deal: Deal, *, user: User, reason: str) -> Approval:
    """Ask whether what runs on after its deal is cancelled at its seller. The caller holds the deal."""
    return approval_open(question=_question(deal, reason), requested_by=user, opened_by=user)


def runs_on_gone(deal: Deal) -> None:
    """Its seller says how the media buy stands: what it has cancelled needs nobody."""
    if is_gone(deal):
        reason = f"{deal.seller} has cancelled it"
        questions_review("deal", [deal.pk], reason=reason, kinds=(RUNS_ON,))


def _question(deal: Deal, reason: str) -> Question:
    request = cancellation_arguments(deal, reason.strip(), media_buy_id=deal.media_buy_id)
    # Readings go on while people read: it leaves with the revision that is known by then.
    request.pop("revision", None)
    return deal_question(
        deal,
        kind=RUNS_ON,
        title=f"Cancel what runs on of {deal.reference} with {deal.seller}",
        evidence={
            **deal_evidence(deal),
            "media_buy_id": deal.media_buy_id,
            "gross_after": "0",
            **cancellation_evidence(deal, request),
            "sent": request_shown(request),
        },
        policy="Every cancellation, one approver",
        amount=deal_amounts(deal).approved,
    )


def _question_again(approval: Approval) -> Question:
    return _question(deal_locked(approval.subject_id), str(approval.evidence.get("reason", "")))


def _reopen(approval: Approval) -> None:
    """With the reason, and in the name, of who asked."""
    again = _question_again(approval)
    approval_open(question=again, requested_by=approval.requested_by, opened_by=SYSTEM)


def _version(approval: Approval) -> int | None:
    """The deal's; None once its seller has cancelled it."""
    deal = deal_locked(approval.subject_id)
    return None if is_gone(deal) else deal.version


def is_gone(deal: Deal) -> bool:
    """Whether its seller says so, and has not told otherwise the last time that it was read."""
    contradicted = DealMirror.objects.filter(deal=deal, older_reads__gt=0)
    return deal.media_buy_status in BUY_GONE and not contradicted.exists()


def _decided(approval: Approval, outcome: Outcome) -> None:
    if outcome.answer != "approved":
        return
    deal, reason = deal_locked(approval.subject_id), str(approval.evidence.get("reason", ""))
    try:
        deal_cancel_at_seller(deal=deal, actor=outcome.actor, reason=reason)
    except OperationRefusedError as error:
        raise DecisionRefusedError("impossible", f"It cannot be cancelled: {error}") from error
