"""The pages of sellers: their list, and one with what people may change."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import display

from tasks_app import clock
from tasks_app.desk import text
from tasks_app.desk.drawn import row_held
from tasks_app.desk.page import viewer
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User
from tasks_app.sellers import presenters
from tasks_app.sellers.adding.pages import AddSellerPages, readiness_data
from tasks_app.sellers.change_messages import show_change, withdraw_shown_change
from tasks_app.sellers.forms import SellerForm, TimingForm, take
from tasks_app.sellers.health import health_of
from tasks_app.sellers.heard import quirk_forget
from tasks_app.sellers.learnt import learnt_of
from tasks_app.sellers.models import SECRET_COLUMNS, Seller
from tasks_app.sellers.selectors import accounts_of, recent_deliveries
from tasks_app.sellers.services import (
    SellerChange,
    seller_change,
    seller_timing_change,
    webhook_secret_rotate,
)
from tasks_app.sellers.trust import Made, shown
from tasks_app.templatetags.fd import mark

VIEW_DELIVERY = "tasks_app.view_webhookdelivery"


@admin.register(Seller)
class SellerAdmin(AddSellerPages):
    """Sellers' agents."""

    object_template = "desk/seller.html"
    team_path = None
    head = "Sellers"
    subhead = "Agents we buy from, with what they said they can do"
    views = {
        "": ("All", {}),
        "active": ("Active", {"active": True}),
        "off": ("Switched off", {"active": False}),
    }
    list_display = [
        "show_name",
        "show_active",
        "show_health",
        "show_wire",
        "show_webhooks",
        "show_idempotency",
        "slots",
    ]
    search_fields = ["name", "slug"]
    search_help_text = "A part of the name"
    ordering = ["name"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(ModelAdmin.has_change_permission(self, request, obj))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer(*SECRET_COLUMNS)

    @display(description="Seller")
    def show_name(self, seller: Seller) -> SafeString:
        return format_html(
            '<span class="two">{}<small class="mono">{}</small></span>', seller.name, seller.slug
        )

    @display(description="Wire")
    def show_wire(self, seller: Seller) -> SafeString:
        version = f"AdCP {seller.adcp_version}" if seller.adcp_version else "not asked yet"
        return format_html(
            '<span class="two">{}<small>{}</small></span>', seller.get_protocol_display(), version
        )

    @display(description="Webhooks")
    def show_webhooks(self, seller: Seller) -> SafeString:
        return format_html('<span class="two">{}<small>{}</small></span>', *presenters.webhooks_words(seller))

    @display(description="Repeated purchase")
    def show_idempotency(self, seller: Seller) -> SafeString:
        return mark(presenters.idempotency_glyph(seller), presenters.idempotency_words(seller)[0])

    def name_rows(self, rows: list[Any]) -> None:
        health = health_of(rows)
        for seller in rows:
            seller.health = health.get(seller.pk)

    @display(description="Health")
    def show_health(self, seller: Seller) -> SafeString:
        line = presenters.health_line(vars(seller)["health"])
        return format_html(
            '<span class="two">{}<small>{}</small></span>', mark(line.glyph, line.text), line.note
        )

    @display(description="State", ordering="active")
    def show_active(self, seller: Seller) -> SafeString:
        return mark("done", "Active") if seller.active else mark("stopped", "Switched off")

    def object_data(self, request: HttpRequest, obj: Seller) -> dict[str, Any]:
        user = viewer(request)
        taken = obj.idempotency_risk_accepted_by
        accepted = actor_names({taken})[taken] if taken else ""
        health, accounts = health_of([obj]).get(obj.pk), accounts_of(obj, user)
        may_change = self.has_change_permission(request, obj)
        return {
            "seller": obj,
            "abilities": presenters.abilities(obj),
            "learnt": learnt_of(obj, accounts),
            "webhooks": presenters.webhooks_words(obj),
            "idempotency": presenters.idempotency_words(obj, accepted),
            "idempotency_glyph": presenters.idempotency_glyph(obj),
            "health": health,
            "figures": presenters.health_figures(obj, health) if health else [],
            "breaker": presenters.breaker_item(health.breaker) if health and health.breaker else None,
            "errors": presenters.error_rows(health.calls) if health else [],
            "looked_at": presenters.looked_at_words(obj),
            "deliveries": recent_deliveries(obj, user) if user.has_perm(VIEW_DELIVERY) else None,
            **readiness_data(obj, accounts),
            **self.asking_data(request, obj),
            "form": SellerForm.of(obj) if may_change else None,
            "withdraws": may_change,
            **presenters.waiting_data(obj),
            "agreeing": presenters.roles_that_agree(obj),
            "timing": TimingForm(seller=obj) if may_change else None,
            "timing_own": len(obj.timing),
            "secret_shown": shown(obj, "webhook_secret"),
            "rotation_lasts": len(obj.webhook_secrets(clock.now())) > 1,
            "title": obj.name,
        }

    def object_post(self, request: HttpRequest, obj: Seller) -> HttpResponse:
        """The settings form, or the button that rotates the webhook secret."""
        if not self.has_change_permission(request, obj):
            raise PermissionDenied
        if "rotate" in request.POST:
            return self._rotate(request, obj)
        if "withdraw" in request.POST:
            return self._withdraw(request, obj)
        if "forget" in request.POST:
            return self._forget(request, obj)
        if "ask" in request.POST:
            return self.ask(request, obj)
        if "account" in request.POST:
            return self._account(request, obj)
        which = "timing" if "timing" in request.POST else "form"
        with transaction.atomic():
            form, made = self._posted(request, row_held(obj), which)
        if form.errors:
            data = {**self.object_data(request, obj), which: form}
            return self.page(request, "desk/seller.html", obj, status=422, **data)
        show_change(self, request, obj, made)
        return HttpResponseRedirect(request.path)

    def _posted(self, request: HttpRequest, obj: Seller, which: str) -> tuple[SellerForm | TimingForm, Made]:
        """The form with its errors, if it has any, and what was written."""
        timing = which == "timing"
        form = TimingForm(request.POST, seller=obj) if timing else SellerForm.of(obj, request.POST)
        if form.is_valid():
            try:
                return form, self._save(form, obj, viewer(request))
            except ValidationError as error:
                take(form, error)
        return form, Made(changed=[])

    def _save(self, form: SellerForm | TimingForm, obj: Seller, user: User) -> Made:
        if isinstance(form, TimingForm):
            return Made(changed=seller_timing_change(seller=obj, timing=form.numbers, actor=user))
        return seller_change(seller=obj, change=SellerChange(**form.cleaned_data), actor=user)

    def _withdraw(self, request: HttpRequest, obj: Seller) -> HttpResponse:
        withdraw_shown_change(request, obj)
        return HttpResponseRedirect(request.path)

    def _forget(self, request: HttpRequest, obj: Seller) -> HttpResponse:
        if quirk_forget(seller=obj, quirk=request.POST["forget"], actor=viewer(request)):
            self.log_change(request, obj, "Forgot what was learnt")
            messages.success(request, "Forgotten: it is asked as any other until it refuses that again.")
        return HttpResponseRedirect(request.path)

    def _account(self, request: HttpRequest, obj: Seller) -> HttpResponse:
        refused = self.request_account(request, obj)
        if refused is None:
            return HttpResponseRedirect(request.path)
        data = {**self.object_data(request, obj), "account_form": refused}
        return self.page(request, "desk/seller.html", obj, status=422, **data)

    def _rotate(self, request: HttpRequest, obj: Seller) -> HttpResponse:
        drop, seen = request.POST["rotate"] == "drop", request.POST.get("shown", "")
        try:
            until = webhook_secret_rotate(seller=obj, actor=viewer(request), drop_present=drop, seen=seen)
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
        else:
            self.log_change(request, obj, "Rotated the webhook secret")
            lasts = f"is accepted until {text.moment(until)}" if until else "is accepted no more"
            messages.success(request, f"A new webhook secret is in use; the one before {lasts}.")
        return HttpResponseRedirect(request.path)
