"""What pages are measured against, in the same process: the list of 25 deals of a stock ModelAdmin."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.decorators import async_only_middleware

import config.urls
from orders.models import Deal

MILLISECONDS = "X-Bench-Milliseconds"
_ROWS = 25


class _Uncounted(Paginator):
    """Claims a second page without counting the rows."""

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
            response.using = "stock"
        return response


@async_only_middleware
def timed(
    get_response: Callable[[HttpRequest], Awaitable[HttpResponse]],
) -> Callable[[HttpRequest], Awaitable[HttpResponse]]:
    """Say in a header how long the whole answer took. Outermost of all middleware."""

    async def measured(request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        response = await get_response(request)
        response[MILLISECONDS] = f"{1000 * (time.perf_counter() - began):.2f}"
        return response

    return measured


site = admin.AdminSite(name="stock")
site.register(Deal, _Deals)
urlpatterns = [path("stock/", site.urls), *config.urls.urlpatterns]
