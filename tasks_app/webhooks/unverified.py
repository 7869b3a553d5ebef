"""Deliveries of a known seller that do not verify: what they claim to be about, and the alarm for Ad Ops.

Anybody can send a delivery that does not verify. So the alarm waits for one that names an operation of ours,
or for a few; and only those that name one by our own id, or by its task and with the token that the seller
was given for it, count against the seller's webhook health: its tasks' ids are its own, and may be guessed.
What each claims to be about is read; why it does not verify is found out so often and no more, strangers
apart from who knows our token. So a flood hides neither.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.cache import cache
from django.db.models import Q, QuerySet

from tasks_app import clock
from tasks_app.adcp import strict_json
from tasks_app.adcp.hygiene import clean, token_matches
from tasks_app.adcp.signatures import SignatureError, errors
from tasks_app.adcp.webhook_body import WebhookIdentity, from_event, read_identity
from tasks_app.operations.models import Operation
from tasks_app.operations.sweep import chore_register
from tasks_app.operations.tokens import webhook_token_of
from tasks_app.operations.webhook_health import refused_register
from tasks_app.sellers.models import Seller
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on
from tasks_app.webhooks.alarms import unverified_alarm
from tasks_app.webhooks.answer import A2A_TOKEN, Incoming
from tasks_app.webhooks.diagnosis import instead_words, tried_words
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.rates import look_admit, refused_count, window_start

_EVERY_S = 5  # looked at more closely, of one seller and by one process: it costs more than refusing
_READ_BYTES = 64 * 2**10  # larger bodies are read only where they are looked at more closely
_FEW = 3
_LATELY = timedelta(hours=1)
_MOST = 10_000  # claims of one seller, more than are kept in a day
_SHOWN = 1000
_SAID_S = 600
_WORK = work_on("webhooks_unverified", "seller")
LIMITED = "webhook_rate_limited"  # a refusal of a sender who is told to wait besides begins so
_CODES = ("webhook_signature", errors.MODE_MISMATCH)
_UNVERIFIED = Q()
for _code in _CODES:
    _UNVERIFIED |= Q(reason__startswith=_code) | Q(reason__startswith=f"{LIMITED}: {_code}")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a refused delivery claims to be about, and what was tried on it; nothing of it is believed."""

    operation_ref: str = ""
    task_id: str = ""
    tried: str = ""


NO_CLAIM = Claim()


def register() -> None:
    """Called when the application starts."""
    chore_register("webhooks_unverified", unverified_tell)
    refused_register(operations_named)


def claim_of(seller: Seller, incoming: Incoming, error: SignatureError, *, looked: bool) -> Claim:
    """What a delivery that does not verify is about, and by a closer look, so often and no more, why not.
    `looked`: it was let have a look at what is stored already."""
    if not seller.uses_webhooks:
        return NO_CLAIM
    closer = cache.add(f"unverified:{seller.pk}", 1, _EVERY_S)
    told = _told(seller, incoming.body) if closer or len(incoming.body) <= _READ_BYTES else None
    echoed = _echoed(seller, incoming, told, looked=looked) if told is not None else None
    if echoed is not None and not closer:
        closer = cache.add(f"unverified:{seller.pk}:known", 1, _EVERY_S)
    tried = tried_words(seller, incoming.headers, incoming.body, error, now=clock.now()) if closer else ""
    if told is None:
        return Claim(tried=tried)
    secrets = seller.known_secrets
    return Claim(
        operation_ref=str(echoed) if echoed else clean(told.operation_id or "", secrets)[:255],
        task_id=clean(told.task_id or "", secrets)[:255],
        tried=tried,
    )


def _told(seller: Seller, body: bytes) -> WebhookIdentity | None:
    try:
        parsed = strict_json.parse_object(body)
    except strict_json.MalformedBody:
        return None
    return read_identity(
        from_event(parsed) if seller.webhook_mode == Seller.WebhookMode.HMAC_BODY else parsed
    )


def _echoed(seller: Seller, incoming: Incoming, told: WebhookIdentity, *, looked: bool) -> uuid.UUID | None:
    """The operation whose token it echoes, which was given to the seller with it: no stranger does. One that
    names its task alone, as before AdCP 3.1, is looked up, within the allowance for that."""
    token = told.token or incoming.headers.get(A2A_TOKEN)
    operation_id = _uuid(told.operation_id or "")
    if token is None:
        return None
    if operation_id is not None:
        return operation_id if token_matches(webhook_token_of(operation_id), token) else None
    if not told.task_id or not (looked or look_admit(incoming.source)):
        return None
    tasks = Operation.objects.filter(seller=seller, task_id=clean(told.task_id))
    found = tasks.only("webhook_token").first()
    return found.pk if found and token_matches(found.webhook_token or "", token) else None


def unverified_worth_keeping(deliveries: Sequence[WebhookDelivery], since: datetime) -> list[WebhookDelivery]:
    """Of refused deliveries for which there is no room any more those that are kept all the same: each names
    an operation of ours that no other did since then. One for each operation, whoever sends them, and one
    that names it by our id though another had guessed its task."""
    kept: list[WebhookDelivery] = []
    claims: dict[uuid.UUID, dict[tuple[str, str], WebhookDelivery]] = {}
    for one in deliveries:
        if one.seller_id is not None:
            claims.setdefault(one.seller_id, {}).setdefault((one.operation_ref, one.task_id), one)
    for seller_id, found in claims.items():
        ours = _ours(seller_id, found)
        stored = _ours(seller_id, _claims_of(seller_id, since)) if ours else {}
        any_way, by_id = set(stored.values()), {pk for claim, pk in stored.items() if _by_id(claim, pk)}
        new = {c: pk for c, pk in ours.items() if pk not in (by_id if _by_id(c, pk) else any_way)}
        best_last = sorted(new.items(), key=lambda one: _by_id(*one))
        kept += {pk: found[claim] for claim, pk in best_last}.values()
    return kept


