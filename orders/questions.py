"""The questions deals put to people: book it? accept what was booked? keep what came late?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from orders.evidence import as_text, deal_evidence
from orders.models import Deal
from orders.policy_facts import deal_facts
from orders.services import deal_total
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import Question, approval_open
from tasks_app.lifecycle.transitions import exact
from tasks_app.operations.models import Operation
from tasks_app.people.actors import SYSTEM

DEAL, DIFFERENT = "deal", "booked_differently"
LATE, LATE_CHANGE = "late_completion", "late_change"
PO_NUMBER = "po_number"


def deal_question(
    deal: Deal,
    *,
    kind: str,
    title: str,
    evidence: Mapping[str, Any],
    policy: str,
    amount: Decimal,
    approved: Decimal | None = None,
) -> Question:
    """A question about a deal as it is now; `amount` in the deal's currency, and `approved`, what people
    approved before, where the question is whether to change that."""
    return Question(
        kind=kind,
        team=deal.team,
        title=title,
        subject_type="deal",
        subject_id=deal.pk,
        subject_version=deal.version,
        evidence=evidence,
        policy=policy,
        amount=amount,
        currency=deal.currency,
        advertiser_id=deal.advertiser_id,
        facts=partial(deal_facts, deal, approved=approved),
    )


def ask_deal(deal: Deal) -> Approval:
    """Ask people whether to book a deal."""
    question = deal_question(
        deal,
        kind=DEAL,
        title=f"Book {deal.seller} for {deal.advertiser}",
        evidence=deal_evidence(deal),
        policy="Every recommendation, one approver",
        amount=deal_total(deal),
    )
    return approval_open(question=question, requested_by=deal.requested_by)


def ask_po_number(deal: Deal, purchase: Operation, earlier: Sequence[Operation]) -> Approval:
    """Ask people whether a purchase-order number may be used once more, before the deal itself is put to
    them."""
    number = str(purchase.request.get("po_number"))
    first = earlier[0].request.get("context", {}).get("deal") or earlier[0].reference if earlier else "none"
    evidence = {
        **deal_evidence(deal),
        "po_number": number,
        "used_by": [
            {
                "operation": one.reference,
                "deal": str(one.request.get("context", {}).get("deal", "")),
                "status": one.status,
                "asked_at": one.created_at,
                "packages": as_text(one.request.get("packages")),
            }
            for one in earlier
        ],
    }
    question = deal_question(
        deal,
        kind=PO_NUMBER,
        title=f"Purchase order {number[:60]} was used by {first}: use it for {deal.reference} too?",
        evidence=evidence,
        policy="A purchase-order number used again for the same seller and account",
        amount=deal_total(deal),
    )
    return approval_open(question=question, requested_by=deal.requested_by)


def ask_booked_differently(deal: Deal, *, requested_by: str = SYSTEM) -> Approval:
    """Ask people whether what the seller booked will do."""
    lines = deal.lines.all()
    confirmed = sum((line.confirmed_budget or line.budget for line in lines), Decimal(0))
    question = deal_question(
        deal,
        kind=DIFFERENT,
        title=f"{deal.seller} booked {deal.reference} differently",
        evidence={
            **deal_evidence(deal),
            "differences": deal.differences,
            "confirmed_gross": str(confirmed),
            "media_buy_id": deal.media_buy_id,
        },
        policy="Confirmed differs from approved",
        amount=confirmed,
        approved=deal_total(deal),
    )
    return approval_open(question=question, requested_by=requested_by)


def ask_late_completion(deal: Deal, operation: Operation) -> Approval:
    """Ask people what to do with a purchase that was completed after its deadline."""
    late = {
        "operation": operation.reference,
        "media_buy_id": (operation.result or {}).get("media_buy_id"),
        "settled_at": operation.settled_at,
    }
    question = deal_question(
        deal,
        kind=LATE,
        title=f"{deal.seller} booked {deal.reference} after its deadline",
        evidence=exact({**deal_evidence(deal), **late}),
        policy="Completed after its deadline",
        amount=deal_total(deal),
    )
    return approval_open(question=question, requested_by=SYSTEM)
