"""One word on everything that a campaign puts to people, or which part of it is to be bought: decided one by
one, each reported."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from campaigns.models import Campaign
from orders.models import Deal
from orders.questions import DEAL
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.people.models import User

# Approval to its lines' budgets by number as shown (from 1), 0 without the line; empty: as recommended.
Parts = Mapping[uuid.UUID, Mapping[int, Decimal]]
_APPROVE, _REJECT = Decision.Verdict.APPROVE, Decision.Verdict.REJECT


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What became of one approval: its status now, and why it was not decided (empty: it was). Approved in
    part, it is the one that was asked in the place of what was recommended."""

    approval: Approval
    deal: Deal
    refused: str = ""
    code: str = ""


def campaign_decide(
    *,
    campaign: Campaign,
    user: User,
    verdict: str,
    comment: str = "",
    kind: str = DEAL,
    on_behalf_of: User | None = None,
    parts: Parts | None = None,
) -> list[Decided]:
    """Decide every open approval of one kind about the campaign's deals, recommendations unless said.

    `parts`, with the verdict to approve: what is named is approved, with its budgets, and the rest rejected;
    that first, as it frees their money. Each is a decision of its own (`approval_decide`); one that is
    refused stops no other. Raises DecisionRefusedError before any is made: `comment` where a rest is to be
    rejected without a reason, `not_found` for a part that is none of the campaign's, `impossible` for parts
    to reject.
    """
    deals = {deal.pk: deal for deal in Deal.objects.filter(campaign_id=campaign.pk)}
    asked = Approval.objects.filter(
        kind=kind, subject_type="deal", subject_id__in=deals, status=ApprovalStatus.OPEN
    )
    found = list(asked.order_by("id"))
    wanted = [(one, verdict, dict[int, Decimal]()) for one in found]
    if parts is not None:
        _check_parts(found, parts, verdict, comment)
        rest = [(one, _REJECT.value, dict[int, Decimal]()) for one in found if one.pk not in parts]
        wanted = rest + [(one, _APPROVE.value, dict(parts[one.pk])) for one in found if one.pk in parts]
    return [
        _decide(one, deals[one.subject_id], user, word, comment, on_behalf_of, budgets)
        for one, word, budgets in wanted
    ]


def _check_parts(found: list[Approval], parts: Parts, verdict: str, comment: str) -> None:
    if verdict != _APPROVE:
        raise DecisionRefusedError("impossible", "Parts are approved; the rest is rejected with them.")
    unknown = set(parts) - {one.pk for one in found}
    if unknown:
        raise DecisionRefusedError("not_found", f"{min(unknown)} is no open approval of this campaign.")
    if len(parts) < len(found) and not comment.strip():
        raise DecisionRefusedError("comment", "Say why you reject the rest.")


def _decide(
    approval: Approval,
    deal: Deal,
    user: User,
    verdict: str,
    comment: str,
    on_behalf_of: User | None,
    budgets: Mapping[int, Decimal],
) -> Decided:
    refused, code = "", ""
    try:
        approval = approval_decide(
            approval_id=approval.pk,
            user=user,
            verdict=verdict,
            comment=comment,
            expected_digest=approval.evidence_digest,
            on_behalf_of=on_behalf_of,
            budgets=budgets,
        )
    except DecisionRefusedError as error:
        refused, code = str(error), error.code
    except TransitionError as error:
        refused, code = error.why, "transition"
    approval.refresh_from_db()
    deal.refresh_from_db()
    return Decided(approval=approval, deal=deal, refused=refused, code=code)
