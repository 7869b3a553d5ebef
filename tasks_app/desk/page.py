"""The page every room's admin builds on: unfold's frame, our template, rows of the viewer's teams only."""

from __future__ import annotations

from typing import Any, cast

from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from tasks_app.desk.explain import entity_of
from tasks_app.desk.list_tools import ListTools
from tasks_app.people.models import User
from tasks_app.people.scope import visible


class Page(ListTools):
    """A read-only ModelAdmin whose list and object are pages of our own.

    `list_template_name` and `object_template` name the templates, `list_data` and `object_data` answer what
    they are given; a page without its template stays unfold's. A page that takes a POST overrides
    `object_post`. `team_path` is the lookup to the owning team; None for what belongs to no team.
    """

    list_template_name: str | None = None
    object_template: str | None = None
    team_path: str | None = "team"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        return rows if self.team_path is None else visible(rows, viewer(request), team=self.team_path)

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        """What the list's template is given."""
        return {}

    def object_data(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """What the object's template is given, besides `original`."""
        return {}

    def object_post(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Answers a form on the object's page."""
        return HttpResponseNotAllowed(["GET", "HEAD"])

    def page(
        self,
        request: HttpRequest,
        template: str,
        obj: Model | None = None,
        *,
        status: int = 200,
        **extra: Any,
    ) -> TemplateResponse:
        """A template in unfold's frame, with breadcrumbs and the rail marked."""
        context = {
            **self.admin_site.each_context(request),
            "explain_link": explain_link(obj),
            "opts": self.model._meta,
            "title": str(obj) if obj else str(self.model._meta.verbose_name_plural).capitalize(),
            "original": obj,
            "media": self.media,
            **extra,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, template, context, status=status)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        default = self.default_link(request)
        if default:
            return HttpResponseRedirect(default)
        tools = self.tools(request)
        if self.list_template_name is None:
            extra = {"tools": tools, **(extra_context or {})}
            return cast(HttpResponse, super().changelist_view(request, extra))
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        return self.page(request, self.list_template_name, tools=tools, **self.list_data(request))

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if self.object_template is None:
            return cast(HttpResponse, super().change_view(request, object_id, form_url, extra_context))
        obj = self.get_object(request, object_id)
        if not self.has_view_permission(request, obj):
            raise PermissionDenied
        if obj is None:
            return cast(
                HttpResponse,
                self._get_obj_does_not_exist_redirect(request, self.opts, object_id),
            )
        if request.method == "POST":
            return self.object_post(request, obj)
        return self.page(request, self.object_template, obj, **self.object_data(request, obj))


def explain_link(obj: Model | None) -> str:
    """Where the explanation of what a page is about is, which the page's card loads; empty: it has none."""
    entity = entity_of(type(obj)) if obj is not None else ""
    return reverse("explain_card", args=[entity, obj.pk]) if entity and obj is not None else ""


def viewer(request: HttpRequest) -> User:
    """The person looking; the admin has let nobody else in."""
    return cast(User, request.user)
