"""What our pages are measured beside, in the same process: Django's own admin, a list of 25 deals.

A ModelAdmin as `startapp` would have it, with Django's own templates (unfold replaces them elsewhere): six
columns of the latest 25 rows, nothing counted. Who may look is asked as everywhere in the admin.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import path

import config.urls
from bench.pages import STOCK
from orders.models import Deal

_ROWS = 25


class _Uncounted(Paginator):
    """Says that there is more than one page, without looking: else the list shows all it finds."""

    count = _ROWS + 1


class _Deals(admin.ModelAdmin):
    list_display = ("reference", "status", "currency", "start_at", "end_at", "status_since")
    list_per_page = _ROWS
    ordering = ("-id",)
    paginator = _Uncounted
    show_full_result_count = False
    actions = None

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        response = super().changelist_view(request, extra_context)
        if isinstance(response, TemplateResponse):
            response.using = STOCK
        return response


site = admin.AdminSite(name=STOCK)
site.register(Deal, _Deals)
urlpatterns = [path(f"{STOCK}/", site.urls), *config.urls.urlpatterns]
