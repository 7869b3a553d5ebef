"""Retrying and cancelling many jobs from their list: the chosen ones, or all that the filter finds."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, QueryDict
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse

from tasks_app.desk.items import plural
from tasks_app.desk.page import Page, viewer
from tasks_app.jobs.bulk import REASON_LENGTH, BulkConflictError, Chosen, Found, bulk_chosen, bulk_start
from tasks_app.jobs.endings import JobRefusedError
from tasks_app.jobs.finding import JobFilterError, jobs_wanted, wanted_parse
from tasks_app.jobs.models import Job
from tasks_app.lifecycle.names import link_to
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_JOB
from tasks_app.people.scope import visible

SHOWN = 50
_EFFECTS = {
    "cancel": "Their open steps end, open questions are withdrawn, and what was not sent never is. What is "
    "with a seller stays there and is followed to its end.",
    "retry": "Each becomes a new job that takes over what is done. What stands at a seller is not asked for "
    "twice.",
}


class BulkPages(Page):
    """The actions of a list of jobs, and the page that asks whether they are meant."""

    actions: Any = ("retry_chosen", "cancel_chosen")
    list_disable_select_all = True  # all that match: by the links above the list

    def has_steer_permission(self, request: HttpRequest) -> bool:
        return viewer(request).has_perm(STEER_JOB)

    @admin.action(description="Retry the chosen jobs", permissions=["steer"])
    def retry_chosen(self, request: HttpRequest, rows: QuerySet[Job]) -> HttpResponse:
        return self._asked(request, "retry")

    @admin.action(description="Cancel the chosen jobs", permissions=["steer"])
    def cancel_chosen(self, request: HttpRequest, rows: QuerySet[Job]) -> HttpResponse:
        return self._asked(request, "cancel")

    def get_urls(self) -> list[URLPattern]:
        view: Callable[..., HttpResponse] = self.admin_site.admin_view(self.bulk_view)
        return [path("bulk/", view, name="tasks_app_job_bulk"), *super().get_urls()]

    def bulk_view(self, request: HttpRequest) -> HttpResponse:
        """GET asks about what the filter finds, POST starts the job that does it."""
        if not self.has_steer_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            return self._confirmed(request)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        return self._page(request, request.GET, request.GET.get("act", ""))

    def _asked(self, request: HttpRequest, act: str) -> HttpResponse:
        form = QueryDict(mutable=True)
        form["jobs"] = " ".join(request.POST.getlist(ACTION_CHECKBOX_NAME))
        return self._page(request, form, act)

    def _confirmed(self, request: HttpRequest) -> HttpResponse:
        """What was shown is done: the form holds the jobs' ids, however they were found."""
        form, act = request.POST, request.POST.get("act", "")
        try:
            job = bulk_start(
                act=act,
                ids=_ids(form.get("jobs", "")),
                reason=form.get("reason", ""),
                user=viewer(request),
                request_id=_ids(form.get("request_id", ""))[0],
            )
        except (JobRefusedError, BulkConflictError) as error:
            return self._page(request, form, act, refusal=str(error), status=409)
        messages.success(request, f"{job.reference} does it, and reports on each of them.")
        return redirect(link_to(Job, job.pk))

    def _page(
        self, request: HttpRequest, form: QueryDict, act: str, *, refusal: str = "", status: int = 200
    ) -> HttpResponse:
        """The question, or why it cannot be asked: then back to the list."""
        try:
            chosen = _chosen(form, act, viewer(request))
        except (JobRefusedError, JobFilterError) as error:
            messages.error(request, str(error))
            return redirect(reverse("admin:tasks_app_job_changelist"))
        named = Job.objects.filter(pk__in=chosen.ids[:SHOWN], team=chosen.team)
        rows = visible(named, viewer(request)).order_by("-id")
        return self.page(
            request,
            "desk/jobs_bulk.html",
            status=status,
            title="Jobs",
            heading=f"{act.capitalize()} {plural(len(chosen.ids), 'job')}",
            act=act,
            effects=_EFFECTS[act],
            unable=len(chosen.ids) - chosen.able,
            team=chosen.team,
            jobs=rows.defer("plan", "inputs", "outputs"),
            more=max(len(chosen.ids) - SHOWN, 0),
            ids=" ".join(map(str, chosen.ids)),
            request_id=form.get("request_id") or uuid.uuid4(),
            reason=form.get("reason", ""),
            reason_length=REASON_LENGTH,
            refusal=refusal,
        )


def _chosen(form: QueryDict, act: str, user: User) -> Chosen:
    """The jobs a form names, or those its filter finds. Raises JobRefusedError, JobFilterError."""
    if "jobs" in form:
        return bulk_chosen(viewer=user, act=act, ids=_ids(str(form["jobs"])))
    wanted = wanted_parse({name: str(form.get(name, "")) for name in form})
    found = Found(rows=jobs_wanted(user, wanted), said=wanted.as_dict())
    return bulk_chosen(viewer=user, act=act, found=found)


def _ids(written: str) -> list[uuid.UUID]:
    """Ids out of a field. Raises JobRefusedError."""
    try:
        found = [uuid.UUID(one) for one in written.split()]
    except ValueError:
        found = []
    if not found:
        raise JobRefusedError("These are no jobs.")
    return found


def bulk_links(query: dict[str, str]) -> list[dict[str, Any]]:
    """Links to the page for all that a filter finds."""
    address = reverse("admin:tasks_app_job_bulk")
    made = []
    for act in ("retry", "cancel"):
        asked = QueryDict(mutable=True)
        asked.update({**query, "act": act})
        made.append({"title": f"{act.capitalize()} all that match", "link": f"{address}?{asked.urlencode()}"})
    return made
