"""One word on everything that a campaign puts to people: decided one by one, each reported."""

from __future__ import annotations

from dataclasses import dataclass

from campaigns.models import Campaign
from orders.models import Deal
from orders.questions import DEAL
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.people.models import User


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What became of one approval: its status now, and why it was not decided (empty: it was)."""

    approval: Approval
    deal: Deal
    refused: str = ""
    code: str = ""


def campaign_decide(
    *, campaign: Campaign, user: User, verdict: str, comment: str = "", kind: str = DEAL
) -> list[Decided]:
    """Decide every open approval of one kind about the campaign's deals, recommendations unless said.

    Each is a decision of its own (`approval_decide`); one that is refused stops no other.
    """
    deals = {deal.pk: deal for deal in Deal.objects.filter(campaign_id=campaign.pk)}
    asked = Approval.objects.filter(
        kind=kind, subject_type="deal", subject_id__in=deals, status=ApprovalStatus.OPEN
    )
    return [
        _decide(approval, deals[approval.subject_id], user, verdict, comment)
        for approval in asked.order_by("id")
    ]


def _decide(approval: Approval, deal: Deal, user: User, verdict: str, comment: str) -> Decided:
    refused, code = "", ""
    try:
        approval_decide(
            approval_id=approval.pk,
            user=user,
            verdict=verdict,
            comment=comment,
            expected_digest=approval.evidence_digest,
        )
    except DecisionRefusedError as error:
        refused, code = str(error), error.code
    except TransitionError as error:
        refused, code = error.why, "transition"
    approval.refresh_from_db()
    deal.refresh_from_db()
    return Decided(approval=approval, deal=deal, refused=refused, code=code)
