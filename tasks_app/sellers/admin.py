"""Sellers and accounts in the admin: the page of one seller, and the few things people may change."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from pydantic import ValidationError as WireError
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget, UnfoldAdminURLInputWidget

from tasks_app import clock
from tasks_app.adcp import requests
from tasks_app.desk import terms, text
from tasks_app.desk.drawn import DrawnAdmin, DrawnForm, row_held
from tasks_app.desk.listing import ListPage
from tasks_app.desk.page import explain_link, viewer
from tasks_app.people.actors import actor_names
from tasks_app.people.models import Advertiser, User
from tasks_app.people.scope import visible
from tasks_app.sellers import presenters
from tasks_app.sellers.accounts import (
    AccountRequest,
    account_request,
    account_words,
    askable,
    holdable,
    switched_off_words,
)
from tasks_app.sellers.adding.pages import AddSellerPages, readiness_data
from tasks_app.sellers.explain import account_glyph
from tasks_app.sellers.forms import SellerForm, TimingForm, take
from tasks_app.sellers.health import health_of
from tasks_app.sellers.heard import quirk_forget
from tasks_app.sellers.learnt import learnt_of
from tasks_app.sellers.models import SECRET_COLUMNS, Account, Seller
from tasks_app.sellers.selectors import accounts_of, recent_deliveries
from tasks_app.sellers.services import (
    SellerChange,
    account_add,
    account_change,
    account_hold,
    change_withdraw,
    seller_change,
    seller_timing_change,
    webhook_secret_rotate,
)
from tasks_app.sellers.trust import Made, shown
from tasks_app.templatetags.fd import mark

VIEW_DELIVERY = "tasks_app.view_webhookdelivery"


@admin.register(Seller)
class SellerAdmin(AddSellerPages):
    """Sellers' agents: their list, and the page of one with what people may change."""

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
        told_made(self, request, obj, made)
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
        told_withdrawn(request, obj)
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


def told_made(page: ListPage, request: HttpRequest, row: Seller | Account, made: Made) -> None:
    """Say what was written, and what waits for a second person."""
    if made.changed:
        page.log_change(request, row, f"Changed {', '.join(made.changed)}")
        messages.success(request, f"Saved: {', '.join(made.changed).replace('_', ' ')}.")
    if made.waiting is not None:
        waits = presenters.trust_lines(made.waiting)
        messages.warning(
            request,
            f"Waits for a second person: {', '.join(label for label, _, _ in waits).lower()}. "
            f"The present values stay in force. {presenters.agreeing_words(made.waiting)}",
        )


def told_withdrawn(request: HttpRequest, row: Seller | Account) -> None:
    """Withdraw the change that the page showed, and say what came of it."""
    if change_withdraw(row=row, actor=viewer(request), seen=request.POST.get("shown", "")):
        messages.success(request, "Withdrawn: the present values stay.")
    else:
        messages.warning(
            request,
            "Nothing was withdrawn: what this page showed was decided or withdrawn since it was opened.",
        )


class AccountForm(DrawnForm, forms.ModelForm):
    """An account by hand; its reference has AdCP's shape (core/account-ref)."""

    reason = forms.CharField(
        required=False,
        max_length=500,
        label="Why",
        help_text="For who approves: of an account in use, what it is and who pays change with a second "
        "person’s word",
        widget=UnfoldAdminTextInputWidget(),
    )

    setup_url = forms.URLField(
        required=False, max_length=500, assume_scheme="https", widget=UnfoldAdminURLInputWidget()
    )

    class Meta:
        model = Account
        widgets: ClassVar = {"reference": UnfoldAdminTextareaWidget(attrs={"rows": 3})}
        fields = (
            "advertiser",
            "seller",
            "reference",
            "status",
            "billing_party",
            "payment_terms",
            "setup_url",
        )

    def clean_reference(self) -> dict[str, Any]:
        reference = self.cleaned_data["reference"]
        try:
            requests.Account.model_validate(reference)
        except WireError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ValidationError(f"{where or 'reference'}: {first['msg']}") from error
        return dict(reference)