def _by_id(claim: tuple[str, str], operation_id: uuid.UUID) -> bool:
    return _uuid(claim[0]) == operation_id


def unverified_tell() -> int:
    """Tell Ad Ops of sellers whose deliveries do not verify; looks every few seconds. Answers of how many
    they were told now."""
    if not cache.add("unverified-looked", 1, _EVERY_S):
        return 0
    rows = _refused(clock.now() - _LATELY).filter(seller__isnull=False)
    sellers = rows.exclude(seller__in=held_back(_WORK)).order_by("seller_id")
    ids = sellers.values_list("seller_id", flat=True).distinct()
    return each_row(_WORK, ids, lambda seller_id: _tell(seller_id, rows.filter(seller=seller_id)))


def operations_named(since: Mapping[uuid.UUID, datetime]) -> set[uuid.UUID]:
    """The operations that deliveries which did not verify named by our id (or proved to mean by its token),
    by seller since a moment: strangers know neither, and a delivery that is repeated names the same one."""
    if not since:
        return set()
    each = [_refs(seller_id, begin) for seller_id, begin in since.items()]
    claims: dict[uuid.UUID, set[tuple[str, str]]] = {}
    for seller_id, operation_ref in each[0].union(*each[1:], all=True):
        claims.setdefault(seller_id, set()).add((operation_ref, ""))
    return {pk for seller_id, told in claims.items() for pk in _ours(seller_id, told).values()}


def _refused(since: datetime) -> QuerySet[WebhookDelivery]:
    return WebhookDelivery.objects.filter(_UNVERIFIED, verdict="refused", at__gte=since)


def _claims_of(seller_id: uuid.UUID, since: datetime) -> set[tuple[str, str]]:
    """What refused deliveries of the seller claimed to be about: (our operation, its task)."""
    return {(operation_ref, task_id) for _, operation_ref, task_id in _named(seller_id, since)}


def _named(seller_id: uuid.UUID, since: datetime) -> QuerySet[WebhookDelivery, tuple[uuid.UUID, str, str]]:
    named = _refused(since).filter(seller=seller_id).exclude(operation_ref="", task_id="").order_by()
    return named.values_list("seller_id", "operation_ref", "task_id").distinct()[:_MOST]


def _refs(seller_id: uuid.UUID, since: datetime) -> QuerySet[WebhookDelivery, tuple[uuid.UUID, str]]:
    """Which operations of ours refused deliveries of the seller named by our own id."""
    named = _refused(since).filter(seller=seller_id).exclude(operation_ref="").order_by()
    return named.values_list("seller_id", "operation_ref").distinct()[:_MOST]


def _tell(seller_id: uuid.UUID, refused: QuerySet[WebhookDelivery]) -> int:
    if cache.get(f"unverified-said:{seller_id}"):
        return 0
    rows = list(refused.order_by("-at").values_list("reason", "operation_ref", "task_id")[:_SHOWN])
    ours = _ours(seller_id, _claims_of(seller_id, clock.now() - _LATELY))
    if len(rows) < _FEW and not ours:
        return 0
    seller = Seller.objects.filter(pk=seller_id).exclude(webhook_mode=Seller.WebhookMode.NONE).first()
    if seller is None:
        return 0
    cache.set(f"unverified-said:{seller_id}", True, _SAID_S)
    # Best what was found out of one of ours, else of any, else no more than its code.
    told = sorted(rows, key=lambda row: ((row[1], row[2]) not in ours, ": " not in _plain(row[0])))
    looked = [row for row in told if ": " in _plain(row[0])] or told
    code, _, tried = _plain(looked[0][0]).partition(": ")
    since = window_start(clock.now() - _LATELY, _LATELY)
    return unverified_alarm(
        seller,
        count=refused_count(since=since, seller_id=seller_id),
        since=since,
        code=code,
        tried=tried or "its signature is not the one expected",
        instead=instead_words(seller),
    )


def _plain(reason: str) -> str:
    return reason.removeprefix(f"{LIMITED}: ")


def _ours(seller_id: uuid.UUID, claims: Iterable[tuple[str, str]]) -> dict[tuple[str, str], uuid.UUID]:
    """Which operation with that seller each of the claims names; those that name none are left out."""
    ids = {claim: _uuid(claim[0]) for claim in claims}
    if not ids:
        return {}
    mine = Operation.objects.filter(seller=seller_id)
    named = Q(pk__in=[one for one in ids.values() if one]) | Q(task_id__in=[task for _, task in ids if task])
    found = list(mine.filter(named).values_list("pk", "task_id")[:_MOST])
    known, tasks = {pk for pk, _ in found}, {task: pk for pk, task in found if task}
    mapped = {claim: one if one in known else tasks.get(claim[1]) for claim, one in ids.items()}
    return {claim: pk for claim, pk in mapped.items() if pk is not None}


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
