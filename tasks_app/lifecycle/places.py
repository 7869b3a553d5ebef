"""Where the states of a lifecycle stand in its picture: the main way in one row, detours above it, each in a
column of its own, and the ends beside rails below."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tasks_app.desk.graph import text_width
from tasks_app.lifecycle.declarations import Lifecycle

_SPACE = 20  # between two boxes of a row
_CORRIDOR = 26  # free beside a detour, for the lines up and down at the state of the main way next to it
_NARROWEST = 88
_COLLECTS = 3  # from so many states on, one that only leads back to the beginning stands below like an end


@dataclass(frozen=True, kw_only=True)
class Places:
    """`gaps[i]` holds the detours between the i-th state of the main way and the next. `neighbours` are the
    pairs between which a short line is free. `middles` are the columns, in pixels from the left of the first
    box; `widths` those of the boxes."""

    main: tuple[str, ...]
    gaps: tuple[tuple[str, ...], ...]
    ends: tuple[str, ...]
    neighbours: frozenset[frozenset[str]]
    widths: dict[str, int]
    middles: dict[str, int]

    @property
    def row(self) -> list[str]:
        """Everything but the ends, from left to right."""
        return sorted(self.middles, key=lambda state: self.middles[state])


def places(declared: Lifecycle) -> Places:
    """The places of every state of a lifecycle; the same for the same declaration."""
    main = main_way(declared)
    ends = _ends(declared, main)
    gaps = _gaps(declared, main, ends)
    widths = {state: _width(state) for state in declared.states}
    return Places(
        main=tuple(main),
        gaps=tuple(tuple(gap) for gap in gaps),
        ends=tuple(ends),
        neighbours=frozenset(_neighbours(main, gaps)),
        widths=widths,
        middles=_middles(main, gaps, widths),
    )


def main_way(declared: Lifecycle) -> list[str]:
    """The longest way from the initial state that keeps to the declared order and takes no edge that has a
    way back; of equals the first declared."""
    order = {state: place for place, state in enumerate(declared.states)}
    ways: dict[str, list[str]] = {}
    for state in reversed(declared.states):
        onward = [
            to
            for to in declared.targets(state)
            if order[to] > order[state] and (to, state) not in declared.edges
        ]
        longest = min(onward, key=lambda to: (-len(ways[to]), order[to]), default="")
        ways[state] = [state, *ways.get(longest, [])]
    return ways[declared.initial]


def _ends(declared: Lifecycle, main: list[str]) -> list[str]:
    """States that others end in, those reached from most first. None leads to another of them, nor to more
    than one state."""
    found: list[str] = []
    for state in sorted(declared.states, key=lambda state: -len(_sources(declared, state))):
        apart = all({(state, end), (end, state)}.isdisjoint(declared.edges) for end in found)
        if state not in main and apart and _is_end(declared, state):
            found.append(state)
    return found


def _is_end(declared: Lifecycle, state: str) -> bool:
    leads = declared.targets(state)
    if state == declared.initial or len(leads) > 1:
        return False
    collects = len(_sources(declared, state)) >= _COLLECTS
    return state in declared.terminal or (collects and set(leads) <= {declared.initial})


def _sources(declared: Lifecycle, state: str) -> list[str]:
    return [frm for frm, to in declared.edges if to == state and frm != state]


def _gaps(declared: Lifecycle, main: list[str], ends: list[str]) -> list[list[str]]:
    """Each detour goes where all its edges are short lines; else where it was declared."""
    gaps: list[list[str]] = [[] for _ in range(max(1, len(main) - 1))]
    order = {state: place for place, state in enumerate(declared.states)}
    for state in declared.states:
        if state in main or state in ends:
            continue
        before = [place for place, one in enumerate(main) if order[one] < order[state]]
        usual = min(max(before, default=0), len(gaps) - 1)
        others = [place for place in range(len(gaps)) if place != usual]
        fits = (place for place in (usual, *others) if _all_short(declared, state, place, main, gaps, ends))
        gaps[next(fits, usual)].append(state)
    return gaps


def _all_short(
    declared: Lifecycle, state: str, place: int, main: list[str], gaps: list[list[str]], ends: list[str]
) -> bool:
    """Whether every edge of `state` but those with ends leads to a neighbour, were it alone in that gap."""
    beside = {one for edge in declared.edges if state in edge for one in edge} - {state, *ends}
    return not gaps[place] and beside <= set(main[place : place + 2])


def _neighbours(main: list[str], gaps: list[list[str]]) -> list[frozenset[str]]:
    found = [frozenset(pair) for pair in pairwise(main)]
    for place, gap in enumerate(gaps):
        if gap:
            chain = [main[place], *gap, *main[place + 1 : place + 2]]
            found += [frozenset(pair) for pair in pairwise(chain)]
    return found


def _middles(main: list[str], gaps: list[list[str]], widths: dict[str, int]) -> dict[str, int]:
    at = widths[main[0]] // 2
    middles = {main[0]: at}
    for place, gap in enumerate(gaps):
        chain = [main[place], *gap, *main[place + 1 : place + 2]]
        for one, other in pairwise(chain):
            at += _apart(widths[one], widths[other], beside=(one in main) != (other in main))
            middles[other] = at
    return middles


def _apart(one: int, other: int, *, beside: bool) -> int:
    """From middle to middle: two boxes of a row, or one of the main way and a detour beside it."""
    return max(one, other) // 2 + _CORRIDOR if beside else (one + other) // 2 + _SPACE


def _width(state: str) -> int:
    """Room for its name and a mark, in bold; even, so that its middle is a whole pixel."""
    return max(_NARROWEST, int(text_width(f"→ {state}", size=12, bold=True)) // 2 * 2 + 14)
