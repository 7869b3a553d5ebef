"""Whether a seller's webhooks come: judged from what settled lately; too few, and it is polled for a while.

Source: document 000, "health_check_webhooks" (under 80 % webhooks are disabled for a time). Disabled means:
not waited for. They are still registered and taken, so that nothing is lost and the trial has evidence.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet

from tasks_app import clock
from tasks_app.desk import text
from tasks_app.notifications.models import Notification
from tasks_app.notifications.moments import moment_token
from tasks_app.notifications.services import About, notify
from tasks_app.operations.sweep import chore_register
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.health import WebhookRate, WebhookState
from tasks_app.sellers.models import Seller
from tasks_app.sellers.presenters import looked_at_words
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on

log = structlog.get_logger(__name__)
_EVERY = timedelta(minutes=1)
_SELLERS_AT_ONCE = 20
_LATEST = 200
_WORK = work_on("webhooks_judged", "seller")
_WIDEST = timedelta(days=90)
# Of the latest operations that had a webhook registered and settled later than at once: those that a webhook
# settled, or confirmed after a poll was faster. A first answer that is final is followed by no webhook.
_RATE = """
select s.id, count(o.id), count(o.id) filter (where o.settled_by = 'webhook' or exists (
    select from tasks_app_observation seen
     where seen.operation_id = o.id and seen.channel = 'webhook' and seen.outcome in ('applied', 'duplicate')
       and seen.status in ('completed', 'failed', 'canceled', 'rejected')))
  from unnest(%s::uuid[], %s::timestamptz[]) s(id, since) left join lateral (
    select id, settled_by from (
        select id, settled_by, settled_at, row_number() over (order by settled_at desc) as place
          from tasks_app_operation
         where seller_id = s.id and settled_by in ('poll', 'webhook', 'reconcile')
           and webhook_token is not null and settled_at >= s.since and settled_at <= %s
         order by settled_at desc limit %s) latest
     where settled_at >= %s or place <= %s) o on true
 group by s.id
"""


# Of operations that a refused delivery named, those of which no other delivery told, and that are not among
# the ones counted above: it was sent, and did not come.
_REFUSED = """
select o.seller_id, count(*) from tasks_app_operation o
 where o.id = any(%s) and o.webhook_token is not null
   and (o.settled_at is null or o.settled_at > %s or o.settled_by not in ('poll', 'webhook', 'reconcile'))
   and not exists (select from tasks_app_observation seen where seen.operation_id = o.id
                    and seen.channel = 'webhook' and seen.outcome in ('applied', 'duplicate'))
 group by o.seller_id
"""
Since = Mapping[uuid.UUID, datetime]
_refused_readers: list[Callable[[Since], set[uuid.UUID]]] = []


def refused_register(reader: Callable[[Since], set[uuid.UUID]]) -> None:
    """Called by the room that refuses deliveries, when the application starts. `reader` answers the ids of
    the operations that refused deliveries named, by seller since a moment."""
    _refused_readers[:] = [reader]


def register() -> None:
    """Called when the application starts."""
    chore_register("webhooks_judged", webhooks_judge)


def rates(sellers: Sequence[Seller]) -> dict[uuid.UUID, WebhookRate]:
    """Each seller's webhook rate over settings.WEBHOOK_RATE_WINDOW, or since its trial began; the latest 200
    operations at most. Where that is less than a sample, the window is widened until it is one, to 90 days at
    most. What settled within settings.WEBHOOK_GRACE may still be confirmed and does not count, unless what
    told of it was refused.
    """
    now = clock.now()
    hooked = [seller for seller in sellers if seller.uses_webhooks]
    grace = settings.WEBHOOK_GRACE * settings.POLL_SCALE
    with connection.cursor() as cursor:
        cursor.execute(
            _RATE,
            [
                [seller.pk for seller in hooked],
                [_since(seller, now) for seller in hooked],
                now - grace,
                _LATEST,
                now - settings.WEBHOOK_RATE_WINDOW,
                settings.WEBHOOK_RATE_SAMPLE,
            ],
        )
        counted = {pk: (due, came) for pk, due, came in cursor.fetchall()}
    refused = _refused(hooked, now, now - grace)
    found = {}
    for seller in sellers:
        due, came = counted.get(seller.pk, (0, 0))
        found[seller.pk] = WebhookRate(
            state=webhook_state(seller, now),
            due=due + refused.get(seller.pk, 0),
            came=came,
            refused=refused.get(seller.pk, 0),
            until=seller.webhook_paused_until,
        )
    return found


def _refused(sellers: Sequence[Seller], now: datetime, settled_by: datetime) -> dict[uuid.UUID, int]:
    """Of how many operations the seller told by deliveries that were refused, in the present window."""
    day = now - settings.WEBHOOK_RATE_WINDOW
    since = {seller.pk: max(_since(seller, now), day) for seller in sellers}
    named = {pk for reader in _refused_readers for pk in reader(since)} if since else set()
    if not named:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_REFUSED, [list(named), settled_by])
        return dict(cursor.fetchall())


def webhook_state(seller: Seller, now: datetime) -> WebhookState:
    """Whether the seller's webhooks are waited for at `now`."""
    if not seller.uses_webhooks:
        return WebhookState.NONE
    if seller.webhook_paused_until is None:
        return WebhookState.TRUSTED
    return WebhookState.PAUSED if seller.webhook_paused_until > now else WebhookState.TRIAL


