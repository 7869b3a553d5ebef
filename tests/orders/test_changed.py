"""A change of a media buy counts when the seller shows it: in its answer, in a read back, or later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction

from orders.ask import Ask, AskRefusedError
from orders.changes import CHANGES, change_ask
from orders.mirror import mirror_read_now, mirrors_refresh_due
from orders.models import LIVE, Deal, DealMirror
from orders.questions import CHANGE_NOT_SHOWN
from orders.requests import operation_ask
from tasks_app.adcp.requests import PackageUpdate
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.commands.models import Command
from tasks_app.commands.services import command_record, command_run
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.notifications.models import Notification
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import Order, order_propose, order_run
from tasks_app.operations.services import OperationRefusedError, Subject
from tasks_app.people.models import User
from tests.adcp.raw_server import RawServer, serve
from tests.database import Database
from tests.factories import make_seller, make_user
from tests.operations.sweeping import shop, sweep, tools
from tests.orders.live import booked, packages, withdraw_obsolete
from tests.support import undone, until

in_a_transaction = pytest.mark.django_db
Record = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A change of the media buy, and the seller's record of it after that."""

    asks: Callable[[Deal], Record]
    shown: Callable[[Deal], Record]
    before: str = "active"  # the media buy's status until then
    paused: bool = False  # whether its package was paused until then


def _packages(deal: Deal, **changed: Any) -> Record:
    return {"packages": packages(deal, **changed)}


def _sooner(deal: Deal) -> str:
    return (deal.end_at - timedelta(days=3)).isoformat()


def _later(deal: Deal) -> str:
    return (deal.end_at + timedelta(days=3)).isoformat()


def _without(deal: Deal, name: str) -> Record:
    return {"packages": [{k: v for k, v in one.items() if k != name} for one in packages(deal)]}


def _start(deal: Deal) -> str:
    return (deal.start_at + timedelta(days=1)).isoformat()


def _asked(**changed: Any) -> Record:
    return {"packages": [{"package_id": "pkg-1", **changed}]}


KINDS = {
    "cancel": Kind(lambda d: {"canceled": True}, lambda d: {"media_buy_status": "canceled"}),
    "pause": Kind(lambda d: {"paused": True}, lambda d: {"media_buy_status": "paused"}),
    "resume": Kind(lambda d: {"paused": False}, lambda d: {"media_buy_status": "active"}, before="paused"),
    "budget": Kind(lambda d: _asked(budget=9000), lambda d: _packages(d, budget=9000.0)),
    "total": Kind(lambda d: _asked(budget=9000), lambda d: {"packages": [], "total_budget": 9000}),
    "end": Kind(lambda d: {"end_time": _later(d)}, lambda d: _packages(d, end_time=_later(d))),
    "end, of the whole": Kind(
        lambda d: {"end_time": _later(d)}, lambda d: {"end_time": _later(d), **_without(d, "end_time")}
    ),
    "package's end": Kind(lambda d: _asked(end_time=_sooner(d)), lambda d: _packages(d, end_time=_sooner(d))),
    "package's pause": Kind(lambda d: _asked(paused=True), lambda d: _packages(d, paused=True)),
    "package's resume": Kind(
        lambda d: _asked(paused=False), lambda d: _packages(d, paused=False), paused=True
    ),
    "name": Kind(lambda d: {"name": "Spring"}, lambda d: {"name": "Spring"}),
    "start": Kind(lambda d: {"start_time": _start(d)}, lambda d: _packages(d, start_time=_start(d))),
    "start, of the whole": Kind(
        lambda d: {"start_time": _start(d)}, lambda d: {"start_time": _start(d), **_without(d, "start_time")}
    ),
    "package's start": Kind(
        lambda d: _asked(start_time=_start(d)), lambda d: _packages(d, start_time=_start(d))
    ),
    "pacing": Kind(lambda d: _asked(pacing="even"), lambda d: _packages(d, pacing="even")),
    "targeting": Kind(
        lambda d: _asked(targeting_overlay={"geo_countries": ["CA"]}),
        lambda d: _packages(d, targeting_overlay={"geo_countries": ["CA"]}),
    ),
    "targeting, more": Kind(
        lambda d: _asked(targeting_overlay={"device_type": ["mobile"]}),
        lambda d: _packages(d, targeting_overlay={"geo_countries": ["US"], "device_type": ["mobile"]}),
    ),
    "targeting, none": Kind(
        lambda d: _asked(targeting_overlay={}), lambda d: _packages(d, targeting_overlay={})
    ),
    "targeting, one less": Kind(
        lambda d: _asked(targeting_overlay={"geo_countries": None}),
        lambda d: _packages(d, targeting_overlay={}),
    ),
}
TARGETING = {
    "targeting": {"geo_countries": ["CA"]},
    "targeting, more": {"geo_countries": ["US"], "device_type": ["mobile"]},
    "targeting, none": {},
    "targeting, one less": {},
}
# Fields of a package's change that change nothing, or that no way in takes.
NO_CHANGE = {"package_id", "context", "ext", "canceled", "cancellation_reason"}


