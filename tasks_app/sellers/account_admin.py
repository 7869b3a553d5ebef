"""The pages of accounts with sellers."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from pydantic import ValidationError as WireError
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget, UnfoldAdminURLInputWidget

from tasks_app.adcp import requests
from tasks_app.desk import terms, text
from tasks_app.desk.drawn import DrawnAdmin, DrawnForm
from tasks_app.desk.listing import ListPage
from tasks_app.desk.page import explain_link, viewer
from tasks_app.people.models import Advertiser
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
from tasks_app.sellers.change_messages import show_change, withdraw_shown_change
from tasks_app.sellers.explain import account_glyph
from tasks_app.sellers.models import Account
from tasks_app.sellers.services import (
    account_add,
    account_change,
    account_hold,
)
from tasks_app.templatetags.fd import mark


class AccountForm(DrawnForm, forms.ModelForm):
    """An account by hand; its reference has AdCP's shape (core/account-ref)."""

    reason = forms.CharField(
        required=False,
        max_length=500,
        label="Why",
        help_text="For the approver. A second person must agree if the reference or the payer of an account "
        "in use changes.",
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
        withdraw_shown_change(request, account)
        return HttpResponseRedirect(request.path)

    def get_readonly_fields(self, request: HttpRequest, obj: Account | None = None) -> tuple[str, ...]:
        """Return advertiser and seller as read-only for an account that exists."""
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
            show_change(self, request, obj, made)

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
            messages.success(request, "The account stays off until somebody sets its status.")
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
