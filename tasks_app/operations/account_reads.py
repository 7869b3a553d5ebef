"""Accounts followed at their sellers: read again while their state is awaited, asked for anew by people, and
told of when it changes (AdCP accounts/overview, accounts/tasks/list_accounts)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.adcp.account_keys import account_in, account_name, other_brand
from tasks_app.commands.models import CommandDecision
from tasks_app.commands.services import CommandRefusedError
from tasks_app.desk import text
from tasks_app.lifecycle.transitions import Who
from tasks_app.notifications.models import Notification
from tasks_app.notifications.moments import moment_token
from tasks_app.notifications.services import About, notify
from tasks_app.operations.account_refusals import NOT_FOUND, account_told
from tasks_app.operations.converge import on_late_result
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.ordering import ACCOUNT, Order, order_run
from tasks_app.operations.publish import on_settled
from tasks_app.operations.reads import read_ensure
from tasks_app.operations.services import OperationRefusedError
from tasks_app.operations.sweep import chore_register
from tasks_app.people.actors import SYSTEM, actor_names, actor_user
from tasks_app.people.models import Advertiser, User
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.accounts import (
    AccountNotWantedError,
    AccountRequest,
    account_requester_register,
    account_save,
    account_wanted,
    account_words,
    askable,
    natural_key,
    on_account_changed,
    switched_off_words,
)
from tasks_app.sellers.accounts_told import (
    AccountOfAnotherError,
    AnsweredLateError,
    account_record,
    account_refused,
    people_said_since,
)
from tasks_app.sellers.models import Account, Seller
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on

KIND = "account_changed"
A = Account.Status
_AT_ONCE = 100
_NAMED = 3
_WORK = work_on("accounts_read", "account")
# What a seller's news leads to, for people; what is not here is told as its state alone.
_NEWS = {
    A.ACTIVE: ("approved", "What waited for it goes on.", Notification.Level.INFO),
    A.PENDING: (
        "reviews",
        "Nothing is bought under it until the seller approves it.",
        Notification.Level.INFO,
    ),
    A.PAYMENT_REQUIRED: (
        "wants payment for",
        "Nothing new is bought under it until that is resolved.",
        Notification.Level.WARNING,
    ),
    A.SUSPENDED: ("suspended", "Nothing is bought or changed under it.", Notification.Level.WARNING),
    A.REJECTED: (
        "rejected",
        "Nothing is researched or bought under it.",
        Notification.Level.WARNING,
    ),
    A.CLOSED: ("closed", "Nothing is bought under it.", Notification.Level.WARNING),
}


def register() -> None:
    """Called when the application starts."""
    on_settled(_settled)
    on_late_result(_settled)
    on_account_changed(_tell)
    account_requester_register(account_ask)
    chore_register("accounts_read", accounts_read_due)


def accounts_read_due() -> int:
    """Ask sellers for the accounts whose next reading is due. Answers how many were asked for."""
    now = clock.now()
    due = Account.objects.filter(next_read_at__lte=now).exclude(pk__in=held_back(_WORK))
    return each_row(_WORK, due.order_by("next_read_at").values_list("pk", flat=True)[:_AT_ONCE], _read)


@transaction.atomic
def _read(pk: uuid.UUID) -> bool:
    rows = Account.objects.select_related("advertiser__team", "seller")
    locked = rows.select_for_update(of=("self",), no_key=True, skip_locked=True)
    account = locked.filter(pk=pk, next_read_at__lte=clock.now()).first()
    if account is None:
        return False
    due = account.next_read_at
    account_save(account, before=account.status)
    if due is None or not account.seller.offers("list_accounts"):
        return False
    try:
        read_ensure(
            purpose=f"account:{account.pk}:{due.isoformat()}",
            task_type="list_accounts",
            seller=account.seller,
            arguments={"account": account.reference},
            actor=SYSTEM,
            team=account.advertiser.team,
            account=account,
        )
    except OperationRefusedError:  # it is switched off: asked when it is on again
        return False
    return True


def account_open(
    *,
    advertiser: Advertiser,
    seller: Seller,
    purpose: str,
    actor: Who,
    currency: str = "",
    zone: str = "",
    awaited: bool = False,
) -> Operation:
    """Ask a seller for an advertiser's account by its natural key, once per purpose. What it answers is
    recorded when the operation ends. `currency`, `zone`: of what will be bought under it, sent where the
    seller's accounts are bound to one. `awaited`: as in `order_run`. Raises what `order_run` raises, and
    OperationRefusedError where the seller wants a currency or zone that is not known or offered."""
    try:
        wanted = account_wanted(advertiser, seller, currency=currency, zone=zone)
    except AccountNotWantedError as error:
        raise OperationRefusedError(str(error)) from error
    order = Order(
        kind=ACCOUNT,
        purpose=purpose,
        seller=seller,
        arguments={"accounts": [{**wanted, "billing": "operator"}]},
        team=advertiser.team,
        advertiser_id=advertiser.pk,
    )
    return order_run(order=order, actor=actor, awaited=awaited)


@transaction.atomic
def account_ask(request: AccountRequest, actor: User) -> Operation:
    """Ask a seller for an account that is not active yet.

    Raise ValidationError if the account is active or was switched off here, the seller opens no accounts or
    has not answered an earlier request, or the order is refused.
    """
    advertiser, seller = request.advertiser, request.seller
    Advertiser.objects.select_for_update(no_key=True).get(pk=advertiser.pk)  # one request at a time
    rows = Account.objects.select_for_update(of=("self",), no_key=True)
    account = rows.filter(advertiser=advertiser, seller=seller).first()
    if account is not None and account.status == A.ACTIVE:
        raise ValidationError(f"The account with {seller} is active.")
    if account is not None and account.switched_off_by:
        raise ValidationError(f"{switched_off_words(account)}: people let it go first, on its page.")
    if not seller.offers("sync_accounts"):
        raise ValidationError(f"{seller} opens no accounts over AdCP: ask it by hand.")
    if _requests(advertiser, seller).filter(settled_at=None).exists():
        raise ValidationError(f"{seller} has been asked already and has not answered yet.")
    before = _asked_before(advertiser, seller)
    try:
        return account_open(
            advertiser=advertiser,
            seller=seller,
            purpose=f"account:{advertiser.pk}:{seller.pk}:{uuid.uuid4()}",
            actor=actor,
            currency=request.currency or before.get("currency", ""),
            zone=request.zone or before.get("timezone", ""),
        )
    except (OperationRefusedError, CommandRefusedError) as error:
        raise ValidationError(str(error)) from error


def _requests(advertiser: Advertiser, seller: Seller) -> QuerySet[Operation]:
    return Operation.objects.filter(seller=seller, advertiser=advertiser, task_type="sync_accounts")


def _asked_before(advertiser: Advertiser, seller: Seller) -> dict[str, str]:
    """Return the currency and time zone of the account: by its reference, else by the last request."""
    account = Account.objects.filter(advertiser=advertiser, seller=seller).first()
    sent = _requests(advertiser, seller).order_by("-id").values_list("request", flat=True).first()
    entries = _entries(sent)
    known = {**(entries[0] if entries else {}), **(account.reference if account else {})}
    return {name: str(known[name]) for name in ("currency", "timezone") if known.get(name)}


def _settled(operation: Operation) -> None:
    if operation.status == OperationStatus.COMPLETED and operation.task_type in _TAKEN:
        _TAKEN[operation.task_type](operation)
    elif operation.account is not None:
        _refused(operation, operation.account)


def _listed(operation: Operation) -> None:
    account = operation.account
    if account is None or _is_older(operation, account):
        return
    told = account_in(_entries(operation.result), account.reference or natural_key(account.advertiser))
    if told is not None and not _of_another(told, account):
        _record(operation, account.advertiser, told, asked_at=_asked_at(operation))


def _of_another(told: Mapping[str, Any], account: Account) -> bool:
    """Whether the id that names our account is, by the seller's own word, another brand's."""
    return "account_id" in account.reference and bool(other_brand(told, account.advertiser.brand_domain))


def _is_older(operation: Operation, account: Account) -> bool:
    """Whether the account's state became another, or people changed it, after the seller was asked for it."""
    stored = Account.objects.select_for_update(no_key=True).get(pk=account.pk)
    moved = stored.status_since is not None and stored.status_since > _asked_at(operation)
    return moved or people_said_since(stored, _asked_at(operation))