@in_a_transaction
def test_every_change_that_can_be_asked_for_is_tried() -> None:
    deal = booked()
    asked = [kind.asks(deal) for kind in KINDS.values()]
    assert {name for change in asked for name in change} == set(CHANGES)
    of_packages = {name for change in asked for package in change.get("packages", ()) for name in package}
    assert of_packages == {*PackageUpdate.model_fields} - NO_CHANGE | {"package_id"}


def said(deal: Deal, kind: Kind) -> Record:
    """The media buy as it was before the change."""
    whole = {"media_buy_id": "mb-1", "media_buy_status": kind.before, "name": "Autumn"}
    return {**whole, **_packages(deal, paused=kind.paused, pacing="asap")}


def changed(server: RawServer, kind: Kind, records: dict[str, Record], **fields: Any) -> Deal:
    """A booked deal, and a change of it that people have approved, about to be sent. `records`: filled with
    what the seller may say of it (`silent` names the media buy alone, `another's` is of another one)."""
    deal = booked(make_seller(url=f"{server.url}/mcp", **fields))
    if kind.before == "paused":
        Deal.objects.filter(pk=deal.pk).update(media_buy_status="paused")
    records["silent"] = {"media_buy_id": "mb-1"}
    records["before"] = said(deal, kind)
    records["shown"] = {**said(deal, kind), **kind.shown(deal)}
    records["another's"] = {**records["shown"], "media_buy_id": "mb-2"}
    with transaction.atomic():
        change_ask(
            Ask(
                user=make_user("Administrator", name="asker"),
                task="update_media_buy",
                seller=deal.seller,
                arguments={"media_buy_id": "mb-1", **kind.asks(deal)},
            )
        )
    decide("deal_change", "approve")
    return deal


def decide(kind: str, verdict: str, user: User | None = None) -> Approval:
    asked = Approval.objects.get(kind=kind, status="open")
    who = user or make_user("Approver")
    return approval_decide(approval_id=asked.pk, user=who, verdict=verdict, comment="They wrote.")


def state(deal: Deal) -> Record:
    """What a change may move: the deal's own word, not the mirror's."""
    deal = Deal.objects.get(pk=deal.pk)
    lines = [(line.budget, line.start_at, line.end_at, line.targeting) for line in deal.lines.all()]
    return {"over": deal.status not in LIVE, "flight": (deal.start_at, deal.end_at), "lines": lines}


def the_change() -> Operation:
    return Operation.objects.get(task_type="update_media_buy")


def doubts() -> list[Approval]:
    return list(Approval.objects.filter(kind=CHANGE_NOT_SHOWN, status="open"))


def swept() -> None:
    """Until everything that was asked for has an end."""
    until(lambda: sweep() and not Operation.objects.filter(published_at__isnull=True).exists())


