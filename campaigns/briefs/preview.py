"""The preview of a brief: how its budget is split, and which sellers are asked."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from campaigns.allocation import allocate
from campaigns.services import check_brief, sellers_for
from tasks_app.desk import text
from tasks_app.people.models import User


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a submission would do now.

    `allocation` (channel, amount as text, percentage of the budget) and `sellers` are empty while the brief
    cannot be read. `problems` counts what is missing or wrong.
    """

    problems: int = 0
    currency: str = ""
    allocation: tuple[tuple[str, str, Decimal], ...] = ()
    sellers: tuple[str, ...] = ()


def preview_of(user: User, raw: dict[str, Any]) -> Preview:
    """Return the preview of a brief as plain data."""
    brief, _, problems = check_brief(user, raw)
    if brief is None:
        return Preview(problems=len(problems))
    total, currency = brief.budget.total, brief.budget.currency
    split = allocate(brief.budget, brief.channels).items()
    return Preview(
        problems=len(problems),
        currency=currency,
        allocation=tuple((name, text.amount(part, currency), part * 100 / total) for name, part in split),
        sellers=tuple(sorted(seller.name for seller in sellers_for(brief))),
    )
