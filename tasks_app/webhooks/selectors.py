"""Reading webhook deliveries."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.db.models import Q

from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.people.scope import visible
from tasks_app.webhooks.models import WebhookDelivery


def delivery_operation(delivery: WebhookDelivery, viewer: User) -> Operation | None:
    """The operation of the viewer's teams that a delivery is about; None where it is another team's.

    Deliveries belong to sellers; their bodies tell of purchases, which belong to teams.
    """
    about = Q(pk__in=[])
    with suppress(ValueError):
        about |= Q(pk=UUID(delivery.operation_ref))
    if delivery.task_id:
        about |= Q(task_id=delivery.task_id)
    rows = visible(Operation.objects.filter(seller=delivery.seller_id), viewer).filter(about)
    return rows.only("reference", "status").first()
