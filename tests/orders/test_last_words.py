"""What people last said of a media buy’s name, pauses and pacing, and what its seller states of it since."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from orders.last_words import words_after
from orders.models import Deal, DealLine
from orders.seller_state import deal_follow
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.operations.models import Operation
from tests.factories import make_line
from tests.orders.doors import wanted
from tests.orders.late import decide, fresh, say
from tests.orders.live import booked, packages

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
Values = dict[str, Any]
_REVISIONS = count(2)

# Where, which field, what people say of it, and what the seller states otherwise.
WORDS: dict[str, tuple[str, str, Any, Any]] = {
    "name": ("whole", "name", "Spring", "Autumn"),
    "paused": ("whole", "paused", True, False),
    "resumed": ("whole", "paused", False, True),
    "pacing": ("package", "pacing", "even", "asap"),
    "package paused": ("package", "paused", True, False),
    "package resumed": ("package", "paused", False, True),
}


def two() -> Deal:
    return booked(lines=(make_line(), make_line(product_id="b")))


def change_of(word: str) -> Values:
    """A change's arguments."""
    where, field, said, _ = WORDS[word]
    return {field: said} if where == "whole" else {"packages": [{"package_id": "pkg-1", field: said}]}


def record(deal: Deal, word: str = "", *, otherwise: bool = False, **told: Any) -> Values:
    """The whole media buy as its seller tells of it: as people said of one word, or otherwise."""
    where, field, said, other = WORDS[word] if word else ("", "", None, None)
    stated = other if otherwise else said
    each = packages(deal)
    if where == "package":
        each[0][field] = stated
    whole = {"name": stated} if (where, field) == ("whole", "name") else {}
    is_paused = (where, field) == ("whole", "paused") and stated
    return {
        "media_buy_id": "mb-1",
        "media_buy_status": "paused" if is_paused else "active",
        "revision": next(_REVISIONS),
        "packages": each,
        **whole,
        **told,
    }


def said(deal: Deal, word: str) -> None:
    """People say it, and the seller does it and shows that."""
    operation = sent(deal, word)
    shown = record(deal, word)
    say(operation, "completed", {**shown, "affected_packages": shown["packages"]}, task_id=operation.task_id)
    assert questions() == []


def sent(deal: Deal, word: str) -> Operation:
    operation = wanted(fresh(deal), task=f"t-{next(_REVISIONS)}", **change_of(word))
    operation.refresh_from_db()
    return operation


def reads(deal: Deal, told: Values) -> None:
    """The media buy is read from its seller."""
    deal_follow(deal_id=deal.pk, buy=told, asked_at=clock.now())


def questions() -> list[str]:
    return list(Approval.objects.filter(status="open").order_by("pk").values_list("kind", flat=True))


def departing(deal: Deal) -> list[tuple[int, str, str, str]]:
    found = fresh(deal).differences
    return [(one["line"], one["field"], one["approved"], one["confirmed"]) for one in found]


@pytest.mark.parametrize("word", WORDS)
def test_what_its_seller_states_otherwise_is_asked_about_until_it_is_as_said_again(word: str) -> None:
    deal = two()
    said(deal, word)
    where, field, ours, stated = WORDS[word]

    reads(deal, record(deal, word, otherwise=True))

    shown = {True: "yes", False: "no"}
    line = 0 if where == "whole" else 1
    assert departing(deal) == [(line, field, shown.get(ours, ours), shown.get(stated, stated))]
    assert questions() == ["booked_differently"]

    reads(deal, record(deal, word))
    assert (departing(deal), questions()) == ([], [])


@pytest.mark.parametrize("word", WORDS)
def test_of_what_nobody_has_spoken_the_seller_decides(word: str) -> None:
    deal = two()
    reads(deal, record(deal, word))
    reads(deal, record(deal, word, otherwise=True))
    assert (departing(deal), questions()) == ([], [])


@pytest.mark.parametrize("word", ["name", "pacing", "package paused", "package resumed"])
def test_a_record_that_says_nothing_of_it_changes_nothing(word: str) -> None:
    deal = two()
    said(deal, word)
    reads(deal, record(deal))
    assert questions() == []

    reads(deal, record(deal, word, otherwise=True))
    found = departing(deal)
    reads(deal, record(deal))
    assert (departing(deal), questions()) == (found, ["booked_differently"])


