"""Browsers by the names people know them by, from what they send: Chrome 156 on Linux."""

from __future__ import annotations

import re

# In this order: most browsers also name those they came from.
_BROWSERS = (
    ("Edge", re.compile(r"Edg(?:A|iOS)?/(\d+)")),
    ("Opera", re.compile(r"OPR/(\d+)")),
    ("Firefox", re.compile(r"(?:Firefox|FxiOS)/(\d+)")),
    ("Chrome", re.compile(r"(?:HeadlessChrome|Chrome|CriOS)/(\d+)")),
    ("Safari", re.compile(r"Version/(\d+).*Safari/")),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def browser_of(agent: str) -> str:
    """Chrome 156 on Linux; what is none of the known stands as it was sent, nothing as unknown."""
    for name, pattern in _BROWSERS:
        if found := pattern.search(agent):
            system = next((word for mark, word in _SYSTEMS if mark in agent), "")
            return f"{name} {found[1]} on {system}" if system else f"{name} {found[1]}"
    return agent or "unknown"
