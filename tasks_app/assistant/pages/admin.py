"""Traces of turns, and the administrators' page: mode, endpoint, what data leaves the house."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import structlog
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST
from unfold.decorators import display

from tasks_app.assistant.errors import AssistantRefusedError, ModelError
from tasks_app.assistant.governance import LONGEST_REASON, current_mode, restricted_sessions, set_mode
from tasks_app.assistant.models import AssistantMode, AssistantTurn
from tasks_app.assistant.selectors import turn_data
from tasks_app.assistant.types import Mode, TaskState
from tasks_app.desk import text
from tasks_app.desk.listing import ListPage, named
from tasks_app.desk.page import viewer
from tasks_app.people.actors import actor_names
from tasks_app.people.roles import GOVERN_ASSISTANT, USE_ASSISTANT
from tasks_app.templatetags.fd import mark

log = structlog.get_logger(__name__)
_GLYPHS = {"completed": "done", "failed": "failed", "cancelled": "stopped"}
_MODES = {
    Mode.NORMAL: "Normal: reads, and proposes changes",
    Mode.READ_ONLY: "Read-only: proposes nothing",
    Mode.LOCKDOWN: "Lockdown: does nothing, and running turns end",
}


class ModeForm(forms.Form):
    """The mode from now on, for all conversations or for one."""

    mode = forms.ChoiceField(choices=[(mode.value, label) for mode, label in _MODES.items()])
    reason = forms.CharField(max_length=LONGEST_REASON)
    session = forms.UUIDField(required=False)


@admin.register(AssistantTurn)
class AssistantTurnAdmin(ListPage):
    """Questions with their traces: one's own, and other people's with the right to view turns."""

    head = "Assistant turns"
    subhead = "Questions to the assistant, newest first"
    object_template = "assistant/trace.html"
    team_path = None  # `get_queryset` says whose
    list_display = ["show_question", "show_status", "show_user", "show_asked_at", "show_tokens"]
    views = {"": ("All", {}), "failed": ("Failed", {"status": TaskState.FAILED})}
    ordering = ["-id"]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return viewer(request).has_perm(USE_ASSISTANT)

    def get_queryset(self, request: HttpRequest) -> QuerySet[AssistantTurn]:
        rows = AssistantTurn.rows_visible(viewer(request)).select_related("session__user")
        return rows.defer("messages", "plan", "partial", "reply", "session__messages")

    def name_rows(self, rows: list[Any]) -> None:
        ids = [turn.pk for turn in rows]
        tokens = dict(
            AssistantTurn.objects.filter(pk__in=ids)
            .annotate(tokens=Sum("steps__tokens_used"))
            .values_list("pk", "tokens")
        )
        for turn in rows:
            turn.tokens = tokens[turn.pk]

    @display(description="Question")
    def show_question(self, turn: AssistantTurn) -> str:
        return str(turn)

    @display(description="Status")
    def show_status(self, turn: AssistantTurn) -> SafeString:
        return _status_mark(turn)

    @display(description="Asked by")
    def show_user(self, turn: AssistantTurn) -> str:
        return str(turn.session.user)

    @display(description="Asked")
    def show_asked_at(self, turn: AssistantTurn) -> str:
        return text.moment(turn.created_at)

    @display(description="Tokens")
    def show_tokens(self, turn: AssistantTurn) -> str:
        return named(turn, "tokens")

    def object_data(self, request: HttpRequest, obj: AssistantTurn) -> dict[str, Any]:
        steps = list(obj.steps.all())
        return {
            "turn": turn_data(obj.pk),
            "state_mark": _status_mark(obj, pill=True),
            "user": obj.session.user,
            "steps": steps,
            "calls": [
                {
                    "call": call,
                    "arguments": _pretty(call.arguments),
                    "result": _pretty(call.result) if call.result else "",
                }
                for call in obj.tool_calls.all()
            ],
            "tokens": sum(step.tokens_used for step in steps),
            "duration_ms": sum(step.duration_ms for step in steps if not step.stale),
        }


@admin.register(AssistantMode)
class AssistantModeAdmin(ListPage):
    """The mode with its history, the endpoint and what is sent to it."""

    head = "Assistant"
    team_path = None  # for all teams
    list_before_template = "assistant/administration.html"
    adds_above = True
    list_display = ["show_at", "show_scope", "show_mode", "reason", "show_set_by"]
    ordering = ["-id"]
    list_select_related = ["session__user"]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return viewer(request).has_perm(GOVERN_ASSISTANT)

    has_add_permission = has_view_permission

    def get_urls(self) -> list[URLPattern]:
        test: Callable[..., HttpResponse] = self.admin_site.admin_view(require_POST(self.test_view))
        return [path("test/", test, name="assistant_test"), *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        own = {
            "subhead": f"{_MODES[current_mode(None)]}.",
            "mode": current_mode(None),
            "modes": _MODES,
            "restricted": restricted_sessions(),
            "endpoint": settings.ASSISTANT_URL,
            "models": settings.ASSISTANT_MODELS,
            "fallback": settings.ASSISTANT_FALLBACK_MODEL,
            "timeout_s": settings.ASSISTANT_TIMEOUT_S,
            "has_key": bool(settings.ASSISTANT_KEY),
            "traces": settings.OTLP_ENDPOINT,
            "has_add_permission": False,  # the form is on the page
        }
        return super().changelist_view(request, {**own, **(extra_context or {})})

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Set a mode, as the form above the list posts it."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = ModeForm(request.POST or None)
        if form.is_valid():
            self._set_mode(request, form.cleaned_data)
        for problem in (one for problems in form.errors.values() for one in problems):
            messages.error(request, str(problem))
        return redirect("admin:tasks_app_assistantmode_changelist")

    def test_view(self, request: HttpRequest) -> HttpResponse:
        """Ask the model one question, and say how that went."""
        from tasks_app.assistant.clients.openai_client import probe_endpoint  # `openai` takes a second

        if not self.has_view_permission(request):
            raise PermissionDenied
        if not settings.ASSISTANT_URL:
            messages.error(request, "There is no endpoint to test: the built-in planner answers.")
            return redirect("admin:tasks_app_assistantmode_changelist")
        began = time.monotonic()
        try:
            asyncio.run(probe_endpoint())
            messages.success(request, f"The model answered within {time.monotonic() - began:.1f} s.")
        except ModelError as error:
            log.warning("assistant_test_failed", error=str(error))
            messages.error(request, str(error))
        return redirect("admin:tasks_app_assistantmode_changelist")

    def _set_mode(self, request: HttpRequest, data: dict[str, Any]) -> None:
        try:
            set_mode(
                mode=data["mode"], reason=data["reason"], user=viewer(request), session_id=data["session"]
            )
            messages.success(request, "The mode is set.")
        except AssistantRefusedError as error:
            messages.error(request, str(error))

    def name_rows(self, rows: list[Any]) -> None:
        names = actor_names({row.set_by for row in rows})
        for row in rows:
            row.set_by_name = names[row.set_by]

    @display(description="When")
    def show_at(self, row: AssistantMode) -> str:
        return text.moment(row.at)

    @display(description="For")
    def show_scope(self, row: AssistantMode) -> str:
        if row.session is None:
            return "All conversations"
        return f"{row.session.user}, conversation of {text.moment(row.session.created_at)}"

    @display(description="Mode")
    def show_mode(self, row: AssistantMode) -> str:
        return _MODES[Mode(row.mode)]

    @display(description="By")
    def show_set_by(self, row: AssistantMode) -> str:
        return named(row, "set_by_name")


def _status_mark(turn: AssistantTurn, *, pill: bool = False) -> SafeString:
    return mark(_GLYPHS.get(turn.status, "running"), turn.status.replace("_", " ").capitalize(), pill)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