def acting(records: dict[str, Record], says: dict[str, str]) -> Any:
    """A seller that answers the change by one of the records (`answer`), and get_media_buys after it by
    another (`reads`)."""

    def update(_asked: Record) -> Record:
        told = dict(records[says["answer"]])
        affected = {"affected_packages": told.pop("packages")} if "packages" in told else {}
        return {"status": "completed", "adcp_version": "3.2", **told, **affected}

    def read(_asked: Record) -> Record:
        told = records[says["reads"]]
        return {"status": "completed", "media_buys": [told], "pagination": {"has_more": False}}

    return shop(update_media_buy=update, get_media_buys=read)


# Of whose answers and read backs every form is tried; of the others what makes a difference to each. A form:
# the record that its answer tells, and the one of get_media_buys; whether that is asked for.
IN_EVERY_FORM = ("cancel", "pause", "budget", "targeting", "name")
NOT_SHOWN = [("before", "before"), ("silent", "before"), ("another's", "before"), ("another's", "another's")]
SHOWN = [("shown", False), ("silent", True), ("before", True), ("another's", True)]


@in_a_transaction
@pytest.mark.parametrize("name", KINDS)
def test_it_counts_where_its_seller_shows_it_and_is_a_persons_where_nothing_does(name: str) -> None:
    records: dict[str, Record] = {}
    says: dict[str, str] = {}
    with serve(acting(records, says)) as server:
        deal = changed(server, KINDS[name], records)
        was = state(deal)
        for answer, reads in NOT_SHOWN if name in IN_EVERY_FORM else NOT_SHOWN[:1]:
            says.update(answer=answer, reads=reads)
            with undone():
                assert called_since(server) == ["update_media_buy", "get_media_buys"], (answer, reads)
                it_is_a_persons_and_changes_nothing(deal, was)
        for answer, read in SHOWN if name in IN_EVERY_FORM else SHOWN[:2]:
            says.update(answer=answer, reads="shown")
            with undone():
                assert ("get_media_buys" in called_since(server)) == read, answer
                assert not Approval.objects.filter(status="open").exists(), answer
                counted(deal, name)


def called_since(server: RawServer) -> list[str]:
    """What is called until everything that was asked for has an end."""
    before = len(tools(server))
    swept()
    return tools(server)[before:]


def it_is_a_persons_and_changes_nothing(deal: Deal, was: Record) -> None:
    (asked,) = doubts()
    assert state(deal) == was
    assert asked.evidence["operation_id"] == str(the_change().pk)
    assert "asked for" in asked.evidence["not_shown_in_words"]
    assert DealMirror.objects.get(pk=deal.pk).due_at is not None, "the mirror goes on"
    with pytest.raises(DecisionRefusedError, match="somebody else"):
        decide(CHANGE_NOT_SHOWN, "approve", User.objects.get(username="asker"))


def counted(deal: Deal, name: str) -> None:
    now = Deal.objects.get(pk=deal.pk)
    line = now.lines.get()
    if name == "cancel":
        assert now.status == "cancelled"
        last = AuditEntry.objects.filter(entity_id=deal.pk).order_by("-seq")[0]
        assert last.reason == "The seller cancelled it as asked"
    elif name in ("budget", "total"):
        assert line.budget == Decimal(9000)
    elif name.startswith("end"):
        assert (now.end_at, line.end_at) == (deal.end_at + timedelta(days=3),) * 2
    elif name == "package's end":
        assert (now.end_at, line.end_at) == (deal.end_at, deal.end_at - timedelta(days=3))
    elif name.startswith("start"):
        assert (now.start_at, line.start_at) == (deal.start_at + timedelta(days=1),) * 2
    elif name == "package's start":
        assert (now.start_at, line.start_at) == (deal.start_at, deal.start_at + timedelta(days=1))
    elif name in TARGETING:
        assert line.targeting == TARGETING[name]
    else:
        assert now.status in LIVE


@in_a_transaction
@pytest.mark.parametrize("name", ["cancel", "budget"])
@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_a_person_has_the_last_word(name: str, verdict: str) -> None:
    kind, records = KINDS[name], {}
    with serve(acting(records, {"answer": "before", "reads": "before"})) as server:
        deal = changed(server, kind, records)
        swept()
        was = state(deal)
        decide(CHANGE_NOT_SHOWN, verdict)

    if verdict == "approve":
        counted_by_word(deal, name)
    else:
        assert state(deal) == was
    assert not doubts()


