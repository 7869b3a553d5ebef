"""The questions that the built-in planner recognises, as one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from tasks_app.assistant.clients.brief_slots import brief_arguments
from tasks_app.assistant.clients.slots import (
    coming_days,
    deal_status,
    deal_what,
    first_day,
    move_ends,
    new_budget,
    pause_or_resume,
    stated_reason,
)

Slots = Callable[[str, date], dict[str, Any]]


def _no_slots(_question: str, _today: date) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Intent:
    """One kind of question.

    Attributes:
        name: For plans and evaluations.
        pattern: Regular expression that is searched in the question, in lower case.
        tools: Kind of object to the tool that answers about it and the tool's argument that takes the
            object's reference; "" for a question about no object.
        slots: Reads further arguments from the question and today's date.
        name_in: Where the question says the object's name, as the group `name` of a regular
            expression; empty: in its uncommon words.
        missing: Argument to the sentence that asks for it, if the question does not say it.
        example: Shown when a question is not understood.
    """

    name: str
    pattern: str
    tools: Mapping[str, tuple[str, str]]
    slots: Slots = _no_slots
    name_in: str = ""
    missing: Mapping[str, str] = field(default_factory=dict)
    example: str = ""


_NO_NAME = r"(?!)"  # matches nothing: the question is about no object that exists
_BRIEF_EXAMPLE = (
    "Draft a brief for Lindqvist Coffee: USD 50,000 on CTV and podcast from 2027-01-10 to 2027-02-10."
)
_EXPLAIN = ("explain_object", "reference")
_ANYTHING = {"campaign": _EXPLAIN, "deal": _EXPLAIN, "seller": _EXPLAIN}

#: The first that matches counts.
INTENTS = (
    Intent(
        name="move_money",
        pattern=r"\b(move|shift|transfer)\b.*\d.*\bfrom\b.*\bto\b",
        tools={"campaign": ("move_money", "campaign")},
        slots=move_ends,
        name_in=r"\b(?:of|in|within|for) (?P<name>.+?) from\b",
        example="Move USD 10,000 of Spring Launch from CTV to audio.",
    ),
    Intent(
        name="change_budget",
        pattern=r"\b(set|change|raise|lower|increase|reduce|cut)\b.*\bbudget\b.*\bto\b.*\d",
        tools={"deal": ("change_budget", "deal")},
        slots=new_budget,
        name_in=r"\bbudget (?:of|for) (?P<name>.+?) to\b",
        example="Change the budget of DEAL-2026-000012 to 25,000.",
    ),
    Intent(
        name="pause_deal",
        pattern=r"^\W*(please )?(pause|resume)\b",
        tools={"deal": ("pause_deal", "deal")},
        slots=pause_or_resume,
        name_in=r"\b(?:pause|resume) (?P<name>.+)",
        example="Pause DEAL-2026-000012.",
    ),
    Intent(
        name="cancel_deal",
        pattern=r"^\W*(please )?(cancel|call off)\b",
        tools={"deal": ("cancel_deal", "deal")},
        slots=stated_reason,
        name_in=r"\b(?:cancel|call off) (?P<name>.+?)(?: because\b| since\b|$)",
        missing={"reason": "Say why, such as: cancel DEAL-2026-000012 because the client stopped it."},
        example="Cancel DEAL-2026-000012 because the client stopped the launch.",
    ),
    Intent(
        name="draft_brief",
        pattern=(
            r"\b(draft|write|prepare|submit|create)\b.*\b(brief|campaign)\b.*\bfor\b"
            r"|\bnew (brief|campaign) for\b"
        ),
        tools={"": ("draft_brief", "")},
        slots=brief_arguments,
        name_in=_NO_NAME,
        missing={
            "advertiser": f"Say for which advertiser, such as: {_BRIEF_EXAMPLE}",
            "total": f"Say the budget, such as: {_BRIEF_EXAMPLE}",
            "channels": f"Say on which channels, such as: {_BRIEF_EXAMPLE}",
            "start": f"Say from which day to which, such as: {_BRIEF_EXAMPLE}",
        },
        example=_BRIEF_EXAMPLE,
    ),
    Intent(
        name="retry_campaign",
        pattern=r"^\W*(please )?(retry|restart|resubmit|try\b.*\bagain)\b",
        tools={"campaign": ("retry_campaign", "campaign")},
        name_in=r"\b(?:retry|restart|resubmit|try) (?P<name>.+?)(?: again\b| because\b| since\b|$)",
        example="Retry Halvorsen Autumn Service.",
    ),
    Intent(
        name="my_queue",
        pattern=(
            r"\b(wait\w*|open|pending|anything|something|nothing|there)\b.*\bfor me\b"
            r"|\bmy (queue|approvals?|decisions?|work)\b"
            r"|\bwhat (do|must|should|can) i\b.*\b(do|decide|approve)\b"
        ),
        tools={"": ("my_queue", "")},
        example="What waits for me?",
    ),
    Intent(
        name="recent_events",
        pattern=(
            r"\bwhat('s| is| has| have)? ?(happened|changed|new)\b.*\b(since|today|yesterday|last)\b"
            r"|\bwhat did i miss\b|\bchanges since\b"
        ),
        tools={"": ("recent_events", "")},
        slots=first_day,
        example="What happened since yesterday?",
    ),
    Intent(
        name="who_decides",
        pattern=r"\bwho (can|may|must|has to|should|is to) (decide|approve|reject|move|sign|release)\b",
        tools=_ANYTHING,
        example="Who can decide on APR-2026-000012?",
    ),
    Intent(
        name="history",
        pattern=(
            r"\bwho (has )?(changed|moved|approved|rejected|booked|cancell?ed|decided|asked|made|set|did)\b"
            r"|\bhistory\b|\baudit trail\b"
            r"|\bwhen (was|did)\b.*\b(approved|booked|changed|cancell?ed|rejected)\b"
        ),
        tools={"campaign": ("object_history", "reference"), "deal": ("object_history", "reference")},
        example="Who changed DEAL-2026-000012?",
    ),
    Intent(
        name="compare_offers",
        pattern=r"\boffers?\b|\boffered\b|\bput forward\b|\bleft out\b",
        tools={"campaign": ("compare_offers", "campaign")},
        example="Compare the offers for Spring Launch.",
    ),
    Intent(
        name="compare_sellers",
        pattern=(
            r"\bcompare\b.*\bsellers?\b|\bwhich sellers?\b"
            r"|\bsellers?\b.*\b(fast|slow|best|reliable|healthy)\w*"
        ),
        tools={"": ("compare_sellers", "")},
        example="Compare the sellers.",
    ),
    Intent(
        name="differences",
        pattern=r"\bdiffer\w*|\bconflicts?\b|\bcontradict\w*|\bdiscrepanc\w+|\bmismatch\w*",
        tools={"": ("open_differences", "")},
        example="Which deals were booked differently?",
    ),
    Intent(
        name="upcoming",
        pattern=(
            r"\b(which|what|any|list|show|do we have)\b.*"
            r"\b(end|ends|ending|finish\w*|start|starts|starting|begin\w*|creatives?)\b"
        ),
        tools={"": ("upcoming_deals", "")},
        slots=lambda question, today: {**deal_what(question, today), **coming_days(question, today)},
        example="Which deals end within 14 days?",
    ),
    Intent(
        name="money",
        pattern=(
            r"\bspen[dt]\w*|\bcosts?\b|\bbudgets?\b|\bcommitted\b|\bleft\b|\bremain\w*|\bmoney\b|\bhow much\b"
        ),
        tools={
            "campaign": ("campaign_money", "campaign"),
            "seller": ("seller_spend", "seller"),
            "deal": ("deal_money", "deal"),
        },
        example="What is left of Spring Launch?",
    ),
    Intent(
        name="progress",
        pattern=r"\bprogress\b|\bhow far\b|\bhow is\b.*\b(going|doing|getting on)\b",
        tools={"campaign": ("campaign_progress", "campaign"), "deal": _EXPLAIN},
        example="How far is Spring Launch?",
    ),
    Intent(
        name="list_deals",
        pattern=r"\b(which|list|show|how many|all)\b.*\b(deals|media buys|bookings)\b|\bdeals of\b",
        tools={
            "": ("list_deals", ""),
            "campaign": ("list_deals", "campaign"),
            "seller": ("list_deals", "seller"),
        },
        slots=deal_status,
        example="Which deals are booked?",
    ),
    Intent(
        name="list_campaigns",
        pattern=r"\b(which|list|show|how many|all)\b.*\bcampaigns\b",
        tools={"": ("list_campaigns", "")},
        example="List our campaigns.",
    ),
    Intent(
        name="status",
        pattern=(
            r"\bwhy\b|\bstatus\b|\bstate\b|\bwhere\b|\bhow is\b|\bstand\w*"
            r"|\bwait\w*|\bstuck\b|\bblocked\b|\bhang\w*|\bfail\w*"
            r"|\bexplain\b|\bwhat('s| is) (up|wrong|happening|going on)\b|\bbooked\b|\bdelivering\b|\bwhen\b"
        ),
        tools=_ANYTHING,
        example="Why is Halvorsen's TV deal not booked?",
    ),
)


def intent_of(question: str) -> Intent | None:
    """Return the first intent that the question matches."""
    lowered = question.lower().replace("’", "'")
    return next((intent for intent in INTENTS if re.search(intent.pattern, lowered)), None)
