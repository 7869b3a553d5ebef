"""Today: what waits for the viewer, what is out with sellers, what needs attention, what is committed.

Each role sees first what it needs first (`today.layouts`); a card is read when the layout has it.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

from django.db.models import QuerySet, Value
from django.http import HttpRequest

from campaigns.acts import may_submit
from campaigns.calendar.entries import Calendar, Entry, Wanted, calendar_of
from campaigns.today import cards, money, sellers, state, trends
from campaigns.today.first_steps import first_steps
from campaigns.today.layouts import layout_of
from campaigns.today.waits import Waits, waits_of
from tasks_app import clock
from tasks_app.approvals import selectors
from tasks_app.approvals.waiting import waiting_counted
from tasks_app.desk import text
from tasks_app.desk.items import Item
from tasks_app.desk.page import viewer
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.selectors import conflicts_of, operations_open
from tasks_app.people.models import User

_BADGE = 99  # more than so many are not counted
_DATES = timedelta(days=14)
_DEALS = 40
_DATES_SHOWN = 5
_COLOURS = {"tasks_app.approval": "primary", "tasks_app.operation": "warning", "tasks_app.conflict": "danger"}


def badges(request: HttpRequest) -> dict[str, tuple[str, str]]:
    """Model label to what waits there (99+ for more) and the pill's colour, for the rail."""
    who = viewer(request)
    if not who.has_perm("tasks_app.view_approval"):
        return {}
    waiting: dict[str, list[QuerySet[Any]]] = {
        "tasks_app.approval": [selectors.approvals_waiting_for(who), *waiting_counted(who)],
        "tasks_app.operation": [operations_open(who).filter(status=O.TIMED_OUT)],
        "tasks_app.conflict": [conflicts_of(who).filter(resolved_at__isnull=True)],
    }
    first, *others = (_labelled(label, rows) for label, each in waiting.items() for rows in each)
    found = [label for (label,) in first.union(*others, all=True)]
    counts = {label: found.count(label) for label in set(found)}
    return {label: (_counted(count), _COLOURS[label]) for label, count in counts.items()}


def _labelled(label: str, rows: QuerySet[Any]) -> QuerySet[Any, Any]:
    """(label) for each row, as far as is counted: one query for them all, as every page asks it."""
    return rows.order_by().annotate(label=Value(label)).values_list("label")[: _BADGE + 1]


def _counted(count: int) -> str:
    return f"{_BADGE}+" if count > _BADGE else str(count)


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """unfold's DASHBOARD_CALLBACK: what templates/admin/index.html is given."""
    who = viewer(request)
    if not who.has_perm("tasks_app.view_approval"):
        return context | {"title": "Today", "no_role": True}
    layout = layout_of(who)
    return context | {
        "title": "Today",
        "layout": layout,
        "figures": [f"desk/figure_{name}.html" for name in layout.figures],
        "main": [f"desk/today_{name}.html" for name in layout.main],
        "side": [f"desk/today_{name}.html" for name in layout.side],
        "today": Today(who),
        "may_submit": may_submit(who),
        "first_steps": first_steps(who),
    }