@pytest.mark.parametrize("word", WORDS)
def test_what_people_accept_is_asked_about_no_more_until_they_speak_again(word: str) -> None:
    deal = two()
    said(deal, word)
    reads(deal, record(deal, word, otherwise=True))
    decide("booked_differently", "approve")
    assert (departing(deal), len(fresh(deal).accepted)) == ([], 1)

    reads(deal, record(deal, word, otherwise=True))
    assert questions() == []

    said(deal, word)
    assert fresh(deal).accepted == []
    reads(deal, record(deal, word, otherwise=True))
    assert questions() == ["booked_differently"]


@pytest.mark.parametrize("word", WORDS)
def test_what_a_change_on_its_way_asks_for_is_no_departure_until_it_fails(word: str) -> None:
    deal = two()
    where, field, _, other = WORDS[word]
    said(deal, word)
    told = {field: other} if where == "whole" else {"packages": [{"package_id": "pkg-1", field: other}]}
    newer = wanted(fresh(deal), task="t-newer", **told)

    reads(deal, record(deal, word, otherwise=True))
    assert questions() == []

    say(newer, "failed", task_id="t-newer")
    assert questions() == ["booked_differently"]


def test_a_word_on_the_whole_is_none_on_a_package_without_a_name() -> None:
    deal = two()
    said(deal, "resumed")
    DealLine.objects.filter(deal=deal).update(package_id="")
    unnamed = [{**one, "package_id": None, "paused": True} for one in packages(deal)]
    reads(deal, record(deal, packages=unnamed))
    assert departing(deal) == []


def test_with_the_whole_paused_nothing_is_said_of_a_package() -> None:
    deal = two()
    said(deal, "package resumed")
    paused = [{**one, "paused": True} for one in packages(deal)]
    reads(deal, {**record(deal, "paused"), "packages": paused})
    assert questions() == []


def test_a_media_buy_that_waits_for_its_flight_may_be_paused() -> None:
    deal = two()
    said(deal, "paused")
    reads(deal, record(deal, media_buy_status="pending_start"))
    assert questions() == []


def test_a_pause_package_by_package_is_one_of_the_whole() -> None:
    deal = two()
    said(deal, "paused")
    reads(deal, record(deal, packages=[{**one, "paused": True} for one in packages(deal)]))
    assert questions() == []


def test_of_a_pause_package_by_package_an_answer_may_name_a_part() -> None:
    deal = two()
    said(deal, "paused")
    first, _ = [{**one, "paused": True} for one in packages(deal)]
    change = [{"package_id": "pkg-1", "pacing": "even"}]
    operation = wanted(fresh(deal), task="t-pacing", packages=change)
    answer = record(deal, packages=[{**first, "pacing": "even"}])
    say(operation, "completed", {**answer, "affected_packages": answer["packages"]}, task_id="t-pacing")
    assert (departing(deal), questions()) == ([], [])


@pytest.mark.parametrize("runs", [{"paused": False}, {}])
def test_an_answer_that_names_a_package_as_running_is_asked_about(runs: Values) -> None:
    deal = two()
    said(deal, "paused")
    change = [{"package_id": "pkg-1", "pacing": "even"}]
    operation = wanted(fresh(deal), task="t-pacing", packages=change)
    first, second = packages(deal)
    answer = record(deal, packages=[{**first, "pacing": "even", "paused": True}, {**second, **runs}])
    say(operation, "completed", {**answer, "affected_packages": answer["packages"]}, task_id="t-pacing")
    assert departing(deal) == [(0, "paused", "yes", "no")]
    assert questions() == ["booked_differently"]


def test_a_package_that_is_cancelled_is_none_that_runs() -> None:
    deal = two()
    said(deal, "paused")
    DealLine.objects.filter(deal=deal, position=2).update(confirmed_budget=0)
    first, second = [{**one, "paused": True} for one in packages(deal)]
    gone = {**second, "paused": False, "canceled": True}
    for told in ([first, gone], [first], [{**first, "paused": False}, gone]):
        reads(deal, record(deal, packages=told))
        paused = [field for _, field, *_ in departing(deal)].count("paused")
        assert paused == (told[0]["paused"] is False)


def changes(deal: Deal, task: str, **change: Any) -> Operation:
    return wanted(fresh(deal), task=task, **change)


def one_package(word: bool) -> Values:
    return {"packages": [{"package_id": "pkg-1", "paused": word}]}


def shows(deal: Deal, first: bool, second: bool) -> Values:
    """What each package is: paused or not; the whole runs where one of them does."""
    each = [{**one, "paused": word} for one, word in zip(packages(deal), (first, second), strict=True)]
    return record(deal, packages=each, media_buy_status="paused" if first and second else "active")


def does(operation: Operation, task: str, told: Values) -> None:
    say(operation, "completed", {**told, "affected_packages": told["packages"]}, task_id=task)


