"""Every event as one line of the log `events`: what happened to whom, by whom."""

from __future__ import annotations

import structlog

from tasks_app.events.bus import ANY, Event, subscribe

log = structlog.get_logger("events")


def register() -> None:
    """Called when the application starts."""
    subscribe("log", [ANY], log_event)


def log_event(event: Event) -> None:
    """One line at level INFO; `(entity, id, seq)` tells a repeated one."""
    log.info(
        event.type,
        entity=event.entity_type,
        id=str(event.entity_id),
        seq=event.seq,
        actor=event.payload.get("actor", ""),
    )
