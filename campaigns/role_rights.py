"""What the application's role may write in this storey's tables, and which owner's functions it calls."""

from __future__ import annotations

from tasks_app.database_rights import May, lifecycle_doors
from tasks_app.role_rights import LOCKED

TABLES: dict[str, May] = {
    "campaigns_allocation": May(
        insert="a budget's part by channel", delete="split anew, where its job is retried from there"
    ),
    "campaigns_briefdraft": May(
        insert="a brief that a person began",
        update="what was typed since",
        columns=("content", "saved_at"),
        delete="submitted or discarded",
    ),
    "campaigns_calendarfeed": May(
        insert="a calendar's address", update="read, revoked", columns=("read_at", "revoked_at")
    ),
    "campaigns_campaign": May(insert="a brief, with its first entry", update=LOCKED, columns=("version",)),
}

DOORS: dict[str, str] = lifecycle_doors("campaign")
