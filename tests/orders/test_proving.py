"""A change is made when the seller shows it, in its answer or in a reading; else people are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from orders.ask import Ask
from orders.changes.open_changes import CHANGE_FIELDS
from orders.changes.prove import close_unproved_changes
from orders.changes.send import change_ask
from orders.models import LIVE, Change, Deal, DealMirror
from orders.questions import DIFFERENT
from tasks_app import clock
from tasks_app.adcp.requests import PackageUpdate
from tasks_app.approvals.models import Approval
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tests.factories import make_user
from tests.orders.doors import wanted
from tests.orders.late import answered, decide, fresh, give_up, overdue, paused, say
from tests.orders.live import booked, packages, says, withdraw_obsolete
from tests.support import undone

pytestmark = pytest.mark.django_db
Record = dict[str, Any]
_AFTER = timedelta(minutes=11)


@dataclass(frozen=True)
class Kind:
    """A change, what the seller's record shows once it is made, and how the approved terms are then."""

    asks: Callable[[Deal], Record]
    shown: Callable[[Deal], Record]
    is_made: Callable[[Deal], bool]
    status: str = "active"  # of the media buy before
    paused: bool = False  # whether the package is paused before


def _end(deal: Deal, days: int = 3) -> str:
    return (deal.end_at + timedelta(days=days)).isoformat()


def _package(**asked: Any) -> Record:
    return {"packages": [{"package_id": "pkg-1", **asked}]}


def _told(deal: Deal, **changed: Any) -> Record:
    return {"packages": packages(deal, **changed)}


def _targets(wanted: Record) -> Callable[[Deal], bool]:
    return lambda deal: deal.lines.get().targeting == wanted


def _live(deal: Deal) -> bool:
    return deal.status in LIVE


CA, MOBILE = {"geo_countries": ["CA"]}, {"device_type": ["mobile"]}
KINDS = {
    "cancel": Kind(
        lambda d: {"canceled": True},
        lambda d: {"media_buy_status": "canceled"},
        lambda d: d.status == "cancelled",
    ),
    "pause": Kind(lambda d: {"paused": True}, lambda d: {"media_buy_status": "paused"}, _live),
    "resume": Kind(
        lambda d: {"paused": False}, lambda d: {"media_buy_status": "active"}, _live, status="paused"
    ),
    "budget": Kind(
        lambda d: _package(budget=9000),
        lambda d: _told(d, budget=9000.0),
        lambda d: d.lines.get().budget == Decimal(9000),
    ),
    "end": Kind(
        lambda d: {"end_time": _end(d)},
        lambda d: _told(d, end_time=_end(d)),
        lambda d: d.lines.get().end_at == d.end_at,
    ),
    "package's end": Kind(
        lambda d: _package(end_time=_end(d, -3)),
        lambda d: _told(d, end_time=_end(d, -3)),
        lambda d: d.lines.get().end_at == d.end_at - timedelta(days=3),
    ),
    "start": Kind(
        lambda d: {"start_time": (d.start_at + timedelta(days=1)).isoformat()},
        lambda d: _told(d, start_time=(d.start_at + timedelta(days=1)).isoformat()),
        lambda d: d.lines.get().start_at == d.start_at,
    ),
    "package's start": Kind(
        lambda d: _package(start_time=(d.start_at + timedelta(days=1)).isoformat()),
        lambda d: _told(d, start_time=(d.start_at + timedelta(days=1)).isoformat()),
        lambda d: d.lines.get().start_at == d.start_at + timedelta(days=1),
    ),
    "package's pause": Kind(lambda d: _package(paused=True), lambda d: _told(d, paused=True), _live),
    "package's resume": Kind(
        lambda d: _package(paused=False), lambda d: _told(d, paused=False), _live, paused=True
    ),
    "targeting": Kind(
        lambda d: _package(targeting_overlay=CA), lambda d: _told(d, targeting_overlay=CA), _targets(CA)
    ),
}
# Fields of a package's change that change nothing, or that no request takes.
NO_CHANGE = {"package_id", "context", "ext", "canceled", "cancellation_reason"}
NO_TERMS = {"name", "pacing"}  # a seller need not state them: they are not compared


def test_every_field_that_a_change_may_name_is_tried() -> None:
    deal = booked()
    asked = [kind.asks(deal) for kind in KINDS.values()]
    assert {name for change in asked for name in change} == set(CHANGE_FIELDS) - NO_TERMS
    of_packages = {name for change in asked for package in change.get("packages", ()) for name in package}
    assert of_packages == {*PackageUpdate.model_fields} - NO_CHANGE - NO_TERMS | {"package_id"}


def _deal(kind: Kind) -> tuple[Deal, Operation, Record]:
    """A deal with a change that its seller has not ended yet, and the media buy as it was before."""
    deal = booked()
    deal.lines.update(paused=kind.paused or kind.status == "paused")
    before = {"media_buy_id": "mb-1", "media_buy_status": kind.status, **_told(deal, paused=kind.paused)}
    return deal, wanted(deal, **kind.asks(deal)), before


def _completes(change: Operation, **answer: Any) -> None:
    told = dict(answer)
    affected = {"affected_packages": told.pop("packages")} if "packages" in told else {}
    say(change, "completed", {"media_buy_id": "mb-1", **told, **affected}, channel="poll", task_id="t-1")


def _read(deal: Deal, record: Record, *, later: timedelta = timedelta()) -> Deal:
    at = clock.now() + later
    told = dict(record)
    with clock.injected(lambda: at):
        return says(fresh(deal), told.pop("media_buy_status"), asked_at=at, **told)


