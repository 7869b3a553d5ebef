"""A right brief, and ways to spoil it."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from tasks_app import clock

NOW = datetime(2030, 3, 1, 12, tzinfo=UTC)

_RIGHT: dict[str, Any] = {
    "name": "Cold brew, spring",
    "advertiser": "Lindqvist Coffee",
    "brand_domain": "lindqvist-coffee.com",
    "objective": {"goal": "Awareness of cold brew", "kpi": "completed views", "target": 2_000_000},
    "budget": {"total": 250_000, "currency": "USD"},
    "flight": {"zone": "America/New_York", "start": "2030-04-01", "end": "2030-04-30"},
    "channels": ["display", {"channel": "ctv", "weight": 2, "minimum": 50_000}],
    "geography": {"countries": ["US"]},
}


def brief(**changed: Any) -> dict[str, Any]:
    """The right brief with `section__field` replaced: brief(budget__total=-1)."""
    raw = copy.deepcopy(_RIGHT)
    for path, value in changed.items():
        *sections, field = path.split("__")
        part = raw
        for section in sections:
            part = part.setdefault(section, {})
        part[field] = value
    return raw


def future(**changed: Any) -> dict[str, Any]:
    """A right brief whose flight lies ahead."""
    day = clock.now().date() + timedelta(days=30)
    dates = {"flight__start": day.isoformat(), "flight__end": (day + timedelta(days=20)).isoformat()}
    return brief(**{**dates, **changed})
