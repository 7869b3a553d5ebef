"""What operators are told of sellers' deliveries that no seller should send."""

from __future__ import annotations

from tasks_app import clock
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.models import Seller


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
