"""A change is judged by what the seller says after it: targeting, pacing and a name that few sellers repeat,
and brief answers beside what was confirmed before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from orders.ask import Ask
from orders.changes import change_ask
from orders.effects import misses
from orders.models import Deal, DealLine
from orders.questions import CHANGE_NOT_SHOWN, DIFFERENT
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.models import Operation
from tests.adcp.raw_server import serve
from tests.factories import make_line, make_seller, make_user
from tests.operations.sweeping import shop, sweep, tools
from tests.orders.live import booked, packages, says
from tests.support import until

pytestmark = pytest.mark.django_db
Record = dict[str, Any]
SE, BRIEF = {"geo_countries": ["SE"]}, {"status": "completed", "media_buy_id": "mb-1"}
MOBILE = {"device_type": ["mobile"]}
UNSTATED = "Norrland Digital does not state it"


def without(told: list[Record], *names: str) -> list[Record]:
    return [{name: value for name, value in one.items() if name not in names} for one in told]


def bought(told: list[Record], **besides: Any) -> Record:
    return {"media_buy_id": "mb-1", "media_buy_status": "active", "packages": told, **besides}


def deal_of(server: Any = None, *, states: bool = True, **fields: Any) -> Deal:
    """A booked deal targeted at Sweden; `states`: its seller said so."""
    seller = make_seller(url=f"{server.url}/mcp", **fields) if server else None
    deal = booked(seller, line=make_line(targeting=SE))
    if not states:
        deal.lines.update(confirmed_targeting=None)
    return deal


def change(deal: Deal, **asks: Any) -> Operation:
    """A change that people let go, and everything that follows from it until nothing moves."""
    wanted = Ask(
        user=make_user("Administrator", name="asker"),
        task="update_media_buy",
        seller=deal.seller,
        arguments={"media_buy_id": "mb-1", **asks},
    )
    with transaction.atomic():
        operation = change_ask(wanted)
    decide("deal_change")
    until(lambda: sweep() and not Operation.objects.filter(published_at__isnull=True).exists())
    return operation


def decide(kind: str, verdict: str = "approve") -> None:
    asked = Approval.objects.get(kind=kind, status="open")
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict=verdict, comment="They wrote.")


def package(**changed: Any) -> list[Record]:
    return [{"package_id": "pkg-1", **changed}]


def asked_about() -> list[str]:
    return list(Approval.objects.filter(status="open").values_list("kind", flat=True))


def selling(told: Record) -> Any:
    """A seller that answers a change by `answer`, briefly without one, and lists what is to `read`."""

    def update(_asked: Record) -> Record:
        return {**BRIEF, **told.get("answer", {})}

    def read(_asked: Record) -> Record:
        listed = [told["read"]] if "read" in told else []
        return {"status": "completed", "media_buys": listed, "pagination": {"has_more": False}}

    return shop(update_media_buy=update, get_media_buys=read)


def trail(deal: Deal) -> str:
    entries = AuditEntry.objects.filter(entity_type="deal", entity_id=deal.pk)
    return "\n".join(entries.values_list("reason", flat=True))


# What is asked for, and the seller's package after it; it never stated what is asked about.
NEVER_STATED: dict[str, tuple[Record, str]] = {
    "name": ({"name": "Spring"}, "name"),
    "pacing": ({"packages": package(pacing="even")}, "pkg-1 pacing"),
    "targeting": ({"packages": package(targeting_overlay=MOBILE)}, "pkg-1 targeting_overlay"),
    "no targeting": ({"packages": package(targeting_overlay={})}, "pkg-1 targeting_overlay"),
}


@pytest.mark.parametrize("name", NEVER_STATED)
@pytest.mark.parametrize("how", ["read", "not listed", "no such tool"])
def test_what_a_seller_never_states_is_its_tasks_word_and_told_so(name: str, how: str) -> None:
    """Nobody is asked, then or later; the deal's trail tells it."""
    asks, unstated = NEVER_STATED[name]
    told: Record = {}
    fields = {"tools": ["create_media_buy", "update_media_buy"]} if how == "no such tool" else {}
    with serve(selling(told)) as server:
        deal = deal_of(server, states=False, **fields)
        bare = without(packages(deal), "targeting_overlay")
        if how == "read":
            told["read"] = bought(bare)
        operation = change(deal, **asks)
        assert ("get_media_buys" in tools(server)) == (how != "no such tool")

    assert asked_about() == []
    assert f"{operation.reference}; {UNSTATED}: {unstated}" in trail(deal)
    says(deal, "active", revision=3, packages=bare)
    assert (asked_about(), deal.differs) == ([], False)


