"""Steps of the recipe book_deal: buy, then read what was booked."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from orders.accounts import deal_account
from orders.begun_flights import end_if_begun
from orders.confirmation import mirror
from orders.flights import deal_begins
from orders.models import CONFIRMED, Deal, DealStatus
from orders.reconcile import TOOL
from orders.seller_state import deal_follow
from orders.services import deal_book
from tasks_app import clock
from tasks_app.adcp import requests
from tasks_app.adcp.types import BUY_GONE
from tasks_app.adcp.values import identity_of
from tasks_app.commands.services import CommandRefusedError
from tasks_app.desk import text
from tasks_app.desk.items import raised
from tasks_app.jobs.actions import (
    Done,
    Result,
    Run,
    StepFailedError,
    WaitForAccount,
    WaitForApprovals,
    WaitForOperation,
    action_register,
)
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import order_question
from tasks_app.operations.pages import pages_read
from tasks_app.operations.reads import read_ensure
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.actors import SYSTEM


def register() -> None:
    """Called when the application starts."""
    action_register("orders.book", book, kind="command")
    action_register("orders.read_back", read_back, kind="idempotent")


def book(run: Run) -> Result:
    """Send create_media_buy and wait for its end, however long.

    It first waits for the seller that has still to decide about the account, and for people at a risk gate. A
    deal whose flight has begun is cancelled. Outputs {deal_id, status, booked}.
    """
    deal = _deal(run)
    if end_if_begun(deal.pk):
        return Done(outputs={"deal_id": str(deal.pk), "status": DealStatus.CANCELLED, "booked": False})
    awaited = _account_awaited(deal)
    if awaited is not None:
        return awaited
    try:
        operation = deal_book(deal=deal)
    except (OperationRefusedError, InvalidTransitionError, CommandRefusedError) as error:
        # The seller's news of the account may have come between.
        awaited = _account_awaited(_deal(run))
        if awaited is not None:
            return awaited
        raise StepFailedError(str(error)) from error
    asked = order_question(operation)
    if asked is not None:
        return WaitForApprovals(approval_ids=(asked.pk,))
    if operation.published_at is None:
        return WaitForOperation(operation_id=operation.pk)
    deal.refresh_from_db()
    return Done(outputs={"deal_id": str(deal.pk), "status": deal.status, "booked": deal.status in CONFIRMED})


def read_back(run: Run) -> Result:
    """Read the media buy from the seller: its own status, deadlines, packages; where the seller named none,
    every page of the account's, for the one with our context. Outputs {deal_id, status, read, unread}:
    `unread` says why a part of the list, or which of several, was not read."""
    deal = _deal(run)
    if not deal.seller.offers(TOOL):
        return Done(outputs={"deal_id": str(deal.pk), "status": deal.status, "read": False})
    pages = pages_read(
        _reading(run, deal),
        partial(_reading, run, deal),
        member="media_buys",
        is_enough=partial(_is_enough, deal),
    )
    if pages.waiting is not None:
        return WaitForOperation(operation_id=pages.waiting.pk)
    found = _found(pages.items, deal, whole=not pages.unread)
    buy = found[0] if len(found) == 1 else None
    if buy is not None:
        asked = pages.read[-1]
        deal = deal_follow(deal_id=deal.pk, buy=buy, asked_at=asked.sent_at or asked.created_at)
    outputs = {"deal_id": str(deal.pk), "status": deal.status, "read": buy is not None}
    return Done(outputs={**outputs, "unread": _several(found) or pages.unread})


def _found(listed: Iterable[object], deal: Deal, *, whole: bool) -> list[dict[str, Any]]:
    """The deal's media buys in a seller's list: of those with our context the ones that live, in whatever
    order they stand; where none does, one that came to nothing, if the list is whole or asked for by id."""
    ours = [buy for buy in listed if isinstance(buy, dict) and _is_of(buy, deal)]
    by_name = {identity_of(buy.get("media_buy_id")): buy for buy in ours}
    live = [buy for buy in by_name.values() if _status(buy) not in BUY_GONE]
    over = sorted(by_name, key=lambda name: name or "") if whole or deal.media_buy_id else []
    return live or [by_name[name] for name in over[:1]]


def _several(found: list[dict[str, Any]]) -> str:
    """Why none of several is the deal's: empty where there is one, or none."""
    if len(found) < 2:
        return ""
    names = ", ".join(sorted(identity_of(buy.get("media_buy_id")) or "one without a name" for buy in found))
    return f"the seller shows more than one media buy with our ids, and people say which it is: {names}"


def _status(buy: dict[str, Any]) -> Any:
    return mirror(buy).get("media_buy_status")


def _reading(run: Run, deal: Deal, cursor: str = "", number: int = 1) -> Operation:
    """One page of the seller's media buys, a read of its own."""
    purpose = TOOL if number == 1 else f"{TOOL}:page-{number}"
    return read_ensure(
        purpose=run.purpose(purpose),
        task_type=TOOL,
        seller=deal.seller,
        arguments=_which(deal, cursor).model_dump(mode="json", exclude_none=True),
        actor=SYSTEM,
        team=deal.team,
        advertiser_id=deal.advertiser_id,
        account=deal.account,
    )


def _account_awaited(deal: Deal) -> WaitForAccount | None:
    """Return the wait for an account that may become active before the flight begins."""
    awaited = deal_account(deal).awaited if deal.status == DealStatus.ACCEPTED else ""
    if deal.account_id is None or not awaited:
        return None
    _tell_awaited(deal, awaited)
    return WaitForAccount(account_id=deal.account_id, look_again=deal_begins(deal) - clock.now())


def _tell_awaited(deal: Deal, why: str) -> None:
    """Its team hears once that it is approved and not bought yet, who asked for it among them."""
    begins = text.moment_there(deal_begins(deal), deal.zone)
    notify(
        kind="account_awaited",
        title=f"{deal.reference} with {deal.seller} is approved and waits for its account",
        body=f"{raised(why).rstrip('.')}. Its booking goes on by itself once the account is active. If "
        f"its flight begins before that, {begins}, the deal ends.",
        level=Notification.Level.WARNING,
        about=About(type="deal", id=deal.pk),
        team=deal.team,
        key=f"account_awaited:{deal.pk}:{deal.account_id}",
    )


def _deal(run: Run) -> Deal:
    return Deal.objects.select_related("seller", "team", "account", "advertiser").get(
        pk=run.inputs["deal_id"]
    )


def _which(deal: Deal, cursor: str) -> requests.GetMediaBuys:
    """The media buy by its id; where the seller named none, the account's, to find it by our context."""
    account = requests.Account.model_validate(deal.account.reference) if deal.account else None
    return requests.GetMediaBuys(
        account=account,
        media_buy_ids=[deal.media_buy_id] if deal.media_buy_id else None,
        pagination=requests.Pagination(cursor=cursor) if cursor else None,
    )


def _is_enough(deal: Deal, _page: Operation) -> bool:
    """Whether no further page is needed: the media buy was asked for by its id. Of one that is looked for by
    our context there may be another further on."""
    return bool(deal.media_buy_id)


def _is_of(buy: dict[str, Any], deal: Deal) -> bool:
    if deal.media_buy_id:
        return buy.get("media_buy_id") == deal.media_buy_id
    context = buy.get("context")
    return isinstance(context, dict) and context.get("deal_id") == str(deal.pk)
