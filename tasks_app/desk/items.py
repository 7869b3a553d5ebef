"""Small records that several pages show: a line with a glyph, a row of the trail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest


@dataclass(frozen=True, kw_only=True)
class Item:
    """One line: a glyph's name, what it says, what qualifies it (grey, below), where a click leads."""

    glyph: str
    text: str
    note: str = ""
    link: str = ""


def segments(
    request: HttpRequest, options: dict[str, str], *, parameter: str = "view"
) -> list[dict[str, Any]]:
    """Links of unfold's segmented navigation: value to title; the first is what is shown without one."""
    first = next(iter(options))
    chosen = request.GET.get(parameter, first)
    chosen = chosen if chosen in options else first
    return [
        {
            "title": title,
            "link": f"?{parameter}={value}",
            "active": value == chosen,
        }
        for value, title in options.items()
    ]


def joined(words: list[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def lowered(sentence: str) -> str:
    """A sentence as it goes on within another."""
    return f"{sentence[:1].lower()}{sentence[1:]}"


def raised(words: str) -> str:
    """Words as they begin a sentence."""
    return f"{words[:1].upper()}{words[1:]}"


def plural(count: int, one: str, many: str = "") -> str:
    """1 deal, 2 deals."""
    return f"{count} {one if count == 1 else many or one + 's'}"
