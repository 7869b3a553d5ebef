"""Layouts: boxes apart, edges from box to box and beside the others; the lifecycle drawn as declared."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks_app.desk.graph import Box, CyclicGraphError, Layout, Node, Path, fit, layered, text_width
from tasks_app.lifecycle.declarations import lifecycle
from tasks_app.lifecycle.diagram import diagram, main_way


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
def test_paths_are_whole_pixels(graph: tuple[list[Node], list[tuple[str, str]]]) -> None:
    for path in layered(*graph).paths:
        assert re.fullmatch(r"M\d+ \d+(?:H\d+|C\d+ \d+ \d+ \d+ \d+ \d+)+", path.d), path.d


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


def test_the_main_way_of_a_deal_is_the_shortest_to_its_completion() -> None:
    way = ["quoted", "accepted", "booking", "booked", "delivering", "completed"]
    assert main_way(lifecycle("deal")) == way


@pytest.mark.parametrize("status", lifecycle("deal").states)
def test_every_declared_edge_of_a_deal_is_drawn_and_none_else(status: str) -> None:
    declared = lifecycle("deal")
    drawn = diagram(declared, status, {"quoted"} - {status})
    edges = {(arrow.before, arrow.after) for arrow in drawn.arrows}
    edges |= {(arrow.after, arrow.before) for arrow in drawn.arrows if arrow.both}
    edges |= {(dot.name, rail.name) for rail in drawn.rails for dot in rail.dots}
    assert edges == set(declared.edges)
    shown = {state.name: state.tone for state in drawn.states} | {
        rail.name: rail.tone for rail in drawn.rails
    }
    assert set(shown) == set(declared.states)
    assert {name for name, tone in shown.items() if tone == "next"} == set(declared.targets(status))
    assert [name for name, tone in shown.items() if tone == "now"] == [status]
    assert all(to in drawn.words for to in declared.targets(status))


@pytest.mark.parametrize("status", lifecycle("deal").states)
def test_states_of_a_lifecycle_do_not_overlap(status: str) -> None:
    drawn = diagram(lifecycle("deal"), status, ())
    for one, other in combinations(drawn.states, 2):
        apart = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y
    assert max(rail.y for rail in drawn.rails) + 12 <= drawn.height
    assert max(state.x + state.width for state in drawn.states) <= drawn.width


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
