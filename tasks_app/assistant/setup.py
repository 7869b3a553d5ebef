"""Registrations at the start of the application."""

from __future__ import annotations

from tasks_app.assistant.proposals import continue_proposals
from tasks_app.assistant.selectors import is_last_turn_sign, turn_signs
from tasks_app.assistant.sessions import archive_idle_sessions
from tasks_app.assistant.tools.common import COMMON_TOOLS
from tasks_app.assistant.tools.names import FIND_OBJECTS, names_register
from tasks_app.assistant.tools.registry import tool_register
from tasks_app.assistant.tools.sellers import seller_names
from tasks_app.assistant.turns import clear_stale_turns
from tasks_app.desk.live import page_register
from tasks_app.operations.sweep import chore_register

#: The name of a turn's stream.
TURN_STREAM = "assistant_turn"


def register() -> None:
    """Register tools, names of sellers, the stream of turns, and chores of the sweep."""
    for tool in (FIND_OBJECTS, *COMMON_TOOLS):
        tool_register(tool)
    names_register("seller", seller_names)
    page_register(TURN_STREAM, turn_signs, is_last=is_last_turn_sign)
    chore_register("assistant_turns_cleared", clear_stale_turns)
    chore_register("assistant_proposals_continued", continue_proposals)
    chore_register("assistant_sessions_archived", archive_idle_sessions)