def test_it_is_asked_about_with_what_the_seller_does_contradict() -> None:
    told: Record = {}
    with serve(selling(told)) as server:
        deal = deal_of(server)
        told["read"] = bought(packages(deal))
        change(deal, packages=package(budget=9000, pacing="even"))

    (asked,) = Approval.objects.filter(status="open")
    assert asked.kind == CHANGE_NOT_SHOWN
    words = asked.evidence["not_shown_in_words"]
    assert 'pkg-1 pacing: asked for "even", the seller does not state it' in words
    assert 'pkg-1 budget: asked for "9000", "10250"' in words


def test_targeting_that_a_seller_stops_naming_with_a_change_is_one_question() -> None:
    """It did something, and not what was asked: it departs from what counts as approved now."""
    told: Record = {}
    with serve(selling(told)) as server:
        deal = deal_of(server)
        told["read"] = bought(without(packages(deal), "targeting_overlay"))
        change(deal, packages=package(targeting_overlay=MOBILE))

    assert asked_about() == [DIFFERENT]
    (found,) = Deal.objects.get(pk=deal.pk).differences
    assert (found["approved"], found["confirmed"]) == ({**SE, **MOBILE}, {})


def test_targeting_that_is_taken_off_is_shown_by_being_named_no_more() -> None:
    told: Record = {}
    with serve(selling(told)) as server:
        deal = deal_of(server)
        told["read"] = bought(without(packages(deal), "targeting_overlay"))
        change(deal, packages=package(targeting_overlay={"geo_countries": None}))

    assert (asked_about(), deal.lines.get().targeting) == ([], {})
    assert UNSTATED not in trail(deal), "it stated it before"


def test_a_seller_that_states_targeting_and_cannot_be_read_leaves_it_to_a_person() -> None:
    with serve(selling({})) as server:
        deal = deal_of(server, tools=["create_media_buy", "update_media_buy"])
        change(deal, packages=package(targeting_overlay=MOBILE))

    assert (asked_about(), deal.lines.get().targeting) == ([CHANGE_NOT_SHOWN], SE)


# A brief answer that shows a change of the whole, and says of no package what it is now.
BRIEFLY = {
    "later": lambda d: {"end_time": (d.end_at + timedelta(days=3)).isoformat()},
    "begins later": lambda d: {"start_time": (d.start_at + timedelta(days=1)).isoformat()},
}


@pytest.mark.parametrize("name", BRIEFLY)
def test_what_a_brief_answer_shows_is_not_compared_with_what_was_confirmed_before(name: str) -> None:
    """Rejecting would cancel what is booked as asked."""
    told: Record = {}
    with serve(selling(told)) as server:
        deal = deal_of(server)
        asks = BRIEFLY[name](deal)
        told["answer"] = {"media_buy_status": "active", **asks}
        change(deal, **asks)
        assert tools(server) == ["update_media_buy"]

    assert asked_about() == []
    deal.refresh_from_db()
    assert not deal.differs
    says(deal, "active", revision=3, packages=packages(deal, end_time=deal.start_at.isoformat()))
    assert asked_about() == [DIFFERENT], "what it says later is compared"


def line_of(targeting: Record, confirmed: Record | None) -> Deal:
    deal = deal_of()
    DealLine.objects.filter(deal=deal).update(targeting=targeting, confirmed_targeting=confirmed)
    return deal


