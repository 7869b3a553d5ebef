"""Layouts of job graphs, computed here and drawn as SVG by a template: no library, whole pixels only.

Layered left to right: longest-path layers, two barycentre sweeps, cubic edges between neighbouring
columns. An edge over several columns gets a lane of its own in each of them, so that it runs beside boxes,
never under them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

BOX_W, BOX_H = 134, 44
GAP_X, GAP_Y = 20, 12
SNUG = 1090  # up to so wide a picture is made to fit a desktop's narrowest page
_LANE_H = 6
_MARGIN = 2
# Shares of the font size, close to Inter's: enough to know where to cut a text.
_NARROW, _WIDE = frozenset("iljtfrI.,:;'!|()[]· "), frozenset("mwMW@%–—")


class CyclicGraphError(ValueError):
    """The edges go in a circle."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """One box: two lines of text, a glyph's name, and a tone (`ok`, `run`, `you`, `late`, `bad`, `diff`,
    `idle`). `done`: the way leads on from here. `critical`: it is on the way that decides the end. `link` is
    where a click leads, empty for nowhere.
    """

    id: str
    title: str
    sub: str = ""
    glyph: str = "waiting"
    tone: str = "idle"
    link: str = ""
    done: bool = False
    critical: bool = False


@dataclass(frozen=True, kw_only=True)
class Box:
    """A node at its place: `x`, `y` are the upper left corner, in pixels."""

    node: Node
    x: int
    y: int
    width: int = BOX_W
    height: int = BOX_H

    @property
    def title(self) -> str:
        return fit(self.node.title, self.width - 36, size=12, bold=True)

    @property
    def sub(self) -> str:
        return fit(self.node.sub, self.width - 16, size=11)

    @property
    def words(self) -> str:
        return f"{self.node.title}: {self.node.sub}" if self.node.sub else self.node.title

    @property
    def glyph_x(self) -> int:
        return self.x + 9

    @property
    def glyph_y(self) -> int:
        return self.y + 7

    @property
    def title_x(self) -> int:
        return self.x + 28

    @property
    def title_y(self) -> int:
        return self.y + 18

    @property
    def sub_y(self) -> int:
        return self.y + 37


@dataclass(frozen=True, kw_only=True)
class Path:
    """An edge: `d` for SVG, the points it goes through, whether it was walked (`done`, else `wait`), and
    whether it is a part of the way that decides the end."""

    before: str
    after: str
    points: tuple[tuple[int, int], ...]
    tone: str
    critical: bool = False

    @property
    def d(self) -> str:
        x, y = self.points[0]
        parts = [f"M{x} {y}"]
        for (x1, y1), (x2, y2) in pairwise(self.points):
            middle = (x1 + x2) // 2
            parts.append(f"H{x2}" if y1 == y2 else f"C{middle} {y1} {middle} {y2} {x2} {y2}")
        return "".join(parts)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Boxes, edges and the canvas they fit into."""

    boxes: tuple[Box, ...]
    paths: tuple[Path, ...]
    width: int
    height: int

    @property
    def snug(self) -> bool:
        return self.width <= SNUG


def layered(
    nodes: Sequence[Node], edges: Iterable[tuple[str, str]], critical: Collection[tuple[str, str]] = ()
) -> Layout:
    """Place `nodes` (ids are unique) and `edges` (before, after); `critical` edges are on the way that
    decides the end. Raises CyclicGraphError."""
    known = {node.id: node for node in nodes}
    links = sorted({(a, b) for a, b in edges if a in known and b in known})
    layer = _layers(list(known), links)
    chains = {link: _chain(link, layer) for link in links}
    columns = _columns(layer, chains.values())
    _untangle(columns, chains.values())
    places, height = _places(columns, set(known))
    boxes = tuple(Box(node=node, x=places[node.id][0], y=places[node.id][1]) for node in nodes)
    paths = tuple(
        Path(
            before=a,
            after=b,
            points=_points(chain, places, set(known)),
            tone=_tone(known[a], known[b]),
            critical=(a, b) in critical,
        )
        for (a, b), chain in chains.items()
    )
    width = len(columns) * (BOX_W + GAP_X) - GAP_X + 2 * _MARGIN if columns else 2 * _MARGIN
    return Layout(boxes=boxes, paths=paths, width=width, height=height)


