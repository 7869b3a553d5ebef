"""What can become of a deal from where it stands: what this person may do now, what others bring about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orders.acts import can_be_cancelled, can_be_read, can_be_withdrawn, may_call_off, may_read
from orders.models import Deal, DealLine
from orders.models import DealStatus as S
from orders.presenters import stated_terms
from tasks_app.approvals.models import Approval
from tasks_app.desk import terms, text
from tasks_app.desk.states import face
from tasks_app.lifecycle.names import link_to
from tasks_app.operations.models import Operation
from tasks_app.people.models import User


@dataclass(frozen=True, kw_only=True)
class Act:
    """A form on the deal's page: `name` is what it posts, `leads` the status it leads to (empty: none).
    `reason`: it asks for one, and for a confirmation that reads `sure`."""

    name: str
    label: str
    does: str
    sure: str = ""
    leads: str = ""

    @property
    def reason(self) -> bool:
        return bool(self.sure)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A status that a declared edge leads to from here, and what brings it about; `link`: where a person
    does."""

    glyph: str
    text: str
    note: str
    link: str = ""


def deal_acts(deal: Deal, lines: Sequence[DealLine], who: User, *, cancelling: bool) -> list[Act]:
    """What `who` may do about the deal now, from its page. `cancelling`: a change of it waits already."""
    found = []
    if can_be_read(deal) and may_read(who):
        found.append(
            Act(
                name="read",
                label="Read again",
                does="Asks the seller for the media buy at the next pass. Changes nothing there.",
            )
        )
    if can_be_withdrawn(deal) and may_call_off(who):
        found.append(
            Act(
                name="withdraw",
                label="Withdraw deal",
                does="It is cancelled at once, the question about it is withdrawn and its budget is free. "
                "The seller was never asked to book it.",
                sure="It is not to be bought",
                leads=S.CANCELLED,
            )
        )
    if can_be_cancelled(deal) and may_call_off(who) and not cancelling:
        found.append(
            Act(
                name="cancel",
                label="Cancel deal",
                does="Somebody else approves it; then update_media_buy asks the seller to cancel the whole "
                f"media buy. {_cost(deal, lines)} The deal is cancelled when the seller has done it.",
                sure="The media buy is to end",
                leads=S.CANCELLED,
            )
        )
    return found


def deal_choices(
    deal: Deal,
    lines: Sequence[DealLine],
    questions: Sequence[Approval],
    purchase: Operation | None = None,
) -> list[Choice]:
    """Every status a declared edge leads to from here, and what brings it about."""
    edges = deal.declared().edges
    return [
        Choice(
            glyph=face(to).glyph,
            text=to,
            note=_way(deal, to, lines, questions) or edges[deal.status, to],
            link=_where(deal, to, questions, purchase),
        )
        for to in deal.declared().targets(deal.status)
    ]


def _where(deal: Deal, to: str, questions: Sequence[Approval], purchase: Operation | None) -> str:
    """The approval where people bring it about, or the operation that is waited for."""
    decided = deal.status == S.ACCEPTED and to == S.BOOKING
    if questions and (decided or to in (S.ACCEPTED, S.EXPIRED, S.CANCELLED, S.FAILED)):
        return link_to(Approval, questions[0].pk)
    if deal.status == S.BOOKING and purchase is not None:
        return link_to(Operation, purchase.pk)
    return ""


def _cost(deal: Deal, lines: Sequence[DealLine]) -> str:
    policy = _policy(deal, lines)
    return f"The seller’s terms: {policy}." if policy else "The seller stated no fee and no notice."


def _policy(deal: Deal, lines: Sequence[DealLine]) -> str:
    stated = terms.once(
        terms.cancellation(stated_terms(line).get("cancellation_policy"), deal.currency) for line in lines
    )
    return "" if stated == text.DASH else stated


def _way(deal: Deal, to: str, lines: Sequence[DealLine], questions: Sequence[Approval]) -> str:
    if deal.status == S.ACCEPTED and to == S.BOOKING and questions:
        return f"When an approver lets it through: {questions[0].title}"
    due = f" by {text.moment_short(questions[0].due_at)}" if questions else ""
    start = text.day(deal.start_at, deal.zone)
    policy = _policy(deal, lines)
    stated = f": {policy}" if policy else ""
    return {
        (S.QUOTED, S.ACCEPTED): f"When an approver approves it{due}",
        (S.QUOTED, S.CANCELLED): f"When an approver rejects it{due}, or a buyer withdraws it",
        (S.QUOTED, S.EXPIRED): f"When nobody decides{due}",
        (S.NEGOTIATING, S.ACCEPTED): f"When an approver approves it{due}",
        (S.NEGOTIATING, S.CANCELLED): f"When an approver rejects it{due}, or a buyer withdraws it",
        (S.NEGOTIATING, S.EXPIRED): f"When nobody decides{due}",
        (S.ACCEPTED, S.BOOKING): "By itself: create_media_buy is sent once the account is active",
        (S.ACCEPTED, S.CANCELLED): "When it cannot be sent, such as without an active account",
        (S.BOOKING, S.BOOKED): "By itself, when the seller confirms",
        (S.BOOKING, S.FAILED): "When the seller rejects or fails it, or nobody waits any longer",
        (S.BOOKING, S.CANCELLED): "When the seller answers that the task was cancelled",
        (S.BOOKED, S.DELIVERING): f"By itself, when the seller says active; the flight starts {start}",
        (S.BOOKED, S.CANCELLED): f"When the seller has cancelled as asked{stated}",
        (S.BOOKED, S.PARTIALLY_CANCELED): "When the seller has cancelled single packages",
        (S.DELIVERING, S.COMPLETED): "By itself, when the seller’s delivery figures are final",
        (S.DELIVERING, S.CANCELLED): f"When the seller has cancelled as asked{stated}",
        (S.DELIVERING, S.MAKEGOOD_PENDING): "When it delivers too little and a makegood is asked for",
        (S.DELIVERING, S.FAILED): "When the seller ends it without delivering",
    }.get((S(deal.status), S(to)), "")
