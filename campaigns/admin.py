"""Campaigns in the admin: the list, and one campaign's whole way from brief to booked media."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from campaigns.acts import (
    REASON_LENGTH,
    CampaignActRefusedError,
    acts_of,
    campaign_cancel,
    campaign_retry,
    may_submit,
)
from campaigns.briefs.pages import BriefPages
from campaigns.live import PAGE
from campaigns.models import ENDED, Campaign, CampaignStatus
from campaigns.presenters import (
    brief_facts,
    deal_groups,
    job_notes,
    left_out_data,
    named_problems,
    next_waits,
    operation_lines,
    outcome_words,
    totals,
)
from campaigns.selectors import CampaignRows, campaign_rows
from campaigns.stages import stages
from campaigns.timeline import timeline
from orders.presenters import group_change
from orders.waits import asked_lines
from tasks_app.desk import text
from tasks_app.desk.export import FLIGHT_COLUMNS, amount_columns
from tasks_app.desk.listing import ListPage, named
from tasks_app.desk.live_page import LivePage
from tasks_app.desk.page import viewer
from tasks_app.jobs.presenters import job_layout, job_words
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.names import link_to
from tasks_app.lifecycle.pages import StatefulPage, lifecycle_data
from tasks_app.lifecycle.presenters import refusal_words
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User
from tasks_app.templatetags.fd import money, state

_TIMELINE, _OPERATIONS, _WAITS, _ASKED = 40, 30, 12, 25


@admin.register(Campaign)
class CampaignAdmin(BriefPages, LivePage, StatefulPage, ListPage):
    """Briefs on their way to booked media."""

    object_template = "desk/campaign.html"
    live_page, live_template = PAGE, "desk/campaign_live.html"
    list_before_template = "desk/campaigns_head.html"
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
    csv_columns: ClassVar = {
        "show_flight": FLIGHT_COLUMNS,
        "show_budget": amount_columns("Budget", lambda one: one.budget, with_currency=True),
    }
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

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        extra = {"may_submit": may_submit(viewer(request))}
        return super().changelist_view(request, {**extra, **(extra_context or {})})

    def object_data(self, request: HttpRequest, obj: Campaign) -> dict[str, Any]:
        live = self.live_data(obj)
        return {**live, **_campaign_data(obj, viewer(request))}

    def object_post(self, request: HttpRequest, obj: Campaign) -> HttpResponse:
        """One act; where it is refused the page again, with what the person had written."""
        try:
            told, to = _act(request, obj, viewer(request))
        except (CampaignActRefusedError, TransitionError) as error:
            data = self.object_data(request, self.get_queryset(request).get(pk=obj.pk))
            why = refusal_words(error) if isinstance(error, TransitionError) else str(error)
            data |= {"refusal": why, "given": request.POST}
            return self.page(request, "desk/campaign.html", obj, status=409, **data)
        messages.success(request, told)
        return HttpResponseRedirect(to)


def _act(request: HttpRequest, campaign: Campaign, user: User) -> tuple[str, str]:
    """What was done in a sentence, and where to go. Raises CampaignActRefusedError, TransitionError."""
    act, reason = request.POST.get("act", ""), request.POST.get("reason", "")
    if act not in ("cancel", "retry"):
        raise CampaignActRefusedError("Say what to do: there is no such act.")
    if request.POST.get("sure") != "on":
        raise CampaignActRefusedError("Confirm that you have read what it does.")
    here = link_to(Campaign, campaign.pk)
    if act == "cancel":
        campaign_cancel(campaign_id=campaign.pk, user=user, reason=reason)
        return f"{campaign.reference} is called off.", here
    job = campaign_retry(campaign_id=campaign.pk, user=user, reason=reason)
    return f"{campaign.reference} goes on: {job.reference} retries its job.", here


def _campaign_data(campaign: Campaign, who: User) -> dict[str, Any]:
    rows = campaign_rows(campaign)
    groups = deal_groups(rows)
    job = rows.job.job if rows.job else None
    return {
        **lifecycle_data(campaign, rows.entries.get(campaign.pk, []), rows.names),
        **_lists(rows, who),
        "campaign": campaign,
        "owner": rows.names[campaign.requested_by],
        "stages": stages(rows, groups),
        "problems": list(named_problems(campaign)),
        "outcome": outcome_words(campaign),
        **left_out_data(campaign),
        "job": job,
        "dag": job_layout(rows.job, job_notes(rows)) if rows.job else None,
        "words": job_words(rows.job) if rows.job else "",
        "groups": [(group, group_change(group)) for group in groups],
        "more_deals": rows.more_deals,
        "totals": totals(rows) if groups else None,
        "verification": rows.verification,
        "brief": brief_facts(campaign),
        "again_link": f"{reverse('admin:campaign_submit')}?like={campaign.pk}",
        "acts": acts_of(campaign, job, who=who),
        "reason_length": REASON_LENGTH,
        "title": campaign.reference,
    }


def _lists(rows: CampaignRows, who: User) -> dict[str, Any]:
    """What may be long: its beginning, and how much more there is."""
    events, waits, operations = timeline(rows), next_waits(rows, who), operation_lines(rows)
    asked = asked_lines(rows.approvals, rows.decisions, rows.names)
    return {
        "asked": asked[:_ASKED],
        "more_asked": max(0, len(asked) - _ASKED),
        "events": events[:_TIMELINE],
        "more_events": max(0, len(events) - _TIMELINE),
        "waits": waits[:_WAITS],
        "more_waits": max(0, len(waits) - _WAITS),
        "operations": operations[:_OPERATIONS],
        "more_operations": len(operations) > _OPERATIONS or rows.deals.more_operations,
    }