def _asked_at(operation: Operation) -> datetime:
    return operation.sent_at or operation.created_at


def _synced(operation: Operation) -> None:
    advertiser = operation.advertiser
    wanted, answered = _entries(operation.request), _entries(operation.result)
    if advertiser is None or not wanted:
        return
    told = account_in(answered, wanted[0])
    if told is None:
        _tell_unopened(operation, advertiser, answered)
        return
    _record(
        operation,
        advertiser,
        {**wanted[0], **told},
        requested_by=_asker(operation),
        asked_at=_asked_at(operation),
    )


def _record(
    operation: Operation,
    advertiser: Advertiser,
    answer: Mapping[str, Any],
    *,
    requested_by: str = "",
    asked_at: datetime | None = None,
) -> None:
    """Keep what the seller tells; where it tells of another's account, or what it was asked at `asked_at` is
    older than what stands, nothing. People are told why, but of a reading, which is made again."""
    try:
        account_record(
            advertiser=advertiser,
            seller=operation.seller,
            answer=answer,
            requested_by=requested_by,
            asked_at=asked_at,
        )
    except AccountOfAnotherError as error:
        _tell_anothers(operation, advertiser, str(error))
    except AnsweredLateError as error:
        Account.objects.filter(pk=error.account_id).update(next_read_at=clock.now())
        if operation.task_type == "sync_accounts":
            _tell_late(operation, advertiser, answer, str(error))


_TAKEN = {"list_accounts": _listed, "sync_accounts": _synced}