def counted_by_word(deal: Deal, name: str) -> None:
    now = Deal.objects.get(pk=deal.pk)
    if name == "cancel":
        assert now.status == "cancelled"
    else:
        assert now.lines.get().budget == Decimal(9000)
        assert now.differs, "the seller still shows another budget"


@pytest.mark.parametrize("name", ["cancel", "pause", "budget", "end", "pacing", "targeting, none"])
def test_the_mirror_shows_it_later_and_the_question_is_gone(committed_db: Database, name: str) -> None:
    kind, records, shows = KINDS[name], {}, ["before"]

    def read(_asked: Record) -> Record:
        buy = {**records[shows[0]], "revision": 2 if shows[0] == "shown" else 1}
        return {"status": "completed", "media_buys": [buy], "pagination": {"has_more": False}}

    answer = {"status": "completed", "media_buy_id": "mb-1", "adcp_version": "3.2"}
    with serve(shop(update_media_buy=answer, get_media_buys=read)) as server:
        deal = changed(server, kind, records)
        swept()
        assert doubts()
        shows[0] = "shown"
        mirror_read_now(deal=deal)
        assert mirrors_refresh_due() == 1
    withdraw_obsolete()

    assert not doubts()
    if name == "cancel":
        assert Deal.objects.get().status == "cancelled"
    else:
        counted(deal, name)


@in_a_transaction
@pytest.mark.parametrize("how", ["no such tool", "refused", "not listed"])
def test_a_seller_that_cannot_be_read_leaves_it_to_a_person(how: str) -> None:
    kind = KINDS["cancel"]
    answer = {"status": "completed", "media_buy_id": "mb-1", "media_buy_status": "pending_start"}
    reads: Record = {"status": "completed", "media_buys": [], "pagination": {"has_more": False}}
    if how == "refused":
        reads = {"status": "failed", "errors": [{"code": "PERMISSION_DENIED", "message": "no"}]}
    fields = {"tools": ["create_media_buy", "update_media_buy"]} if how == "no such tool" else {}
    with serve(shop(update_media_buy=answer, get_media_buys=reads)) as server:
        deal = changed(server, kind, {}, **fields)
        swept()
        assert ("get_media_buys" in tools(server)) == (how != "no such tool")

    assert Deal.objects.get(pk=deal.pk).status == "booked"
    assert len(doubts()) == 1


@in_a_transaction
@pytest.mark.parametrize("version", [None, "3.0"])
def test_a_status_of_the_media_buy_in_the_envelope_is_not_lost(version: str | None) -> None:
    """The form of AdCP 3.0: `status` is the media buy's."""
    kind, named = KINDS["cancel"], {"adcp_version": version} if version else {}
    with serve(shop(update_media_buy={"media_buy_id": "mb-1", "status": "canceled", **named})) as server:
        deal = changed(server, kind, {}, adcp_version="3.0")
        swept()
        assert tools(server) == ["update_media_buy"], "the answer shows it"

    assert the_change().result["media_buy_status"] == "canceled"
    deal.refresh_from_db()
    assert (deal.status, deal.media_buy_status) == ("cancelled", "canceled")


def _to_cancel_a_package(deal: Deal) -> Order:
    packages = [{"package_id": "pkg-1", "canceled": True, "cancellation_reason": "Not wanted"}]
    return Order(
        kind="order_change",
        purpose=f"deal:{deal.pk}:change:test",
        seller=deal.seller,
        arguments={"media_buy_id": "mb-1", "packages": packages},
        team=deal.team,
        account=deal.account,
        subject=Subject(type="deal", id=deal.pk),
    )


def _asked_by_an_integrator(deal: Deal) -> None:
    packages = [{"package_id": "pkg-1", "canceled": True}]
    operation_ask(
        user=make_user("Integration"),
        task="update_media_buy",
        seller=deal.seller.slug,
        arguments={"media_buy_id": "mb-1", "packages": packages},
    )


