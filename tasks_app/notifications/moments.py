"""Placeholders for moments in stored notification texts, rendered in each reader's time zone."""

from __future__ import annotations

import re
from datetime import datetime

from tasks_app.adcp.values import parse_time
from tasks_app.desk import text

_TOKEN = re.compile(r"⟨([0-9T:+.-]{20,40})⟩")


def moment_token(at: datetime) -> str:
    """Return a placeholder such as ⟨2026-11-18T17:00:00+00:00⟩ for a stored text."""
    return f"⟨{at.isoformat()}⟩"


def render_moments(stored: str, zone: str) -> str:
    """Return the text with its moments in a time zone, which is named: "Wed 18 Nov, 12:00 New York"."""

    def shown(token: re.Match[str]) -> str:
        at = parse_time(token[1])
        return token[0] if at is None else text.moment_there(at, zone)

    return _TOKEN.sub(shown, stored)
