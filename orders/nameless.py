"""What its seller booked and did not name: nothing can be cancelled there, so refusing it calls the deal off.

Where it is named later, people are asked what becomes of that (`outcomes.py`); reconciliation looks for it by
our context.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orders.conflicts import end_of
from orders.models import Deal
from tasks_app.approvals.kinds import Outcome
from tasks_app.approvals.models import Approval
from tasks_app.lifecycle.transitions import note, transition

_REFUSING = (
    "Calls the deal off: its seller has named no media buy that could be cancelled. Where it names one "
    "later, people are asked what becomes of that."
)
_REASON = 500


def is_nameless(evidence: Mapping[str, Any]) -> bool:
    """Whether a question is about a media buy without a name: refusing it sends nothing to the seller."""
    return not evidence.get("media_buy_id")


def nameless_words(approval: Approval) -> dict[str, str]:
    """What refusing does, where the question is about a media buy without a name."""
    return {"reject": _REFUSING} if is_nameless(approval.evidence) else {}


def nameless_refused(deal: Deal, approval: Approval, outcome: Outcome) -> None:
    """The deal is over, where it is not: there is nothing at the seller to be cancelled."""
    reason = f"Not accepted, without a media buy of its own: {outcome.comment}"[:_REASON]
    end = end_of(deal)
    if not end:
        note(deal, actor=outcome.actor, reason=reason)
        return
    transition(
        deal,
        end,
        actor=outcome.actor,
        reason=reason,
        metadata={"approval": approval.reference},
        changes={"differs": False},
    )
