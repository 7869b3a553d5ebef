"""Jobs in the admin: the list, and the page of one with its graph."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display
from unfold.views import ChangeList

from tasks_app.desk import text
from tasks_app.desk.listing import ListPage, named
from tasks_app.desk.page import viewer
from tasks_app.jobs.bulk_admin import BulkPages
from tasks_app.jobs.endings import JobRefusedError, job_cancel, job_hide
from tasks_app.jobs.finding import VIEWS
from tasks_app.jobs.listing import JobList, filter_data, waits_of
from tasks_app.jobs.looks import step_title
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.presenters import (
    STEP,
    ended_words,
    event_lines,
    job_layout,
    job_words,
    steering_of,
    step_rows,
)
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.selectors import JobRows, job_events, job_rows
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.names import link_to, names_of
from tasks_app.lifecycle.pages import StatefulPage, lifecycle_data
from tasks_app.lifecycle.presenters import refusal_words
from tasks_app.lifecycle.selectors import entries_of_many
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User
from tasks_app.templatetags.fd import state


@admin.register(Job)
class JobAdmin(BulkPages, StatefulPage, ListPage):
    """Runs of recipes."""

    object_template = "desk/job.html"
    head = "Jobs"
    subhead = "Runs of recipes, newest first. Every step is a row; a worker that dies loses nothing."
    views = {value: (title, {}) for value, (title, _) in VIEWS.items()}
    list_before_template = "desk/jobs_head.html"
    list_display = [
        "show_reference",
        "show_recipe",
        "show_subject",
        "show_state",
        "show_waits",
        "show_since",
        "show_took",
    ]
    search_fields = ["^reference"]
    search_help_text = "The beginning of a reference"
    ordering = ["-id"]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return JobList

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        extra = filter_data(request, viewer(request))
        return super().changelist_view(request, {**extra, **(extra_context or {})})

    def name_rows(self, rows: list[Any]) -> None:
        """What each job is for and waits for, found for the whole page at once."""
        waits = waits_of(rows)
        for job in rows:
            job.waits = waits.get(job.pk)
        for kind in {job.subject_type for job in rows if job.subject_id}:
            names = names_of(kind, {job.subject_id for job in rows if job.subject_type == kind})
            for job in rows:
                if job.subject_type == kind:
                    job.subject_name = names.get(job.subject_id)

    @display(description="Job", ordering="reference")
    def show_reference(self, job: Job) -> SafeString:
        return format_html('<span class="mono">{}</span>', job.reference)

    @display(description="Recipe")
    def show_recipe(self, job: Job) -> str:
        return f"{job.recipe.replace('_', ' ')}, version {job.recipe_version}"

    @display(description="For")
    def show_subject(self, job: Job) -> str:
        return named(job, "subject_name")

    @display(description="State")
    def show_state(self, job: Job) -> SafeString:
        return state(job.status)

    @display(description="Waits for")
    def show_waits(self, job: Job) -> str:
        return named(job, "waits")

    @display(description="Started")
    def show_since(self, job: Job) -> str:
        return text.moment_short(job.created_at)

    @display(description="Took")
    def show_took(self, job: Job) -> str:
        return text.duration(job.ended_at - job.created_at) if job.ended_at else text.DASH

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("team", "parent_step__job", "retry_of")

    def object_data(self, request: HttpRequest, obj: Job) -> dict[str, Any]:
        rows = job_rows(obj)
        names = names_of(obj.subject_type, [obj.subject_id]) if obj.subject_id else {}
        parent = obj.parent_step.job if obj.parent_step else None
        return {
            **_trails(obj, rows, request.GET.get(STEP, "")),
            "job": obj,
            "parent": parent,
            "retried_by": Job.objects.filter(retry_of=obj).only("reference").first(),
            "ended": ended_words(obj),
            "steer": steering_of(obj, rows, viewer(request)),
            "subject": names.get(obj.subject_id) if obj.subject_id else None,
            "dag": job_layout(rows),
            "words": job_words(rows),
            "steps": step_rows(rows),
            "events": event_lines(job_events(obj)),
            "title": obj.reference,
        }

    def object_post(self, request: HttpRequest, obj: Job) -> HttpResponse:
        """Cancel, retry or hide; where that is refused the page again, with what the person had written."""
        act, reason, user = request.POST.get("act", ""), request.POST.get("reason", ""), viewer(request)
        try:
            now, told = _steered(obj, act, reason, user, request.POST.get("from_step", ""))
        except (JobRefusedError, TransitionError) as error:
            data = self.object_data(request, self.get_queryset(request).get(pk=obj.pk))
            data["steer"] = {**(data["steer"] or {}), "refusal": _refusal(error), "reason": reason}
            return self.page(request, "desk/job.html", obj, status=409, **data)
        messages.success(request, told)
        return redirect(link_to(Job, now.pk))


def _steered(job: Job, act: str, reason: str, user: User, from_step: str) -> tuple[Job, str]:
    """The job to show afterwards, and what was done in words. Raises JobRefusedError, TransitionError."""
    if act == "cancel":
        return job_cancel(job_id=job.pk, actor=user, reason=reason), f"{job.reference} is cancelled."
    if act == "retry":
        new = job_retry(job_id=job.pk, actor=user, reason=reason, from_step=from_step)
        return new, f"{new.reference} retries {job.reference}."
    if act == "hide":
        return job_hide(job_id=job.pk, actor=user), f"{job.reference} is hidden from lists."
    raise JobRefusedError("Say what to do: cancel, retry or hide.")


def _refusal(error: JobRefusedError | TransitionError) -> str:
    return refusal_words(error) if isinstance(error, TransitionError) else str(error)


def _trails(job: Job, rows: JobRows, wanted: str) -> dict[str, Any]:
    """The job's diagram and trail and, of the step whose id is asked for, that step's."""
    step = next((one for one in rows.steps if str(one.pk) == wanted), None)
    chains = entries_of_many({"job": [job.pk], "step": [step.pk] if step else []})
    names = actor_names({entry.actor for chain in chains.values() for entry in chain})
    whole = lifecycle_data(job, chains.get(job.pk, []), names)
    if step is None:
        return {"whole": whole}
    return {
        "whole": whole,
        "step": {
            "step": step,
            "called": _called(step, rows),
            **lifecycle_data(step, chains.get(step.pk, []), names),
        },
    }


def _called(step: Step, rows: JobRows) -> str:
    """Book, Norrland Digital."""
    name = rows.items.get(str(step.item)) if step.fan_out_id is not None else None
    return f"{step_title(step)}, {name}" if name else step_title(step)