BOTH, OURS = {**SE, **MOBILE}, {"axe_include_segment": "of the seller's own"}
# Before, asked, by which version, shown after it; whether it is done, done otherwise, or not shown.
SHOWN = {
    "as asked": (SE, MOBILE, "3.1", MOBILE, "done"),
    "in another order": (SE, {"geo_countries": ["NO", "DK"]}, "3.1", {"geo_countries": ["DK", "NO"]}, "done"),
    "one twice for two": (
        SE,
        {"geo_countries": ["NO", "DK"]},
        "3.1",
        {"geo_countries": ["NO"] * 2},
        "otherwise",
    ),
    "as it was": (SE, MOBILE, "3.1", SE, "not"),
    "replaced, one is left": (BOTH, MOBILE, "3.1", BOTH, "not"),
    "a patch leaves the other": (BOTH, MOBILE, "3.2", BOTH, "done"),
    "a patch's pre-release": (BOTH, MOBILE, "3.2-beta", BOTH, "done"),
    "no version replaces": (BOTH, MOBILE, "", BOTH, "not"),
    "a patch clears one": (BOTH, {"device_type": None}, "3.2", SE, "done"),
    "a patch that clears is ignored": (BOTH, {"device_type": None}, "3.2", BOTH, "not"),
    "cleared, said as null": (BOTH, {"device_type": None}, "3.2", {**SE, "device_type": None}, "done"),
    "cleared, said as empty": (BOTH, {"device_type": None}, "3.2", {**SE, "device_type": []}, "done"),
    "none": (BOTH, {}, "3.2", {}, "done"),
    "none, one is left": (BOTH, {}, "3.2", MOBILE, "not"),
    "none, and the seller's own": (SE, {}, "3.1", OURS, "done"),
    "as asked, and the seller's own": (SE, MOBILE, "3.1", {**MOBILE, **OURS}, "done"),
    "another": (SE, {"geo_countries": ["NO"]}, "3.2", {"geo_countries": ["DK"]}, "otherwise"),
    "none of it": (SE, {"geo_countries": ["NO"]}, "3.2", {}, "otherwise"),
    "half of it": (SE, {"geo_countries": ["NO"], **MOBILE}, "3.2", MOBILE, "otherwise"),
    "half, and what should be gone": (
        SE,
        {**MOBILE, "language": ["no"]},
        "3.1",
        {**SE, **MOBILE},
        "not",
    ),
    "in no known form": (SE, {"geo_countries": ["NO"]}, "3.2", "NO", "otherwise"),
    "none asked, in no known form": (SE, {}, "3.2", "SE", "not"),
}


@pytest.mark.parametrize("case", SHOWN)
def test_targeting_is_compared_as_its_version_means_it(case: str) -> None:
    before, overlay, version, shown, comes_to = SHOWN[case]
    deal = line_of(before, before)
    asked = {"media_buy_id": "mb-1", "packages": package(targeting_overlay=overlay), "adcp_version": version}
    found = misses(asked, bought(package(targeting_overlay=shown)), deal, whole=True)
    assert [one.otherwise for one in found] == {"done": [], "otherwise": [True], "not": [False]}[comes_to]


@pytest.mark.parametrize("confirmed", [SE, None], ids=["stated before", "never"])
@pytest.mark.parametrize("whole", [True, False], ids=["a record", "an answer"])
def test_an_answer_may_be_brief_and_a_record_names_what_there_is(confirmed: Any, whole: bool) -> None:
    deal = line_of(SE, confirmed)
    asked = {"media_buy_id": "mb-1", "packages": package(targeting_overlay={}), "adcp_version": "3.1"}
    found = misses(asked, bought(package()), deal, whole=whole)
    if whole and confirmed is not None:
        assert found == [], "named before and no more: none"
    else:
        assert [(one.shown, one.unstated) for one in found] == [(None, confirmed is None)]