def _refused(operation: Operation, account: Account) -> None:
    """A refusal that is about the account: it is what the seller says from now on, and read again at once, or
    named otherwise from now on."""
    code = str((operation.error or {}).get("code") or "")
    if not code.startswith("ACCOUNT_"):
        return
    older = _is_older(operation, account)
    account = Account.objects.select_for_update(no_key=True, of=("self",)).get(pk=account.pk)
    named = operation.request.get("account")
    if code == NOT_FOUND and isinstance(named, dict) and account_refused(account, named, key=_key(account)):
        return
    if account.status != A.ACTIVE or code == NOT_FOUND:
        return
    said = account_told(operation)
    if said and not older:
        _record(operation, account.advertiser, said)
    Account.objects.filter(pk=account.pk).update(next_read_at=clock.now())


def _key(account: Account) -> dict[str, Any]:
    return {**natural_key(account.advertiser), **_asked_before(account.advertiser, account.seller)}


def _entries(body: Any) -> list[Mapping[str, Any]]:
    accounts = body.get("accounts") if isinstance(body, Mapping) else None
    return [one for one in accounts if isinstance(one, Mapping)] if isinstance(accounts, list) else []


def _asker(operation: Operation) -> str:
    """Who it goes back to: a campaign's own step asks as the system, for the person who began it."""
    if operation.requested_by != SYSTEM:
        return operation.requested_by
    told = CommandDecision.objects.filter(command__key=operation.purpose).exclude(user="").order_by("id")
    return str(told.values_list("user", flat=True).first() or SYSTEM)


def _tell_unopened(
    operation: Operation, advertiser: Advertiser, answered: Sequence[Mapping[str, Any]]
) -> None:
    """The seller was asked for an account and told of none that is it: somebody asks the seller."""
    names = [account_name(one) for one in answered[:_NAMED]]
    heard = f"It told of {', '.join(names)}" if names else "It told of none"
    more = f" and {len(answered) - _NAMED} more" if len(answered) > _NAMED else ""
    notify(
        kind=KIND,
        title=f"{operation.seller} told of no account of {advertiser}",
        body=f"{heard}{more}. Nothing is bought there until there is an account; it can be entered by hand.",
        level=Notification.Level.WARNING,
        about=About(type="operation", id=operation.pk),
        right=STEER_OPERATION,
        key=f"{KIND}:{operation.pk}",
    )


def _tell_late(operation: Operation, advertiser: Advertiser, told: Mapping[str, Any], since: str) -> None:
    """What a seller answers too late is not taken: people compare."""
    status = text.stated(told.get("status")) if told.get("status") else "no state"
    _tell_untaken(
        operation,
        advertiser,
        title=f"{operation.seller} answered late about the account of {advertiser}",
        body=f"It told of {account_name(told)}: {status}. {since}, which stays; the seller is asked again "
        "where it lists its accounts.",
        key=f"{KIND}:{operation.pk}:late",
    )


def _tell_anothers(operation: Operation, advertiser: Advertiser, why: str) -> None:
    """Once per advertiser and reason: its account is read again until the seller tells of it."""
    _tell_untaken(
        operation,
        advertiser,
        title=f"{operation.seller} told of another’s account as that of {advertiser}",
        body=f"It was not taken: {why}. What is known of {advertiser} there stays as it was. Ask the seller "
        "which account it is; where it is this one, it can be entered by hand.",
        key=f"{KIND}:{operation.seller_id}:{advertiser.pk}:{hashlib.sha256(why.encode()).hexdigest()[:16]}",
    )


def _tell_untaken(operation: Operation, advertiser: Advertiser, *, title: str, body: str, key: str) -> None:
    """Those of the advertiser who steer operations are told that an answer changed nothing here."""
    notify(
        kind=KIND,
        title=title,
        body=body,
        level=Notification.Level.WARNING,
        about=About(type="operation", id=operation.pk),
        team=advertiser.team,
        right=STEER_OPERATION,
        key=key,
    )


def _tell(account: Account, before: str) -> None:
    if account.status == A.ACTIVE and not before:
        return  # opened at once, as wished
    does, effect, level = _NEWS[A(account.status)]
    title = f"{account.seller} {does} the account of {account.advertiser}"
    again = (
        "It can be asked for again on its page." if account.status == A.REJECTED and askable(account) else ""
    )
    lines = [*account_words(account, moment_token), f"{effect} {again}".rstrip(), account.setup_url]
    if account.switched_off_by:
        by = actor_names({account.switched_off_by})[account.switched_off_by]
        title = f"{by} {does} the account of {account.advertiser} with {account.seller}"
        lines = [effect, "It stays so, whatever the seller says, until people let it go on its page."]
    say = partial(
        notify,
        kind=KIND,
        title=title,
        body="\n".join(line for line in lines if line),
        level=level,
        about=About(type="account", id=account.pk),
    )
    key = f"{KIND}:{account.pk}:{account.status}:{account.status_since.isoformat()}"
    say(
        team=account.advertiser.team,
        right=STEER_OPERATION,
        not_for=account.requested_by,
        nor_for=[account.switched_off_by] if account.switched_off_by else [],
        key=key,
    )
    asker = actor_user(account.requested_by)
    if asker is not None and account.switched_off_by != account.requested_by:
        say(person=asker, key=f"{key}:{asker.pk}")
