"""The audit trail in the admin: the list over all entities, one entity's chain, and one entry whole."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from tasks_app.desk.export import Export, plain
from tasks_app.desk.page import Page, viewer
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.presenters import TrailRow, export_links, trail_rows_named, verification_words
from tasks_app.lifecycle.selectors import entity_by_reference, entries_visible
from tasks_app.lifecycle.verify import entity_models, verify_entity

_PAGE = 50
Found = tuple[str, uuid.UUID]
_LOOKED_AT = 20_000  # entries of a page: who sees few of them goes on from there


@admin.register(AuditEntry)
class AuditEntryAdmin(Page):
    """Append-only: nobody changes or deletes an entry, here or in the database."""

    list_template_name = "desk/audit.html"
    object_template = "desk/audit_entry.html"
    filter_keys = frozenset({"entity", "reference"})
    team_path = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        return entries_visible(viewer(request))

    def export_of(self, request: HttpRequest) -> Export:
        rows, _ = self._chosen(request)
        return Export(
            columns=("When", "Entity", "Kind", "What", "From and to", "Why", "By", "Hash"),
            rows=rows.order_by("-pk"),
            cells=lambda entries: map(_cells, trail_rows_named(entries)),
        )

    def _chosen(self, request: HttpRequest) -> tuple[QuerySet[AuditEntry], Found | None]:
        """The entries that the address asks for; and the one entity, where it names one that exists."""
        kind, reference = request.GET.get("entity", ""), request.GET.get("reference", "").strip()
        rows = self.get_queryset(request)
        found = entity_by_reference(reference) if reference else None
        if reference:
            rows = rows.filter(entity_type=found[0], entity_id=found[1]) if found else rows.none()
        elif kind in entity_models():
            rows = rows.filter(entity_type=kind)
        return rows, found

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        kind, reference = request.GET.get("entity", ""), request.GET.get("reference", "").strip()
        rows, found = self._chosen(request)
        kinds = entity_models()
        before = request.GET.get("before", "")
        end = int(before) if before.isdecimal() and len(before) < 19 else _newest() + 1
        start = 0 if reference else max(0, end - _LOOKED_AT)
        entries = list(rows.filter(pk__lt=end, pk__gte=start).order_by("-pk")[: _PAGE + 1])
        shown = entries[:_PAGE]
        further = shown[-1].pk if len(entries) > _PAGE else start
        verification = verify_entity(*found) if found and shown else None
        kept = {"entity": kind, "reference": reference}
        return {
            "title": "Audit trail",
            "kinds": sorted(kinds),
            "kind": kind,
            "reference": reference,
            "rows": trail_rows_named(shown),
            "verification": verification,
            "verified": verification_words(verification) if verification else "",
            "exports": export_links(*found) if found and shown else (),
            "older": urlencode({**kept, "before": further}) if further else "",
            "newest": urlencode(kept) if before else "",
        }

    def object_data(self, request: HttpRequest, obj: AuditEntry) -> dict[str, Any]:
        row = trail_rows_named([obj])[0]
        verification = verify_entity(obj.entity_type, obj.entity_id)
        return {
            "entry": obj,
            "row": row,
            "hash": bytes(obj.hash).hex(),
            "previous": bytes(obj.prev_hash).hex(),
            "verification": verification,
            "verified": verification_words(verification),
            "exports": export_links(obj.entity_type, obj.entity_id),
            "title": f"Entry {obj.seq} of {row.entity.reference if row.entity else obj.entity_type}",
        }


def _cells(row: TrailRow) -> list[str]:
    """What the list shows of an entry."""
    entity = row.entity.reference if row.entity else ""
    shown = (row.when, entity, row.entity_type, row.what, row.move, row.note, row.who, row.hash)
    return [plain(cell) for cell in shown]


def _newest() -> int:
    """The key of the latest entry, 0 of none."""
    return AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
