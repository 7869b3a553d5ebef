"""What operators are told of sellers' deliveries that no seller should send."""

from __future__ import annotations

from collections.abc import Sequence

from tasks_app import clock
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.models import Seller

_NAMED = 5


def mode_mismatch_alarm(seller: Seller) -> None:
    """Somebody proves themselves in another way than the seller was registered for: once a day (AdCP
    L1/security "Downgrade and injection resistance")."""
    notify(
        kind="webhook_mode_mismatch",
        level=Notification.Level.ALARM,
        title=f"{seller.name} signs webhooks in another way than agreed",
        body=f"Registered: {seller.get_webhook_mode_display()}. Deliveries proven otherwise are refused (401 "
        "webhook_mode_mismatch): the seller set it up wrongly, or somebody stands in between. What it is "
        "asked for is still seen by polling.",
        about=About(type="seller", id=seller.pk),
        right=STEER_OPERATION,
        key=f"webhook_mode_mismatch:{seller.pk}:{clock.now():%Y-%m-%d}",
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
        "out: a key is compromised, or a seller set up wrongly. What was bought is still seen by polling.",
        about=About(type="seller", id=seller.pk) if key_id else None,
        right=STEER_OPERATION,
        key=f"webhook_rate_abuse:{seller.pk if key_id else 'all'}:{key_id}:{hour}",
    )


def new_keys_alarm(seller: Seller, key_ids: Sequence[str]) -> None:
    """A seller published keys that were never seen: it rotates them, or somebody publishes in its name (AdCP
    L1/security "New-keyid admission pressure")."""
    named = ", ".join(key_ids[:_NAMED]) + (" and more" if len(key_ids) > _NAMED else "")
    notify(
        kind="webhook_new_key",
        level=Notification.Level.WARNING,
        title=f"{seller.name} published {'a new key' if len(key_ids) == 1 else 'new keys'} for its webhooks",
        body=f"Never seen before: {named}. From now on they may sign. Ask the seller whether it rotated its "
        "keys; if it did not, switch the seller off.",
        about=About(type="seller", id=seller.pk),
        right=STEER_OPERATION,
    )