@pytest.mark.parametrize("older_first", [True, False])
@pytest.mark.parametrize(
    ("older", "newer", "wanted_now", "otherwise"),
    [
        ({"paused": True}, one_package(False), (False, True), (False, False)),
        (one_package(True), {"paused": False}, (False, False), (True, True)),
        ({"paused": False}, one_package(True), (True, False), (False, False)),
        (one_package(False), {"paused": True}, (True, True), (False, True)),
    ],
)
def test_of_two_words_on_a_pause_the_newer_stands_whichever_is_done_last(
    older: Values,
    newer: Values,
    wanted_now: tuple[bool, bool],
    otherwise: tuple[bool, bool],
    older_first: bool,
) -> None:
    deal = two()
    rows = [(changes(deal, "t-older", **older), "t-older"), (changes(deal, "t-newer", **newer), "t-newer")]
    for operation, task in rows if older_first else reversed(rows):
        does(operation, task, shows(deal, *wanted_now))
        assert (departing(deal), questions()) == ([], [])
    reads(deal, shows(deal, *wanted_now))
    assert (departing(deal), questions()) == ([], [])
    reads(deal, shows(deal, *otherwise))
    assert "paused" in [field for _, field, *_ in departing(deal)]
    assert questions() == ["booked_differently"]


EACH_PAUSED = {"packages": [{"package_id": one, "paused": True} for one in ("pkg-1", "pkg-2")]}


@pytest.mark.parametrize(
    ("said_first", "change", "shown"),
    [
        ({"paused": True}, one_package(False), (False, True)),
        (one_package(True), {"paused": False}, (False, False)),
        ({"paused": False}, EACH_PAUSED, (True, True)),
    ],
)
def test_a_pause_on_its_way_shows_on_the_whole_and_on_its_packages(
    said_first: Values, change: Values, shown: tuple[bool, bool]
) -> None:
    deal = two()
    before = (True, True) if said_first.get("paused") else ("packages" in said_first, False)
    does(changes(deal, "t-before", **said_first), "t-before", shows(deal, *before))
    assert questions() == []
    on_its_way = changes(deal, "t-now", **change)
    reads(deal, shows(deal, *shown))
    assert (departing(deal), questions()) == ([], [])
    say(on_its_way, "failed", task_id="t-now")
    assert questions() == ["booked_differently"]


@pytest.mark.parametrize("status", ["completed", "canceled", "rejected"])
@pytest.mark.parametrize("word", ["paused", "package paused"])
@pytest.mark.parametrize("departs_before", [False, True])
def test_what_has_ended_is_paused_no_more(departs_before: bool, word: str, status: str) -> None:
    deal = two()
    said(deal, word)
    if departs_before:
        reads(deal, record(deal, word, otherwise=True))
        assert questions() == ["booked_differently"]
    each = [{**one, "paused": False} for one in packages(deal)]
    with clock.injected(lambda: deal.end_at):
        reads(deal, record(deal, media_buy_status=status, paused=False, packages=each))
    is_over = fresh(deal).status == "cancelled"  # with what it differed in at its end
    assert ("paused" in [field for _, field, *_ in departing(deal)]) is (is_over and departs_before)
    assert questions() == []


def test_what_is_called_completed_before_its_flight_has_not_ended() -> None:
    deal = two()
    said(deal, "package paused")
    reads(deal, record(deal, "package paused", otherwise=True))
    reads(deal, record(deal, media_buy_status="completed"))
    reads(deal, record(deal))
    assert departing(deal) == [(1, "paused", "yes", "no")]


@pytest.mark.parametrize(("said_first", "word"), [("paused", False), ("resumed", True)])
def test_of_one_package_on_its_way_the_whole_departs_by_the_others(said_first: str, word: bool) -> None:
    deal = two()
    said(deal, said_first)
    changes(deal, "t-now", **one_package(word))
    reads(deal, shows(deal, word, word))
    assert questions() == ["booked_differently"]


def test_a_package_without_a_name_keeps_the_pause_of_the_whole() -> None:
    deal = two()
    said(deal, "paused")
    DealLine.objects.filter(deal=deal, position=2).update(package_id="")
    change = changes(deal, "t-now", **one_package(False))
    first, second = packages(deal)
    nameless = {name: value for name, value in second.items() if name != "package_id"}
    told = record(deal, packages=[{**first, "paused": False}, {**nameless, "paused": False}])
    does(change, "t-now", told)
    reads(deal, told)
    assert questions() == ["booked_differently"]


