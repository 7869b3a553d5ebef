"""Rows that were put back, in the admin: what could not be done, how often, why, when it is tried again."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from tasks_app.desk import text
from tasks_app.desk.listing import ListPage
from tasks_app.desk.page import viewer
from tasks_app.troubles.models import RowTrouble
from tasks_app.troubles.rows import TOLD_AFTER
from tasks_app.troubles.selectors import trouble_row, trouble_words, troubles_of
from tasks_app.troubles.works import entity_worked_on


@admin.register(RowTrouble)
class RowTroubleAdmin(ListPage):
    """Read only: a row is tried again by itself, and leaves the list when it was handled."""

    object_template = "desk/row_trouble.html"
    team_path = None  # by the row that it is about, see get_queryset
    head = "Rows put back"
    subhead = (
        "Rows that could not be handled: each is tried again by itself, and nothing else waits for it. "
        "What was handled leaves the list"
    )
    views: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "": ("All", {}),
        "told": (f"{TOLD_AFTER} times or more", {"times__gte": TOLD_AFTER}),
    }
    list_display = ["show_work", "show_row", "times", "show_since", "show_again", "show_error"]
    list_filter = ["work"]
    search_fields = ["=row"]
    search_help_text = "A row's id, whole"
    ordering = ["-id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return troubles_of(viewer(request)).order_by(*self.ordering)

    @display(description="What")
    def show_work(self, trouble: RowTrouble) -> str:
        return trouble_words(trouble.work)

    @display(description="Row")
    def show_row(self, trouble: RowTrouble) -> SafeString:
        return format_html('{} <span class="mono">{}</span>', _kind(trouble), trouble.row)

    @display(description="Since")
    def show_since(self, trouble: RowTrouble) -> str:
        return text.moment(trouble.first_at)

    @display(description="Tried again")
    def show_again(self, trouble: RowTrouble) -> str:
        return text.moment(trouble.again_at)

    @display(description="Why")
    def show_error(self, trouble: RowTrouble) -> str:
        return text.stated(trouble.error)

    def object_data(self, request: HttpRequest, obj: RowTrouble) -> dict[str, Any]:
        return {
            "trouble": obj,
            "work": trouble_words(obj.work),
            "kind": _kind(obj),
            "found": trouble_row(obj, viewer(request)),
            "told": obj.times >= TOLD_AFTER,
            "title": trouble_words(obj.work),
        }


def _kind(trouble: RowTrouble) -> str:
    return entity_worked_on(trouble.work).replace("_", " ") or "row"
