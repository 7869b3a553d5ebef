"""Lifecycles drawn as declared: every edge once, nothing under or over anything else, the present state's
ways out bold. The same for lifecycles that nobody has declared yet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from django.template.loader import render_to_string
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks_app.desk.graph import text_width
from tasks_app.lifecycle.declarations import ENTITIES, Lifecycle, lifecycle
from tasks_app.lifecycle.diagram import Diagram, Edge, Point, State, diagram
from tasks_app.lifecycle.places import main_way, places
from tests.tables import each_row

DECLARED = [(entity, status) for entity in ENTITIES for status in lifecycle(entity).states]
Segment = tuple[Point, Point]


@st.composite
def lifecycles(draw: st.DrawFn) -> tuple[Lifecycle, str]:
    """Any lifecycle of up to eleven states and fifty edges, and a state to be in."""
    names = [
        f"{'a_rather_long_' if draw(st.booleans()) else ''}state_{n}" for n in range(draw(st.integers(1, 11)))
    ]
    pairs = [(a, b) for a in names for b in names]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=50))
    declared = Lifecycle(
        entity="thing",
        initial=draw(st.sampled_from(names)),
        states=tuple(names),
        terminal=frozenset(draw(st.lists(st.sampled_from(names), max_size=4))),
        edges=dict.fromkeys(edges, ""),
        self_transitions=True,
    )
    return declared, draw(st.sampled_from(names))


def test_the_main_way_leads_through_the_declared_order() -> None:
    assert main_way(lifecycle("deal")) == [
        "quoted", "accepted", "booking", "booked", "delivering", "completed",
    ]  # fmt: skip
    assert main_way(lifecycle("approval")) == ["open", "approved"]
    assert main_way(lifecycle("step")) == ["received", "queued", "executing", "completed"]
    assert main_way(lifecycle("campaign"))[-1] == "completed"
    assert main_way(lifecycle("job")) == [
        "PENDING", "QUEUED", "DISPATCHING", "PROCESSING", "COMPLETED", "DELETED",
    ]  # fmt: skip


def test_ends_stand_below_and_detours_above() -> None:
    found = places(lifecycle("operation"))
    assert set(found.ends) == {"failed", "canceled", "rejected"}
    assert "timed_out" in found.gaps[-1]
    assert places(lifecycle("campaign")).ends == ("failed",)  # not final, yet entered from everywhere


@each_row(("entity", "status"), DECLARED)
def test_every_declared_lifecycle_is_drawn_whole_and_clear(entity: str, status: str) -> None:
    declared = lifecycle(entity)
    _check(declared, status, diagram(declared, status))


@pytest.mark.parametrize("entity", ENTITIES)
def test_every_declared_lifecycle_fits_a_desktop(entity: str) -> None:
    declared = lifecycle(entity)
    assert diagram(declared, declared.initial).snug


@given(lifecycles())
@settings(max_examples=300, deadline=None)
def test_any_lifecycle_is_drawn_whole_and_clear(drawn: tuple[Lifecycle, str]) -> None:
    declared, status = drawn
    _check(declared, status, diagram(declared, status))


@each_row(("entity", "status"), DECLARED)
def test_only_what_leaves_the_present_state_is_bold(entity: str, status: str) -> None:
    declared = lifecycle(entity)
    drawn = diagram(declared, status, list(declared.edges))  # even where all of it was walked
    bold = {(line.before, line.after) for line in drawn.lines if line.tone == "next"}
    bold |= {(dot.name, rail.name) for rail in drawn.rails for dot in rail.dots if dot.tone == "next"}
    assert bold == {(status, to) for to in declared.targets(status)}
    for rail in drawn.rails:
        assert bool(rail.now) is any(dot.tone == "next" for dot in rail.dots)
    svg = _svg(drawn)
    paths = [path for path in svg.iter("path") if path.get("class") == "e next"]
    assert len(paths) == len(declared.targets(status))


@each_row(("entity", "status"), DECLARED)
def test_the_picture_says_in_words_where_it_is_and_where_it_may_go(entity: str, status: str) -> None:
    declared = lifecycle(entity)
    words = _svg(diagram(declared, status)).get("aria-label") or ""
    assert words.startswith(f"Lifecycle of {entity}. Now {status}")
    following = words.partition("Next: ")[2].rstrip(".").replace(" or ", ", ")
    assert tuple(following.split(", ") if following else ()) == declared.targets(status)
    assert ("It is final." in words) is (status in declared.terminal or not declared.targets(status))


def test_what_was_passed_comes_from_the_ways_that_were_taken() -> None:
    declared = lifecycle("deal")
    walked = [("quoted", "accepted"), ("accepted", "booking"), ("booking", "booked")]
    drawn = diagram(declared, "booked", walked)
    tones = {state.name: state.tone for state in drawn.states}
    assert {name for name, tone in tones.items() if tone == "past"} == {"quoted", "accepted", "booking"}
    assert {(line.before, line.after) for line in drawn.lines if line.tone == "past"} == set(walked)
    assert "after quoted, accepted and booking" in drawn.words


@pytest.mark.parametrize("entity", ENTITIES)
def test_paths_are_whole_pixels(entity: str) -> None:
    drawn = diagram(lifecycle(entity), lifecycle(entity).initial)
    for d in _paths(drawn):
        assert re.fullmatch(r"M\d+ \d+(?:[LQ]?[\d ]+|H\d+)+", d), d


def _check(declared: Lifecycle, status: str, drawn: Diagram) -> None:
    assert _edges(drawn) == sorted(edge for edge in declared.edges if edge[0] != edge[1])
    tones = {state.name: state.tone for state in drawn.states}
    assert set(tones) == set(declared.states)
    assert len(drawn.states) == len(declared.states)
    assert {name for name, tone in tones.items() if tone == "next"} == set(declared.targets(status))
    assert [name for name, tone in tones.items() if tone == "now"] == [status]
    _check_boxes(drawn)
    _check_ways(drawn)


def _edges(drawn: Diagram) -> list[Edge]:
    found = [(line.before, line.after) for line in drawn.lines]
    return sorted([*found, *((dot.name, rail.name) for rail in drawn.rails for dot in rail.dots)])


def _check_boxes(drawn: Diagram) -> None:
    for one, other in combinations(drawn.states, 2):
        assert not _overlap(one, other), (one, other)
    for box in drawn.states:
        assert 0 <= box.x < box.x + box.width <= drawn.width
        assert 0 <= box.y < box.bottom <= drawn.height
        assert text_width(box.label, size=12, bold=True) <= box.width - 4


def _check_ways(drawn: Diagram) -> None:
    """No line runs through a box that is not its own, nor along a line of other edges."""
    for _, ends, segments in _ways(drawn):
        for segment in segments:
            for x, y in segment:
                assert 0 <= x <= drawn.width
                assert 0 <= y <= drawn.height
            for box in drawn.states:
                assert box.name in ends or not _through(segment, box), (segment, box)
    for (key, _, segments), (other_key, _, others) in combinations(_ways(drawn), 2):
        if key != other_key:
            for one in segments:
                assert not any(_along(one, other) for other in others), (key, other_key, one)


def _ways(drawn: Diagram) -> Iterator[tuple[object, set[str], list[Segment]]]:
    """What is drawn as (what it belongs to, the boxes it may touch, its straight parts)."""
    row = {state.name for state in drawn.states}
    ends = {line.before for line in drawn.lines if len(line.points) > 3}
    for line in drawn.lines:
        out = line.before in ends  # the ways out of all ends into one state share their last part
        key = ("out", line.after) if out else frozenset((line.before, line.after))
        yield key, {line.before, line.after}, list(pairwise(line.points))
    for rail in drawn.rails:
        assert row >= {rail.name}
        y = rail.y
        yield ("rail", rail.name), {rail.name}, [((rail.begin, y), (rail.until, y)), *pairwise(rail.way)]
        yield "now", {dot.name for dot in rail.dots if dot.tone == "next"}, list(pairwise(rail.now))[:1]


def _through(segment: Segment, box: State) -> bool:
    (x1, y1), (x2, y2) = segment
    return (
        min(x1, x2) <= box.x + box.width
        and max(x1, x2) >= box.x
        and min(y1, y2) <= box.bottom
        and max(y1, y2) >= box.y
    )


def _along(one: Segment, other: Segment) -> bool:
    """Whether two level or upright parts share more than a point."""
    for axis in (0, 1):
        same = {point[axis] for point in (*one, *other)}
        a, b = (sorted(point[1 - axis] for point in segment) for segment in (one, other))
        if len(same) == 1 and min(a[1], b[1]) > max(a[0], b[0]):
            return True
    return False


def _overlap(one: State, other: State) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.bottom
        and other.y < one.bottom
    )


def _svg(drawn: Diagram) -> ElementTree.Element:
    """The picture as the page holds it, well formed."""
    shown = render_to_string("desk/diagram.html", {"fsm": drawn})
    return ElementTree.fromstring(shown[shown.index('<svg class="fsm') : shown.rindex("</svg>") + 6])  # noqa: S314


def _paths(drawn: Diagram) -> Iterator[str]:
    yield from (line.d for line in drawn.lines)
    for rail in drawn.rails:
        yield from (d for d in (rail.d, rail.way_d, rail.now_d) if d)
