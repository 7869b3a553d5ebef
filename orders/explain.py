"""Why a deal stands as it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from orders.models import LIVE, UNSETTLED, Deal, DealStatus
from tasks_app import clock
from tasks_app.approvals.explain import Pending, question_about, question_answers
from tasks_app.desk import text
from tasks_app.desk.explain import (
    NOBODY,
    Answers,
    Explainer,
    Mover,
    explainer_register,
    page_link,
    stands,
)
from tasks_app.operations.models import Operation
from tasks_app.people.roles import CANCEL_DEAL, STEER_OPERATION
from tasks_app.people.scope import visible

S = DealStatus
_ENDED = {
    S.COMPLETED: "Nothing: it was delivered.",
    S.FAILED: "Nothing: it could not be had.",
    S.CANCELLED: "Nothing: it was called off.",
    S.EXPIRED: "Nothing: nobody decided in time, and nothing was bought.",
}


@dataclass(frozen=True, kw_only=True)
class Stand:
    """A deal's facts. `question`: the open approval about it or its operation; `operation`: the reference of
    what is out with the seller, due at `operation_due`; `read_at`: when its media buy is read next;
    `differs`: what was booked is not what was approved."""

    status: str
    seller: str = "The seller"
    question: Pending | None = None
    operation: str = ""
    operation_due: datetime | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    read_at: datetime | None = None
    differs: bool = False


def deal_answers(stand: Stand) -> Answers:
    """The answers for every status of a deal. Raises KeyError for another."""
    status = S(stand.status)
    if stand.question is None:
        return _STATES[status](stand)
    asked = question_answers(stand.question)
    if status in _ENDED:  # what its seller did too late, or said besides
        about = f"{stand.question.reference}, “{stand.question.title}”"
        return replace(asked, waiting=f"{_ENDED[status]} But people are asked: {about}.")
    found = _STATES[status](replace(stand, differs=False))  # the question's own words say what stays
    if status in LIVE:  # it runs on whatever people decide
        return replace(
            found,
            waiting=f"{asked.waiting} {found.waiting}",
            movers=(*asked.movers, *found.movers),
            otherwise=f"{asked.otherwise} {found.otherwise}",
            deadline=asked.deadline,
        )
    return replace(asked, movers=(*asked.movers, *found.movers))


def _undecided(stand: Stand) -> Answers:
    by = " between us and the seller" if stand.status == S.NEGOTIATING else ""
    return Answers(
        waiting=f"It waits to be put to people; nothing is bought{by}.",
        movers=(
            Mover(who="Its campaign’s job, or whoever asked for it", does="puts it to people"),
            _cancels(),
        ),
        otherwise="Nothing is bought; it expires unbought.",
    )


def _accepted(stand: Stand) -> Answers:
    return Answers(
        waiting=f"It is approved and waits for its purchase to be sent to {stand.seller}.",
        movers=(Mover(who="A worker", does="sends the purchase"), _cancels()),
        otherwise="A worker sends it by itself, unless a gate (kill switch, ceiling, seller) is closed.",
    )


def _booking(stand: Stand) -> Answers:
    out = f" ({stand.operation})" if stand.operation else ""
    due = (
        f"At {text.moment(stand.operation_due)} the purchase is overdue: nothing is undone, and people "
        "decide whether to wait on."
        if stand.operation_due
        else "It stays so: a purchase of unknown outcome is never failed by us."
    )
    return Answers(
        waiting=f"{stand.seller} has the purchase{out} and has not confirmed it.",
        movers=(
            Mover(who=stand.seller, does="confirms or refuses"),
            Mover(right=STEER_OPERATION, does="ask the seller now, or stop waiting"),
        ),
        otherwise=due,
        deadline=stand.operation_due,
    )


def _booked(stand: Stand) -> Answers:
    first = f" on {text.moment(stand.start_at)}" if stand.start_at else ""
    return Answers(
        waiting=f"{stand.seller} has confirmed it; it waits for its flight to begin{first}.",
        movers=(Mover(who=stand.seller, does="starts delivery"), _cancels()),
        otherwise=f"Delivery starts as booked.{_flag(stand)}{_read(stand)}",
        deadline=stand.start_at,
    )


def _partly(stand: Stand) -> Answers:
    return Answers(
        waiting=f"A part of it was cancelled; the rest is with {stand.seller}.",
        movers=(Mover(who=stand.seller, does="delivers the rest"), _cancels()),
        otherwise=f"What is left of it is delivered.{_flag(stand)}{_read(stand)}",
        deadline=stand.end_at,
    )


def _delivering(stand: Stand) -> Answers:
    until = f" until {text.moment(stand.end_at)}" if stand.end_at else ""
    return Answers(
        waiting=f"{stand.seller} delivers it{until}; then it waits for final figures.",
        movers=(Mover(who=stand.seller, does="delivers, and calls its figures final"), _cancels()),
        otherwise=f"It is completed when the seller’s figures are final.{_flag(stand)}{_read(stand)}",
        deadline=stand.end_at,
    )


def _makegood(stand: Stand) -> Answers:
    return Answers(
        waiting=f"It under-delivered, and {stand.seller} was asked for a makegood.",
        movers=(Mover(who=stand.seller, does="offers or delivers the makegood"), _cancels()),
        otherwise=f"It stays so until the seller delivers or ends it.{_read(stand)}",
        deadline=stand.end_at,
    )


def _over(stand: Stand) -> Answers:
    return Answers(waiting=_ENDED[S(stand.status)], otherwise=NOBODY)


def _cancels() -> Mover:
    return Mover(right=CANCEL_DEAL, does="ask for it to be called off")


def _flag(stand: Stand) -> str:
    return (
        " What differs from what was approved stays flagged until somebody decides." if stand.differs else ""
    )


def _read(stand: Stand) -> str:
    if stand.read_at is None:
        return ""
    due = stand.read_at <= clock.now()
    return f" Its media buy is read again {'now' if due else text.moment_short(stand.read_at)}."


_STATES: dict[S, Callable[[Stand], Answers]] = {
    S.QUOTED: _undecided,
    S.NEGOTIATING: _undecided,
    S.ACCEPTED: _accepted,
    S.BOOKING: _booking,
    S.BOOKED: _booked,
    S.DELIVERING: _delivering,
    S.MAKEGOOD_PENDING: _makegood,
    S.PARTIALLY_CANCELED: _partly,
    **dict.fromkeys(_ENDED, _over),
}


def register() -> None:
    """Called when the application starts."""
    secrets = ("token", "webhook_secret", "capabilities", "tools")
    explainer_register(
        "deal",
        Explainer(
            label="Deal",
            model=Deal,
            prefix="DEAL",
            right="orders.view_deal",
            rows=lambda viewer: visible(
                Deal.objects.select_related("seller", "advertiser").defer(
                    *(f"seller__{name}" for name in secrets)
                ),
                viewer,
            ),
            answers=_answers,
            standing=stands,
            title=lambda deal: f"{deal.seller.name} for {deal.advertiser.name}",
            link=page_link("orders_deal"),
        ),
    )


def _answers(deal: Deal) -> Answers:
    open_ = deal.status in (*UNSETTLED, *LIVE)
    out = _out(deal) if open_ else None
    pairs = [("deal", deal.pk), ("operation", out.pk if out else None)]
    mirror = getattr(deal, "mirror", None) if deal.status in LIVE else None
    return deal_answers(
        Stand(
            status=deal.status,
            seller=deal.seller.name,
            question=question_about(pairs),
            operation=out.reference if out else "",
            operation_due=out.deadline_at if out else None,
            start_at=deal.start_at,
            end_at=deal.end_at,
            read_at=mirror.due_at if mirror else None,
            differs=deal.differs,
        )
    )


def _out(deal: Deal) -> Operation | None:
    """The operation about it that is not settled, the latest."""
    about = Operation.objects.filter(subject_type="deal", subject_id=deal.pk, settled_at__isnull=True)
    return about.only("reference", "deadline_at").order_by("-pk").first()
