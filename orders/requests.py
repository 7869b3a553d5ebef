"""Tasks that integrators ask for directly: a read is made at once, what spends money waits for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from asgiref.sync import async_to_sync
from django.db import connection, transaction

from orders.ask import (
    Ask,
    account_of,
    advertisers_of,
    arguments_read,
    names_account,
    only_advertiser,
    ours_refused,
    refuse,
    team_meant,
)
from orders.changes.send import change_ask
from orders.models import Deal, RequestKey
from orders.purchases import purchase_ask
from tasks_app import ids
from tasks_app.adcp import reads, requests
from tasks_app.commands.services import IdempotencyKeyConflictError
from tasks_app.operations import dispatch
from tasks_app.operations.models import Operation
from tasks_app.operations.reads import read_ensure
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.people.roles import SEND_OPERATION
from tasks_app.people.scope import team_named
from tasks_app.sellers.accounts import is_shared
from tasks_app.sellers.models import Account, Seller

# get_task_status is not among them: a task's state is its operation's own, and is observed there.
READ_TASKS: dict[str, type[requests._Request]] = {
    "get_adcp_capabilities": requests.GetAdcpCapabilities,
    "get_products": requests.GetProducts,
    "list_creative_formats": reads.ListCreativeFormats,
    "get_media_buys": requests.GetMediaBuys,
    "get_media_buy_delivery": reads.GetMediaBuyDelivery,
    "list_accounts": reads.ListAccounts,
    "list_tasks": requests.ListTasks,
}
# What they tell is an account's: without one a seller might tell of every team's.
_BY_ACCOUNT = frozenset({"get_media_buys", "get_media_buy_delivery", "list_accounts", "list_tasks"})
_MUTATIONS: dict[str, Callable[[Ask], Operation]] = {
    "create_media_buy": purchase_ask,
    "update_media_buy": change_ask,
}
TASKS = (*READ_TASKS, *_MUTATIONS)
_KEYS = 0x0F11_4E75  # the class of advisory locks of callers' keys


class AskForbiddenError(Exception):
    """The caller has no right to ask for operations."""


def operation_ask(
    *,
    user: User,
    task: str,
    seller: str,
    arguments: Mapping[str, Any],
    account: str = "",
    team: str = "",
    key: str = "",
) -> Operation:
    """One task with one seller (by slug), asked for through the API; `team` (by id or name) says whose it is
    where neither the account nor the brand does.

    A read is durable, then sent at once, and answered with what the seller said; where it has said nothing
    yet, the sweep goes on. A mutation makes its operation, held, and the approval it waits for, in one
    commit. The same `key` (the caller's own) with the same request answers the operation it made before.
    Never call it inside a transaction: a read waits for the seller. Raises AskForbiddenError,
    AskRefusedError, AskConflictError, IdempotencyKeyConflictError, InvalidTransitionError,
    OperationRefusedError.
    """
    if not user.is_active or not user.has_perm(SEND_OPERATION):
        raise AskForbiddenError("You have no right to ask for operations.")
    if key and not ids.is_request_key(key):
        refuse("Idempotency-Key", ids.REQUEST_KEY_FORM)
    ask = _ask(user, task, seller, arguments, account, team)
    known = _known(ask, key)  # before anything is judged: what it made stands, whatever has changed since
    if known is not None:
        return known
    if not ask.seller.offers(task):
        refuse("task", f"{ask.seller} does not offer it")
    ours_refused(arguments)
    operation, call = _make(ask, key)
    if call is not None:
        _send(call)
        operation.refresh_from_db()
    return operation


def _ask(user: User, task: str, seller: str, arguments: Mapping[str, Any], account: str, team: str) -> Ask:
    if task not in TASKS:
        refuse("task", f"is none of {', '.join(TASKS)}")
    found = Seller.objects.filter(slug=seller).first()
    if found is None:
        refuse("seller", "there is no such seller")
    named = team_named(user, team) if team else None
    if team and named is None:
        refuse("team", "is none of your teams")
    return Ask(user=user, task=task, seller=found, arguments=arguments, account=account, team=named)


def _known(ask: Ask, key: str) -> Operation | None:
    """The operation that this key made. Raises IdempotencyKeyConflictError: it made another request's."""
    if not key:
        return None
    found = (
        RequestKey.objects.filter(actor=actor_key(ask.user), key=key)
        .select_related("operation__seller")
        .first()
    )
    if found is None:
        return None
    if found.digest != ask.digest:
        raise IdempotencyKeyConflictError("This Idempotency-Key was used for another request.")
    return found.operation


@transaction.atomic(durable=True)
def _make(ask: Ask, key: str) -> tuple[Operation, dispatch.Call | None]:
    """The operation, and for a read its call, claimed in the same commit so that no sweep makes it too."""
    if key:
        _hold(ask, key)
        known = _known(ask, key)
        if known is not None:  # somebody with the same key was a moment faster
            return known, None
    mutation = _MUTATIONS.get(ask.task)
    operation = mutation(ask) if mutation else _read(ask)
    if key:
        RequestKey.objects.create(actor=actor_key(ask.user), key=key, digest=ask.digest, operation=operation)
    return operation, None if mutation else dispatch.claim_one(operation_id=operation.pk)


def _hold(ask: Ask, key: str) -> None:
    """Who sends the same key at once waits here until this transaction ends: it would else find the deal held
    by its own twin."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select pg_advisory_xact_lock(%s, hashtext(%s))",
            [_KEYS, ids.request_key(actor_key(ask.user), key)],
        )


def _read(ask: Ask) -> Operation:
    wire = arguments_read(READ_TASKS[ask.task], ask.arguments)
    account = account_of(ask) if ask.task in _BY_ACCOUNT or names_account(ask) else None
    if account is not None:
        _refuse_others(ask, account, wire)
    known = {"account": account.reference} if account else {}
    advertiser = account.advertiser if account else only_advertiser(advertisers_of(ask))
    return read_ensure(
        purpose=f"api:{ids.new_id()}",
        task_type=ask.task,
        seller=ask.seller,
        arguments={**wire.model_dump(mode="json", exclude_none=True), **known},
        actor=ask.user,
        team=advertiser.team if advertiser else team_meant(ask),
        advertiser_id=advertiser.pk if advertiser else None,
        account=account,
    )


def _refuse_others(ask: Ask, account: Account, wire: requests._Request) -> None:
    """A seller that takes no account in reads answers with every advertiser's: it is asked by the ids of what
    is the account's own alone. Raises AskRefusedError."""
    if ask.task not in _BY_ACCOUNT or not ask.seller.omits_account(ask.task) or not is_shared(account):
        return
    named = {*(getattr(wire, "media_buy_ids", None) or ())}
    own = Deal.objects.filter(seller=ask.seller, account=account, media_buy_id__in=named)
    if not named or named - {*own.values_list("media_buy_id", flat=True)}:
        refuse(
            "arguments.media_buy_ids",
            f"{ask.seller} tells of every account at once: name media buys of your deals under this account",
        )


def _send(call: dispatch.Call) -> None:
    """Make the call in this request. Its connection goes back to the pool while the seller is waited for.

    Not asyncio.run: under ASGI the observation would wait for the very thread that waits for it.
    """
    connection.close()
    async_to_sync(dispatch.perform)(call)