def fit(text: str, width: float, *, size: int, bold: bool = False) -> str:
    """`text`, cut with an ellipsis where it would be wider than `width` pixels."""
    if text_width(text, size=size, bold=bold) <= width:
        return text
    room = width - text_width("…", size=size, bold=bold)
    kept = ""
    for char in text:
        room -= text_width(char, size=size, bold=bold)
        if room < 0:
            break
        kept += char
    return f"{kept.rstrip(' ,.')}…"


def text_width(text: str, *, size: int, bold: bool = False) -> float:
    """About how wide a text is, in pixels."""
    share = sum(0.31 if c in _NARROW else 0.86 if c in _WIDE else 0.66 if c.isupper() else 0.57 for c in text)
    return share * size * (1.05 if bold else 1)


def _layers(ids: list[str], links: list[tuple[str, str]]) -> dict[str, int]:
    """Each node's column: one after its furthest predecessor (Kahn's order, so no recursion)."""
    waiting = dict.fromkeys(ids, 0)
    after: dict[str, list[str]] = {i: [] for i in ids}
    for a, b in links:
        waiting[b] += 1
        after[a].append(b)
    layer = {i: 0 for i in ids if not waiting[i]}
    ready = list(layer)
    for one in ready:
        for following in after[one]:
            layer[following] = max(layer.get(following, 0), layer[one] + 1)
            waiting[following] -= 1
            if not waiting[following]:
                ready.append(following)
    if len(ready) != len(ids):
        raise CyclicGraphError(f"in a circle: {', '.join(sorted(set(ids) - set(ready)))}")
    return layer


def _chain(link: tuple[str, str], layer: Mapping[str, int]) -> list[tuple[str, int]]:
    """The edge as its two ends and a lane, with a name of its own, in every column between."""
    a, b = link
    lanes = [(f"{a}\n{b}\n{k}", k) for k in range(layer[a] + 1, layer[b])]
    return [(a, layer[a]), *lanes, (b, layer[b])]


def _columns(layer: Mapping[str, int], chains: Iterable[list[tuple[str, int]]]) -> list[list[str]]:
    columns: list[list[str]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for one, k in layer.items():
        columns[k].append(one)
    for chain in chains:
        for lane, k in chain[1:-1]:
            columns[k].append(lane)
    return columns


def _untangle(columns: list[list[str]], chains: Iterable[list[tuple[str, int]]]) -> None:
    """Sort each column by where its neighbours stand: once forward, once backward."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for chain in chains:
        for (a, _), (b, _) in pairwise(chain):
            before.setdefault(b, []).append(a)
            after.setdefault(a, []).append(b)
    rank = {one: row / len(column) for column in columns for row, one in enumerate(column)}
    for sweep, near in ((columns, before), (columns[::-1], after)):
        for column in sweep:
            column.sort(key=lambda one: _barycentre(one, near, rank))
            rank |= {one: row / len(column) for row, one in enumerate(column)}


def _barycentre(one: str, near: Mapping[str, list[str]], rank: Mapping[str, float]) -> float:
    neighbours = near.get(one)
    return sum(rank[n] for n in neighbours) / len(neighbours) if neighbours else rank[one]


def _places(columns: list[list[str]], boxes: set[str]) -> tuple[dict[str, tuple[int, int]], int]:
    """Upper left corners, every column centred on the tallest, and the canvas's height."""
    sizes = [[BOX_H if one in boxes else _LANE_H for one in column] for column in columns]
    heights = [sum(size) + GAP_Y * (len(size) - 1) for size in sizes]
    tallest = max(heights, default=0)
    places = {}
    for k, (column, size, height) in enumerate(zip(columns, sizes, heights, strict=True)):
        y = (tallest - height) // 2 + _MARGIN
        for one, own in zip(column, size, strict=True):
            places[one] = (k * (BOX_W + GAP_X) + _MARGIN, y)
            y += own + GAP_Y
    return places, tallest + 2 * _MARGIN


def _points(
    chain: list[tuple[str, int]], places: Mapping[str, tuple[int, int]], boxes: set[str]
) -> tuple[tuple[int, int], ...]:
    """From the right edge of the first box, along the lanes, to the left edge of the last."""
    points: list[tuple[int, int]] = []
    for place, (one, _) in enumerate(chain):
        x, y = places[one]
        middle = y + (BOX_H if one in boxes else _LANE_H) // 2
        if place > 0:
            points.append((x, middle))
        if place < len(chain) - 1:
            points.append((x + BOX_W, middle))
    return tuple(points)


def _tone(before: Node, after: Node) -> str:
    return "done" if before.done and after.tone != "idle" else "wait"
