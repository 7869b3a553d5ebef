"""Changes that would leave a media buy, or a package of it, without a flight, or a package outside of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from orders.ask import Ask, AskRefusedError
from orders.changes.send import change_ask
from orders.models import Deal, DealLine
from tasks_app import clock
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tests.factories import make_line, make_user
from tests.orders.late import decide, say
from tests.orders.live import booked
from tests.owning import as_the_owner

pytestmark = pytest.mark.django_db


def day(deal: Deal, number: int) -> str:
    return (deal.start_at + timedelta(days=number)).isoformat()


def asked_for(deal: Deal, **arguments: Any) -> Operation:
    told = {"media_buy_id": deal.media_buy_id, **arguments}
    user = make_user("Integration")
    return change_ask(Ask(user=user, task="update_media_buy", seller=deal.seller, arguments=told))


def let_go(deal: Deal, **arguments: Any) -> Operation:
    """Approved, and with the seller."""
    operation = asked_for(deal, **arguments)
    decide("deal_change", "approve")
    claim_one(operation_id=operation.pk)
    say(operation, "submitted", channel="reply")
    return operation


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"packages": [{"package_id": "pkg-1", "start_time": 33}]}, "pkg-1 would end before it starts"),
        ({"packages": [{"package_id": "pkg-1", "end_time": -2}]}, "pkg-1 would end before it starts"),
        ({"start_time": 20, "packages": [{"package_id": "pkg-1", "end_time": 10}]}, "pkg-1 would end"),
        ({"start_time": 33}, "the flight ends before it starts"),
    ],
)
def test_a_change_that_leaves_no_flight_is_refused(arguments: dict[str, Any], said: str) -> None:
    deal = booked()

    def dated(told: Any) -> Any:
        if isinstance(told, list):
            return [dated(one) for one in told]
        return {name: day(deal, of) if isinstance(of, int) else of for name, of in told.items()}

    told = {name: dated(of) if isinstance(of, list) else day(deal, of) for name, of in arguments.items()}
    with pytest.raises(AskRefusedError, match=said):
        asked_for(deal, **told)
    assert not Operation.objects.filter(task_type="update_media_buy").exists()


def of_two() -> Deal:
    """A media buy of 28 days: one package runs with it, the other from its day 7 to its day 14."""
    start = clock.now().replace(microsecond=0) + timedelta(days=10)
    own = make_line(start_at=start + timedelta(days=7), end_at=start + timedelta(days=14))
    return booked(start_at=start, end_at=start + timedelta(days=28), lines=(make_line(), own))


OUTSIDE: dict[str, tuple[dict[str, Any], str]] = {
    "a package before it": ({"packages": [{"package_id": "pkg-2", "start_time": -1}]}, "pkg-2"),
    "a package after it": ({"packages": [{"package_id": "pkg-2", "end_time": 60}]}, "pkg-2"),
    "one that ran with it": ({"packages": [{"package_id": "pkg-1", "end_time": 60}]}, "pkg-1"),
    "both": (
        {"packages": [{"package_id": "pkg-1", "end_time": 60}, {"package_id": "pkg-2", "start_time": -1}]},
        "pkg-1, pkg-2",
    ),
    "it ends before a package that stays": ({"end_time": 10}, "pkg-2"),
    "it starts after a package that stays": ({"start_time": 10}, "pkg-2"),
    "it moves, and the package too little": (
        {"end_time": 60, "packages": [{"package_id": "pkg-2", "end_time": 61}]},
        "pkg-2",
    ),
}
INSIDE: dict[str, dict[str, Any]] = {
    "a package within it": {"packages": [{"package_id": "pkg-2", "start_time": 0, "end_time": 20}]},
    "what runs with it follows": {"start_time": 5, "end_time": 15},
    "both are moved": {"end_time": 60, "packages": [{"package_id": "pkg-2", "end_time": 60}]},
    "no dates": {"packages": [{"package_id": "pkg-2", "budget": 10}]},
}


def dated(deal: Deal, told: dict[str, Any]) -> dict[str, Any]:
    """Days of the flight as moments."""
    moments = {name: day(deal, of) for name, of in told.items() if name.endswith("_time")}
    each = [dated(deal, one) for one in told.get("packages", ())]
    return {**told, **moments, **({"packages": each} if each else {})}


@pytest.mark.parametrize("case", OUTSIDE)
def test_a_change_that_leaves_a_package_outside_of_the_flight_is_refused(case: str) -> None:
    deal, (told, named) = of_two(), OUTSIDE[case]
    with pytest.raises(AskRefusedError, match=f"{named} would not run within the media buy's flight"):
        asked_for(deal, **dated(deal, told))
    assert not Operation.objects.filter(task_type="update_media_buy").exists()


@pytest.mark.parametrize("case", INSIDE)
def test_a_change_that_leaves_every_package_inside_is_asked(case: str) -> None:
    deal = of_two()
    assert asked_for(deal, **dated(deal, INSIDE[case])).status == "requested"


def test_what_lies_outside_already_is_no_reason_against_another_amount() -> None:
    deal = of_two()
    with as_the_owner():
        DealLine.objects.filter(position=2).update(end_at=deal.end_at + timedelta(days=9))
    assert asked_for(deal, **INSIDE["no dates"]).status == "requested"
