"""The questions deals put to people: book it? accept what was booked? keep what came late?"""

from __future__ import annotations

from decimal import Decimal

from orders.evidence import deal_evidence
from orders.models import Deal
from orders.services import deal_total
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import Question, approval_open
from tasks_app.lifecycle.transitions import exact
from tasks_app.operations.models import Operation
from tasks_app.people.actors import SYSTEM

DEAL, DIFFERENT, LATE = "deal", "booked_differently", "late_completion"


def ask_deal(deal: Deal) -> Approval:
    """Ask people whether to book a deal."""
    return approval_open(
        question=Question(
            kind=DEAL,
            team=deal.team,
            title=f"Book {deal.seller} for {deal.advertiser}",
            subject_type="deal",
            subject_id=deal.pk,
            subject_version=deal.version,
            evidence=deal_evidence(deal),
            policy="Every recommendation, one approver",
            amount=deal_total(deal),
            currency=deal.currency,
        ),
        requested_by=deal.requested_by,
    )


def ask_booked_differently(deal: Deal, *, requested_by: str = SYSTEM) -> Approval:
    """Ask people whether what the seller booked will do."""
    lines = deal.lines.all()
    confirmed = sum((line.confirmed_budget or line.budget for line in lines), Decimal(0))
    return approval_open(
        question=Question(
            kind=DIFFERENT,
            team=deal.team,
            title=f"{deal.seller} booked {deal.reference} differently",
            subject_type="deal",
            subject_id=deal.pk,
            subject_version=deal.version,
            evidence={
                **deal_evidence(deal),
                "differences": deal.differences,
                "confirmed_gross": str(confirmed),
                "media_buy_id": deal.media_buy_id,
            },
            policy="Confirmed differs from approved",
            amount=confirmed,
            currency=deal.currency,
        ),
        requested_by=requested_by,
    )


def ask_late_completion(deal: Deal, operation: Operation) -> Approval:
    """Ask people what to do with a purchase that was completed after its deadline."""
    result = operation.result or {}
    return approval_open(
        question=Question(
            kind=LATE,
            team=deal.team,
            title=f"{deal.seller} booked {deal.reference} after its deadline",
            subject_type="deal",
            subject_id=deal.pk,
            subject_version=deal.version,
            evidence=exact(
                {
                    **deal_evidence(deal),
                    "operation": operation.reference,
                    "media_buy_id": result.get("media_buy_id"),
                    "settled_at": operation.settled_at,
                }
            ),
            policy="Completed after its deadline",
            amount=deal_total(deal),
            currency=deal.currency,
        ),
        requested_by=SYSTEM,
    )
