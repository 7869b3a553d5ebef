"""Deals in the admin: the list, and one deal with what was approved beside what the seller booked."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from orders.cost_dates import cost_dates
from orders.models import UNSETTLED, Deal, DealStatus
from orders.presenters import (
    change_words,
    deal_choices,
    deal_group,
    departure_sentences,
    mirror_facts,
)
from orders.selectors import deal_gross, deals_with_rows
from tasks_app.desk import text
from tasks_app.desk.listing import ListPage, named
from tasks_app.lifecycle.names import names_of
from tasks_app.lifecycle.pages import StatefulPage, lifecycle_data
from tasks_app.templatetags.fd import money, state


@admin.register(Deal)
class DealAdmin(StatefulPage, ListPage):
    """Media buys: ours, beside a mirror of the seller's."""

    object_template = "desk/deal.html"
    head = "Deals"
    subhead = "Media buys of your teams, newest first: our state beside what the seller says"
    views = {
        "": ("All", {}),
        "open": ("Open", {"status__in": UNSETTLED}),
        "differs": ("Booked differently", {"differs": True}),
        "ended": (
            "Ended",
            {
                "status__in": (
                    DealStatus.COMPLETED,
                    DealStatus.FAILED,
                    DealStatus.CANCELLED,
                    DealStatus.EXPIRED,
                )
            },
        ),
    }
    list_display = [
        "show_reference",
        "show_campaign",
        "show_seller",
        "show_state",
        "show_says",
        "show_flight",
        "show_gross",
    ]
    list_filter = ["seller", "status"]
    search_fields = ["^reference", "=media_buy_id"]
    search_help_text = "The beginning of a reference, or a media buy id"
    ordering = ["-id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request).select_related("seller", "advertiser", "account")
        return rows.defer("seller__token", "seller__webhook_secret", "seller__capabilities", "seller__tools")

    def name_rows(self, rows: list[Any]) -> None:
        """Campaign and gross of a page's deals: two queries."""
        campaigns = names_of("campaign", {deal.campaign_id for deal in rows if deal.campaign_id})
        gross = deal_gross(deal.pk for deal in rows)
        for deal in rows:
            deal.campaign_name = campaigns.get(deal.campaign_id)
            deal.gross = gross.get(deal.pk)

    @display(description="Deal", ordering="reference")
    def show_reference(self, deal: Deal) -> SafeString:
        return format_html('<span class="mono">{}</span>', deal.reference)

    @display(description="Campaign")
    def show_campaign(self, deal: Deal) -> str:
        found = named(deal, "campaign_name")
        return found if found != text.DASH else f"{deal.advertiser}, asked for directly"

    @display(description="Seller", ordering="seller__name")
    def show_seller(self, deal: Deal) -> str:
        return deal.seller.name

    @display(description="State", ordering="status")
    def show_state(self, deal: Deal) -> SafeString:
        return state("differs") if deal.differs else state(deal.status)

    @display(description="Seller says")
    def show_says(self, deal: Deal) -> str:
        return deal.media_buy_status or text.DASH

    @display(description="Flight", ordering="start_at")
    def show_flight(self, deal: Deal) -> str:
        return text.flight(deal.start_at, deal.end_at, deal.zone)

    @display(description="Gross")
    def show_gross(self, deal: Deal) -> SafeString:
        return format_html(
            '<span class="fd-num">{}</span>', money(getattr(deal, "gross", None), deal.currency)
        )

    def object_data(self, request: HttpRequest, obj: Deal) -> dict[str, Any]:
        rows = deals_with_rows(Deal.objects.filter(pk=obj.pk))
        lines = rows.lines.get(obj.pk, [])
        group = deal_group(obj, rows)
        questions = rows.open_questions(obj)
        campaigns = names_of("campaign", [obj.campaign_id]) if obj.campaign_id else {}
        return {
            **lifecycle_data(obj),
            "deal": obj,
            "campaign": campaigns.get(obj.campaign_id) if obj.campaign_id else None,
            "group": group,
            "gross_change": change_words(group.approved, group.confirmed, obj.currency)
            if group.confirmed
            else "",
            "sentences": departure_sentences(group),
            "question": next((q for q in questions if q.kind == "booked_differently"), None),
            "questions": questions,
            "operations": rows.operations.get(obj.pk, []),
            "choices": deal_choices(obj, lines, questions),
            "mirror": mirror_facts(obj),
            "dates": cost_dates(obj, lines, questions),
            "follows": Deal.objects.filter(followers=obj.pk).first(),
            "followers": list(Deal.objects.filter(follows=obj.pk)),
            "title": obj.reference,
        }
