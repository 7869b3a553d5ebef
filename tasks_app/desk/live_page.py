"""The admin page of an object that changes by itself: its live part anew, and the stream that says when."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, ClassVar

from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path, reverse

from tasks_app.desk.live import RETRY, Followed, sign_of, sign_told, stream_headers
from tasks_app.desk.page import Page, explain_link, viewer
from tasks_app.people.access import proof_of


class LivePage(Page):
    """`live_page`: the name its signs are registered under, and the beginning of its addresses' names;
    `live_template`: what stands in its `#live-page`. `object_data` holds `live_data`, read first: what is
    written while the rest is read shows as news."""

    live_page: ClassVar[str] = ""
    live_template: ClassVar[str] = ""

    class Media:
        js = ("desk/live.js",)

    def get_urls(self) -> list[URLPattern]:
        live: Callable[..., HttpResponse] = self.admin_site.admin_view(self.live_view)
        changes: Callable[..., HttpResponse] = self.admin_site.admin_view(self.changes_view)
        return [
            path("<uuid:pk>/live/", live, name=f"{self.live_page}_live"),
            path("<uuid:pk>/changes/", changes, name=f"{self.live_page}_changes"),
            *super().get_urls(),
        ]

    def live_data(self, obj: Model) -> dict[str, Any]:
        """What desk/live.html is given."""
        return {
            "live": {
                "sign": sign_of(self.live_page, obj.pk),
                "address": reverse(f"admin:{self.live_page}_live", args=[obj.pk]),
                "changes": reverse(f"admin:{self.live_page}_changes", args=[obj.pk]),
            }
        }

    def live_view(self, request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
        """The live part as it is now: 204 where the page shows it already (`sign`)."""
        obj = self._seen(request, pk)
        if request.GET.get("sign") == sign_of(self.live_page, pk):
            return HttpResponse(status=204)
        given = {"original": obj, "explain_link": explain_link(obj), **self.object_data(request, obj)}
        return render(request, self.live_template, given)

    def changes_view(self, request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
        """The beginning of a stream of signs: the one now. What goes on is `tasks_app.api.streams`'s; where
        nothing keeps the connection open, the browser comes again."""
        self._seen(request, pk)
        sign = sign_of(self.live_page, pk)
        going = Followed(
            user=str(viewer(request).pk),
            proof=proof_of(request),
            page=self.live_page,
            entity_id=pk,
            sign=sign,
        )
        body = RETRY + sign_told(sign)
        return HttpResponse(body, content_type="text/event-stream", headers=stream_headers(going.header()))

    def _seen(self, request: HttpRequest, pk: uuid.UUID) -> Model:
        obj: Model | None = self.get_object(request, str(pk))
        if obj is None or not self.has_view_permission(request, obj):
            raise Http404
        return obj