def test_a_package_paused_late_departs_from_the_whole_that_people_resumed() -> None:
    deal = two()
    older, newer = changes(deal, "t-older", **one_package(True)), changes(deal, "t-newer", paused=False)
    does(newer, "t-newer", shows(deal, False, False))
    does(older, "t-older", shows(deal, True, False))
    reads(deal, shows(deal, True, False))
    assert departing(deal) == [(1, "paused", "no", "yes")]


def one_is_gone(deal: Deal, *, paused: bool) -> Values:
    """The first package, paused or not, and the second, which is cancelled."""
    first, second = packages(deal)
    return record(deal, packages=[{**first, "paused": paused}, {**second, "paused": False, "canceled": True}])


def test_a_cancelled_package_departs_from_no_pause() -> None:
    deal = two()
    said(deal, "paused")
    reads(deal, {**one_is_gone(deal, paused=True), "media_buy_status": "paused"})
    decide("booked_differently", "approve")  # the cancellation
    change = changes(deal, "t-now", **one_package(False))
    does(change, "t-now", one_is_gone(deal, paused=False))
    reads(deal, one_is_gone(deal, paused=False))
    assert (questions(), departing(deal)) == ([], [])


def test_nor_has_a_pause_done_late_to_show_on_it() -> None:
    deal = two()
    reads(deal, one_is_gone(deal, paused=False))
    decide("booked_differently", "approve")
    older, newer = changes(deal, "t-older", paused=True), changes(deal, "t-newer", **one_package(False))
    does(newer, "t-newer", one_is_gone(deal, paused=False))
    does(older, "t-older", one_is_gone(deal, paused=False))
    assert questions() == []


def test_a_pause_that_repeats_what_was_accepted_otherwise_asks_nothing_anew() -> None:
    deal = two()
    said(deal, "paused")
    reads(deal, shows(deal, True, False))
    decide("booked_differently", "approve")
    change = changes(deal, "t-now", **one_package(True))
    does(change, "t-now", shows(deal, True, False))
    reads(deal, shows(deal, True, False))
    assert questions() == []


def test_a_name_from_outside_is_cut() -> None:
    deal = two()
    said(deal, "name")
    reads(deal, record(deal, name="x" * 10_000))
    ((*_, stated),) = departing(deal)
    assert (stated[:60], len(stated)) == ("x" * 60, 255)
    reads(deal, record(deal, name="x" * 9_999))
    assert departing(deal)[0][-1] != stated, "cut, they are told apart"


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({}, {"name": "a"}, {"": {"name": "a"}}),
        ({"": {"name": "a", "paused": True}}, {"paused": False}, {"": {"name": "a", "paused": False}}),
        ({}, {"packages": [{"package_id": "p", "pacing": "even", "budget": 1}]}, {"p": {"pacing": "even"}}),
        (
            {"p": {"paused": True, "pacing": "even"}},
            {"paused": False},
            {"": {"paused": False}, "p": {"pacing": "even"}},
        ),
        ({"p": {"paused": True}}, {"paused": False}, {"": {"paused": False}}),
        (
            {},
            {"paused": False, "packages": [{"package_id": "p", "paused": True}]},
            {"": {"paused": False}, "p": {"paused": True}},
        ),
        ({"p": {"paused": True}}, {"packages": [{"package_id": "p", "budget": 1}]}, {"p": {"paused": True}}),
        (
            {"": {"paused": True, "name": "a"}, "q": {"pacing": "even"}},
            {"packages": [{"package_id": "p", "paused": False}]},
            {"": {"name": "a"}, "p": {"paused": False}, "q": {"paused": True, "pacing": "even"}},
        ),
        (
            {"": {"paused": False}, "p": {"paused": True}},
            {"packages": [{"package_id": "q", "paused": True}]},
            {"p": {"paused": True}, "q": {"paused": True}},
        ),
        (
            {"": {"paused": True}},
            {"packages": [{"package_id": "p", "paused": True}]},
            {"": {"paused": True}, "p": {"paused": True}},
        ),
        ({"": {"name": "a"}}, {"name": None, "packages": None}, {"": {"name": "a"}}),
    ],
)
def test_the_newest_word_of_each_stands(before: Values, change: Values, after: Values) -> None:
    assert words_after(before, change, ("p", "q")) == after


def test_a_word_on_the_whole_stays_where_a_package_has_no_name() -> None:
    change = {"packages": [{"package_id": "p", "paused": False}]}
    after = {"": {"paused": True}, "p": {"paused": False}}
    assert words_after({"": {"paused": True}}, change, ("p", "")) == after
