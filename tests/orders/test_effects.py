"""What of a change a seller's record does not show: of the whole media buy and of its packages.

Budgets stand in test_changed_budgets, targeting in test_changed_terms, yes and no in test_cancelled_forms.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from orders.effects import is_canceled, misses
from tests.orders import rows

pytestmark = pytest.mark.deep

Record = dict[str, Any]
LATER, OTHER = rows.END + timedelta(days=7), rows.END + timedelta(days=3)
OWN = rows.END - timedelta(days=5)  # where the third package ends, before the whole


def moment(when: datetime) -> str:
    return when.isoformat()


def packages(*told: Record) -> Record:
    """Of the two that run with the whole."""
    return {"packages": [{"package_id": f"pkg-{n}", **one} for n, one in enumerate(told, 1)]}


def missed(change: Record, record: Record, *, whole: bool = True) -> list[tuple[Any, ...]]:
    lines = (
        rows.line(1, package_id="pkg-1"),
        rows.line(2, package_id="pkg-2", confirmed_end_at=rows.END),
        rows.line(3, package_id="pkg-3", end_at=OWN),
    )
    found = misses({"media_buy_id": "mb-1", **change}, record, rows.deal(*lines), whole=whole)
    return [(one.where, one.field, one.asked, one.shown, one.otherwise, one.unstated) for one in found]


# What is asked for, what the record of the media buy says, and which fields of it are not shown:
# package, field, asked, shown, done otherwise, unstated.
CANCEL, PAUSE, RESUME = {"canceled": True}, {"paused": True}, {"paused": False}
END, NAME = {"end_time": moment(LATER)}, {"name": "Autumn"}
OF_TWO = packages({"end_time": moment(LATER)}, {"end_time": moment(LATER)})
WHOLE: dict[str, tuple[Record, Record, list[tuple[Any, ...]]]] = {
    "cancelled": (CANCEL, {"media_buy_status": "canceled"}, []),
    "cancelled, in 3.0's form": (CANCEL, {"status": "canceled"}, []),
    "its status says more than its packages": (
        CANCEL,
        {"status": "active", **packages(CANCEL, CANCEL), "media_buy_status": "active"},
        [("", "canceled", True, "active", False, False)],
    ),
    "cancelled, the status of the call beside": (
        CANCEL,
        {"media_buy_status": "canceled", "status": "completed"},
        [],
    ),
    "a status that is no word": (CANCEL, {"status": 7}, [("", "canceled", True, None, False, False)]),
    "not cancelled, of nothing said": (CANCEL, {}, [("", "canceled", True, None, False, False)]),
    "cancelled, but for one": (
        CANCEL,
        packages(CANCEL, CANCEL),
        [("", "canceled", True, None, False, False)],
    ),
    "not to be cancelled": ({"canceled": False}, {"status": "active"}, []),
    "paused": (PAUSE, {"media_buy_status": "paused"}, []),
    "paused, beside its status": (PAUSE, {"status": "active", "paused": True}, []),
    "paused, package by package": (PAUSE, packages(PAUSE, PAUSE, PAUSE), []),
    "paused, but for one": (
        PAUSE,
        packages(PAUSE, PAUSE, RESUME),
        [("", "paused", True, None, False, False)],
    ),
    "not paused": (PAUSE, {"status": "active"}, [("", "paused", True, "active", False, False)]),
    "resumed": (RESUME, {"status": "active"}, []),
    "not resumed": (RESUME, {"status": "paused"}, [("", "paused", False, "paused", False, False)]),
    "not resumed, beside its status": (
        RESUME,
        {"status": "active", "paused": True},
        [("", "paused", False, "active", False, False)],
    ),
    "resumed, of nothing said": (RESUME, {}, [("", "paused", False, None, False, False)]),
    "its name": (NAME, NAME, []),
    "another name": (NAME, {"name": "Summer"}, [("", "name", "Autumn", "Summer", False, False)]),
    "no name": (NAME, {}, [("", "name", "Autumn", None, False, True)]),
    "an empty name": (NAME, {"name": ""}, [("", "name", "Autumn", None, False, True)]),
    "an end": (END, END, []),
    "an end, whatever its packages say": (END, {**END, **packages({}, {})}, []),
    "an end, by those that ran with it": (END, OF_TWO, []),
    "an end as before": (
        END,
        {"end_time": moment(rows.END)},
        [("", "end_time", moment(LATER), moment(rows.END), False, False)],
    ),
    "another end": (
        END,
        {"end_time": moment(OTHER)},
        [("", "end_time", moment(LATER), moment(OTHER), True, False)],
    ),
    "no end": (END, {}, [("", "end_time", moment(LATER), None, False, False)]),
    "an end, of one alone": (
        END,
        packages({"end_time": moment(LATER)}, {}),
        [("", "end_time", moment(LATER), None, False, False)],
    ),
    "another end, of one of two": (
        END,
        packages({"end_time": moment(OTHER)}, {"end_time": moment(LATER)}),
        [("", "end_time", moment(LATER), moment(OTHER), True, False)],
    ),
    "a start": ({"start_time": moment(OTHER)}, {"start_time": moment(OTHER)}, []),
    "a start, of one alone": (
        {"start_time": moment(OTHER)},
        packages({"start_time": moment(OTHER)}),
        [("", "start_time", moment(OTHER), None, False, False)],
    ),
    "no start": (
        {"start_time": moment(OTHER)},
        {"end_time": moment(OTHER)},
        [("", "start_time", moment(OTHER), None, False, False)],
    ),
    "of another media buy": (
        NAME,
        {**NAME, "media_buy_id": "mb-2"},
        [
            ("", "media_buy_id", "mb-1", "mb-2", False, False),
            ("", "name", "Autumn", None, False, True),
        ],
    ),
    "of the same": (NAME, {**NAME, "media_buy_id": "mb-1"}, []),
}
# The same of the first package, which is targeted at the United States.
COUNTRY = {"geo_countries": ["NO"]}
NO, DK = {"targeting_overlay": COUNTRY}, {"targeting_overlay": {"geo_countries": ["DK"]}}
PACKAGE: dict[str, tuple[Record, Record, list[tuple[Any, ...]]]] = {
    "an end": (END, END, []),
    "an end as before": (
        END,
        {"end_time": moment(rows.END)},
        [("pkg-1", "end_time", moment(LATER), moment(rows.END), False, False)],
    ),
    "another end": (
        END,
        {"end_time": moment(OTHER)},
        [("pkg-1", "end_time", moment(LATER), moment(OTHER), True, False)],
    ),
    "no end": (END, {}, [("pkg-1", "end_time", moment(LATER), None, False, False)]),
    "a start": ({"start_time": moment(OTHER)}, {"start_time": moment(OTHER)}, []),
    "a start as before": (
        {"start_time": moment(OTHER)},
        {"start_time": moment(rows.START)},
        [("pkg-1", "start_time", moment(OTHER), moment(rows.START), False, False)],
    ),
    "its budget": ({"budget": 9000}, {"budget": 9000}, []),
    "another budget": (
        {"budget": 9000},
        {"budget": 9500},
        [("pkg-1", "budget", "9000", "9500", True, False)],
    ),
    "no budget": ({"budget": 9000}, {}, [("pkg-1", "budget", "9000", None, False, False)]),
    "its targeting": (NO, NO, []),
    "another targeting": (NO, DK, [("pkg-1", "targeting_overlay", COUNTRY, *DK.values(), True, False)]),
    "no targeting": (NO, {}, [("pkg-1", "targeting_overlay", COUNTRY, None, False, True)]),
    "its pacing": ({"pacing": "even"}, {"pacing": "even"}, []),
    "another pacing": (
        {"pacing": "even"},
        {"pacing": "asap"},
        [("pkg-1", "pacing", "even", "asap", False, False)],
    ),
    "no pacing": ({"pacing": "even"}, {}, [("pkg-1", "pacing", "even", None, False, True)]),
    "paused": (PAUSE, PAUSE, []),
    "not paused": (PAUSE, RESUME, [("pkg-1", "paused", True, False, False, False)]),
    "resumed": (RESUME, RESUME, []),
    "not resumed": (RESUME, PAUSE, [("pkg-1", "paused", False, True, False, False)]),
    "cancelled": (CANCEL, CANCEL, []),
    "not cancelled": (CANCEL, {"canceled": False}, [("pkg-1", "canceled", True, False, False, False)]),
}


@pytest.mark.parametrize("case", WHOLE)
def test_of_the_whole_media_buy(case: str) -> None:
    change, record, fields = WHOLE[case]
    assert missed(change, record) == fields


@pytest.mark.parametrize("case", PACKAGE)
@pytest.mark.parametrize("whole", [True, False], ids=["a record", "an answer"])
def test_of_a_package(case: str, whole: bool) -> None:
    change, record, fields = PACKAGE[case]
    assert missed(packages(change), packages(record, {}), whole=whole) == fields


@pytest.mark.parametrize("asked", [PAUSE, RESUME])
def test_a_package_not_named_as_paused_runs_in_a_record_alone(asked: Record) -> None:
    """An answer may be brief, and a record that does not name the package says nothing of it."""
    change, named, (field, wanted) = packages(asked), packages({}), next(iter(asked.items()))
    said = [("pkg-1", field, wanted, False, False, False)] if wanted else []
    unsaid = [("pkg-1", field, wanted, None, False, False)]
    assert missed(change, named, whole=True) == said
    assert missed(change, named, whole=False) == unsaid
    assert missed(change, {"packages": []}, whole=True) == unsaid


@pytest.mark.parametrize("asked", [PAUSE, RESUME])
@pytest.mark.parametrize("whole", [True, False], ids=["a record", "an answer"])
def test_a_cancelled_package_neither_runs_nor_is_paused(asked: Record, whole: bool) -> None:
    for said in ({}, {"paused": True}, {"paused": False}):
        assert missed(packages(asked), packages({"canceled": True, **said}), whole=whole) == []


def test_a_package_that_no_line_knows_is_compared_with_what_is_asked_alone() -> None:
    change = {"packages": [{"package_id": "pkg-9", **END}]}
    assert missed(change, {"packages": [{"package_id": "pkg-9", **END}]}) == []
    told = {"packages": [{"package_id": "pkg-9", "end_time": moment(OTHER)}]}
    assert missed(change, told) == [("pkg-9", "end_time", moment(LATER), moment(OTHER), True, False)]
    change = {"packages": [{"package_id": "pkg-9", "budget": 9000, **NO}]}
    told = {"packages": [{"package_id": "pkg-9", "budget": 9500, **DK}]}
    assert [one[1:] for one in missed(change, told)] == [
        ("budget", "9000", "9500", True, False),
        ("targeting_overlay", COUNTRY, *DK.values(), True, False),
    ]


def test_what_was_confirmed_counts_as_before_too() -> None:
    """The seller shows what it had confirmed: it has done nothing."""
    line = rows.line(1, package_id="pkg-1", confirmed_end_at=OTHER)
    change = {"media_buy_id": "mb-1", **packages(END)}
    (miss,) = misses(change, packages({"end_time": moment(OTHER)}), rows.deal(line), whole=True)
    assert (miss.shown, miss.otherwise) == (moment(OTHER), False)


def test_packages_of_no_known_form_say_nothing() -> None:
    for said in (None, "all", [None, "pkg-1", {"package_id": None, **END}]):
        assert missed(packages(END), {"packages": said}) == [
            ("pkg-1", "end_time", moment(LATER), None, False, False)
        ]


def test_where_nothing_was_bought_no_package_cancels_it() -> None:
    assert not is_canceled(packages(CANCEL), [])
