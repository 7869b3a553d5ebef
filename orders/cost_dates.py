"""Which dates of a deal cost money when nobody acts: decisions, holds, creatives, cancellation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from orders.models import CONFIRMED, Deal, DealLine, DealStatus
from orders.presenters import stated_terms
from tasks_app import clock
from tasks_app.adcp.values import parse_time
from tasks_app.approvals.lapsing import nothing_words
from tasks_app.approvals.models import Approval
from tasks_app.desk import terms
from tasks_app.desk.items import lowered
from tasks_app.lifecycle.names import link_to

S = DealStatus
OVER = (S.COMPLETED, S.FAILED, S.CANCELLED, S.EXPIRED)  # no creatives are due any more
HELD = (S.QUOTED, S.NEGOTIATING, S.ACCEPTED)  # the seller may still let the hold go
CANCELLABLE = (*(one for one in CONFIRMED if one != S.COMPLETED), S.BOOKING, S.ACCEPTED)


@dataclass(frozen=True, kw_only=True)
class CostDate:
    """A date that costs money. `kind`: approval, hold, creative or cancel."""

    kind: str
    at: datetime
    what: str
    note: str
    link: str = ""

    @property
    def passed(self) -> bool:
        return self.at <= clock.now()


def cost_dates(deal: Deal, lines: Sequence[DealLine], questions: Sequence[Approval]) -> list[CostDate]:
    """Dates by which somebody must have acted, the next first; only what the seller stated or we set."""
    found = [
        CostDate(
            kind="approval",
            at=question.due_at,
            what=question.title,
            link=link_to(Approval, question.pk),
            note=f"else: {lowered(effect)}",
        )
        for question in questions
        for effect in [nothing_words(question)]
    ]
    hold = parse_time(deal.terms.get("hold_expires_at")) if isinstance(deal.terms, dict) else None
    if hold and deal.status in HELD:
        found.append(
            CostDate(
                kind="hold",
                at=hold,
                what="The hold expires",
                note="the seller may sell the inventory to others",
            )
        )
    if deal.creative_deadline and deal.status not in OVER:
        found.append(
            CostDate(
                kind="creative", at=deal.creative_deadline, what="Creatives due", note="else the start slips"
            )
        )
    found += _cancellation_dates(deal, lines)
    return sorted(found, key=lambda date: date.at)


def _cancellation_dates(deal: Deal, lines: Sequence[DealLine]) -> Iterable[CostDate]:
    """The last moment to cancel before a fee, where the seller stated both; the earliest of all lines."""
    if deal.status not in CANCELLABLE:
        return
    found: list[tuple[datetime, str]] = []
    for line in lines:
        policy = stated_terms(line).get("cancellation_policy")
        last = terms.last_free(policy, line.confirmed_start_at or line.start_at, deal.zone)
        if last is not None:
            found.append((last, terms.cancellation(policy, deal.currency)))
    if found:
        at, note = min(found)
        yield CostDate(kind="cancel", at=at, what="Last moment to cancel without a fee", note=note)
