"""Webhook deliveries in the admin: what reached us, how it was verified, what became of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from tasks_app import clock
from tasks_app.desk import text
from tasks_app.desk.listing import ListPage
from tasks_app.desk.page import viewer
from tasks_app.operations.presenters import pretty
from tasks_app.templatetags.fd import mark
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.presenters import VERDICTS, verified_words
from tasks_app.webhooks.rates import refused_count
from tasks_app.webhooks.selectors import deliveries_of, delivery_operation

V = WebhookDelivery.Verdict


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ListPage):
    """Every POST to our endpoint, refused ones too."""

    object_template = "desk/delivery.html"
    team_path = None  # by the operation, see get_queryset
    head = "Webhook deliveries"
    subhead = "Everything that reached our endpoint, newest first, refused ones too"
    views = {
        "": ("All", {}),
        "waiting": ("To be applied", {"verdict": V.RECEIVED}),
        "early": ("Early", {"verdict": V.EARLY}),
        "conflict": ("In conflict", {"verdict__in": (V.CONFLICT, V.KEY_CONFLICT)}),
        "refused": ("Refused", {"verdict": V.REFUSED}),
    }
    list_display = [
        "show_at",
        "show_seller",
        "show_verdict",
        "status",
        "show_task",
        "show_proof",
        "show_reason",
    ]
    list_filter = ["seller"]
    search_fields = ["=task_id", "=operation_ref", "=key"]
    search_help_text = "A task id, an operation id or a delivery key, whole"
    ordering = ["-id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = deliveries_of(viewer(request)).select_related("seller").order_by(*self.ordering)
        secrets = ("seller__token", "seller__webhook_secret", "seller__webhook_secret_previous")
        return rows.defer("body", *secrets, "seller__capabilities")

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        refused = refused_count(since=clock.now() - timedelta(hours=24))
        told = f"{self.subhead}. {refused} refused in 24 hours, of which at most so many an hour are kept"
        return super().changelist_view(
            request, {"subhead": told if refused else self.subhead, **(extra_context or {})}
        )

    @display(description="When")
    def show_at(self, delivery: WebhookDelivery) -> str:
        return text.moment(delivery.at)

    @display(description="Seller")
    def show_seller(self, delivery: WebhookDelivery) -> str:
        return delivery.seller.name if delivery.seller else "unknown"

    @display(description="Became")
    def show_verdict(self, delivery: WebhookDelivery) -> SafeString:
        return mark(*VERDICTS[V(delivery.verdict)])

    @display(description="Task")
    def show_task(self, delivery: WebhookDelivery) -> SafeString:
        return format_html('<span class="mono">{}</span>', delivery.task_id[:40] or text.DASH)

    @display(description="Verified by")
    def show_proof(self, delivery: WebhookDelivery) -> str:
        return verified_words(delivery)

    @display(description="Why")
    def show_reason(self, delivery: WebhookDelivery) -> str:
        return delivery.reason or text.DASH

    def object_data(self, request: HttpRequest, obj: WebhookDelivery) -> dict[str, Any]:
        glyph, word = VERDICTS[V(obj.verdict)]
        user = viewer(request)
        operation = delivery_operation(obj, user)
        return {
            "delivery": obj,
            "glyph": glyph,
            "word": word,
            "proof": verified_words(obj),
            "title": "Delivery",
            "operation": operation,
            "kept": obj.body is not None,
            "body": pretty(obj.body) if operation or user.is_superuser else "",
        }