def webhooks_judge() -> int:
    """Judge every seller that was not judged for a minute, 20 at most. Answers how many were switched."""
    due = _due().exclude(pk__in=held_back(_WORK)).order_by("webhook_checked_at")
    return each_row(_WORK, due.values_list("pk", flat=True)[:_SELLERS_AT_ONCE], _judge)


def _due() -> QuerySet[Seller]:
    before = clock.now() - _EVERY
    hooked = Seller.objects.exclude(webhook_mode=Seller.WebhookMode.NONE)
    return hooked.filter(Q(webhook_checked_at__isnull=True) | Q(webhook_checked_at__lte=before))


@transaction.atomic
def _judge(seller_id: uuid.UUID) -> bool:
    """Under the seller's lock, and asked again whether it is due: once, however many sweeps run."""
    seller = _due().filter(pk=seller_id).select_for_update(skip_locked=True, no_key=True).first()
    if seller is None:
        return False
    seller.webhook_checked_at = clock.now()
    rate = rates([seller])[seller.pk]
    switched = rate.state != WebhookState.PAUSED and rate.due >= settings.WEBHOOK_RATE_SAMPLE
    if switched:
        switched = _switch(seller, rate)
    seller.save(update_fields=["webhook_checked_at", "webhook_paused_until", "webhook_judged_since"])
    return switched


def _switch(seller: Seller, rate: WebhookRate) -> bool:
    healthy = rate.came >= settings.WEBHOOK_RATE_MIN * rate.due
    if not healthy:
        _pause(seller, rate)
    elif rate.state == WebhookState.TRIAL:
        _trust(seller, rate)
    return not healthy or rate.state == WebhookState.TRIAL


def _pause(seller: Seller, rate: WebhookRate) -> None:
    until = clock.now() + settings.WEBHOOK_PAUSE
    seller.webhook_paused_until = seller.webhook_judged_since = until
    again, looked_at = rate.state == WebhookState.TRIAL, looked_at_words(seller)
    _tell(
        seller,
        kind="webhooks_paused",
        title=f"Webhooks of {seller.name} {'still do not come' if again else 'do not come'}: {looked_at}",
        body=f"{_share(rate)} Under {_percent(settings.WEBHOOK_RATE_MIN)} {looked_at} as if it sent none, "
        f"until {moment_token(until)}; then its webhooks are tried again. "
        "They are still registered, and taken when they come.",
        level=Notification.Level.WARNING,
    )


def _trust(seller: Seller, rate: WebhookRate) -> None:
    seller.webhook_paused_until = None  # what counts still begins with the trial
    _tell(
        seller,
        kind="webhooks_trusted",
        title=f"Webhooks of {seller.name} come again",
        body=f"{_share(rate)} They are waited for again before it is polled.",
        level=Notification.Level.INFO,
    )


def _tell(seller: Seller, *, kind: str, title: str, body: str, level: str) -> None:
    notify(
        kind=kind,
        title=title,
        body=body,
        level=level,
        about=About(type="seller", id=seller.pk),
        right=STEER_OPERATION,
        key=f"{kind}:{seller.pk}:{clock.now():%Y%m%dT%H%M%S}",
    )
    log.warning(kind, seller=seller.slug)


def _share(rate: WebhookRate) -> str:
    came = _percent(rate.came / rate.due)
    refused = f" Of {rate.refused} what came did not verify." if rate.refused else ""
    return f"{rate.came} of the latest {rate.due} operations were told of by webhook ({came}).{refused}"


def _percent(share: float) -> str:
    """Rounded down: 79.6 % is not 80 %."""
    return f"{math.floor(100 * share + 1e-9)}{text.SPACE}%"


def _since(seller: Seller, now: datetime) -> datetime:
    """What settled before says nothing of now."""
    since = now - max(_WIDEST, settings.WEBHOOK_RATE_WINDOW)
    return max(since, seller.webhook_judged_since) if seller.webhook_judged_since else since
