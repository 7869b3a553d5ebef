"""A brief as YAML or JSON text, and the brief that a new form begins with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from campaigns.parsing import UnparseableBriefError, brief_parse
from campaigns.services import BriefRefusedError
from tasks_app.people.house import house
from tasks_app.people.models import User

_DEFAULT: dict[str, Any] = {
    "objective": {"goal": "reach", "kpi": "impressions", "target": 1000000},
    "channels": [{"channel": "ctv", "weight": 60}, {"channel": "olv", "weight": 40}],
    "geography": {"countries": ["US"]},
}


def brief_of_text(text: bytes, *, name: str = "") -> dict[str, Any]:
    """Return the brief that YAML or JSON holds; a file's `name` says which. Raise BriefRefusedError."""
    try:
        return brief_parse(text, name=name)
    except UnparseableBriefError as error:
        raise BriefRefusedError([{"field": "brief", "problem": str(error)}]) from error


def text_of_brief(raw: Mapping[str, Any]) -> str:
    """Return a brief as YAML."""
    return yaml.safe_dump(dict(raw), sort_keys=False, allow_unicode=True, width=100)


def default_brief(user: User) -> dict[str, Any]:
    """Return the brief that a new form begins with, in the house's currency and the user's time zone."""
    return {**_DEFAULT, "budget": {"currency": house().currency}, "flight": {"zone": user.time_zone}}
