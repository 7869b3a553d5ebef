"""A lifecycle as a picture, drawn from its declaration (`places` says where the states stand).

An edge between neighbours is a line. All others into one state share a rail, above the boxes or, into an end,
below them: a dot on it is a way there for the state in whose column it lies. What leaves the present state is
drawn once more, bold, over the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tasks_app.desk.graph import SNUG
from tasks_app.desk.items import joined
from tasks_app.lifecycle.declarations import Lifecycle
from tasks_app.lifecycle.places import Places, places

_H, _END_H = 30, 24
_ROW = 56  # from one row of boxes to the other
_LEVEL, _RAIL_GAP, _RAIL_FIRST = 14, 30, 34
_SLOT, _RAIL_SLOT, _OUT_SLOT = 10, 22, 16  # beside a state's middle: short lines, rails in, ways out of ends
_HEAD = 4  # an arrow stops so far before its box
_BUS = 8
_MARKS = {"past": "✓ ", "now": "● ", "next": "→ ", "far": ""}
_OVER = {"far": 0, "past": 1, "next": 2}
Point = tuple[int, int]
Edge = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class State:
    """A state's box. `tone`: past, now, next (a declared edge leads there from now) or far."""

    name: str
    x: int
    y: int
    width: int
    height: int
    tone: str
    final: bool

    @property
    def label(self) -> str:
        return f"{_MARKS[self.tone]}{self.name}"

    @property
    def middle(self) -> int:
        return self.x + self.width // 2

    @property
    def centre(self) -> int:
        return self.y + self.height // 2

    @property
    def bottom(self) -> int:
        return self.y + self.height

    @property
    def text_y(self) -> int:
        return self.centre + 4

    @property
    def radius(self) -> int:
        return self.height // 2 if self.final else 6


