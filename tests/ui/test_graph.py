"""Layouts of job graphs: boxes apart, edges from box to box and beside the others."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks_app.desk.graph import Box, CyclicGraphError, Layout, Node, Path, fit, layered, text_width


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Node], list[tuple[str, str]]]:
    """Random graphs without circles: edges lead from a lower number to a higher."""
    count = draw(st.integers(min_value=0, max_value=14))
    pairs = list(combinations(range(count), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=40)) if pairs else []
    order = draw(st.permutations(range(count)))
    tones = st.sampled_from(["ok", "run", "you", "idle", "bad"])
    nodes = [Node(id=f"n{i}", title=f"Step {i}", tone=draw(tones), done=draw(st.booleans())) for i in order]
    return nodes, [(f"n{a}", f"n{b}") for a, b in chosen]


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_boxes_never_overlap_and_lie_on_the_canvas(graph: tuple[list[Node], list[tuple[str, str]]]) -> None:
    layout = layered(*graph)
    for one, other in combinations(layout.boxes, 2):
        assert not _overlap(one, other), (one, other)
    for box in layout.boxes:
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= layout.width
        assert box.y + box.height <= layout.height


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_edges_begin_and_end_on_their_boxes_and_cross_no_other(
    graph: tuple[list[Node], list[tuple[str, str]]],
) -> None:
    layout = layered(*graph)
    boxes = {box.node.id: box for box in layout.boxes}
    assert {(path.before, path.after) for path in layout.paths} == set(graph[1])
    for path in layout.paths:
        before, after = boxes[path.before], boxes[path.after]
        assert path.points[0] == (before.x + before.width, before.y + before.height // 2)
        assert path.points[-1] == (after.x, after.y + after.height // 2)
        assert before.x + before.width < after.x  # time runs to the right
        assert not _crossed(path, layout)


@given(graphs())
@settings(max_examples=50, deadline=None)
def test_the_same_graph_is_drawn_the_same(graph: tuple[list[Node], list[tuple[str, str]]]) -> None:
    nodes, edges = graph
    assert layered(nodes, edges) == layered(nodes, list(reversed(edges)))


@given(graphs())
@settings(max_examples=50, deadline=None)
def test_what_is_drawn_goes_through_the_points_level_and_to_the_right(
    graph: tuple[list[Node], list[tuple[str, str]]],
) -> None:
    """Read as a browser does, in whole pixels: a line or a curve from each point to the next, which leaves
    and arrives level and never turns back."""
    for path in layered(*graph).paths:
        drawn = _drawn(path.d)
        assert [stroke[0] for stroke in drawn] == list(path.points[:-1])
        assert [stroke[-1] for stroke in drawn] == list(path.points[1:])
        for (x1, y1), *bends, (x2, y2) in drawn:
            assert [y for _, y in bends] in ([], [y1, y2])
            assert all(x1 <= x <= x2 for x, _ in bends)
            assert bends or y1 == y2, "a straight line is level"


def _drawn(d: str) -> list[list[tuple[int, int]]]:
    """The strokes of an SVG path of M, H and C: each its beginning, its bends and its end."""
    (_, start), *rest = re.findall(r"([MHC])([\d ]+)", d)
    x, y = map(int, start.split())
    strokes = []
    for letter, told in rest:
        numbers = [int(number) for number in told.split()]
        ends = [(numbers[0], y)] if letter == "H" else list(zip(numbers[::2], numbers[1::2], strict=True))
        strokes.append([(x, y), *ends])
        x, y = ends[-1]
    assert d == f"M{start}" + "".join(f"{letter}{told}" for letter, told in rest), "nothing is left over"
    return strokes


def test_a_circle_is_refused_by_name() -> None:
    nodes = [Node(id=name, title=name) for name in "abc"]
    with pytest.raises(CyclicGraphError, match="b, c"):
        layered(nodes, [("a", "b"), ("b", "c"), ("c", "b")])


def test_a_chain_of_a_thousand_steps_is_laid_out() -> None:
    nodes = [Node(id=str(i), title=str(i)) for i in range(1000)]
    layout = layered(nodes, [(str(i), str(i + 1)) for i in range(999)])
    assert len({box.x for box in layout.boxes}) == 1000


def test_edges_to_nodes_that_are_not_drawn_are_left_out() -> None:
    assert layered([Node(id="a", title="a")], [("a", "gone"), ("gone", "a")]).paths == ()


@given(st.text(max_size=60), st.integers(min_value=20, max_value=200))
def test_a_text_is_cut_to_its_room(text: str, room: int) -> None:
    shown = fit(text, room, size=12, bold=True)
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))
    assert text_width(shown, size=12, bold=True) <= max(room, text_width("…", size=12, bold=True))


def _overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def _crossed(path: Path, layout: Layout) -> list[Box]:
    """Boxes that a straight part of the path runs through; curves stay between two columns."""
    found = []
    for (x1, y1), (x2, y2) in zip(path.points[1::2], path.points[2::2], strict=False):
        found += [
            box
            for box in layout.boxes
            if box.x < x2 and x1 < box.x + box.width and box.y <= y1 <= box.y + box.height
        ]
        assert y1 == y2
    return found
