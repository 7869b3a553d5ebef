"""Event deliveries in the admin: what gave up, why, and the button that tries it again."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.safestring import SafeString
from unfold.decorators import display

from tasks_app.desk import text
from tasks_app.desk.listing import ListPage, named
from tasks_app.desk.page import viewer
from tasks_app.events.held import NotGivenUpError, delivery_retry
from tasks_app.events.models import EventDelivery
from tasks_app.events.selectors import deliveries_visible, waiting_behind
from tasks_app.lifecycle.names import names_of
from tasks_app.people.actors import actor_names
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.templatetags.fd import mark


@admin.register(EventDelivery)
class EventDeliveryAdmin(ListPage):
    """What subscribers have yet to take. What was delivered leaves no row."""

    object_template = "desk/event_delivery.html"
    team_path = None  # by the event's entity, see get_queryset
    head = "Deliveries that gave up"
    subhead = "Events a subscriber did not take; later events of the same entity wait behind them"
    views: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "": ("Gave up", {"gave_up_at__isnull": False}),
        "retrying": ("Retrying", {"due_at__isnull": False}),
        "behind": ("Waiting behind", {"gave_up_at__isnull": True, "due_at__isnull": True}),
    }
    list_display = ["show_event", "show_entity", "subscriber", "show_state", "attempts", "show_next", "error"]
    search_fields = ["=event__type", "=subscriber"]
    search_help_text = "A type such as deal.booked, or a subscriber, whole"
    ordering = ["-id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return deliveries_visible(viewer(request)).order_by(*self.ordering)

    def name_rows(self, rows: list[Any]) -> None:
        wanted: dict[str, set[uuid.UUID]] = {}
        for row in rows:
            wanted.setdefault(row.entity_type, set()).add(row.entity_id)
        called = {pk: name for kind, ids in wanted.items() for pk, name in names_of(kind, ids).items()}
        for row in rows:
            row.entity_name = called.get(row.entity_id) or str(row.entity_id)

    @display(description="Event")
    def show_event(self, delivery: EventDelivery) -> str:
        return f"{delivery.event.type}, {delivery.event.seq}"

    @display(description="Of")
    def show_entity(self, delivery: EventDelivery) -> str:
        return named(delivery, "entity_name")

    @display(description="State")
    def show_state(self, delivery: EventDelivery) -> SafeString:
        return mark(*_face(delivery))

    @display(description="Next attempt")
    def show_next(self, delivery: EventDelivery) -> str:
        return text.moment(delivery.due_at) if delivery.due_at else text.DASH

    def object_data(self, request: HttpRequest, obj: EventDelivery) -> dict[str, Any]:
        actor = str(obj.event.payload.get("actor", ""))
        names = actor_names({key for key in (actor, obj.retried_by) if key})
        glyph, word = _face(obj)
        return {
            "delivery": obj,
            "glyph": glyph,
            "word": word,
            "entity": names_of(obj.entity_type, [obj.entity_id]).get(obj.entity_id),
            "actor": names.get(actor, text.DASH),
            "retried_by": names.get(obj.retried_by, ""),
            "behind": waiting_behind(obj),
            "may_retry": obj.gave_up_at is not None and viewer(request).has_perm(STEER_OPERATION),
            "title": str(obj),
        }

    def object_post(self, request: HttpRequest, obj: EventDelivery) -> HttpResponse:
        """Retry: the whole budget of attempts again, the first of them at once."""
        user = viewer(request)
        if not user.has_perm(STEER_OPERATION):
            raise PermissionDenied
        try:
            delivery_retry(delivery_id=obj.pk, user=user)
        except NotGivenUpError:
            messages.warning(request, f"{obj} has not given up: it is tried by itself.")
        else:
            messages.success(request, f"{obj} is tried again now.")
        return HttpResponseRedirect(reverse("admin:tasks_app_eventdelivery_changelist"))


def _face(delivery: EventDelivery) -> tuple[str, str]:
    if delivery.gave_up_at is not None:
        return "failed", "Gave up"
    if delivery.due_at is None:
        return "waiting", "Waiting behind"
    return ("running", "Retrying") if delivery.attempts else ("waiting", "Deferred")