@dataclass(frozen=True, kw_only=True)
class Line:
    """An edge as a line with an arrow at its end; `tone`: next (it leaves the present state), past or far."""

    before: str
    after: str
    points: tuple[Point, ...]
    tone: str

    @property
    def d(self) -> str:
        return _path(self.points)


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A state that may go where the rail leads."""

    name: str
    x: int
    tone: str

    @property
    def radius(self) -> int:
        return 4 if self.tone == "next" else 3


@dataclass(frozen=True, kw_only=True)
class Rail:
    """All edges to one state that are not short lines. `way` leads from the rail into the box; `now` is the
    whole way from the present state, where it is among the dots, else empty."""

    name: str
    y: int
    dots: tuple[Dot, ...]
    way: tuple[Point, ...]
    now: tuple[Point, ...] = field(default=())

    @property
    def begin(self) -> int:
        return min(self.way[0][0], *(dot.x for dot in self.dots))

    @property
    def until(self) -> int:
        return max(self.way[0][0], *(dot.x for dot in self.dots))

    @property
    def d(self) -> str:
        return f"M{self.begin} {self.y}H{self.until}"

    @property
    def way_d(self) -> str:
        return _path(self.way)

    @property
    def now_d(self) -> str:
        return _path(self.now) if self.now else ""


@dataclass(frozen=True, kw_only=True)
class Diagram:
    """The whole picture; `words` says the same for those who do not see it."""

    states: tuple[State, ...]
    lines: tuple[Line, ...]
    rails: tuple[Rail, ...]
    width: int
    height: int
    words: str

    @property
    def snug(self) -> bool:
        return self.width <= SNUG


def diagram(declared: Lifecycle, status: str, walked: Collection[Edge] = ()) -> Diagram:
    """The picture for an entity that is in `status` and came there along the edges `walked`."""
    found = places(declared)
    tones = _tones(declared, status, walked)
    edges = {edge: _edge_tone(edge, status, walked) for edge in declared.edges if edge[0] != edge[1]}
    levels = _levels(found, edges)
    top = 2 + (max(levels.values()) + 1) * _LEVEL + 6 if levels else 2
    outs = sorted({to for frm, to in edges if frm in found.ends}, key=found.row[::-1].index)
    boxes = _boxes(declared, found, tones, top, left=_BUS * (len(outs) + 1) if outs else 1)
    lines = [
        Line(before=a, after=b, points=_short_line(boxes[a], boxes[b]), tone=tone)
        for (a, b), tone in edges.items()
        if frozenset((a, b)) in found.neighbours
    ]
    lines += [
        Line(before=a, after=b, points=_out(boxes[a], boxes[b], outs.index(b), found, boxes), tone=tone)
        for (a, b), tone in edges.items()
        if a in found.ends
    ]
    rails = [
        _rail(boxes[to], _dots(to, edges, found, boxes), boxes, top - 6 - _LEVEL * (level + 1) + _LEVEL // 2)
        for to, level in levels.items()
    ]
    rails += [
        _end_rail(boxes[end], dots, boxes) for end in found.ends if (dots := _dots(end, edges, found, boxes))
    ]
    return Diagram(
        states=tuple(boxes.values()),
        lines=tuple(sorted(lines, key=lambda line: _OVER[line.tone])),
        rails=tuple(rails),
        width=max(box.x + box.width for box in boxes.values()) + 2,
        height=max(box.bottom for box in boxes.values()) + 2 + 16 * sum(to != found.main[0] for to in outs),
        words=_words(declared, status, walked),
    )


def _tones(declared: Lifecycle, status: str, walked: Collection[Edge]) -> dict[str, str]:
    been = {state for edge in walked for state in edge}
    following = declared.targets(status)
    return {
        state: "now"
        if state == status
        else "next"
        if state in following
        else "past"
        if state in been
        else "far"
        for state in declared.states
    }


def _edge_tone(edge: Edge, status: str, walked: Collection[Edge]) -> str:
    return "next" if edge[0] == status else "past" if edge in walked else "far"


def _levels(found: Places, edges: Iterable[Edge]) -> dict[str, int]:
    """Rails above the boxes, by the state they lead to: short ones lowest, two on a level where they are
    apart."""
    spans: dict[str, list[int]] = {}
    for frm, to in edges:
        ends = frm in found.ends or to in found.ends
        if not ends and frozenset((frm, to)) not in found.neighbours:
            spans.setdefault(to, [found.middles[to] - _RAIL_SLOT]).append(found.middles[frm])
    levels: dict[str, int] = {}
    for to in sorted(spans, key=lambda to: (max(spans[to]) - min(spans[to]), to)):
        level = 0
        while any(_touch(spans[to], spans[other]) for other, at in levels.items() if at == level):
            level += 1
        levels[to] = level
    return levels


def _touch(one: list[int], other: list[int]) -> bool:
    return min(one) - 12 <= max(other) and min(other) - 12 <= max(one)


def _boxes(
    declared: Lifecycle, found: Places, tones: Mapping[str, str], top: int, left: int
) -> dict[str, State]:
    """The row, detours above it; the ends below, at the left."""
    rails_w = max((found.widths[end] for end in found.ends), default=0)
    begin = left + (rails_w + 12 if rails_w else 0)
    main_y = top + (_ROW if any(found.gaps) else 0)
    boxes = {}
    for state in (*found.row, *found.ends):
        end = state in found.ends
        width = rails_w if end else found.widths[state]
        boxes[state] = State(
            name=state,
            x=left if end else begin + found.middles[state] - width // 2,
            y=main_y + _H + _RAIL_FIRST - _END_H // 2 + _RAIL_GAP * found.ends.index(state)
            if end
            else main_y
            if state in found.main
            else top,
            width=width,
            height=_END_H if end else _H,
            tone=tones[state],
            final=state in declared.terminal or not declared.targets(state),
        )
    return boxes


def _short_line(a: State, b: State) -> tuple[Point, ...]:
    """Straight within a row; between the rows up or down beside the middle of the one below."""
    if a.y == b.y:
        x, to_x = (a.x + a.width, b.x - _HEAD) if a.x < b.x else (a.x, b.x + b.width + _HEAD)
        return (x, a.centre), (to_x, b.centre)
    low, high = (a, b) if a.y > b.y else (b, a)
    right = high.middle > low.middle
    x = low.middle + (_SLOT if right else -_SLOT)
    side = high.x if right else high.x + high.width
    back = _HEAD if right else -_HEAD
    if b is high:
        return (x, low.y), (x, high.centre), (side - back, high.centre)
    return (side, high.centre), (x, high.centre), (x, low.y - _HEAD)


def _out(end: State, to: State, place: int, found: Places, boxes: Mapping[str, State]) -> tuple[Point, ...]:
    """From an end that is left again: round its left, up to the first state or under all rails to another."""
    bus = end.x - _BUS * (place + 1)
    if to.name == found.main[0]:
        return (end.x, end.centre), (bus, end.centre), (bus, to.centre), (to.x - _HEAD, to.centre)
    low = max(boxes[one].bottom for one in found.ends) + 8 + 16 * place
    x = to.middle + _OUT_SLOT
    return (end.x, end.centre), (bus, end.centre), (bus, low), (x, low), (x, to.bottom + _HEAD)


def _dots(to: str, edges: Mapping[Edge, str], found: Places, boxes: Mapping[str, State]) -> tuple[Dot, ...]:
    return tuple(
        Dot(name=frm, x=boxes[frm].middle, tone=tone)
        for (frm, target), tone in edges.items()
        if target == to and frm not in found.ends and frozenset((frm, to)) not in found.neighbours
    )


def _rail(box: State, dots: tuple[Dot, ...], boxes: Mapping[str, State], y: int) -> Rail:
    x = box.middle - _RAIL_SLOT
    way = ((x, y), (x, box.y - _HEAD))
    now = next(((boxes[dot.name].middle, boxes[dot.name].y) for dot in dots if dot.tone == "next"), None)
    return Rail(name=box.name, y=y, dots=dots, way=way, now=(now, (now[0], y), *way) if now else ())


def _end_rail(box: State, dots: tuple[Dot, ...], boxes: Mapping[str, State]) -> Rail:
    y = box.centre
    way = ((box.x + box.width + 12, y), (box.x + box.width + _HEAD, y))
    now = next(((boxes[dot.name].middle, boxes[dot.name].bottom) for dot in dots if dot.tone == "next"), None)
    return Rail(name=box.name, y=y, dots=dots, way=way, now=(now, (now[0], y), way[1]) if now else ())


def _path(points: tuple[Point, ...], radius: int = 6) -> str:
    """SVG's path through points that follow each other level or upright, its corners rounded."""
    parts = [f"M{points[0][0]} {points[0][1]}"]
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        r = min(radius, _length(before, at) // 2, _length(at, after) // 2)
        (x1, y1), (x2, y2) = _towards(at, before, r), _towards(at, after, r)
        parts.append(f"L{x1} {y1}Q{at[0]} {at[1]} {x2} {y2}")
    parts.append(f"L{points[-1][0]} {points[-1][1]}")
    return "".join(parts)


def _length(a: Point, b: Point) -> int:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def _towards(a: Point, b: Point, far: int) -> Point:
    """`far` pixels from `a` on the way to `b`."""
    return a[0] + max(-far, min(far, b[0] - a[0])), a[1] + max(-far, min(far, b[1] - a[1]))


def _words(declared: Lifecycle, status: str, walked: Collection[Edge]) -> str:
    been = [s for s in declared.states if s != status and any(s in edge for edge in walked)]
    after = f", after {joined(been)}" if been else ""
    to = declared.targets(status)
    choice = " or ".join([", ".join(to[:-1]), to[-1]]) if len(to) > 1 else "".join(to)
    final = "It is final." if status in declared.terminal or not to else ""
    following = f"Next: {choice}." if to else ""
    said = " ".join(part for part in (final, following) if part)
    return f"Lifecycle of {declared.entity}. Now {status}{after}. {said}"
