"""Downloads of one entity's trail, for people who may see it in the admin."""

from __future__ import annotations

import uuid

from django.contrib.admin.views.decorators import staff_member_required
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, StreamingHttpResponse
from django.urls import path
from django.views.decorators.http import require_GET

from tasks_app.desk.export import beside
from tasks_app.desk.page import viewer
from tasks_app.lifecycle.export import trail_csv, trail_jsonl
from tasks_app.lifecycle.selectors import entries_visible
from tasks_app.people.lockout import address_of
from tasks_app.people.security import Kind, security_record

_FORMS = {
    "csv": (trail_csv, "text/csv; charset=utf-8"),
    "jsonl": (trail_jsonl, "application/jsonl; charset=utf-8"),
}


@require_GET
@staff_member_required
def trail_export(request: HttpRequest, kind: str, pk: uuid.UUID, form: str) -> StreamingHttpResponse:
    """The trail of one entity as `form`, csv or jsonl. 404 for one of another team's, or without entries."""
    person = viewer(request)
    if not person.has_perm("tasks_app.view_auditentry"):
        raise PermissionDenied
    if not entries_visible(person).filter(entity_type=kind, entity_id=pk).exists():
        raise Http404
    security_record(
        event=Kind.EXPORTED,
        actor=person,
        about=f"trail of {kind} {pk}",
        detail={"form": form},
        address=address_of(request),
    )
    lines, content_type = _FORMS[form]
    told = lines(kind, pk)
    answer = StreamingHttpResponse(
        beside(told) if isinstance(request, ASGIRequest) else told, content_type=content_type
    )
    answer["Content-Disposition"] = f'attachment; filename="{kind}-{pk}.{form}"'
    answer["Cache-Control"] = "private, no-store"
    return answer


export_urls = [
    path(f"<slug:kind>/<uuid:pk>/trail.{form}", trail_export, {"form": form}, name=f"trail_{form}")
    for form in _FORMS
]
