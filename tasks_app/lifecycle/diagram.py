"""A lifecycle as a picture, drawn from its declaration: the main way in one row, detours above it, and
below it a rail for each end, with a dot under every state that may go there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tasks_app.desk.graph import text_width
from tasks_app.lifecycle.declarations import Lifecycle

_GUTTER, _STEP, _H, _ROW = 150, 186, 30, 58
_RAIL_GAP, _RAIL_FIRST = 30, 36
_RAIL_W = 80
_MARKS = {"past": "✓ ", "now": "● ", "next": "→ ", "far": ""}


@dataclass(frozen=True, kw_only=True)
class State:
    """A state's box. `tone`: past, now, next (a declared edge leads there from now) or far."""

    name: str
    x: int
    y: int
    width: int
    tone: str
    end: bool
    height: int = _H

    @property
    def label(self) -> str:
        return f"{_MARKS[self.tone]}{self.name}"

    @property
    def middle(self) -> int:
        return self.x + self.width // 2

    @property
    def text_y(self) -> int:
        return self.y + 19

    @property
    def radius(self) -> int:
        return self.height // 2 if self.end else 6


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """An edge between two boxes; `both`: the way back takes the same line."""

    before: str
    after: str
    d: str
    tone: str
    both: bool


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A state that may go to the rail's end."""

    x: int
    name: str
    tone: str

    @property
    def radius(self) -> int:
        return 4 if self.tone == "next" else 3


@dataclass(frozen=True, kw_only=True)
class Rail:
    """An end state, and from where it can be reached. `now_x` is 0 unless it can be reached now."""

    name: str
    y: int
    dots: tuple[Dot, ...]
    tone: str
    now_x: int

    @property
    def label(self) -> str:
        return f"{_MARKS[self.tone]}{self.name}"

    @property
    def until_x(self) -> int:
        return max(dot.x for dot in self.dots)

    @property
    def box_y(self) -> int:
        return self.y - 12

    @property
    def text_y(self) -> int:
        return self.y + 4

    @property
    def begin_x(self) -> int:
        return _RAIL_W


@dataclass(frozen=True, kw_only=True)
class Diagram:
    """The whole picture; `words` says the same for those who do not see it. `drop`: x, y1, y2 of the line
    from the present state to the rails, where it may go to one."""

    states: tuple[State, ...]
    arrows: tuple[Arrow, ...]
    rails: tuple[Rail, ...]
    drop: tuple[int, int, int] | None
    width: int
    height: int
    words: str


def diagram(declared: Lifecycle, status: str, passed: Collection[str]) -> Diagram:
    """The picture for an entity that is in `status` and was in the states `passed`."""
    main = main_way(declared)
    ends = _ends(declared, main)
    detours = [s for s in declared.states if s not in main and s not in ends]
    tones = {s: _tone(declared, s, status, passed) for s in declared.states}
    states = {s: _main_box(s, i, main, tones) for i, s in enumerate(main)}
    states |= {s: _detour_box(s, declared, main, tones) for s in detours}
    arrows = tuple(
        _arrow(states[a], states[b], main, declared, status, passed)
        for a, b in declared.edges
        if a != b and a in states and b in states and not _is_way_back(a, b, main, declared)
    )
    rails = tuple(_rail(end, i, states, declared, tones, status) for i, end in enumerate(ends))
    low = 2 + _ROW + _H
    drop = None
    reached = [rail for rail in rails if rail.now_x]
    if reached:
        drop = (states[status].middle, low + 1, max(rail.y for rail in reached))
    return Diagram(
        states=tuple(states.values()),
        arrows=arrows,
        rails=rails,
        drop=drop,
        width=_GUTTER + (len(main) - 1) * _STEP + 116 // 2 + 4,
        height=low + _RAIL_FIRST + _RAIL_GAP * len(rails) - 15,
        words=_words(declared, status, passed),
    )


