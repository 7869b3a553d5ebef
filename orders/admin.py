"""Deals in the admin: the list, and one deal with what was approved beside what the seller booked."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.dateparse import parse_date
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from orders.acts import REASON_LENGTH, ActRefusedError, deal_cancel_ask, deal_read_again, deal_withdraw
from orders.amounts import confirmed_of
from orders.changes.send import CHANGE
from orders.choices import deal_acts, deal_choices
from orders.cost_dates import cost_dates
from orders.deal_copies import copy_deal
from orders.live import PAGE
from orders.models import UNSETTLED, Deal, DealStatus
from orders.presenters import deal_group, departure_sentences, group_change, mirror_facts
from orders.questions import DIFFERENT
from orders.selectors import deal_gross, deal_kin, deals_with_rows, decisions_on
from orders.waits import Waiting, asked_lines, waits_of
from tasks_app.approvals.models import Approval, Decision
from tasks_app.desk import text
from tasks_app.desk.export import FLIGHT_COLUMNS, amount_columns
from tasks_app.desk.listing import ListPage, named
from tasks_app.desk.live_page import LivePage
from tasks_app.desk.page import viewer
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.names import link_to, names_of
from tasks_app.lifecycle.pages import StatefulPage, lifecycle_data
from tasks_app.lifecycle.presenters import refusal_words
from tasks_app.lifecycle.selectors import entries_of
from tasks_app.operations.answer_stages import Answers
from tasks_app.operations.estimates import estimates_of
from tasks_app.operations.models import Operation
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User
from tasks_app.templatetags.fd import money, state

_OPERATIONS, _ASKED, _WAITS = 20, 20, 12


@admin.register(Deal)
class DealAdmin(LivePage, StatefulPage, ListPage):
    """Media buys: ours, beside a mirror of the seller's."""

    object_template = "desk/deal.html"
    live_page, live_template = PAGE, "desk/deal_live.html"
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
        "show_confirmed",
    ]
    csv_columns: ClassVar = {
        "show_flight": FLIGHT_COLUMNS,
        "show_gross": amount_columns("Gross", lambda deal: deal.gross, with_currency=True),
        "show_confirmed": amount_columns("Confirmed", confirmed_of),
    }
    linked_lookups = ("campaign_id__exact",)  # from a campaign’s page
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

    @display(description="Confirmed")
    def show_confirmed(self, deal: Deal) -> SafeString:
        return format_html('<span class="fd-num">{}</span>', money(confirmed_of(deal), deal.currency))

    def object_data(self, request: HttpRequest, obj: Deal) -> dict[str, Any]:
        live = self.live_data(obj)
        return {**live, **_deal_data(obj, viewer(request))}

    def object_post(self, request: HttpRequest, obj: Deal) -> HttpResponse:
        """One act; where it is refused the page again, with what the person had written."""
        try:
            told = _act(request, obj, viewer(request))
        except (ActRefusedError, TransitionError) as error:
            data = self.object_data(request, self.get_queryset(request).get(pk=obj.pk))
            why = refusal_words(error) if isinstance(error, TransitionError) else str(error)
            data |= {"refusal": why, "given": request.POST}
            return self.page(request, "desk/deal.html", obj, status=409, **data)
        messages.success(request, told)
        return HttpResponseRedirect(link_to(Deal, obj.pk))


def _act(request: HttpRequest, deal: Deal, user: User) -> str:
    """What was done, in a sentence. Raises ActRefusedError, TransitionError."""
    act, reason = request.POST.get("act", ""), request.POST.get("reason", "")
    if act == "read":
        deal_read_again(deal_id=deal.pk, user=user)
        return f"{deal.reference} is read from {deal.seller} at the next pass."
    if act == "copy":
        first, last = (parse_date(request.POST.get(name, "")) for name in ("first", "last"))
        copy = copy_deal(deal_id=deal.pk, user=user, first=first, last=last)
        return f"{copy.reference} asks somebody else whether it is booked."
    if act not in ("withdraw", "cancel"):
        raise ActRefusedError("Say what to do: there is no such act.")
    if request.POST.get("sure") != "on":
        raise ActRefusedError("Confirm that you have read what it does.")
    if act == "withdraw":
        deal_withdraw(deal_id=deal.pk, user=user, reason=reason)
        return f"{deal.reference} is withdrawn."
    asked = deal_cancel_ask(deal_id=deal.pk, user=user, reason=reason)
    return f"{asked.reference} asks somebody else whether {deal.reference} is cancelled."


def _deal_data(deal: Deal, who: User) -> dict[str, Any]:
    rows = deals_with_rows(Deal.objects.filter(pk=deal.pk))
    lines, questions = rows.lines.get(deal.pk, []), rows.open_questions(deal)
    approvals = [approval for asked in rows.asked.values() for approval in asked]
    decisions = decisions_on(approvals)
    group = deal_group(deal, rows, decisions)
    entries = entries_of("deal", deal.pk)
    names = actor_names({e.actor for e in entries} | {key for a in approvals for key in a.actors})
    campaigns = names_of("campaign", [deal.campaign_id]) if deal.campaign_id else {}
    operations = rows.operations.get(deal.pk, [])
    asked = asked_lines(approvals, decisions, names)
    waits = _waits(approvals, decisions, operations, rows.answers, who)
    kin = deal_kin(deal)
    return {
        **lifecycle_data(deal, entries, names),
        "deal": deal,
        "campaign": campaigns.get(deal.campaign_id) if deal.campaign_id else None,
        "group": group,
        "gross_change": group_change(group),
        "sentences": departure_sentences(group),
        "question": next((q for q in questions if q.kind == DIFFERENT), None),
        "questions": questions,
        "operations": operations[::-1][:_OPERATIONS],
        "more_operations": max(0, len(operations) - _OPERATIONS) or rows.more_operations,
        "asked": asked[:_ASKED],
        "more_asked": max(0, len(asked) - _ASKED),
        "waits": waits[:_WAITS],
        "more_waits": max(0, len(waits) - _WAITS),
        "acts": deal_acts(deal, lines, who, cancelling=any(q.kind == CHANGE for q in questions)),
        "reason_length": REASON_LENGTH,
        "choices": deal_choices(deal, lines, questions, rows.purchase(deal)),
        "mirror": mirror_facts(deal),
        "dates": cost_dates(deal, lines, questions),
        "follows": next((one for one in kin if one.pk == deal.follows_id), None),
        "followers": [one for one in kin if one.follows_id == deal.pk],
        "title": deal.reference,
    }


def _waits(
    approvals: list[Approval],
    decisions: dict[uuid.UUID, list[Decision]],
    operations: list[Operation],
    answers: Answers,
    who: User,
) -> list[Waiting]:
    out = {o.seller_id for o in operations if o.settled_at is None}
    estimates = estimates_of(sellers=out, task_type="create_media_buy")
    return waits_of(
        approvals=approvals,
        operations=operations,
        who=who,
        estimates=estimates,
        decisions=decisions,
        answers=answers,
    )
