"""Of two changes of one media buy the newer decides what both name, whichever is ended last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from orders.amounts import deal_amounts
from orders.ask import Ask
from orders.changes import change_ask
from orders.changes_left import change_without, is_nothing
from orders.doubt import change_left, changes_in_doubt
from orders.models import Deal, DealMirror
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tests.factories import make_line, make_user
from tests.operations.making import observed
from tests.orders.doors import wanted
from tests.orders.late import decide, ended, fresh, ignored, overdue, say
from tests.orders.live import booked, first_line, packages
from tests.orders.test_one_door_of_changes import by_its_answer, by_its_read_back, by_the_mirror, doubts
from tests.support import undone

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
Values = dict[str, Any]
Comes = Callable[[Operation, Values], None]
D = Decimal
SILENT = {"media_buy_id": "mb-1"}

# What both changes name: where, what the older one asks for, and the newer.
FIELDS: dict[str, tuple[str, str, Any, Any]] = {
    "budget": ("package", "budget", 30_000.0, 8_000.0),
    "package's start": ("package", "start_time", 3, 2),
    "package's end": ("package", "end_time", 20, 10),
    "start": ("whole", "start_time", 3, 2),
    "end": ("whole", "end_time", 40, 20),
    "targeting": ("package", "targeting_overlay", {"geo_countries": ["SE"]}, {"geo_countries": ["NO"]}),
    "pacing": ("package", "pacing", "asap", "even"),
    "name": ("whole", "name", "Spring", "Summer"),
    "pause": ("whole", "paused", True, False),
}


def two() -> Deal:
    return booked(lines=(make_line(budget=D(10_000)), make_line(product_id="b", budget=D(50_000))))


def named(deal: Deal, field: str, newer: bool) -> Values:
    """A change's arguments."""
    where, name, first, second = FIELDS[field]
    value = second if newer else first
    if name.endswith("_time"):
        value = (deal.start_at + timedelta(days=value)).isoformat()
    told = {name: value}
    return told if where == "whole" else {"packages": [{"package_id": "pkg-1", **told}]}


def shown(deal: Deal, field: str, newer: bool, revision: int) -> Values:
    """The whole media buy, with this change of it done."""
    told = named(deal, field, newer)
    (own,) = told.pop("packages", [{}])
    paused = told.pop("paused", False)
    dates = {name: value for name, value in told.items() if name.endswith("_time")}
    each = [{**one, **dates} for one in packages(deal)]
    each[0].update(own)
    status = "paused" if paused else "active"
    return {**SILENT, "media_buy_status": status, "revision": revision, **told, "packages": each}


def asked() -> list[tuple[str, Decimal | None]]:
    found = Approval.objects.filter(status="open").order_by("pk")
    return [(one.kind, one.amount) for one in found]


def approved(deal: Deal) -> Values:
    """What counts as approved of what the changes name."""
    now, line = fresh(deal), first_line(deal)
    return {
        "whole": (now.start_at, now.end_at),
        "line": (line.budget, line.start_at, line.end_at, line.targeting),
        "gross": deal_amounts(now).approved,
    }


def by_answer(change: Operation, record: Values) -> None:
    by_its_answer(change, record, clock.now())


def by_read_back(change: Operation, record: Values) -> None:
    by_its_read_back(change, record, clock.now())


def by_mirror(change: Operation, record: Values) -> None:
    by_the_mirror(change, record, clock.now())


def nothing(change: Operation) -> None:
    """The seller has it."""


def is_read_back(change: Operation) -> None:
    say(change, "completed", SILENT, task_id="t-1")


def is_in_doubt(change: Operation) -> None:
    is_read_back(change)
    by_its_read_back(change, SILENT, clock.now())


WAYS = {
    "answer": (nothing, by_answer),
    "read back": (is_read_back, by_read_back),
    "mirror": (is_in_doubt, by_mirror),
}


