"""A change on its way, what its seller shows of it before its answer, and how it may come to nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

from orders.models import Deal, DealLine
from tasks_app.approvals.models import Approval
from tasks_app.operations.models import Operation
from tasks_app.operations.steering import operation_stop
from tasks_app.sellers.models import Seller
from tests.factories import make_line, make_user
from tests.operations.making import give_back
from tests.orders.doors import wanted
from tests.orders.late import fresh, give_up, overdue, say
from tests.orders.live import booked, packages, says

Values = dict[str, Any]
D = Decimal
_DAYS, TARGETED = timedelta(days=3), {"geo_countries": ["NO"]}


def two() -> Deal:
    """A deal of two packages."""
    Seller.objects.update(slots=9)
    return booked(lines=(make_line(budget=D(10_000)), make_line(product_id="b", budget=D(50_000))))


def of_a_package(deal: Deal, **changed: Any) -> tuple[Values, Values]:
    return {"packages": [{"package_id": "pkg-1", **changed}]}, {"packages": packages(deal, **changed)}


def budget(deal: Deal) -> tuple[Values, Values]:
    return of_a_package(deal, budget=12_000.0)


def package_start(deal: Deal) -> tuple[Values, Values]:
    return of_a_package(deal, start_time=(deal.start_at + _DAYS).isoformat())


def package_end(deal: Deal) -> tuple[Values, Values]:
    return of_a_package(deal, end_time=(deal.end_at - _DAYS).isoformat())


def targeting(deal: Deal) -> tuple[Values, Values]:
    return of_a_package(deal, targeting_overlay=TARGETED)


def pacing(deal: Deal) -> tuple[Values, Values]:
    return of_a_package(deal, pacing="even")


def _whole(deal: Deal, name: str, value: Any) -> tuple[Values, Values]:
    told = [{**one, **({name: value} if name in one else {})} for one in packages(deal)]
    return {name: value}, {name: value, "packages": told}


def start(deal: Deal) -> tuple[Values, Values]:
    return _whole(deal, "start_time", (deal.start_at + _DAYS).isoformat())


def end(deal: Deal) -> tuple[Values, Values]:
    return _whole(deal, "end_time", (deal.end_at + _DAYS).isoformat())


def by_the_whole(deal: Deal) -> tuple[Values, Values]:
    """Only the whole media buy's date is stated."""
    asked, told = end(deal)
    without = [{k: v for k, v in one.items() if not k.endswith("_time")} for one in packages(deal)]
    return asked, {**told, "packages": without}


def by_total(deal: Deal) -> tuple[Values, Values]:
    """The seller states one amount for the whole."""
    DealLine.objects.filter(deal=deal).update(confirmed_budget=None)
    without = [{k: v for k, v in one.items() if k != "budget"} for one in packages(deal)]
    return budget(deal)[0], {"packages": without, "total_budget": 62_000}


def pause(deal: Deal) -> tuple[Values, Values]:
    return {"paused": True}, {"paused": True, "packages": packages(deal)}


def name(deal: Deal) -> tuple[Values, Values]:
    return {"name": "Spring"}, {"name": "Spring", "packages": packages(deal)}


Kind = Callable[[Deal], tuple[Values, Values]]
Way = Callable[[Deal, Values], None]
COMPARED: list[Kind] = [
    *(budget, package_start, package_end, targeting, start, end, by_the_whole, by_total),
]
KINDS: list[Kind] = [*COMPARED, pacing, pause, name]


def by_the_mirror(deal: Deal, told: Values) -> None:
    says(deal, "pending_start", revision=2, **told)


def _by_another(deal: Deal, told: Values, channel: str) -> None:
    """The answer to a change of something else tells of it too."""
    other = wanted(deal, task="t-2", packages=[{"package_id": "pkg-2", "pacing": "asap"}])
    first, second = told["packages"]
    affected = [first, {**second, "pacing": "asap"}]
    answer = {"media_buy_id": "mb-1", "media_buy_status": "pending_start", "revision": 2, **told}
    say(other, "completed", {**answer, "affected_packages": affected}, channel=channel, task_id="t-2")


def by_anothers_answer(deal: Deal, told: Values) -> None:
    _by_another(deal, told, "poll")


def by_anothers_webhook(deal: Deal, told: Values) -> None:
    _by_another(deal, told, "webhook")


WAYS: list[Way] = [by_the_mirror, by_anothers_answer, by_anothers_webhook]


def asked() -> list[tuple[str, list[tuple[str, str]]]]:
    """What people are asked, and which differences they are shown."""
    rows = Approval.objects.filter(status="open").order_by("created_at")
    return [
        (one.kind, [(said["field"], said["confirmed"]) for said in one.evidence.get("differences", [])])
        for one in rows
    ]


def on_its_way(kind: Kind) -> tuple[Deal, Operation, Values]:
    """A change with its seller, and what that may show of it."""
    deal = two()
    change, told = kind(deal)
    return deal, wanted(deal, **change), told


def shown(kind: Kind) -> tuple[Deal, Operation, Values]:
    """A change on its way, and what its seller shows of it already."""
    deal, operation, told = on_its_way(kind)
    by_the_mirror(fresh(deal), told)
    return fresh(deal), operation, told


def fails(operation: Operation) -> None:
    say(operation, "failed", task_id="t-1")


def is_refused(operation: Operation) -> None:
    say(operation, "rejected", task_id="t-1")


def is_withdrawn(operation: Operation) -> None:
    say(operation, "canceled", task_id="t-1")


def is_stopped(operation: Operation) -> None:
    """A person waits no longer."""
    give_back(operation.pk)
    operation_stop(operation_id=operation.pk, user=make_user("Ad Ops"), reason="Too slow")


ENDS = [fails, is_refused, is_withdrawn, overdue, is_stopped, give_up]