def main_way(declared: Lifecycle) -> list[str]:
    """The shortest way from the initial state to the first declared terminal one."""
    goal = next(s for s in declared.states if s in declared.terminal)
    came_from = {declared.initial: ""}
    queue = [declared.initial]
    for state in queue:
        for to in declared.targets(state):
            if to not in came_from:
                came_from[to] = state
                queue.append(to)
    way = [goal]
    while came_from[way[-1]]:
        way.append(came_from[way[-1]])
    return way[::-1]


def _ends(declared: Lifecycle, main: list[str]) -> list[str]:
    """Terminal states off the main way, those reached from most states first."""
    found = [s for s in declared.states if s in declared.terminal and s not in main]
    return sorted(found, key=lambda s: -sum(to == s for _, to in declared.edges))


def _tone(declared: Lifecycle, state: str, status: str, passed: Collection[str]) -> str:
    if state == status:
        return "now"
    if state in declared.targets(status):
        return "next"
    return "past" if state in passed else "far"


def _main_box(state: str, place: int, main: list[str], tones: dict[str, str]) -> State:
    width = 116
    return State(
        name=state,
        x=_GUTTER + place * _STEP - width // 2,
        y=2 + _ROW,
        width=width,
        tone=tones[state],
        end=place == len(main) - 1,
    )


def _detour_box(state: str, declared: Lifecycle, main: list[str], tones: dict[str, str]) -> State:
    """Half-way between the first state of the main way that leads to it and the next."""
    place = next(i for i, s in enumerate(main) if state in declared.targets(s))
    width = max(112, int(text_width(f"→ {state}", size=12, bold=True)) + 22)
    return State(
        name=state,
        x=_GUTTER + place * _STEP + _STEP // 2 - width // 2,
        y=2,
        width=width,
        tone=tones[state],
        end=False,
    )


def _is_way_back(a: str, b: str, main: list[str], declared: Lifecycle) -> bool:
    """From a detour to the state it left: drawn as the second head of the way there."""
    return a not in main and b in main and (b, a) in declared.edges


def _arrow(
    a: State, b: State, main: list[str], declared: Lifecycle, status: str, passed: Collection[str]
) -> Arrow:
    y, other_y = a.y + a.height // 2, b.y + b.height // 2
    if a.name in main and b.name in main:
        d = f"M{a.x + a.width} {y}H{b.x - 4}"
    elif b.name not in main:
        x = a.middle + 10
        d = f"M{x} {a.y - 1}V{other_y + 8}Q{x} {other_y} {x + 8} {other_y}H{b.x - 4}"
    else:
        x = b.middle - 10
        d = f"M{a.x + a.width} {y}H{x - 8}Q{x} {y} {x} {y + 8}V{b.y - 4}"
    walked = a.name in passed and (b.name in passed or b.name == status)
    tone = "next" if a.name == status else "past" if walked else "far"
    return Arrow(before=a.name, after=b.name, d=d, tone=tone, both=(b.name, a.name) in declared.edges)


def _rail(
    end: str, place: int, states: dict[str, State], declared: Lifecycle, tones: dict[str, str], status: str
) -> Rail:
    dots = tuple(
        Dot(x=states[frm].middle, name=frm, tone="next" if frm == status else "far")
        for frm, to in declared.edges
        if to == end and frm in states
    )
    now_x = states[status].middle if status in states and end in declared.targets(status) else 0
    return Rail(
        name=end, y=2 + _ROW + _H + _RAIL_FIRST + place * _RAIL_GAP, dots=dots, tone=tones[end], now_x=now_x
    )


def _words(declared: Lifecycle, status: str, passed: Collection[str]) -> str:
    been = [s for s in declared.states if s in passed and s != status]
    to = declared.targets(status)
    after = f", after {', '.join(been)}" if been else ""
    following = f"Next: {' or '.join(to)}." if to else "It is final."
    return f"Lifecycle. Now {status}{after}. {following}"
