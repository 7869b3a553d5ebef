"""Steps of the recipe book_deal: buy, then read what was booked."""

from __future__ import annotations

from orders.models import CONFIRMED, Deal
from orders.seller_state import deal_follow
from orders.services import deal_book
from tasks_app.adcp import requests
from tasks_app.commands.services import CommandRefusedError
from tasks_app.jobs.actions import (
    Done,
    Result,
    Run,
    StepFailedError,
    WaitForApprovals,
    WaitForOperation,
    action_register,
)
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.ordering import order_question
from tasks_app.operations.reads import read_ensure
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.actors import SYSTEM


def register() -> None:
    """Called when the application starts."""
    action_register("orders.book", book, kind="command")
    action_register("orders.read_back", read_back, kind="idempotent")


def book(run: Run) -> Result:
    """Send create_media_buy and wait for its end, however long; at a risk gate, first for people. Outputs
    {deal_id, status, booked}."""
    deal = _deal(run)
    try:
        operation = deal_book(deal=deal)
    except (OperationRefusedError, InvalidTransitionError, CommandRefusedError) as error:
        raise StepFailedError(str(error)) from error
    asked = order_question(operation)
    if asked is not None:
        return WaitForApprovals(approval_ids=(asked.pk,))
    if operation.published_at is None:
        return WaitForOperation(operation_id=operation.pk)
    deal.refresh_from_db()
    return Done(outputs={"deal_id": str(deal.pk), "status": deal.status, "booked": deal.status in CONFIRMED})


def read_back(run: Run) -> Result:
    """Read the media buy from the seller: its own status, deadlines, packages; outputs {deal_id, status}."""
    deal = _deal(run)
    operation = read_ensure(
        purpose=run.purpose("get_media_buys"),
        task_type="get_media_buys",
        seller=deal.seller,
        arguments=_which(deal).model_dump(mode="json", exclude_none=True),
        actor=SYSTEM,
        team=deal.team,
        advertiser_id=deal.advertiser_id,
        account=deal.account,
    )
    if operation.published_at is None:
        return WaitForOperation(operation_id=operation.pk)
    buy = _media_buy(operation, deal)
    if buy is not None:
        deal = deal_follow(deal_id=deal.pk, buy=buy, asked_at=operation.sent_at or operation.created_at)
    return Done(outputs={"deal_id": str(deal.pk), "status": deal.status, "read": buy is not None})


def _deal(run: Run) -> Deal:
    return Deal.objects.select_related("seller", "team", "account", "advertiser").get(
        pk=run.inputs["deal_id"]
    )


def _which(deal: Deal) -> requests.GetMediaBuys:
    """The media buy by its id; where the seller named none, the account's, to find it by our context."""
    if deal.media_buy_id:
        return requests.GetMediaBuys(media_buy_ids=[deal.media_buy_id])
    account = requests.Account.model_validate(deal.account.reference) if deal.account else None
    return requests.GetMediaBuys(account=account)


def _media_buy(operation: Operation, deal: Deal) -> dict[str, object] | None:
    if operation.status != O.COMPLETED:
        return None
    buys = (operation.result or {}).get("media_buys")
    found = [b for b in buys if isinstance(b, dict)] if isinstance(buys, list) else []
    return next((buy for buy in found if _is_of(buy, deal)), None)


def _is_of(buy: dict[str, object], deal: Deal) -> bool:
    if deal.media_buy_id:
        return buy.get("media_buy_id") == deal.media_buy_id
    context = buy.get("context")
    return isinstance(context, dict) and context.get("deal_id") == str(deal.pk)