def _outcome(change: Operation) -> str:
    return Change.objects.values_list("outcome", flat=True).get(operation=change)


def _questions() -> list[str]:
    return list(Approval.objects.filter(status="open").values_list("kind", flat=True))


def test_it_is_made_where_it_is_shown_and_asked_about_where_it_is_not() -> None:
    for name, kind in KINDS.items():
        with undone():
            _is_proved(name, kind)


def _is_proved(name: str, kind: Kind) -> None:
    deal, change, before = _deal(kind)
    shown = {**before, **kind.shown(deal)}
    with undone():
        _completes(change, **{key: value for key, value in shown.items() if key != "media_buy_id"})
        assert (name, _outcome(change), _questions()) == (name, "made", []), "by its answer"
        assert kind.is_made(fresh(deal))
    _completes(change)
    assert _outcome(change) == "", "an answer that says nothing proves nothing"
    with undone():
        _read(deal, shown)
        assert _questions() == [], "by a reading"
        assert kind.is_made(fresh(deal))
        assert name == "cancel" or _outcome(change) == "made"
    _read(deal, before)
    assert (_outcome(change), _questions()) == ("", []), "the seller has ten minutes to show it"
    _read(deal, before, later=_AFTER)
    assert (name, _outcome(change), _questions()) == (name, "not_shown", [DIFFERENT])
    assert name == "cancel" or kind.is_made(fresh(deal)), "what was approved is what people are asked about"


def test_what_people_accept_instead_is_approved_from_then_on() -> None:
    deal, change, before = _deal(KINDS["cancel"])
    _completes(change)
    _read(deal, before, later=_AFTER)
    decide(DIFFERENT, "approve")
    _read(deal, before, later=2 * _AFTER)
    assert (fresh(deal).status, fresh(deal).differs, _questions()) == ("delivering", False, [])


def test_a_cancellation_that_is_not_shown_is_sent_again_by_who_does_not_accept_that() -> None:
    deal, change, before = _deal(KINDS["cancel"])
    _completes(change)
    _read(deal, before, later=_AFTER)
    decide(DIFFERENT, "reject")
    again = Operation.objects.filter(task_type="update_media_buy").latest("pk")
    assert (again.pk != change.pk, again.request["canceled"]) == (True, True)
    assert Change.objects.get(operation=again).closed_at is None


def test_a_seller_that_cannot_be_read_is_asked_about_at_once() -> None:
    deal, change, _ = _deal(KINDS["budget"])
    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    DealMirror.objects.filter(deal=deal).update(due_at=None)
    says(deal, "active", packages=packages(deal))
    _completes(change)
    assert (_outcome(change), _questions()) == ("not_shown", [DIFFERENT])


def test_what_is_unread_for_a_day_is_asked_about() -> None:
    deal, change, before = _deal(KINDS["budget"])
    _read(deal, before)
    _completes(change)
    assert close_unproved_changes() == 0
    tomorrow = clock.now() + timedelta(hours=25)
    with clock.injected(lambda: tomorrow):
        assert close_unproved_changes() == 1
    assert (_outcome(change), _questions()) == ("not_shown", [DIFFERENT])


def test_a_change_that_people_gave_up_waiting_for_is_read_and_stays_closed() -> None:
    deal, change, before = _deal(KINDS["budget"])
    give_up(change)
    assert _outcome(change) == ""
    _read(deal, before, later=_AFTER)
    assert (_outcome(change), _questions()) == ("not_shown", [DIFFERENT])
    decide(DIFFERENT, "approve")
    _read(deal, {**before, **KINDS["budget"].shown(deal)}, later=2 * _AFTER)
    assert _outcome(change) == "not_shown"


def test_a_late_change_is_made_where_the_seller_shows_it() -> None:
    deal, change, _ = _deal(KINDS["budget"])
    overdue(change)
    _completes(change, **KINDS["budget"].shown(deal))
    assert (_outcome(change), deal.lines.get().budget) == ("made", 9000)


def test_a_refused_change_releases_its_reservation_and_changes_nothing() -> None:
    deal = booked()
    before = deal.lines.get().budget
    change = wanted(deal, **_package(budget=float(before + 5_000)))
    assert Change.objects.get(operation=change).reserved == 5_000
    say(change, "rejected", task_id="t-1")
    assert (_outcome(change), _questions()) == ("refused", [])
    assert deal.lines.get().budget == before


def test_a_change_of_a_deal_that_ends_is_closed() -> None:
    deal, change, before = _deal(KINDS["cancel"])
    _completes(change)
    _read(deal, {**before, "media_buy_status": "canceled"})
    withdraw_obsolete()
    assert (fresh(deal).status, _outcome(change)) == ("cancelled", "made")


def test_while_its_operation_is_contradicted_a_change_stays_open() -> None:
    deal, change, before = _deal(KINDS["budget"])
    _completes(change)
    say(change, "failed", task_id="t-1")
    assert Conflict.objects.filter(operation=change, resolved_at=None).exists()
    _read(deal, before, later=_AFTER)
    assert _outcome(change) == ""
    assert DIFFERENT not in _questions()


def test_an_answer_that_raises_a_change_reserves_the_rest() -> None:
    deal = booked()
    budget = deal.lines.get().budget
    asker = make_user("Integration", team=deal.team)
    arguments = {"media_buy_id": deal.media_buy_id, **_package(budget=float(budget + 1_000))}
    change = change_ask(Ask(user=asker, task="update_media_buy", seller=deal.seller, arguments=arguments))
    decide("deal_change", "approve")
    answered(paused(change), **_package(budget=float(budget + 3_000)))
    decide("answer", "approve")
    assert Change.objects.get(operation=change).reserved == 3_000
