"""What every list has besides its rows: saved filters, and itself as CSV."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, ClassVar, cast
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db import transaction
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
    QueryDict,
    StreamingHttpResponse,
)
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from unfold.admin import ModelAdmin

from tasks_app import clock, days
from tasks_app.desk import text
from tasks_app.desk.drawn import DrawnForm
from tasks_app.desk.export import Export, beside, export_lines
from tasks_app.desk.saved import (
    SavedFilter,
    SavedFilterRefusedError,
    query_pairs,
    saved_filter_change,
    saved_filter_delete,
    saved_filter_held,
    saved_filter_save,
    saved_filters_of,
)
from tasks_app.people.lockout import address_of
from tasks_app.people.models import Team, User
from tasks_app.people.scope import teams_of
from tasks_app.people.security import Kind, security_record

_QUERY = 4000  # characters of an address that are read
UNFILTERED = "?view="  # not the bare address: that is opened with one's own default
_BOM = "\ufeff"  # by which spreadsheets know UTF-8


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What desk/list_tools.html is given. `query`: the present filter; `chosen`: the saved one that it is."""

    page: str
    filters: list[SavedFilter]
    query: str
    chosen: SavedFilter | None
    own_form: SavedFilterForm | None  # of the chosen one, where it is the viewer's
    teams: list[Team]
    save_link: str
    export_link: str


class SavedFilterForm(DrawnForm):
    """One's own filter as the bar shows it; what its values may be is judged by who saves them."""

    name = forms.CharField(required=False)
    team = forms.CharField(required=False)
    default = forms.BooleanField(required=False)

    def __init__(self, kept: SavedFilter, said: QueryDict | None = None) -> None:
        self._query = kept.query
        shown = {"name": kept.name, "team": str(kept.team_id or ""), "default": kept.is_default}
        super().__init__(said, initial=shown)

    def drawn_values(self) -> dict[str, Any]:
        """What it filters too, which goes with it when it is deleted."""
        return {**super().drawn_values(), "query": self._query}


