"""What people refuse or accept of a media buy’s name, pauses and pacing, and what is asked of it since."""

from __future__ import annotations

import pytest

from orders.models import Deal, DealLine
from tasks_app.sellers.models import Seller
from tests.orders.late import decide, fresh, overdue, say
from tests.orders.live import packages
from tests.orders.test_last_words import (
    EACH_PAUSED,
    WORDS,
    Values,
    changes,
    departing,
    one_package,
    questions,
    reads,
    record,
    said,
    sent,
    shows,
    two,
)

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


def refused(deal: Deal, word: str) -> None:
    """People say it, its seller does it after the deadline, and people want it no more."""
    operation = sent(deal, word)
    overdue(operation)
    decide("overdue", "approve")
    shown = record(deal, word)
    say(operation, "completed", {**shown, "affected_packages": shown["packages"]}, task_id=operation.task_id)
    decide("late_change", "reject")


@pytest.mark.parametrize("word", WORDS)
def test_what_people_refuse_that_was_done_late_departs_though_nobody_had_spoken_of_it(word: str) -> None:
    deal = two()
    refused(deal, word)
    where, _, done, _ = WORDS[word]
    wanted_then, shown = {True: ("no", "yes"), False: ("yes", "no")}.get(done, (f"not {done}", done))
    found = [(0 if where == "whole" else 1, WORDS[word][1], wanted_then, shown)]
    assert (departing(deal), questions()) == (found, ["booked_differently"])

    reads(deal, record(deal, word, otherwise=True))
    assert (departing(deal), questions()) == ([], [])

    reads(deal, record(deal, word))
    assert (departing(deal), questions()) == (found, ["booked_differently"])


@pytest.mark.parametrize("word", WORDS)
def test_what_they_refused_is_as_they_say_once_they_ask_for_it_again(word: str) -> None:
    deal = two()
    refused(deal, word)
    said(deal, word)
    assert departing(deal) == []
    reads(deal, record(deal, word, otherwise=True))
    assert [one[1] for one in departing(deal)] == [WORDS[word][1]]


@pytest.mark.parametrize(("word", "before"), [("paused", "resumed"), ("resumed", "paused")])
def test_what_people_had_said_stands_when_they_refuse_another_word(word: str, before: str) -> None:
    deal = two()
    said(deal, before)
    refused(deal, word)
    assert [one[1] for one in departing(deal)] == ["paused"]
    reads(deal, record(deal, before))
    assert (departing(deal), questions()) == ([], [])


def _without_amounts(told: Values) -> Values:
    packages = [{name: v for name, v in one.items() if name != "budget"} for one in told["packages"]]
    return {**told, "packages": packages}


@pytest.mark.parametrize(
    ("word", "is_asked"), [("paused", True), ("package paused", True), ("pacing", False), ("name", False)]
)
def test_a_newer_word_ends_what_they_accepted_of_a_seller_that_states_no_amounts(
    word: str, is_asked: bool
) -> None:
    deal = two()
    DealLine.objects.filter(deal=deal).update(confirmed_budget=None)
    Deal.objects.filter(pk=deal.pk).update(confirmed_gross=None)
    operation = sent(deal, word)
    shown = _without_amounts(record(deal, word))
    say(operation, "completed", {**shown, "affected_packages": shown["packages"]}, task_id=operation.task_id)
    reads(deal, _without_amounts(record(deal, word, otherwise=True)))
    decide("booked_differently", "approve")
    assert len(fresh(deal).accepted) == 1

    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    operation = sent(deal, word)
    say(operation, "completed", {"media_buy_id": "mb-1"}, task_id=operation.task_id)
    # What a seller never states its task's word is enough for.
    assert questions() == (["change_not_shown"] if is_asked else [])
    if is_asked:
        decide("change_not_shown", "approve")
    assert fresh(deal).accepted == []
    reads(deal, _without_amounts(record(deal, word, otherwise=True)))
    assert questions() == ["booked_differently"]


def test_a_pause_of_each_package_ends_that_they_accepted_that_the_whole_runs() -> None:
    deal = two()
    said(deal, "paused")
    silent = packages(deal)
    reads(deal, record(deal, packages=silent))
    decide("booked_differently", "approve")
    assert (questions(), len(fresh(deal).accepted)) == ([], 1)

    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    change = changes(deal, "t-each", **EACH_PAUSED)
    say(change, "completed", {"media_buy_id": "mb-1"}, task_id="t-each")
    decide("change_not_shown", "approve")
    reads(deal, record(deal, packages=silent))
    assert questions() == ["booked_differently"]


def _runs_beside_a_resumed_one() -> Deal:
    """The whole was paused, a resume of one package is on its way, and both run: people are asked."""
    deal = two()
    said(deal, "paused")
    changes(deal, "t-now", **one_package(False))
    reads(deal, shows(deal, False, False))
    assert (departing(deal), questions()) == ([(0, "paused", "yes", "no")], ["booked_differently"])
    return deal


def test_a_record_that_says_nothing_of_pauses_takes_no_question_back() -> None:
    deal = _runs_beside_a_resumed_one()
    for _ in range(2):
        reads(deal, record(deal, media_buy_status="pending_start"))
    assert (departing(deal), questions()) == ([(0, "paused", "yes", "no")], ["booked_differently"])


