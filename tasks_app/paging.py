"""Pages of lists of any size: what the planner estimates is told, nothing large is counted, nothing far is
skipped. Newest first, the next page begins after the last key shown; in any other order pages go so far only.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib.admin import AdminSite, FieldListFilter
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import get_fields_from_path
from django.contrib.admin.views.main import ORDER_VAR, PAGE_VAR
from django.core.exceptions import ValidationError
from django.core.paginator import EmptyPage, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict
from django.utils.functional import cached_property
from unfold.paginator import InfinitePaginator
from unfold.views import ChangeList

from tasks_app.storable import is_storable

AFTER = "after"
_BEFORE = "before"
_OFFERED = "_lookups_offered"
_MOST_PAGES = 100  # by number: what lies beyond is found by a filter or a search
_EXACT_ROWS = 1000
_EXACT_COST = 2000.0  # PostgreSQL's units: some milliseconds


class ListPaginator(InfinitePaginator):
    """Every list's paginator: a page more is offered where this one is full, the total is told in words."""

    template_name = "desk/list_pages.html"

    def validate_number(self, number: Any) -> int:
        """Raises EmptyPage for one too far: PostgreSQL would read and drop all rows before it."""
        wanted = int(super().validate_number(number))
        if wanted > _MOST_PAGES:
            raise EmptyPage(f"Pages go up to {_MOST_PAGES}: narrow the list.")
        return wanted

    @cached_property
    def total(self) -> str:
        """214 where that is cheap to know, else about 1,000,000: two digits of the planner's estimate, which
        takes an empty table that it never analysed for one of ten pages."""
        rows = self.object_list.order_by()
        said = rows.explain(format="json")
        if not said:  # the filters exclude one another: there is nothing to ask the database
            return "0"
        plan = json.loads(said)[0]["Plan"]
        if plan["Total Cost"] <= _EXACT_COST:
            counted = rows[: _EXACT_ROWS + 1].count()
            if counted <= _EXACT_ROWS:
                return f"{counted:,}"
        return f"about {_rounded(max(plan['Plan Rows'], _EXACT_ROWS)):,}"


class KeyedList(ChangeList):
    """A change list whose next page begins after a key, where it stands newest first. It takes the lookups
    that its filters offer, and no other."""

    def get_filters(self, request: HttpRequest) -> Any:
        """Django would filter by any path from the model, through relations and into JSON: what a page hides
        could be asked for letter by letter. Raises DisallowedModelAdminLookup, which names them all, and
        IncorrectLookupParameters for a value with NUL, which PostgreSQL takes in no text."""
        asked = self.get_filters_params()
        beyond = sorted(set(asked) - lookups_offered(self.model_admin, request))
        if beyond:
            raise DisallowedModelAdminLookup(f"This list has no filter {', '.join(beyond)}.")
        if not all(is_storable(one) for values in asked.values() for one in values):
            raise IncorrectLookupParameters("a value holds NUL, which nothing can keep")
        return super().get_filters(request)

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        found = dict(super().get_filters_params(params))
        found.pop(AFTER, None)
        return found

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        after = request.GET.get(AFTER, "")
        if not (after and self.by_key):
            return rows
        try:
            return rows.filter(pk__lt=self.model._meta.pk.to_python(after))
        except ValidationError as error:
            raise IncorrectLookupParameters(str(error)) from None

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        # Else unfold tells a number that nobody has counted, and offers to select so many.
        self.result_count = self.full_result_count = len(self.result_list)

    @property
    def by_key(self) -> bool:
        """Whether rows stand in the order of their keys, newest first."""
        return ORDER_VAR not in self.params and list(self.model_admin.ordering or ()) == ["-id"]

    @property
    def total(self) -> str:
        """How many there are, in words; of those after a key nobody counts."""
        if AFTER in self.params:
            return ""
        shown = len(self.result_list)
        return str(shown if self.page_num == 1 and shown < self.list_per_page else self.paginator.total)

    @property
    def next_link(self) -> str:
        """The next page's query; empty on the last."""
        rows = list(self.result_list)
        if len(rows) < self.list_per_page:
            return ""
        if self.by_key:
            return str(self.get_query_string({AFTER: str(rows[-1].pk)}, [PAGE_VAR]))
        more = self.page_num < _MOST_PAGES
        return str(self.get_query_string({PAGE_VAR: self.page_num + 1})) if more else ""

    @property
    def first_link(self) -> str:
        """The first page's query; empty there."""
        beyond = AFTER in self.params or self.page_num > 1
        return str(self.get_query_string(remove=[AFTER, PAGE_VAR])) if beyond else ""


@dataclass(frozen=True, kw_only=True)
class OlderPage:
    """One page of a list with a template of its own, newest first, as templates/desk/older.html is given it:
    `older` and `newest` are the queries of the next page and of the first, empty where it is the one."""

    rows: list[Any]
    older: str
    newest: str
    listed: QuerySet[Any]

    @property
    def total(self) -> str:
        """How many the whole list has, in words; asked only where this page does not tell it."""
        if not (self.older or self.newest):
            return str(len(self.rows))
        return str(ListPaginator(self.listed, max(len(self.rows), 1)).total)


def older_page(listed: QuerySet[Any], asked: QueryDict, *, size: int) -> OlderPage:
    """The page of `listed`, in the order of its keys, newest first, that an address asks for: at most `size`
    rows. A key that is none asks for the first."""
    before = _key(asked.get(_BEFORE, ""))
    found = list((listed.filter(pk__lt=before) if before else listed).order_by("-pk")[: size + 1])
    rows = found[:size]
    return OlderPage(
        rows=rows,
        older=_query(asked, str(rows[-1].pk)) if len(found) > size else "",
        newest=_query(asked, "") if before else "",
        listed=listed,
    )


def _key(given: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(given)
    except ValueError:
        return None


def _query(asked: QueryDict, before: str) -> str:
    """The address's query with another page."""
    query = asked.copy()
    query.pop(_BEFORE, None)
    if before:
        query[_BEFORE] = before
    return f"?{query.urlencode()}"


def lookups_offered(model_admin: Any, request: HttpRequest) -> frozenset[str]:
    """The keys that the filters beside a list write into its address, and those of our own pages' links to it
    (`linked_lookups`); found once for each ModelAdmin."""
    known: frozenset[str] | None = vars(model_admin).get(_OFFERED)
    if known is None:
        filters = (_filter_of(model_admin, path, request) for path in model_admin.list_filter)
        linked = getattr(model_admin, "linked_lookups", ())
        known = frozenset([*linked, *(key for one in filters for key in one.expected_parameters())])
        setattr(model_admin, _OFFERED, known)
    return known


def _filter_of(model_admin: Any, path: str, request: HttpRequest) -> Any:
    field: Any = get_fields_from_path(model_admin.model, path)[-1]
    return FieldListFilter.create(field, request, {}, model_admin.model, model_admin, field_path=path)


def _rounded(rows: int) -> int:
    """To two digits: an estimate is no better."""
    return int(round(rows, 2 - len(str(rows))))


def lists_adopt(site: AdminSite) -> None:
    """Let the lists that libraries register page like ours: theirs count, and skip row by row."""
    registered: dict[Any, Any] = dict(site._registry)
    for model_admin in registered.values():
        if model_admin.paginator is Paginator:
            model_admin.paginator = ListPaginator
            model_admin.show_full_result_count = False
            model_admin.get_changelist = _keyed


def _keyed(_request: HttpRequest, **_: Any) -> type[KeyedList]:
    return KeyedList
