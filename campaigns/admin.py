"""Campaigns in the admin: the list, and one campaign's whole way from brief to booked media."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from campaigns.models import ENDED, Campaign, CampaignStatus
from campaigns.presenters import (
    brief_facts,
    change_of,
    deal_groups,
    job_notes,
    named_problems,
    next_items,
    operation_lines,
    outcome_words,
    totals,
)
from campaigns.selectors import campaign_rows
from campaigns.stages import stages
from campaigns.timeline import timeline
from tasks_app.desk import text
from tasks_app.desk.listing import ListPage, named
from tasks_app.desk.page import viewer
from tasks_app.jobs.presenters import job_layout, job_words
from tasks_app.lifecycle.pages import StatefulPage, lifecycle_data
from tasks_app.operations.selectors import seller_answer_times
from tasks_app.people.actors import actor_names
from tasks_app.templatetags.fd import money, state

_TIMELINE = 40


@admin.register(Campaign)
class CampaignAdmin(StatefulPage, ListPage):
    """Briefs on their way to booked media."""

    object_template = "desk/campaign.html"
    head = "Campaigns"
    subhead = "Briefs of your teams on their way to booked media, newest first"
    views = {
        "": ("All", {}),
        "open": ("Running", {"status__in": [s for s in CampaignStatus.values if s not in ENDED]}),
        "approval": ("Awaiting approval", {"status": CampaignStatus.AWAITING_APPROVAL}),
        "ended": ("Ended", {"status__in": ENDED}),
    }
    list_display = [
        "show_name",
        "show_advertiser",
        "show_state",
        "show_flight",
        "show_owner",
        "show_since",
        "show_budget",
    ]
    list_filter = ["status"]
    search_fields = ["^reference", "name", "advertiser__name"]
    ordering = ["-id"]
    list_select_related = ["advertiser"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("advertiser", "team")

    def name_rows(self, rows: list[Any]) -> None:
        """Who submitted each: one query."""
        names = actor_names({campaign.requested_by for campaign in rows})
        for campaign in rows:
            campaign.owner = names[campaign.requested_by]

    @display(description="Campaign", ordering="reference")
    def show_name(self, campaign: Campaign) -> SafeString:
        return format_html(
            '<span class="two">{}<small class="mono">{}</small></span>', campaign.name, campaign.reference
        )

    @display(description="Advertiser", ordering="advertiser__name")
    def show_advertiser(self, campaign: Campaign) -> str:
        return str(campaign.advertiser or text.DASH)

    @display(description="State", ordering="status")
    def show_state(self, campaign: Campaign) -> SafeString:
        return state(campaign.status)

    @display(description="Flight", ordering="start_at")
    def show_flight(self, campaign: Campaign) -> str:
        return text.flight(campaign.start_at, campaign.end_at, campaign.zone)

    @display(description="Owner")
    def show_owner(self, campaign: Campaign) -> str:
        return named(campaign, "owner")

    @display(description="In this state since", ordering="status_since")
    def show_since(self, campaign: Campaign) -> str:
        return text.moment_short(campaign.status_since)

    @display(description="Budget", ordering="budget")
    def show_budget(self, campaign: Campaign) -> SafeString:
        return format_html('<span class="fd-num">{}</span>', money(campaign.budget, campaign.currency))

    def object_data(self, request: HttpRequest, obj: Campaign) -> dict[str, Any]:
        who = viewer(request)
        rows = campaign_rows(obj)
        groups = deal_groups(rows)
        times = {found.seller_id: found for found in seller_answer_times(who)}
        events = timeline(rows)
        return {
            **lifecycle_data(obj, rows.entries.get(obj.pk, []), rows.names),
            "campaign": obj,
            "owner": rows.names[obj.requested_by],
            "stages": stages(rows, groups),
            "problems": list(named_problems(obj)),
            "outcome": outcome_words(obj),
            "job": rows.job.job if rows.job else None,
            "dag": job_layout(rows.job, job_notes(rows)) if rows.job else None,
            "words": job_words(rows.job) if rows.job else "",
            "groups": [(group, change_of(group)) for group in groups],
            "totals": totals(groups, obj.currency) if groups else None,
            "operations": operation_lines(rows),
            "next": next_items(rows, who, times),
            "events": events[:_TIMELINE],
            "more_events": max(0, len(events) - _TIMELINE),
            "verification": rows.verification,
            "brief": brief_facts(obj),
            "title": obj.reference,
        }
