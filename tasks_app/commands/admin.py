"""Commands in the admin, with every decision about them; and the kill switch."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from tasks_app.approvals.selectors import approvals_of_teams
from tasks_app.commands.explain import command_face, command_since
from tasks_app.commands.gates import gate_label
from tasks_app.commands.kill_switch import (
    KillSwitchRefusedError,
    kill_switch_refusal,
    kill_switch_set,
    stopped_words,
)
from tasks_app.commands.models import Command, KillSwitch
from tasks_app.commands.questions import STOPPED
from tasks_app.commands.selectors import commands_stopped, kill_switch_latest, kill_switch_turns
from tasks_app.desk import text
from tasks_app.desk.items import joined
from tasks_app.desk.listing import ListPage, named
from tasks_app.desk.page import viewer
from tasks_app.lifecycle.names import EntityName, names_of
from tasks_app.people.actors import actor_names
from tasks_app.people.models import Team, User
from tasks_app.people.roles import TURN_KILL_SWITCH
from tasks_app.people.scope import visible
from tasks_app.templatetags.fd import mark


@admin.register(Command)
class CommandAdmin(ListPage):
    """Every effect outside: what was asked for, under which key, and how it was decided."""

    object_template = "desk/command.html"
    head = "Commands"
    subhead = "Every effect outside, newest first: purchases, changes, cancellations, answers, messages"
    views = {
        "": ("All", {}),
        "waiting": ("At a gate", {"waiting_since__isnull": False}),
        "refused": ("Refused", {"refused_at__isnull": False}),
    }
    list_display = ["show_kind", "show_stands", "show_seller", "team", "show_asked_by", "replays"]
    list_filter = ["kind", "seller"]
    search_fields = ["=key"]
    search_help_text = "A key, whole"
    ordering = ["-id"]
    list_select_related = ["seller", "team"]

    def name_rows(self, rows: list[Any]) -> None:
        names = actor_names({command.requested_by for command in rows})
        for command in rows:
            command.asked_by = names[command.requested_by]

    @display(description="What")
    def show_kind(self, command: Command) -> SafeString:
        return format_html(
            '<span class="two">{}<small>{}</small></span>', command.words, text.moment_short(command.at)
        )

    @display(description="Seller")
    def show_seller(self, command: Command) -> str:
        return command.seller.name if command.seller else text.DASH

    @display(description="Asked by")
    def show_asked_by(self, command: Command) -> str:
        return named(command, "asked_by")

    @display(description="State")
    def show_stands(self, command: Command) -> SafeString:
        word, glyph = command_face(command)
        note = command.refused_why or text.moment_short(command_since(command))
        return format_html('<span class="two">{}<small>{}</small></span>', mark(glyph, word), note)

    def object_data(self, request: HttpRequest, obj: Command) -> dict[str, Any]:
        decisions = list(obj.decisions.all())
        names = actor_names({obj.requested_by, *(one.user for one in decisions if one.user)})
        subject = names_of(obj.subject_type, [obj.subject_id]) if obj.subject_id else {}
        word, glyph = command_face(obj)
        return {
            "command": obj,
            "what": obj.words,
            "word": word,
            "glyph": glyph,
            "subject": subject.get(obj.subject_id) if obj.subject_id else None,
            "asked_by": names[obj.requested_by],
            "payload": json.dumps(obj.payload, indent=2, ensure_ascii=False, default=str),
            "made": _made(obj),
            "decisions": [
                {
                    "one": one,
                    "by": names.get(one.user, one.user),
                    "gates": "; ".join(f"{gate_label(gate)}: {why}" for gate, why in one.gates.items()),
                }
                for one in decisions
            ],
            "title": obj.words,
        }


def _made(command: Command) -> list[EntityName]:
    """The operation that carries it out, where it is one."""
    made = uuid.UUID(str(command.operation_id)) if command.operation_id else None
    return list(names_of("operation", [made]).values()) if made else []


def _scopes(user: User, stopped: Collection[uuid.UUID | None]) -> list[tuple[str, str]]:
    """(id, name) of what may be stopped now: all teams, and each of the viewer's that is not."""
    teams = visible(Team.objects.order_by("name"), user, team="pk")
    return [("", "All teams"), *((str(one.pk), one.name) for one in teams if one.pk not in stopped)]