@admin.register(Account)
class AccountAdmin(DrawnAdmin, ListPage):
    """Advertisers' accounts with sellers; booking needs an active one."""

    form = AccountForm
    team_path = "advertiser__team"
    head = "Accounts"
    subhead = "Your advertisers’ accounts with sellers; booking needs an active one"
    list_display = ["show_account", "seller", "show_status", "show_billing"]
    change_form_outer_before_template = "desk/account_head.html"
    list_filter = ["seller", "status"]
    search_fields = ["advertiser__name"]
    search_help_text = "A part of the advertiser’s name"
    ordering = ["advertiser__name", "seller__name"]
    list_select_related = ["advertiser", "seller"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(ModelAdmin.has_add_permission(self, request))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(ModelAdmin.has_change_permission(self, request, obj))

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "advertiser":
            kwargs["queryset"] = visible(Advertiser.objects.all(), viewer(request))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        account = self.get_object(request, object_id) if object_id else None
        if account is None:
            return super().changeform_view(request, object_id, form_url, extra_context)
        if request.method == "POST" and "withdraw" in request.POST:
            return self._withdraw(request, account)
        if request.method == "POST" and "ask_again" in request.POST:
            return self._ask_again(request, account)
        if request.method == "POST" and "hold" in request.POST:
            return self._keep_off(request, account)
        extra = {
            "explain_link": explain_link(account),
            "withdraws": self.has_change_permission(request, account),
            **presenters.waiting_data(account),
            "glyph": account_glyph(account.status),
            "word": account.get_status_display(),
            "terms": terms.payment(account.payment_terms),
            "words": account_words(account),
            "off": switched_off_words(account),
            "may_hold": holdable(account) and self.has_change_permission(request, account),
            "may_ask": askable(account) and self.has_change_permission(request, account),
            **(extra_context or {}),
        }
        return super().changeform_view(request, object_id, form_url, extra)

    def _withdraw(self, request: HttpRequest, account: Account) -> HttpResponse:
        if not self.has_change_permission(request, account):
            raise PermissionDenied
        told_withdrawn(request, account)
        return HttpResponseRedirect(request.path)

    def get_readonly_fields(self, request: HttpRequest, obj: Account | None = None) -> tuple[str, ...]:
        """Whose it is and with whom is what it is."""
        return ("advertiser", "seller") if obj else ()

    def save_model(self, request: HttpRequest, obj: Account, form: Any, change: bool) -> None:
        if not change:
            account_add(account=obj, actor=viewer(request))
            return
        values = {name: form.cleaned_data[name] for name in form.changed_data if name != "reason"}
        try:
            made = account_change(
                account=obj, values=values, actor=viewer(request), reason=form.cleaned_data["reason"]
            )
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
        else:
            told_made(self, request, obj, made)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """What is written, which is said in words; Django’s own message tells what was typed."""
        return super().log_change(request, obj, message) if isinstance(message, str) else None

    def _ask_again(self, request: HttpRequest, account: Account) -> HttpResponse:
        if not self.has_change_permission(request, account):
            raise PermissionDenied
        try:
            account_request(AccountRequest.again(account), viewer(request))
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
        else:
            self.log_change(request, account, "Asked the seller for it again")
            messages.success(request, f"{account.seller} is asked again; its answer will be told here.")
        return HttpResponseRedirect(request.path)

    def _keep_off(self, request: HttpRequest, account: Account) -> HttpResponse:
        if not self.has_change_permission(request, account):
            raise PermissionDenied
        try:
            account_hold(account=account, actor=viewer(request))
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
        else:
            self.log_change(request, account, "Kept it off, whatever its seller says")
            messages.success(request, "It stays off, until people let it go: set its status for that.")
        return HttpResponseRedirect(request.path)

    def response_change(self, request: HttpRequest, obj: Account) -> HttpResponse:
        return HttpResponseRedirect(request.path)

    @display(description="Account")
    def show_account(self, account: Account) -> SafeString:
        return format_html(
            '<span class="two">{}<small class="mono">{}</small></span>', account.advertiser.name, str(account)
        )

    @display(description="Billed to")
    def show_billing(self, account: Account) -> SafeString:
        paid = terms.payment(account.payment_terms) or text.DASH
        return format_html(
            '<span class="two">{}<small>{}</small></span>', account.billing_party or text.DASH, paid
        )

    @display(description="State", ordering="status")
    def show_status(self, account: Account) -> SafeString:
        return mark(account_glyph(account.status), account.get_status_display())
