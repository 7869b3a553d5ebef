"""Jobs in the admin: the list, and the page of one with its graph."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display
from unfold.views import ChangeList

from tasks_app.desk import text
from tasks_app.desk.listing import ListPage, named
from tasks_app.desk.page import explain_link, viewer
from tasks_app.desk.states import face
from tasks_app.jobs.bulk_admin import BulkPages
from tasks_app.jobs.endings import JobRefusedError
from tasks_app.jobs.finding import VIEWS
from tasks_app.jobs.listing import PARAMETERS, JobList, filter_data
from tasks_app.jobs.models import Job, StepStatus
from tasks_app.jobs.page import (
    earlier_data,
    listed_data,
    live_data,
    live_version,
    step_data,
    values_data,
)
from tasks_app.jobs.presenters import ITEMS, STEP
from tasks_app.jobs.selectors import step_of
from tasks_app.jobs.steer_forms import REASON_LENGTH, Acts, acts_of, steer, step_acts_of
from tasks_app.jobs.waits import waits_of
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.names import link_to, names_of
from tasks_app.lifecycle.pages import StatefulPage, lifecycle_data
from tasks_app.lifecycle.presenters import refusal_words
from tasks_app.lifecycle.selectors import entries_of_many
from tasks_app.people.actors import actor_names
from tasks_app.templatetags.fd import state


@admin.register(Job)
class JobAdmin(BulkPages, StatefulPage, ListPage):
    """Runs of recipes."""

    object_template = "desk/job.html"

    class Media:
        js = ("desk/job.js",)

    head = "Jobs"
    subhead = "Runs of recipes, newest first. Every step is a row; a worker that dies loses nothing."
    views = {value: (title, {}) for value, (title, _) in VIEWS.items()}
    list_before_template = "desk/jobs_head.html"
    list_display = [
        "show_reference",
        "show_subject",
        "show_state",
        "show_waits",
        "show_since",
        "show_took",
    ]
    filter_keys = PARAMETERS
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
        what = f"{job.recipe.replace('_', ' ').capitalize()}, version {job.recipe_version}"
        return format_html('<span class="two">{}<small class="mono">{}</small></span>', what, job.reference)

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

    def get_urls(self) -> list[URLPattern]:
        view: Callable[..., HttpResponse] = self.admin_site.admin_view(self.live_view)
        return [path("<uuid:pk>/live/", view, name="tasks_app_job_live"), *super().get_urls()]

    def live_view(self, request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
        """What goes on, anew: 204 where it is what the page shows already (`version`, `acts`)."""
        job = self.get_object(request, str(pk))
        if job is None or not self.has_view_permission(request, job):
            raise Http404
        if request.GET.get("version") == live_version(job):
            return HttpResponse(status=204)
        acts = acts_of(job, viewer(request))
        changed = (acts.sign if acts else "") != request.GET.get("acts", "")
        data = {**live_data(job), "steer": acts, "steer_changed": changed, "reason_length": REASON_LENGTH}
        return render(request, "desk/job_live.html", data)

    def object_data(self, request: HttpRequest, obj: Job) -> dict[str, Any]:
        acts = acts_of(obj, viewer(request))
        return {
            **live_data(obj),
            **values_data(obj),
            **_details(obj, request, acts),
            "steer": acts,
            "reason_length": REASON_LENGTH,
            "title": obj.reference,
        }

    def object_post(self, request: HttpRequest, obj: Job) -> HttpResponse:
        """One act; where it is refused the page again, with what the person had written."""
        try:
            now, told = steer(request.POST, obj, viewer(request))
        except (JobRefusedError, TransitionError) as error:
            data = self.object_data(request, self.get_queryset(request).get(pk=obj.pk))
            data |= {"refusal": _refusal(error), "given": request.POST}
            return self.page(request, "desk/job.html", obj, status=409, **data)
        messages.success(request, told)
        return redirect(link_to(Job, now.pk))


def _refusal(error: JobRefusedError | TransitionError) -> str:
    return refusal_words(error) if isinstance(error, TransitionError) else str(error)


def _details(job: Job, request: HttpRequest, acts: Acts | None) -> dict[str, Any]:
    """What the address asks for beside the whole: one step, many steps, or earlier events; and the trails."""
    step = step_of(job, request.GET[STEP]) if STEP in request.GET else None
    chains = entries_of_many({"job": [job.pk], "step": [step.pk] if step else []})
    names = actor_names({entry.actor for chain in chains.values() for entry in chain})
    found: dict[str, Any] = {"whole": lifecycle_data(job, chains.get(job.pk, []), names)}
    if step is not None:
        found["step"] = {
            **step_data(step),
            "acts": step_acts_of(step, acts),
            "explain_link": explain_link(step),
            **lifecycle_data(step, chains.get(step.pk, []), names),
        }
    if ITEMS in request.GET:
        found["listed"] = listed_data(job, request.GET)
        found["states"] = {one.value: face(one.value).word for one in StepStatus}
    if "before" in request.GET:
        found |= earlier_data(job, request.GET["before"])
    return found