def test_the_brief_answer_to_another_change_takes_none_back() -> None:
    deal = _runs_beside_a_resumed_one()
    other = changes(deal, "t-other", name="Spring")
    say(other, "completed", {"media_buy_id": "mb-1", "revision": 9_000, "name": "Spring"}, task_id="t-other")
    assert (departing(deal), questions()) == ([(0, "paused", "yes", "no")], ["booked_differently"])


def test_a_question_about_a_package_that_runs_is_gone_once_it_is_paused() -> None:
    deal = _runs_beside_a_resumed_one()
    reads(deal, shows(deal, False, True))
    assert (departing(deal), questions()) == ([], [])


def test_a_package_paused_beside_a_whole_that_is_to_run_departs_while_nothing_is_said() -> None:
    deal = two()
    said(deal, "resumed")
    reads(deal, shows(deal, True, False))
    assert (departing(deal), questions()) == ([(1, "paused", "no", "yes")], ["booked_differently"])
    reads(deal, record(deal))
    assert (departing(deal), questions()) == ([(1, "paused", "no", "yes")], ["booked_differently"])


def test_a_pause_of_all_packages_on_its_way_is_no_departure_where_the_status_alone_shows_it() -> None:
    deal = two()
    said(deal, "resumed")
    changes(deal, "t-now", **EACH_PAUSED)
    reads(deal, record(deal, media_buy_status="paused"))
    assert (departing(deal), questions()) == ([], [])


def test_neither_is_it_where_each_is_resumed() -> None:
    deal = two()
    said(deal, "paused")
    each = [{"package_id": one, "paused": False} for one in ("pkg-1", "pkg-2")]
    changes(deal, "t-now", packages=each)
    reads(deal, record(deal))
    assert (departing(deal), questions()) == ([], [])


def test_a_question_whether_it_may_be_paused_is_gone_once_people_pause_each_package() -> None:
    deal = two()
    said(deal, "resumed")
    reads(deal, shows(deal, True, True))
    assert questions() == ["booked_differently"]
    changes(deal, "t-now", **EACH_PAUSED)
    reads(deal, shows(deal, True, True))
    assert (departing(deal), questions()) == ([], [])


def _one_resumed_of_a_whole_that_was_paused() -> Deal:
    """On its way, and just what the seller shows."""
    deal = two()
    said(deal, "paused")
    changes(deal, "t-now", **one_package(False))
    reads(deal, shows(deal, False, True))
    assert (departing(deal), questions()) == ([], [])
    return deal


def test_what_a_change_on_its_way_explains_stays_explained_while_nothing_is_said() -> None:
    deal = _one_resumed_of_a_whole_that_was_paused()
    reads(deal, record(deal, media_buy_status="pending_start"))
    assert (departing(deal), questions()) == ([], [])


def test_what_a_change_on_its_way_explains_stays_explained_when_another_fails() -> None:
    deal = _one_resumed_of_a_whole_that_was_paused()
    other = changes(deal, "t-other", name="Spring")
    say(other, "failed", task_id="t-other")
    assert (departing(deal), questions()) == ([], [])


@pytest.mark.parametrize(("field", "first", "second"), [("name", "a", "b"), ("pacing", "asap", "even")])
def test_each_of_two_names_or_pacings_that_people_refused_departs(
    field: str, first: str, second: str
) -> None:
    deal = two()
    line = 0 if field == "name" else 1
    for task, word in (("t-1", first), ("t-2", second)):
        change, shown = _word(deal, field, word)
        operation = changes(deal, task, **change)
        overdue(operation)
        decide("overdue", "approve")
        say(operation, "completed", {**shown, "affected_packages": shown["packages"]}, task_id=task)
        decide("late_change", "reject")
        found = [(line, field, f"not {word}", word)]
        assert (departing(deal), questions()) == (found, ["booked_differently"])
    reads(deal, record(deal))
    assert departing(deal) == found, "nothing is said of it"
    reads(deal, _word(deal, field, first)[1])
    assert departing(deal) == [(line, field, f"not {first}", first)]
    reads(deal, _word(deal, field, "front_loaded")[1])
    assert (departing(deal), questions()) == ([], [])


def _word(deal: Deal, field: str, word: str) -> tuple[Values, Values]:
    """A change to it, and the media buy as it is then."""
    if field == "name":
        return {"name": word}, record(deal, name=word)
    first, second = packages(deal)
    told = record(deal, packages=[{**first, field: word}, second])
    return {"packages": [{"package_id": "pkg-1", field: word}]}, told


def test_a_pause_that_people_do_not_take_as_done_departs_once_its_seller_shows_it() -> None:
    deal = two()
    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    change = changes(deal, "t-now", paused=True)
    say(change, "completed", {"media_buy_id": "mb-1"}, task_id="t-now")
    decide("change_not_shown", "reject")
    assert (departing(deal), questions()) == ([], [])
    reads(deal, record(deal, "paused"))
    assert (departing(deal), questions()) == ([(0, "paused", "no", "yes")], ["booked_differently"])