def done(change: Operation, record: Values) -> None:
    """The newer one's answer shows it."""
    told = {**record, "affected_packages": record["packages"]}
    seen = Seen(kind="answer", status="completed", raw_status="completed", task_id="t-2", payload=told)
    observed(operation_id=change.pk, seen=seen, channel="poll")
    publish(operation_id=change.pk)


@pytest.mark.parametrize("field", FIELDS)
def test_whichever_ends_first_the_newer_counts(field: str) -> None:
    deal = two()
    for stand, comes in WAYS.values():
        with undone():
            first = wanted(deal, **named(deal, field, newer=False))
            stand(first)
            with undone():
                the_first_ends_first(deal, first, field, comes)
            the_second_ends(deal, field)
            with undone():
                then_the_first_is_done(deal, first, field, comes)
            then_nothing_is_left_of_it(deal, first, field, comes)


def the_first_ends_first(deal: Deal, first: Operation, field: str, comes: Comes) -> None:
    comes(first, shown(deal, field, newer=False, revision=2))
    assert (asked(), changes_in_doubt(fresh(deal))) == ([], [])

    second = wanted(fresh(deal), task="t-2", **named(deal, field, newer=True))
    done(second, shown(deal, field, newer=True, revision=3))

    assert asked() == []
    assert approved(deal)["gross"] == (D(58_000) if field == "budget" else D(60_000))
    assert deal_amounts(fresh(deal)).confirmed == approved(deal)["gross"]


def the_second_ends(deal: Deal, field: str) -> None:
    second = wanted(fresh(deal), task="t-2", **named(deal, field, newer=True))
    done(second, shown(deal, field, newer=True, revision=2))
    assert approved(deal)["gross"] == (D(58_000) if field == "budget" else D(60_000))
    assert asked() == [], "nothing is left of the first"


def then_the_first_is_done(deal: Deal, first: Operation, field: str, comes: Comes) -> None:
    """By the seller, after the second: that departs from what people said last."""
    said = approved(deal)

    comes(first, shown(deal, field, newer=False, revision=3))

    amount = D(80_000) if field == "budget" else D(60_000)
    assert approved(deal) == said
    assert deal_amounts(fresh(deal)).confirmed == amount
    assert asked() == [("booked_differently", amount)]
    assert changes_in_doubt(fresh(deal)) == []


def then_nothing_is_left_of_it(deal: Deal, first: Operation, field: str, comes: Comes) -> None:
    """What shows the second shows nothing of the first."""
    said = approved(deal)

    comes(first, shown(deal, field, newer=True, revision=3))

    assert (approved(deal), asked()) == (said, [])


@pytest.mark.parametrize(("edge", "days"), [("start_time", 3), ("end_time", 20)])
def test_dates_of_the_whole_in_an_answer_without_packages_are_compared_at_once(edge: str, days: int) -> None:
    deal = booked()
    older, newer = ((deal.start_at + timedelta(days=day)).isoformat() for day in (days, days - 1))
    first = wanted(deal, **{edge: older})
    second = wanted(fresh(deal), task="t-2", **{edge: newer})
    say(second, "completed", {**SILENT, "revision": 2, edge: newer}, task_id="t-2")
    assert (asked(), fresh(deal).differs) == ([], False)

    say(first, "completed", {**SILENT, "revision": 3, edge: older}, task_id="t-1")

    (departing,) = fresh(deal).differences
    assert (departing["line"], departing["field"]) == (1, edge.removesuffix("_time"))
    assert [kind for kind, _ in asked()] == ["booked_differently"]


def budget(amount: int) -> Values:
    return {"packages": [{"package_id": "pkg-1", "budget": amount}]}


def test_an_older_answer_asks_nobody() -> None:
    """By revision the first ended before the second; it is told after it."""
    deal = two()
    first = wanted(deal, **budget(30_000))
    done(wanted(fresh(deal), task="t-2", **budget(8_000)), shown(deal, "budget", newer=True, revision=3))

    by_answer(first, shown(deal, "budget", newer=False, revision=2))

    assert asked() == []
    assert deal_amounts(fresh(deal)).confirmed == D(58_000)
    assert DealMirror.objects.get(deal=deal).due_at <= clock.now(), "what holds is read at once"