class _TurnForm(forms.ModelForm):
    class Meta:
        model = KillSwitch
        fields = ["team", "on", "reason"]

    turner: Any = None  # who is at the form
    # Of one that lets go: the turn that it was drawn from.
    drawn_from = forms.CharField(required=False, max_length=40, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "team" in self.fields:
            self.fields["team"].queryset = visible(Team.objects.all(), self.turner, team="pk")  # type: ignore[attr-defined]
            self.fields["team"].empty_label = "All teams"  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        said = super().clean() or {}
        refused = kill_switch_refusal(
            on=bool(said.get("on")), reason=said.get("reason", ""), actor=self.turner, team=said.get("team")
        )
        if refused and not self.errors:
            raise forms.ValidationError(refused)
        return said


@admin.register(KillSwitch)
class KillSwitchAdmin(ListPage):
    """Every turn of the switch, newest first; a new one turns it."""

    head = "Kill switch"
    team_path = None  # get_queryset says whose
    form = _TurnForm
    list_before_template = "desk/kill_switch.html"
    adds_above = True
    list_display = ["show_at", "show_scope", "show_turn", "reason", "show_actor"]
    ordering = ["-turn"]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        user = viewer(request)
        on = [turn for turn in kill_switch_latest(user) if turn.on]
        scopes = joined([self.show_scope(turn).lower() for turn in on])
        stopped = {turn.team_id for turn in on}
        own = {
            "subhead": f"On for {scopes}: new commands wait." if on else "Off: nothing is stopped.",
            "on": [(turn, stopped_words(turn)) for turn in on],
            "may_turn": self.has_add_permission(request),
            "off": [] if None in stopped else _scopes(user, stopped),
            "at_gate": commands_stopped(user).count(),
            "asked": approvals_of_teams(user, kind=STOPPED).count(),
            "override_kind": STOPPED,
            "has_add_permission": False,  # its own form is on the page
        }
        return super().changelist_view(request, {**own, **(extra_context or {})})

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """A turn, as the list's page posts it; that page is the only form."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            form = self.get_form(request)(request.POST)
            if form.is_valid():
                self.save_model(request, form.instance, form, change=False)
            for said in (one for errors in form.errors.values() for one in errors):
                messages.error(request, str(said))
        return redirect("admin:tasks_app_killswitch_changelist")

    def get_queryset(self, request: HttpRequest) -> QuerySet[KillSwitch]:
        return kill_switch_turns(viewer(request))

    def name_rows(self, rows: list[Any]) -> None:
        """Who turned it each time: one query."""
        names = actor_names({turn.actor for turn in rows})
        for turn in rows:
            turn.turned_by = names[turn.actor]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        form.turner = viewer(request)
        return form

    def has_add_permission(self, request: HttpRequest) -> bool:
        return viewer(request).has_perm(TURN_KILL_SWITCH)

    def save_model(self, request: HttpRequest, obj: KillSwitch, form: Any, change: bool) -> None:
        """Through the service; somebody else's turn in the same moment is told."""
        try:
            turned = kill_switch_set(
                on=obj.on,
                reason=obj.reason,
                actor=viewer(request),
                team=obj.team,
                seen=form.cleaned_data["drawn_from"],
            )
        except KillSwitchRefusedError as error:
            messages.error(request, str(error))
            return
        obj.pk, obj.at, obj.actor = turned.pk, turned.at, turned.actor
        messages.success(request, f"{self.show_scope(turned)}: {'stopped' if turned.on else 'let go'}.")

    @display(description="When")
    def show_at(self, turn: KillSwitch) -> str:
        return text.moment(turn.at)

    @display(description="For")
    def show_scope(self, turn: KillSwitch) -> str:
        return turn.team.name if turn.team else "All teams"

    @display(description="Turned")
    def show_turn(self, turn: KillSwitch) -> str:
        return "On: new commands wait" if turn.on else "Off"

    @display(description="By")
    def show_actor(self, turn: KillSwitch) -> str:
        return named(turn, "turned_by")
