"""Who sees what first: figures and cards by rights. What is not in a layout is not read for it."""

from __future__ import annotations

from dataclasses import dataclass

from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE, STEER_OPERATION, SUBMIT_CAMPAIGN


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Of those who hold `right`: `figures` of the strip, `main` and `side` cards in order, each the name of a
    template of its own. `lead` stands under the title where nothing is said of what waits."""

    right: str
    figures: tuple[str, ...]
    main: tuple[str, ...]
    side: tuple[str, ...]
    lead: str = ""


_LAYOUTS = (
    Layout(
        right="tasks_app.change_user",  # Administrator
        figures=("waiting", "flying", "attention", "people"),
        main=("waiting", "flying", "decisions"),
        side=("attention", "state"),
    ),
    Layout(
        right=DECIDE,  # Approver
        figures=("waiting", "flying", "attention", "committed"),
        main=("waiting", "committed", "decisions"),
        side=("attention", "flying", "sellers"),
    ),
    Layout(
        right=STEER_OPERATION,  # Ad Ops
        figures=("attention", "waiting", "flying", "sellers"),
        main=("waiting", "flying", "answers"),
        side=("attention", "sellers"),
    ),
    Layout(
        right=SUBMIT_CAMPAIGN,  # Buyer
        lead="Your campaigns, and what others decide about them.",
        figures=("asked", "flying", "attention", "committed"),
        main=("campaigns", "asked", "committed"),
        side=("attention", "dates", "flying"),
    ),
    Layout(
        right="tasks_app.view_actor",  # Auditor
        lead="Who decided what, and what departs from it.",
        figures=("decided", "attention", "departures", "flying"),
        main=("decided", "decisions", "departures"),
        side=("attention", "state"),
    ),
)
# Who only reads looks after the money: Finance.
_READERS = Layout(
    right="",
    lead="Budgets, what sellers confirmed, and where that differs.",
    figures=("committed", "confirmed", "departures", "flying"),
    main=("committed", "departures", "confirmed"),
    side=("dates", "flying"),
)


def layout_of(viewer: User) -> Layout:
    """By the first right that the viewer has, so that it stays true whatever a role is called."""
    return next((layout for layout in _LAYOUTS if viewer.has_perm(layout.right)), _READERS)
