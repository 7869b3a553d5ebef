"""What can become of a deal from where it stands: what this person may do now, what others bring about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from orders.acts import can_be_cancelled, can_be_read, can_be_withdrawn, may_call_off, may_read
from orders.deal_copies import can_be_copied, may_copy, offered_days
from orders.evidence import unstated_words
from orders.models import LIVE, Deal, DealLine
from orders.models import DealStatus as S
from orders.presenters import stated_terms
from orders.ways import NO_WAY, Way, ground_of, ways
from tasks_app.approvals.models import Approval
from tasks_app.desk import terms, text
from tasks_app.desk.states import face
from tasks_app.lifecycle.names import link_to
from tasks_app.operations.models import Operation
from tasks_app.people.models import User


@dataclass(frozen=True, kw_only=True)
class Act:
    """A form on the deal's page: `name` is what it posts, `leads` the status it leads to (empty: none).
    `reason`: it asks for one, and for a confirmation that reads `sure`. `days`: it asks for a flight, and
    offers this first and last day."""

    name: str
    label: str
    does: str
    sure: str = ""
    leads: str = ""
    days: tuple[date, date] | None = None

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
    if may_copy(who) and can_be_copied(deal):
        found.append(
            Act(
                name="copy",
                label="Copy with new dates",
                does="Puts the same packages forward as a new deal for these dates. Somebody else approves "
                "it before anything is bought.",
                days=offered_days(deal),
            )
        )
    return found


def deal_choices(
    deal: Deal,
    lines: Sequence[DealLine],
    questions: Sequence[Approval],
    purchase: Operation | None = None,
) -> list[Choice]:
    """Every status a declared edge leads to from here, and what brings it about; `questions`: the open ones
    about the deal, the most urgent first."""
    found = ways(ground_of(deal, questions))
    links = {one.kind: link_to(Approval, one.pk) for one in reversed(questions)}
    out = link_to(Operation, purchase.pk) if deal.status == S.BOOKING and purchase is not None else ""
    return [
        Choice(
            glyph=face(to).glyph,
            text=to,
            note=_note(deal, S(to), lines, found),
            link=(links.get(found[S(to)].asked) or out) if S(to) in found else "",
        )
        for to in deal.declared().targets(deal.status)
    ]


def _note(deal: Deal, to: S, lines: Sequence[DealLine], found: Mapping[S, Way]) -> str:
    if to not in found:
        return NO_WAY
    if deal.status == S.BOOKED and to == S.DELIVERING:
        return f"{found[to].words}; the flight starts {text.day(deal.start_at, deal.zone)}"
    if deal.status in LIVE and to == S.CANCELLED and can_be_cancelled(deal):
        return f"{found[to].words}, or has cancelled it as asked. {_cost(deal, lines)}"
    return found[to].words


def _cost(deal: Deal, lines: Sequence[DealLine]) -> str:
    policy = _policy(deal, lines)
    return f"The seller’s terms: {policy}." if policy else "The seller stated no fee and no notice."


def _policy(deal: Deal, lines: Sequence[DealLine]) -> str:
    each = [
        terms.cancellation(stated_terms(line).get("cancellation_policy"), deal.currency) for line in lines
    ]
    silent = sum(words in ("", text.DASH) for words in each)
    stated = terms.once(words for words in each if words != text.DASH)
    return "" if stated == text.DASH else stated + unstated_words(silent, len(each))