def _with(deal: Deal, **besides: Any) -> Order:
    order = _to_cancel_a_package(deal)
    return replace(order, arguments={"media_buy_id": "mb-1", "canceled": True, **besides})


@in_a_transaction
@pytest.mark.parametrize(
    "besides",
    [
        {"packages": [{"package_id": "pkg-1", "budget": 9_000_000}]},
        {"end_time": "2027-12-01T00:00:00Z"},
        {"paused": False},
        {"total_budget": {"amount": 9_000_000, "currency": "USD"}},
        {"new_packages": [{"product_id": "p", "pricing_option_id": "o", "budget": 9_000_000}]},
    ],
    ids=lambda besides: next(iter(besides)),
)
def test_a_cancellation_carries_nothing_besides(besides: dict[str, Any]) -> None:
    """It is shown as one, whatever the seller would make of the rest."""
    deal = booked()
    arguments = {"media_buy_id": "mb-1", "canceled": True, **besides}
    user = make_user("Integration")
    asked = Ask(user=user, task="update_media_buy", seller=deal.seller, arguments=arguments)
    with pytest.raises(
        (AskRefusedError, OperationRefusedError), match=r"nothing besides|not changed|their own"
    ):
        change_ask(asked)
    with pytest.raises(OperationRefusedError, match="changes nothing besides"):
        order_run(order=_with(deal, **besides), actor="system")
    assert not Operation.objects.filter(task_type="update_media_buy").exists()


# Every way by which a change reaches a seller: integrators, orders put to people, orders run, bare commands.
WAYS: dict[str, Callable[[Deal], Any]] = {
    "integrator": _asked_by_an_integrator,
    "proposed": lambda d: order_propose(order=_to_cancel_a_package(d), actor="system"),
    "run": lambda d: order_run(order=_to_cancel_a_package(d), actor="system"),
    "recorded": lambda d: command_record(key="k-1", wanted=_to_cancel_a_package(d).wanted, actor="system"),
    "command": lambda d: command_run(key="k-1", wanted=_to_cancel_a_package(d).wanted, actor="system"),
}


@in_a_transaction
@pytest.mark.parametrize("way", WAYS)
def test_single_packages_are_cancelled_by_no_way_in(way: str) -> None:
    deal = booked()
    with pytest.raises((AskRefusedError, OperationRefusedError), match="single packages are not cancelled"):
        WAYS[way](deal)

    assert not Operation.objects.filter(task_type="update_media_buy").exists()
    assert not Command.objects.filter(kind="order_change").exists()


@in_a_transaction
@pytest.mark.parametrize("verdict", ["approve", "reject"])
@pytest.mark.parametrize(
    ("first", "second"), [("budget", "cancel"), ("pause", "cancel"), ("pause", "budget"), ("cancel", "pause")]
)
def test_each_of_two_changes_in_a_row_that_nothing_shows_is_a_persons(
    first: str, second: str, verdict: str
) -> None:
    kind, records = KINDS[first], {}
    with serve(acting(records, {"answer": "silent", "reads": "before"})) as server:
        deal = changed(server, kind, records)
        swept()
        (asked,) = doubts()
        with transaction.atomic():
            change = change_ask(
                Ask(
                    user=make_user("Administrator", name="second"),
                    task="update_media_buy",
                    seller=deal.seller,
                    arguments={"media_buy_id": "mb-1", **KINDS[second].asks(deal)},
                )
            )
        decide("deal_change", "approve")
        swept()

        assert doubts() == [asked], "about one at a time"
        told = Notification.objects.filter(kind="buy_not_cancelled", body__contains=change.reference)
        assert told.exists() == (second == "cancel"), "an ignored cancellation is told at once"

        decide(CHANGE_NOT_SHOWN, verdict)
        over = (first, verdict) == ("cancel", "approve")
        assert [one.evidence["operation_id"] for one in doubts()] == ([] if over else [str(change.pk)])
        if not over:
            decide(CHANGE_NOT_SHOWN, "approve")
        assert not doubts()
        assert state(deal)["over"] == (over or second == "cancel")
