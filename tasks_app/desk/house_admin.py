"""The page of the house: the organisation that buys."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse_lazy
from unfold.widgets import UnfoldAdminSelectWidget

from tasks_app.days import time_zones
from tasks_app.desk.drawn import DrawnForm
from tasks_app.desk.page import viewer
from tasks_app.desk.people_admin import RecordedPage
from tasks_app.money import currency_codes
from tasks_app.people.house import clean_domain, house_of, is_domain_fixed, is_house_named
from tasks_app.people.models import House
from tasks_app.people.security import Kind

_PAGE = reverse_lazy("admin:tasks_app_house_change", args=[1])
_NEW = reverse_lazy("admin:tasks_app_house_add")


class _HouseForm(DrawnForm, forms.ModelForm):
    currency = forms.ChoiceField(
        choices=lambda: [(code, code) for code in currency_codes()],
        help_text="New briefs begin with it.",
        widget=UnfoldAdminSelectWidget,
    )
    time_zone = forms.ChoiceField(
        choices=time_zones, help_text="New people begin with it.", widget=UnfoldAdminSelectWidget
    )

    def clean_domain(self) -> str:
        return clean_domain(self.cleaned_data["domain"])

    def clean(self) -> dict[str, Any]:
        """Refuse to name a house that has a name."""
        if self.instance._state.adding and is_house_named():
            raise ValidationError("Somebody has named the house since this page was opened. Open it again.")
        return super().clean()


@admin.register(House)
class HouseAdmin(RecordedPage):
    """One page: its list leads to the house, or to the page that names it."""

    recorded_as = Kind.HOUSE_CHANGED
    form = _HouseForm
    fields = ("name", "domain", "currency", "time_zone")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        return ("domain",) if obj and is_domain_fixed() else ()

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"currency": House().currency, "time_zone": viewer(request).time_zone}

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return whether the house can be named. A form that comes too late is told so."""
        is_open = request.method == "POST" or not house_of(request).name
        return is_open and super().has_add_permission(request)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return super().add_view(request, form_url, {"show_save_and_add_another": False})

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        return HttpResponseRedirect(str(_PAGE if house_of(request).name else _NEW))