class Today:
    """What the cards show, each read once, when a card first asks for it. Amounts are (currency, sum) pairs:
    currencies are never added."""

    def __init__(self, who: User) -> None:
        self.who = who

    @cached_property
    def decides(self) -> bool:
        return selectors.may_decide(self.who)

    @cached_property
    def queue(self) -> Waits:
        """What waits for the viewer, the earliest deadline first."""
        return waits_of(selectors.approvals_waiting_for(self.who), cards.others_waiting(self.who), self.who)

    @property
    def lead(self) -> str:
        """How many wait, how many of them are overdue, when the next is due."""
        if not self.queue:
            return "Nothing waits for you."
        what = "decision" if self.queue.decisions else "thing"
        verb = f"{what} waits" if len(self.queue) == 1 else f"{what}s wait"
        now = clock.now()
        late = sum(due <= now for due in self.queue.due)
        coming = min((due for due in self.queue.due if due > now), default=None)
        said = [f"{self.queue.count} {verb} for you."]
        said += [f"{late} overdue."] if late else []
        return " ".join([*said, f"The next is due {text.moment_short(coming)}."] if coming else said)

    @cached_property
    def asked(self) -> Waits:
        """What the viewer asked for and somebody else decides."""
        return waits_of(selectors.approvals_asked_by(self.who), (), self.who)

    @cached_property
    def decided(self) -> list[Any]:
        return cards.decisions_latest(self.who)

    @cached_property
    def _flying(self) -> list[Any]:
        return cards.in_flight(self.who)

    @property
    def flying(self) -> list[cards.Flying]:
        return cards.flying_rows(self._flying)

    @property
    def flying_count(self) -> str:
        return cards.many(len(self._flying))

    @cached_property
    def _out(self) -> dict[uuid.UUID, cards.Out]:
        return cards.deals_out(self.who, self._flying)

    @property
    def flying_money(self) -> list[tuple[str, Decimal]]:
        return text.amounts((one.currency, one.gross) for one in self._out.values())

    @property
    def flying_oldest(self) -> datetime | None:
        return min((one.sent_at for one in self._flying if one.sent_at), default=None)

    @cached_property
    def departures(self) -> list[cards.Departure]:
        return cards.departures(self.who)

    @property
    def departures_count(self) -> str:
        return cards.many(len(self.departures))

    @property
    def departures_money(self) -> list[tuple[str, Decimal]]:
        return text.amounts((one.deal.currency, one.confirmed) for one in self.departures)

    @cached_property
    def attention(self) -> list[Item]:
        return cards.attention(self.who, self._flying, self._out, self.departures)

    @property
    def attention_count(self) -> str:
        return self._at_least(len(self.attention))

    @property
    def attention_more(self) -> str:
        """How many there are beside the first."""
        return self._at_least(len(self.attention) - 1)

    def _at_least(self, count: int) -> str:
        """With a plus where more is in flight than was looked through."""
        return f"{count}+" if 0 < count <= cards.MOST < len(self._flying) else cards.many(count)

    @cached_property
    def budgets(self) -> list[money.Commitment]:
        return money.commitments(self.who)

    @property
    def committed(self) -> list[dict[str, Any]]:
        return money.committed(self.budgets)

    @cached_property
    def campaigns(self) -> list[Any]:
        return cards.campaigns_of(self.who)

    @cached_property
    def _calendar(self) -> Calendar:
        now = clock.now()
        wanted = Wanted(since=now, until=now + _DATES, limit=_DEALS, questions=False, flights=False)
        return calendar_of(self.who, wanted)

    @cached_property
    def _coming(self) -> list[Entry]:
        return [entry for entry in self._calendar.entries if not entry.passed]

    @property
    def dates(self) -> list[Entry]:
        """The next dates of deals that cost money when nobody acts."""
        return self._coming[:_DATES_SHOWN]

    @property
    def dates_more(self) -> bool:
        """Whether further dates of the same time are in the calendar."""
        return self._calendar.more or len(self._coming) > _DATES_SHOWN

    @cached_property
    def _sellers(self) -> tuple[list[sellers.SellerLine], list[sellers.Settled]]:
        return sellers.sellers_shown(self.who)

    @property
    def sellers(self) -> list[sellers.SellerLine]:
        return self._sellers[0]

    @property
    def sellers_troubled(self) -> int:
        return sum(one.glyph in ("person", "overdue", "failed") for one in self.sellers)

    @cached_property
    def answers(self) -> trends.Chart | None:
        return trends.answers_chart(self._sellers[1])

    @cached_property
    def decisions(self) -> trends.Chart | None:
        return trends.decisions_chart(self.who)

    @cached_property
    def _confirmed(self) -> tuple[trends.Chart | None, list[tuple[str, Decimal]]]:
        return trends.confirmed_chart(self.who)

    @property
    def confirmed(self) -> trends.Chart | None:
        return self._confirmed[0]

    @property
    def confirmed_sums(self) -> list[tuple[str, Decimal]]:
        return self._confirmed[1]

    @cached_property
    def state(self) -> state.State:
        return state.state_of(self.who)
