"""Lists made by unfold: saved views as segments, names looked up for a page at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.utils import display_for_field, label_for_field, lookup_field
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from unfold.views import ChangeList

from tasks_app.desk import text
from tasks_app.desk.export import Export, PlainColumns, plain
from tasks_app.desk.list_tools import UNFILTERED, lookup_problem
from tasks_app.desk.page import Page
from tasks_app.paging import KeyedList, ListPaginator, lookups_offered

VIEW = "view"


class SavedViewList(KeyedList):
    """Narrows by the saved view, and lets the admin name its rows once the page's rows are known."""

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        found = dict(super().get_filters_params(params))
        found.pop(VIEW, None)
        return found

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        rows = super().get_queryset(request, exclude_parameters)
        _, lookups = self.model_admin.views.get(request.GET.get(VIEW, ""), ("", {}))
        return rows.filter(**lookups)

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(vars(self)["result_list"])
        self.model_admin.name_rows(rows)
        self.result_list = rows


class ListPage(Page):
    """A read-only list with a head of ours above unfold's table.

    `views`: the saved views, value (empty for the first) to (title, lookups).
    """

    head: ClassVar[str] = ""
    subhead: ClassVar[str] = ""
    views: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {}
    list_before_template = "desk/list_head.html"
    adds_above = False  # the form that adds a row is above the list
    list_fullwidth = True
    list_per_page = 50
    show_full_result_count = False
    paginator = ListPaginator
    # By the name of a column: what its CSV has in place of the words on screen.
    csv_columns: ClassVar[dict[str, PlainColumns]] = {}
    actions: Any = None

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return SavedViewList

    def name_rows(self, rows: list[Any]) -> None:
        """Called with the rows of one page: what they are called may be looked up here, at once."""

    def segments(self, request: HttpRequest) -> list[dict[str, Any]]:
        """unfold's navigation items for the saved views."""
        chosen = request.GET.get(VIEW, "")
        return [
            {"title": title, "link": f"?{VIEW}={value}" if value else UNFILTERED, "active": value == chosen}
            for value, (title, _) in self.views.items()
        ]

    def known_filters(self, request: HttpRequest) -> frozenset[str]:
        """The saved view, the search, the order, and what the filters at the side add to the address."""
        return frozenset({VIEW, "q", "o", *self.filter_keys, *lookups_offered(self, request)})

    def filter_problem(self, request: HttpRequest, query: str) -> str:
        return super().filter_problem(request, query) or lookup_problem(self, request, query)

    def export_of(self, request: HttpRequest) -> Export:
        """Return every row that the list's pages would show, in its order."""
        columns = [self._plain_columns(str(name)) for name in self.list_display]
        return Export(
            columns=[title for one in columns for title in one.titles],
            rows=self.get_changelist_instance(request).queryset,
            cells=lambda rows: self._cells(rows, columns),
        )

    def _plain_columns(self, name: str) -> PlainColumns:
        """Return the columns of the CSV for a column of the list: the words on screen by default."""
        title = str(label_for_field(name, self.model, model_admin=self)).capitalize()
        words = PlainColumns(titles=(title,), cells=lambda row: (plain(self._shown(name, row)),))
        return self.csv_columns.get(name, words)

    def _cells(self, rows: list[Any], columns: Sequence[PlainColumns]) -> Iterator[list[str]]:
        self.name_rows(rows)
        for row in rows:
            yield [cell for one in columns for cell in one.cells(row)]

    def _shown(self, name: str, row: Any) -> object:
        field, _, value = lookup_field(name, row, self)
        if isinstance(value, datetime):
            return text.moment(value)
        if isinstance(value, date):
            return text.weekday(value)
        return value if field is None else display_for_field(value, field, "")

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        extra = {"head": self.head, "subhead": self.subhead, "segments": self.segments(request)}
        try:
            return super().changelist_view(request, {**extra, **(extra_context or {})})
        except DisallowedModelAdminLookup as error:
            messages.error(request, str(error)[:300])
            return HttpResponseRedirect(UNFILTERED)


def named(row: Model, name: str) -> str:
    """What `name_rows` found for a row; – where it found nothing."""
    return str(getattr(row, name, "") or "–")
