"""What operators are told of sellers' deliveries that no seller should send."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.conf import settings

from tasks_app import clock
from tasks_app.days import start_of, today
from tasks_app.notifications.models import Notification
from tasks_app.notifications.moments import moment_token
from tasks_app.notifications.services import About, notify
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.models import Seller
from tasks_app.sellers.presenters import looked_at_words

_NAMED = 5
_NEW_KEY, _NEW_KEYS_A_DAY = "webhook_new_key", 3


def unverified_alarm(
    seller: Seller, *, count: int, since: datetime, code: str, tried: str, instead: str
) -> bool:
    """A seller's deliveries do not verify, or are proven in another way than agreed: once a day for each
    (AdCP L1/security "Downgrade and injection resistance"). Answers whether it was said now."""
    mismatch = code == "webhook_mode_mismatch"
    what = "signs webhooks in another way than agreed" if mismatch else "sends webhooks that do not verify"
    return notify(
        kind="webhook_mode_mismatch" if mismatch else "webhook_unverified",
        level=Notification.Level.ALARM,
        title=f"{seller.name} {what}",
        body=f"{count} refused since {moment_token(since)}, among them with 401 {code}. "
        f"Registered: {seller.get_webhook_mode_display()}. "
        f"What was tried: {tried}. The seller or its registration is set up wrongly, or somebody stands in "
        f"between. On its page it may be set to something else: {instead}. Meanwhile "
        f"{looked_at_words(seller)}.",
        about=About(type="seller", id=seller.pk),
        right=STEER_OPERATION,
        key=f"webhook_unverified:{seller.pk}:{seller.webhook_mode}:{clock.now():%Y-%m-%d}",
    )


def nonces_full_alarm(seller: Seller, *, key_id: str) -> None:
    """No more signatures are taken of a key, or (`key_id` "") of any: once an hour (AdCP L1/security "Webhook
    replay dedup sizing")."""
    hour = f"{clock.now():%Y-%m-%dT%H}"
    whose = f"the key {key_id} of {seller.name}" if key_id else "all sellers together"
    notify(
        kind="webhook_rate_abuse",
        level=Notification.Level.ALARM,
        title=f"Too many signed webhooks of {whose}",
        body="Further ones are refused (401 webhook_signature_rate_abuse) until earlier signatures have run "
        "out: a key is compromised, or a seller set up wrongly. Meanwhile "
        f"{looked_at_words(seller) if key_id else 'they are polled, or reconciliation looks at them'}.",
        about=About(type="seller", id=seller.pk) if key_id else None,
        right=STEER_OPERATION,
        key=f"webhook_rate_abuse:{seller.pk if key_id else 'all'}:{key_id}:{hour}",
    )


def waiting_full_alarm(seller: Seller, *, count: int, size: int) -> None:
    """So much of a seller's deliveries is kept without effect that no more is: once a day."""
    _of_the_day(
        seller,
        "webhook_waiting_full",
        title=f"{seller.name} sends more webhooks of no use than are kept",
        body=f"{count} are kept, {size / 2**20:.1f} MB: of tasks that we do not know, or with other words "
        "under a key that was used. Further ones of unknown tasks are refused (429 webhook_waiting_full) "
        "until what is kept finds its task or is past its time. The seller sends us what is somebody "
        f"else’s, or its answers to our calls do not arrive. Meanwhile {looked_at_words(seller)}.",
    )


def day_full_alarm(seller: Seller) -> None:
    """A seller has sent as much as is taken of it in a day: once a day."""
    most = settings.WEBHOOK_SELLER_BYTES / 2**20
    _of_the_day(
        seller,
        "webhook_day_full",
        title=f"{seller.name} has sent more webhooks today than are taken",
        body=f"More than {most:,.0f} MB since midnight UTC. Further ones are refused until the next (429 "
        f"webhook_day_full), the ends of what we bought among them: {looked_at_words(seller)}. The seller "
        "repeats itself without end, or wants to fill our disk. Its deliveries show which tasks they are "
        "about; ask the seller, or switch it off.",
    )


def _of_the_day(seller: Seller, kind: str, *, title: str, body: str) -> None:
    """Tell Ad Ops of a seller, once a day of each kind."""
    notify(
        kind=kind,
        level=Notification.Level.ALARM,
        title=title,
        body=body,
        about=About(type="seller", id=seller.pk),
        right=STEER_OPERATION,
        key=f"{kind}:{seller.pk}:{clock.now():%Y-%m-%d}",
    )


def new_keys_alarm(seller: Seller, key_ids: Sequence[str]) -> None:
    """A seller published keys that were never seen: it rotates them, or somebody publishes in its name (AdCP
    L1/security "New-keyid admission pressure"). Told a few times a day: who publishes ever new ones floods
    nobody."""
    day = start_of(today())
    told = Notification.objects.filter(kind=_NEW_KEY, subject_id=seller.pk, at__gte=day).count()
    named = ", ".join(key_ids[:_NAMED]) + (" and more" if len(key_ids) > _NAMED else "")
    notify(
        kind=_NEW_KEY,
        level=Notification.Level.WARNING,
        title=f"{seller.name} published {'a new key' if len(key_ids) == 1 else 'new keys'} for its webhooks",
        body=f"Never seen before: {named}. From now on they may sign. Ask the seller whether it rotated its "
        "keys; if it did not, switch the seller off."
        + (" Of further ones nothing more is told today." if told + 1 == _NEW_KEYS_A_DAY else ""),
        about=About(type="seller", id=seller.pk),
        right=STEER_OPERATION,
        key=f"{_NEW_KEY}:{seller.pk}:{today():%Y-%m-%d}:{min(told + 1, _NEW_KEYS_A_DAY)}",
    )
