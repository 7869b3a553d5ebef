"""The pages for an address that does not exist and for one that the viewer may not open."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import defaults

_MACHINE_PATHS = ("/api/", "/webhooks/", "/metrics")


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 404; what machines call gets Django's plain answer."""
    if request.path.startswith(_MACHINE_PATHS):
        return defaults.page_not_found(request, exception)
    text = "There is nothing at this address, or you may not see it. It may have been typed wrongly."
    return _page(request, "Page not found", text, status=404)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 403; what machines call gets Django's plain answer."""
    if request.path.startswith(_MACHINE_PATHS):
        return defaults.permission_denied(request, exception)
    text = "Your role does not allow this. An administrator can change your role."
    return _page(request, "Not allowed", text, status=403)


def _page(request: HttpRequest, title: str, text: str, *, status: int) -> HttpResponse:
    context = {**admin.site.each_context(request), "title": title, "text": text}
    return render(request, "desk/error.html", context, status=status)
