"""The list of jobs: narrowed by one filter, its rows told with what they wait for."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from tasks_app.desk.listing import SavedViewList
from tasks_app.jobs.bulk_admin import bulk_links
from tasks_app.jobs.finding import AGES, TROUBLES, WAITS, JobFilterError, Wanted, narrow, wanted_parse
from tasks_app.jobs.models import JobStatus
from tasks_app.jobs.recipes import recipe_titles
from tasks_app.paging import KeyedList
from tasks_app.people.models import Team, User
from tasks_app.people.roles import STEER_JOB
from tasks_app.people.scope import visible

PARAMETERS = frozenset(field.name for field in fields(Wanted)) - {"q"}  # q is the admin's own search


class JobList(SavedViewList):
    """A page of jobs that a filter wants; what is no filter of ours finds nothing."""

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        found = super().get_filters_params(params)
        return {name: value for name, value in found.items() if name not in PARAMETERS}

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        # Not the parent's: the saved view is a part of our filter.
        rows = KeyedList.get_queryset(self, request, exclude_parameters)
        try:
            return narrow(rows, wanted_of(request))
        except JobFilterError:
            return rows.none()


def wanted_of(request: HttpRequest) -> Wanted:
    """The filter that an address asks for, without its search. Raises JobFilterError."""
    return wanted_parse({name: request.GET.get(name, "") for name in PARAMETERS})


def filter_data(request: HttpRequest, viewer: User) -> dict[str, Any]:
    """What desk/jobs_head.html is given: the choices, what is chosen, and what may be done to all of it."""
    try:
        chosen = wanted_of(request).as_dict()
    except JobFilterError:
        chosen = {}
    query = {**chosen, **({"q": request.GET["q"]} if request.GET.get("q") else {})}
    teams = visible(Team.objects.order_by("name"), viewer, team="pk")[:50]
    return {
        "chosen": chosen,
        "query": request.GET.get("q", ""),
        "filters": [
            ("recipe", "Recipe", recipe_titles()),
            ("state", "State", {one.value: one.label.capitalize() for one in JobStatus}),
            ("waits", "Waits for", dict(WAITS)),
            ("trouble", "Trouble", TROUBLES),
            ("older", "Older than", {name: words for name, (words, _) in AGES.items()}),
            *([("team", "Team", {str(one.pk): one.name for one in teams})] if len(teams) > 1 else []),
        ],
        "bulk": bulk_links(query) if query and viewer.has_perm(STEER_JOB) else [],
    }