def test_what_is_left_is_decided() -> None:
    """The first names more than the second: people are asked about the rest, and that alone is taken."""
    deal = two()
    rest = {"package_id": "pkg-2", "budget": 40_000}
    first = wanted(deal, packages=[*budget(30_000)["packages"], rest])
    is_in_doubt(first)
    done(wanted(fresh(deal), task="t-2", **budget(8_000)), shown(deal, "budget", newer=True, revision=2))

    try_decide()
    (question,) = doubts()
    try_decide()
    assert question.amount == D(48_000)
    assert [one["package"] for one in question.evidence["not_shown"]] == ["pkg-2"]
    assert [line.budget for line in fresh(deal).lines.order_by("position")] == [D(8_000), D(40_000)]


def try_decide() -> None:
    """Approved, or asked anew since the deal has moved."""
    with suppress(DecisionRefusedError):
        decide("change_not_shown", "approve")


@pytest.mark.parametrize("end", ["failed", "rejected", "canceled"])
def test_one_that_came_to_nothing_takes_nothing(end: str) -> None:
    deal = two()
    first = wanted(deal, **budget(30_000))
    say(wanted(fresh(deal), task="t-2", **budget(8_000)), end, task_id="t-2")

    by_answer(first, shown(deal, "budget", newer=False, revision=2))

    assert (asked(), approved(deal)["gross"]) == ([], D(80_000))


def test_one_that_is_on_its_way_takes_nothing_yet() -> None:
    deal = two()
    first = wanted(deal, **budget(30_000))
    second = wanted(fresh(deal), task="t-2", **budget(8_000))

    by_answer(first, shown(deal, "budget", newer=False, revision=2))
    assert (asked(), approved(deal)["gross"]) == ([], D(80_000))
    done(second, shown(deal, "budget", newer=True, revision=3))
    assert (asked(), approved(deal)["gross"]) == ([], D(58_000))


def test_one_that_people_did_not_take_as_done_takes_nothing() -> None:
    deal = two()
    first = wanted(deal, **budget(30_000))
    second = wanted(fresh(deal), task="t-2", **budget(8_000))
    say(second, "completed", SILENT, task_id="t-2")
    by_its_read_back(second, SILENT, clock.now())
    assert change_left(fresh(deal), first)["packages"], "people are asked"
    decide("change_not_shown", "reject")

    by_answer(first, shown(deal, "budget", newer=False, revision=2))

    assert (asked(), approved(deal)["gross"]) == ([], D(80_000))


def test_a_late_one_of_which_nothing_is_left_is_compared() -> None:
    deal = two()
    first = wanted(deal, **budget(30_000))
    overdue(first)
    done(wanted_whatever(deal, 8_000), shown(deal, "budget", newer=True, revision=2))

    by_answer(first, shown(deal, "budget", newer=False, revision=3))

    assert asked() == [("booked_differently", D(80_000))]
    assert approved(deal)["gross"] == D(58_000)


def wanted_whatever(deal: Deal, amount: int) -> Operation:
    return wanted(fresh(deal), task="t-2", **budget(amount))


def test_one_in_line_of_which_nothing_is_left_is_not_asked_about() -> None:
    deal = two()
    ignored(wanted_unsent(deal, {"package_id": "pkg-2", "budget": 40_000}), "mb-1")
    ignored(wanted_unsent(deal, {"package_id": "pkg-1", "budget": 30_000}), "mb-1")
    third = wanted_unsent(deal, {"package_id": "pkg-1", "budget": 8_000})
    made = {"package_id": "pkg-1", "budget": 8_000}
    ended(third, "completed", {**SILENT, "revision": 2, "affected_packages": [made]})

    assert len(changes_in_doubt(fresh(deal))) == 1
    for _ in range(2):
        assert doubts()[0].evidence["not_shown"][0]["package"] == "pkg-2"
        try_decide()
    assert not doubts()
    assert deal_amounts(fresh(deal)).approved == D(48_000)


