"""A booked deal and what its seller says of it, from one moment to the next."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from orders.models import Deal, DealLine, DealStatus
from orders.obsolete_approvals import close_changes, withdraw_obsolete_approvals
from orders.seller_state import deal_follow
from orders.services import LineDraft, deal_book
from orders.unclaimed.unclaimed_buys import review_after_transition
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.publish import publish
from tasks_app.sellers.models import Account, Seller
from tests.factories import approve_deal, make_deal, make_line
from tests.operations.making import observed


def withdraw_obsolete() -> None:
    """Do for every deal what the event bus does after its last move."""
    for pk in Deal.objects.values_list("pk", flat=True):
        close_changes(pk)
        review_after_transition(pk)
        withdraw_obsolete_approvals("deal", pk)


def packages(deal: Deal, **changed: Any) -> list[dict[str, Any]]:
    """The deal's packages as approved, with some things changed in the first."""
    told = [
        {
            "package_id": f"pkg-{line.position}",
            "product_id": line.product_id,
            "budget": float(line.budget),
            "start_time": line.start_at.isoformat(),
            "end_time": line.end_at.isoformat(),
            "targeting_overlay": line.targeting,
            "context": {"line_id": str(line.pk)},
        }
        for line in deal.lines.all()
    ]
    told[0].update(changed)
    return told


def booked(
    seller: Seller | None = None, *, media_buy_id: str = "mb-1", line: LineDraft | None = None, **fields: Any
) -> Deal:
    """A deal that the seller confirmed as approved, revision 1."""
    if seller is not None:
        known = Account.objects.filter(seller=seller).first()
        fields = {"seller": seller, **({"account": False} if known else {}), **fields}
    else:
        known = None
    deal = make_deal(line or make_line(), **fields)
    if known is not None:
        Deal.objects.filter(pk=deal.pk).update(account=known)
        deal.refresh_from_db()
    approve_deal(deal)
    operation = deal_book(deal=deal)
    claim_one(operation_id=operation.pk)
    result = {
        "media_buy_id": media_buy_id,
        "media_buy_status": "pending_start",
        "revision": 1,
        "packages": packages(deal),
    }
    observed(
        operation_id=operation.pk,
        seen=Seen(kind="answer", status="completed", payload=result),
        channel="reply",
    )
    publish(operation_id=operation.pk)
    deal.refresh_from_db()
    assert deal.status == "booked"
    return deal


def standing(deal: Deal, status: str) -> Deal:
    """The deal, led along declared edges to where it is wanted."""
    ways = {
        "delivering": ("delivering",),
        "makegood_pending": ("delivering", "makegood_pending"),
        "partially_canceled": ("partially_canceled",),
    }
    for step in ways.get(status, ()):
        transition(deal, step, actor="system")
    return deal


def says(deal: Deal, status: str, *, asked_at: datetime | None = None, **told: Any) -> Deal:
    """The deal after get_media_buys told so much of its media buy."""
    final = told.pop("final", None)
    buy = {"media_buy_id": deal.media_buy_id, "status": status, **told}
    deal_follow(deal_id=deal.pk, buy=buy, asked_at=asked_at or clock.now(), final=final)
    deal.refresh_from_db()
    return deal


def before(seconds: float) -> datetime:
    return clock.now() - timedelta(seconds=seconds)


def first_line(deal: Deal) -> DealLine:
    return deal.lines.get(position=1)


def led(deal: Deal, status: str) -> Deal:
    """The deal, led to that status by the shortest way of declared edges, approved where it is accepted."""
    for step in _way(deal, status):
        if step == DealStatus.ACCEPTED:
            approve_deal(deal)
            deal = Deal.objects.get(pk=deal.pk)
        else:
            transition(deal, step, actor="system")
    return deal


def _way(deal: Deal, to: str) -> list[str]:
    """The shortest along declared edges."""
    ways: list[list[str]] = [[]]
    for way in ways:
        here = way[-1] if way else deal.status
        if here == to:
            return way
        ways.extend([*way, step] for step in deal.declared().targets(here) if step not in way)
    raise AssertionError(f"nothing leads to {to}")


def last_reason(deal: Deal) -> str:
    return AuditEntry.objects.filter(entity_type="deal", entity_id=deal.pk).latest("seq").reason