class ListTools(ModelAdmin):
    """Saved filters and the export of a list. `filter_keys`: what its address may hold; `export_of`: its rows
    as CSV, None where there is nothing to take away."""

    filter_keys: ClassVar[frozenset[str]] = frozenset({"view"})

    def known_filters(self, request: HttpRequest) -> frozenset[str]:
        """The keys of the address that filter or order this list."""
        return self.filter_keys

    def export_of(self, request: HttpRequest) -> Export | None:
        """The rows that the address filters, within what the viewer sees."""
        return None

    def filter_problem(self, request: HttpRequest, query: str) -> str:
        """Why a query is no filter of this list; empty: it is one."""
        unknown = sorted({key for key, _ in query_pairs(query)} - self.known_filters(request))
        return f"{', '.join(unknown)} is no filter of this list." if unknown else ""

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        guarded: Callable[..., Any] = self.admin_site.admin_view
        return [
            path("export/", guarded(self.export_view), name=f"{name}_export"),
            path("filters/", guarded(self.filters_view), name=f"{name}_filters"),
            *super().get_urls(),
        ]

    def tools(self, request: HttpRequest) -> Tools:
        """The bar above the list."""
        user = cast(User, request.user)
        query = self._query_of(request, request.META.get("QUERY_STRING", ""))
        filters = self._saved(request)
        chosen = next((one for one in filters if query and one.pairs == query_pairs(query)), None)
        owns = chosen is not None and chosen.owner_id == user.pk
        return Tools(
            page=self.opts.label_lower,
            filters=filters,
            query=query,
            chosen=chosen,
            own_form=SavedFilterForm(chosen) if chosen is not None and owns else None,
            teams=list(teams_of(user)[:50]),
            save_link=reverse(f"admin:{self._named}_filters"),
            export_link=f"{reverse(f'admin:{self._named}_export')}?{query}",
        )

    def default_link(self, request: HttpRequest) -> str:
        """Where the bare address leads whoever has a default filter of their own; empty: nowhere."""
        if request.method != "GET" or request.META.get("QUERY_STRING"):
            return ""
        mine = (one for one in self._saved(request) if one.owner_id == request.user.pk and one.is_default)
        default = next(mine, None)
        query = self._query_of(request, default.query) if default else ""
        return f"?{query}" if query else ""

    def export_view(self, request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
        """The list as CSV; put on record before its first row leaves."""
        if request.method != "GET":
            return HttpResponseNotAllowed(["GET"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        asked = request.META.get("QUERY_STRING", "")[:_QUERY]
        query = self._query_of(request, asked)
        export = None if self.filter_problem(request, asked) else self.export_of(asked_with(request, query))
        if export is None:
            raise Http404
        user = cast(User, request.user)
        security_record(
            event=Kind.EXPORTED,
            actor=user,
            about=self.opts.label_lower,
            detail={"format": "csv", "query": query, "columns": list(export.columns)},
            address=address_of(request),
        )
        lines = _in_zone(export_lines(export, most=settings.EXPORT_ROWS), timezone.get_current_timezone())
        answer = StreamingHttpResponse(
            beside(lines) if isinstance(request, ASGIRequest) else lines,
            content_type="text/csv; charset=utf-8",
        )
        name = f"{self.opts.model_name}-{days.local(clock.now()):%Y-%m-%d-%H%M}.csv"
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        answer["Cache-Control"] = "private, no-store"
        return answer

    def filters_view(self, request: HttpRequest) -> HttpResponse:
        """Save, change or delete one of the person's own filters, and back to the list."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        back = self._query_of(request, request.POST.get("query", ""))
        try:
            told, query = self._act(request, back)
        except SavedFilterRefusedError as error:
            messages.error(request, str(error))
            query = back
        else:
            messages.success(request, told)
        changelist = reverse(f"admin:{self._named}_changelist")
        return HttpResponseRedirect(f"{changelist}{f'?{query}' if query else UNFILTERED}")

    def _act(self, request: HttpRequest, query: str) -> tuple[str, str]:
        """What was done, and the filter to go on with. Raises SavedFilterRefusedError."""
        user, said = cast(User, request.user), request.POST
        if said.get("act") in ("change", "delete"):
            return _act_on_own(user, said)
        problem = self.filter_problem(request, said.get("query", ""))
        if problem:
            raise SavedFilterRefusedError(problem)
        kept = saved_filter_save(
            user=user,
            page=self.opts.label_lower,
            name=said.get("name", ""),
            query=query,
            team=_team(user, said.get("team", "")),
            default="default" in said,
        )
        return f"{kept.name} is saved.", kept.query

    def _query_of(self, request: HttpRequest, query: str) -> str:
        """The part of an address that filters this list, in one order."""
        known = self.known_filters(request)
        return urlencode([pair for pair in query_pairs(query[:_QUERY]) if pair[0] in known])

    def _saved(self, request: HttpRequest) -> list[SavedFilter]:
        kept: list[SavedFilter] | None = getattr(request, "_saved_filters", None)
        if kept is None:
            kept = saved_filters_of(cast(User, request.user), self.opts.label_lower)
            setattr(request, "_saved_filters", kept)  # noqa: B010 (a request has no such field)
        return kept

    @property
    def _named(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}"


def _act_on_own(user: User, said: QueryDict) -> tuple[str, str]:
    """Change or delete one that is still what its form was drawn from. Raises SavedFilterRefusedError."""
    with transaction.atomic():
        kept = saved_filter_held(user=user, filter_id=_uuid(said.get("id", "")))
        form = SavedFilterForm(kept, said)
        if not form.is_valid():
            raise SavedFilterRefusedError(
                " ".join(str(one) for found in form.errors.values() for one in found)
            )
        if said.get("act") == "delete":
            saved_filter_delete(user=user, filter_id=kept.pk)
            return f"{kept.name} is deleted.", ""
        changed = saved_filter_change(
            user=user,
            filter_id=kept.pk,
            name=form.cleaned_data["name"],
            team=_team(user, form.cleaned_data["team"]),
            default=form.cleaned_data["default"],
        )
    return f"{changed.name} is saved.", changed.query


def asked_with(request: HttpRequest, query: str) -> HttpRequest:
    """The request as if its address held that query."""
    asked = copy.copy(request)
    asked.GET = QueryDict(query)
    return asked


def lookup_problem(admin: ModelAdmin, request: HttpRequest, query: str) -> str:
    """Why a list made by unfold does not take a query; empty: it does."""
    try:
        admin.get_changelist_instance(asked_with(request, query))
    except (IncorrectLookupParameters, DisallowedModelAdminLookup):
        return "A value of this filter is wrong."
    return ""


def _in_zone(lines: Iterator[str], zone: tzinfo) -> Iterator[str]:
    """Make lines with full dates in the person's time zone, also after the request is over."""
    yield _BOM
    while True:
        with timezone.override(zone), text.iso_dates():
            line = next(lines, "")
        if not line:
            return
        yield line


def _uuid(given: str) -> uuid.UUID:
    try:
        return uuid.UUID(given)
    except ValueError:
        raise SavedFilterRefusedError("There is no such filter of yours.") from None


def _team(user: User, given: str) -> Team | None:
    if not given:
        return None
    try:
        found = teams_of(user).filter(pk=uuid.UUID(given)).first()
    except ValueError:
        found = None
    if found is None:
        raise SavedFilterRefusedError("You share with teams of your own.")
    return found
