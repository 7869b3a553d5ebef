"""What waits, as a card of today shows it: the first few as lines; of all of it number, money and dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import QuerySet

from campaigns.today.cards import READ, SHOWN, many
from tasks_app.approvals import presenters, selectors, spending
from tasks_app.approvals.models import Approval
from tasks_app.approvals.waiting import Waiting
from tasks_app.desk import text
from tasks_app.people.models import User

_BRIEF = ("created_at", "due_at", "kind", "amount", "currency")


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Of the 100 most urgent approvals, one more where there are more, and what else waits: `rows`, the most
    urgent; `stake`, what approving all of them spends, as (currency, sum) pairs; `asked`, `due`: since when,
    and until when where there is a deadline; `decisions`: all are approvals."""

    rows: tuple[presenters.Row, ...]
    stake: list[tuple[str, Decimal]]
    asked: tuple[datetime, ...]
    due: tuple[datetime, ...]
    decisions: bool

    def __len__(self) -> int:
        return len(self.asked)

    @property
    def count(self) -> str:
        return many(len(self))

    @property
    def oldest(self) -> datetime | None:
        return min(self.asked, default=None)


def waits_of(found: QuerySet[Approval], others: Sequence[Waiting], who: User) -> Waits:
    """`found`: the most urgent first. Lines are made of those alone that are shown: evidence is large."""
    brief = list(spending.with_spending(found).only(*_BRIEF)[:READ])
    shown = selectors.approvals_shown(found, SHOWN) if brief else []
    rows = presenters.queue_of(shown, others, who, named=False)
    beside = [row for row in rows if row.approval is None]
    return Waits(
        rows=tuple(rows[:SHOWN]),
        stake=text.amounts(spending.spent_by(brief)),
        asked=tuple(one.created_at for one in brief) + tuple(row.asked_at for row in beside),
        due=tuple(one.due_at for one in brief) + tuple(row.due_at for row in beside if row.due_at),
        decisions=not beside,
    )
