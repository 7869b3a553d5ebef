"""Reading webhook deliveries."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, UUIDField, When
from django.db.models.functions import Cast

from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.people.roles import CHANGE_SELLER
from tasks_app.people.scope import in_scope, visible
from tasks_app.sellers.selectors import deliveries_register
from tasks_app.webhooks.models import WebhookDelivery

_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


def register() -> None:
    """Called when the application starts."""
    deliveries_register(deliveries_of)


def deliveries_of(viewer: User) -> QuerySet[WebhookDelivery]:
    """Those about the viewer's operations, bound to them or only naming them, and those about none that is a
    team's. What names an operation or a task that nobody here knows may be of any team: it is for who
    answers for sellers. Who may see deliveries at all is a matter of rights."""
    named = Case(When(operation_ref__regex=_UUID, then=Cast("operation_ref", UUIDField())))
    rows = WebhookDelivery.objects.alias(named_id=named)
    if viewer.is_superuser:
        return rows
    bound = Q(operation__isnull=False, operation__team__isnull=True)
    bound |= in_scope(WebhookDelivery, viewer, team="operation__team")
    meant = Operation.objects.filter(seller=OuterRef("seller")).filter(
        Q(pk=OuterRef("named_id")) | Q(task_id=OuterRef("task_id")) & ~Q(task_id="")
    )
    seen = meant.filter(Q(team__isnull=True) | in_scope(Operation, viewer))
    nobodys = Q(task_id="", operation_ref="")
    if viewer.has_perm(CHANGE_SELLER):
        nobodys |= Q(~Exists(meant))
    return rows.filter(bound | Q(operation__isnull=True) & (Q(Exists(seen)) | nobodys))


def delivery_operation(delivery: WebhookDelivery, viewer: User) -> Operation | None:
    """The operation of the viewer's teams that a delivery says it is about, also where it was not bound to
    it; None where it is another team's. Its body is shown with it alone."""
    about = Q(pk__in=[])
    with suppress(ValueError):
        about |= Q(pk=UUID(delivery.operation_ref))
    if delivery.task_id:
        about |= Q(task_id=delivery.task_id)
    rows = visible(Operation.objects.filter(seller=delivery.seller_id), viewer).filter(about)
    return rows.only("reference", "status").first()
