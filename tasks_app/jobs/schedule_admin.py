"""Schedules in the admin: the list, the page of one with what became of it, and the form."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from tasks_app.desk import text
from tasks_app.desk.drawn import row_held
from tasks_app.desk.listing import ListPage
from tasks_app.desk.page import viewer
from tasks_app.jobs.models import Job
from tasks_app.jobs.schedule import Schedule
from tasks_app.jobs.schedule_forms import ScheduleForm
from tasks_app.jobs.schedules import (
    ScheduleRefusedError,
    schedule_change,
    schedule_create,
    schedule_pause,
    schedule_resume,
    schedule_run_now,
)
from tasks_app.lifecycle.names import link_to
from tasks_app.operations.presenters import pretty
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User
from tasks_app.people.roles import SCHEDULE_JOB
from tasks_app.templatetags.fd import mark

_PAGE = "desk/schedule.html"
_ENTRIES = 50
_GLYPHS = {"started": "done", "skipped": "stopped", "failed": "failed", "paused": "stopped"}


@admin.register(Schedule)
class ScheduleAdmin(ListPage):
    """Recipes that start at a time or by cron."""

    object_template = _PAGE
    head = "Schedules"
    subhead = "Recipes that start at a time or by cron, each due time once"
    views = {
        "": ("All", {}),
        "due": ("Running", {"paused": False, "next_due_at__isnull": False}),
        "paused": ("Paused", {"paused": True}),
    }
    list_display = ["show_name", "show_recipe", "show_when", "show_state", "show_next", "show_last"]
    search_fields = ["name", "recipe"]
    ordering = ["-id"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return viewer(request).has_perm(SCHEDULE_JOB)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("team")

    @display(description="Schedule", ordering="name")
    def show_name(self, schedule: Schedule) -> SafeString:
        return format_html('<span class="two">{}<small>{}</small></span>', schedule.name, schedule.team)

    @display(description="Recipe", ordering="recipe")
    def show_recipe(self, schedule: Schedule) -> str:
        return schedule.recipe.replace("_", " ")

    @display(description="When")
    def show_when(self, schedule: Schedule) -> SafeString:
        return format_html(
            '<span class="two mono">{}<small>{}</small></span>', _when(schedule), schedule.zone
        )

    @display(description="State")
    def show_state(self, schedule: Schedule) -> SafeString:
        return mark(*_face(schedule))

    @display(description="Next", ordering="next_due_at")
    def show_next(self, schedule: Schedule) -> str:
        return text.moment_short(schedule.next_due_at) if _goes_on(schedule) else text.DASH

    @display(description="Last", ordering="last_due_at")
    def show_last(self, schedule: Schedule) -> str:
        return text.moment_short(schedule.last_due_at) if schedule.last_due_at else text.DASH

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        user = viewer(request)
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = ScheduleForm(request.POST or None, viewer=user)
        if request.method == "POST" and form.is_valid():
            try:
                made = schedule_create(draft=form.draft(), actor=user)
            except ScheduleRefusedError as error:
                form.take(error)
            else:
                messages.success(request, f"{made.name} starts {text.moment_short(made.next_due_at)}.")
                return redirect(link_to(Schedule, made.pk))
        status = 400 if request.method == "POST" else 200
        return self.page(request, _PAGE, status=status, form=form, title="New schedule")

    def object_data(self, request: HttpRequest, obj: Schedule) -> dict[str, Any]:
        user = viewer(request)
        entries = list(obj.entries.select_related("job").defer("job__plan").order_by("-id")[:_ENTRIES])
        names = actor_names({obj.actor, *(entry.by for entry in entries)})
        glyph, word = _face(obj)
        return {
            "schedule": obj,
            "glyph": glyph,
            "word": word,
            "when": _when(obj),
            "goes_on": _goes_on(obj),
            "actor": names[obj.actor],
            "inputs": pretty(obj.inputs),
            "entries": [
                {
                    "entry": entry,
                    "glyph": _GLYPHS.get(entry.kind, "waiting"),
                    "by": names[entry.by],
                    "link": link_to(Job, entry.job.pk) if entry.job else "",
                    "changes": [f"{name}: {was} → {now}" for name, (was, now) in entry.changes.items()]
                    if entry.kind == "changed"
                    else [],
                }
                for entry in entries
            ],
            "may_steer": user.has_perm(SCHEDULE_JOB),
            "form": ScheduleForm.of(obj, user) if user.has_perm(SCHEDULE_JOB) else None,
            "title": obj.name,
        }

    def object_post(self, request: HttpRequest, obj: Schedule) -> HttpResponse:
        """Pause, resume, run now, or save the form."""
        user, act = viewer(request), request.POST.get("act", "")
        if act == "save":
            return self._save(request, obj, user)
        try:
            told, where = _steered(obj, act, user)
        except ScheduleRefusedError as error:
            messages.error(request, str(error))
            return redirect(link_to(Schedule, obj.pk))
        messages.success(request, told)
        return redirect(where)

    def _save(self, request: HttpRequest, obj: Schedule, user: User) -> HttpResponse:
        with transaction.atomic():
            form = ScheduleForm.of(row_held(obj), user, request.POST)
            if form.is_valid():
                try:
                    schedule_change(schedule_id=obj.pk, draft=form.draft(), actor=user)
                except ScheduleRefusedError as error:
                    form.take(error)
        if form.errors:
            data = {**self.object_data(request, obj), "form": form}
            return self.page(request, _PAGE, obj, status=400, **data)
        messages.success(request, "Saved. It starts in your name from now on.")
        return redirect(link_to(Schedule, obj.pk))


def _steered(schedule: Schedule, act: str, user: User) -> tuple[str, str]:
    """What was done in words, and where to go on. Raises ScheduleRefusedError."""
    here = link_to(Schedule, schedule.pk)
    if act == "pause":
        return f"{schedule_pause(schedule_id=schedule.pk, actor=user).name} is paused.", here
    if act == "resume":
        return f"{schedule_resume(schedule_id=schedule.pk, actor=user).name} goes on.", here
    if act == "run":
        job = schedule_run_now(schedule_id=schedule.pk, actor=user)
        return f"{job.reference} has started.", link_to(Job, job.pk)
    raise ScheduleRefusedError({"": ["Say what to do: pause, resume, run or save."]})


def _goes_on(schedule: Schedule) -> bool:
    return schedule.next_due_at is not None and not schedule.paused


def _face(schedule: Schedule) -> tuple[str, str]:
    """Glyph and word."""
    if schedule.paused:
        return "stopped", "Paused"
    return ("waiting", "Scheduled") if schedule.next_due_at else ("done", "Over")


def _when(schedule: Schedule) -> str:
    return text.moment(schedule.start_at, schedule.zone) if schedule.start_at else schedule.cron