def wanted_unsent(deal: Deal, package: Values) -> Operation:
    told = {"media_buy_id": "mb-1", "packages": [package]}
    user = make_user("Integration", team=deal.team)
    made = change_ask(Ask(user=user, task="update_media_buy", seller=deal.seller, arguments=told))
    decide("deal_change", "approve")
    return made


# --- what is left, by itself --------------------------------------------------------------------------


def overlay(version: str, *names: str) -> Values:
    told = {"package_id": "pkg-1", "targeting_overlay": {name: ["x"] for name in names}}
    return {**SILENT, "adcp_version": version, "packages": [told]}


def budgets(**amounts: int) -> Values:
    told = [{"package_id": package_id, "budget": amount} for package_id, amount in amounts.items()]
    return {**SILENT, "adcp_version": "3.2", "packages": told}


def pauses(**words: bool) -> Values:
    return {**SILENT, "packages": [{"package_id": one, "paused": word} for one, word in words.items()]}


A_DEARER_PAUSED = {"package_id": "a", "budget": 1, "paused": True}


@pytest.mark.parametrize(
    ("older", "newer", "left"),
    [
        (overlay("3.1", "geo", "device"), overlay("3.1", "geo"), None),
        (overlay("3.2", "geo", "device"), overlay("3.2", "geo"), overlay("3.2", "device")),
        (overlay("3.2", "geo"), overlay("3.2", "geo", "device"), None),
        (overlay("3.2", "geo"), overlay("3.2"), None),
        (overlay("3.2", "geo"), overlay("", "device"), None),
        (overlay("3.2", "geo"), budgets(**{"pkg-1": 8_000}), overlay("3.2", "geo")),
        (budgets(**{"pkg-1": 8_000}), overlay("3.2", "geo"), budgets(**{"pkg-1": 8_000})),
        (budgets(a=1, b=2), budgets(a=3), budgets(b=2)),
        (budgets(a=1, b=2), budgets(c=3), budgets(a=1, b=2)),
        (budgets(a=1, b=2), {**SILENT, "paused": True}, budgets(a=1, b=2)),
        (budgets(a=1, b=2), budgets(a=3, b=4), None),
        ({**SILENT, "canceled": True}, {**SILENT, "canceled": True}, {**SILENT, "canceled": True}),
        ({**SILENT, "paused": True}, {**SILENT, "paused": False}, None),
        ({**SILENT, "name": "a"}, {**SILENT, "paused": False}, {**SILENT, "name": "a"}),
        ({**SILENT, "paused": True}, pauses(a=False), {**SILENT, "packages": pauses(b=True)["packages"]}),
        ({**SILENT, "paused": True}, pauses(a=False, b=True), None),
        ({**SILENT, "paused": True}, budgets(a=1), {**SILENT, "paused": True}),
        (pauses(a=True, b=True), {**SILENT, "paused": False}, None),
        (pauses(a=True, b=True), pauses(a=False), {**SILENT, "packages": pauses(b=True)["packages"]}),
        ({**budgets(a=1), "paused": True}, pauses(b=False), {**SILENT, "packages": [A_DEARER_PAUSED]}),
        ({**SILENT, "name": "a"}, {"media_buy_id": "mb-2", "name": "b"}, {**SILENT, "name": "a"}),
    ],
)
def test_what_is_left(older: Values, newer: Values, left: Values | None) -> None:
    found = change_without(older, newer, ("a", "b"))
    assert is_nothing(found) is (left is None)
    assert left is None or found == {**found, **left}


def test_a_pause_of_the_whole_stays_one_where_a_package_has_no_name() -> None:
    whole = {**SILENT, "paused": True}
    assert change_without(whole, pauses(a=False), ("a", "")) == whole
