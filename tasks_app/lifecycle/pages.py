"""What the page of everything with a lifecycle has: its diagram, its trail, and refusals said aloud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from tasks_app.desk.page import Page
from tasks_app.lifecycle.diagram import Diagram, diagram
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.models import AuditEntry, Stateful
from tasks_app.lifecycle.presenters import Trail, refusal_words, trail_of
from tasks_app.lifecycle.refusals import refusal_of
from tasks_app.lifecycle.selectors import entries_of, verify_shown


class StatefulPage(Page):
    """A page of an entity with a lifecycle. A status change that is refused while it answers, by us or by
    PostgreSQL itself, becomes a message on the page it came from."""

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        try:
            return super().change_view(request, object_id, form_url, extra_context)
        except (TransitionError, DatabaseError) as error:
            refused = refusal_of(error)
            if refused is None:
                raise
            messages.error(request, refusal_words(refused))
            return redirect(request.get_full_path())


def lifecycle_data(
    entity: Stateful, entries: list[AuditEntry] | None = None, names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What desk/diagram.html and desk/trail.html are given.

    `entries`: the entity's chain as `entries_of` or `entries_of_many` read it; `names`: actor key to name;
    each is read where it is not given.
    """
    chain = entries_of(entity.entity, entity.pk) if entries is None else entries
    trail: Trail = trail_of(entity, chain, verify_shown(entity, chain), names)
    walked = {(entry.from_status, entry.to_status) for entry in chain if entry.from_status}
    fsm: Diagram = diagram(entity.declared(), entity.status, walked)
    return {"fsm": fsm, "trail": trail}
