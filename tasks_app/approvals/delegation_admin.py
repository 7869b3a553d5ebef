"""Delegations in the admin: who stands in for whom, and a form to say so before going away."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from tasks_app import clock, days
from tasks_app.approvals.delegation import (
    ADMINISTERS,
    DelegationRefusedError,
    delegation_create,
    delegation_end,
    delegations_of,
)
from tasks_app.approvals.records import Delegation
from tasks_app.desk import text
from tasks_app.desk.page import Page, viewer
from tasks_app.paging import older_page
from tasks_app.people.actors import actor_names
from tasks_app.people.holders import users_with
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE

_PAGE, _MANY = 100, 200


@admin.register(Delegation)
class DelegationAdmin(Page):
    """Whoever decides sees those they gave or hold; whoever administers people sees and makes all."""

    list_template_name = "desk/delegations.html"
    team_path = None  # of people, see delegations_of

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        user = viewer(request)
        return user.has_perm(DECIDE) or user.has_perm(ADMINISTERS)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return delegations_of(viewer(request))

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        user, now = viewer(request), clock.now()
        page = older_page(self.get_queryset(request), request.GET, size=_PAGE)
        names = actor_names({one.made_by for one in page.rows})
        today = days.today()
        return {
            "title": "Delegations",
            "rows": [_row(one, now, names[one.made_by]) for one in page.rows],
            "page": page,
            "people": _people(user),
            "administers": user.has_perm(ADMINISTERS),
            "me": user,
            "given": {"from": today.isoformat(), "until": (today + timedelta(days=7)).isoformat()},
        }

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method != "POST" or not self.has_view_permission(request):
            return super().changelist_view(request, extra_context)
        try:
            messages.success(request, _done(request))
        except DelegationRefusedError as refused:
            data = {**self.list_data(request), "refusal": str(refused), "given": request.POST}
            return self.page(request, "desk/delegations.html", status=409, **data)
        return HttpResponseRedirect(request.get_full_path())

    def change_view(self, request: HttpRequest, *_: Any, **__: Any) -> HttpResponse:
        """A delegation has no page but the list."""
        return HttpResponseRedirect(reverse("admin:tasks_app_delegation_changelist"))


def _done(request: HttpRequest) -> str:
    """What a post did, in words. Raises DelegationRefusedError."""
    user, said = viewer(request), request.POST
    ended = _uuid(said.get("end", ""))
    if ended is not None:
        held = delegation_end(delegation_id=ended, user=user)
        return f"{held.delegate} no longer decides for {held.delegator}."
    delegate, delegator = _person(user, said.get("delegate", "")), user
    if said.get("delegator"):
        delegator = _person(user, said["delegator"])
    made = delegation_create(
        user=user,
        delegator=delegator,
        delegate=delegate,
        starts_at=_midnight(said.get("from", "")),
        ends_at=min(_midnight(said.get("until", "")), clock.LATEST) + timedelta(days=1),
        reason=said.get("reason", ""),
    )
    return f"{made.delegate} decides for {made.delegator}."


def _people(user: User) -> list[User]:
    """Who may decide and shares a team with the viewer; all, for whoever administers people."""
    people = users_with(DECIDE).filter(is_service=False)
    if not user.has_perm(ADMINISTERS):
        people = people.filter(teams__in=user.teams.all())
    return list(people.distinct().order_by("first_name", "last_name", "username")[:_MANY])


def _person(user: User, named: str) -> User:
    wanted = _uuid(named)
    found = next((one for one in _people(user) if one.pk == wanted), None)
    if found is None:
        raise DelegationRefusedError("Choose somebody who may decide.")
    return found


def _midnight(day: str) -> datetime:
    """The beginning of a day in the viewer's zone."""
    try:
        return days.start_of(date.fromisoformat(day))
    except ValueError:
        raise DelegationRefusedError("Say from which day until which.") from None


def _uuid(given: str) -> UUID | None:
    try:
        return UUID(given)
    except ValueError:
        return None


def _row(held: Delegation, now: datetime, made_by: str) -> dict[str, Any]:
    over = held.ended_at is not None or held.ends_at <= now
    if over:
        glyph, word = "stopped", "ended early" if held.ended_at else "over"
    else:
        glyph, word = ("person", "in force") if held.starts_at <= now else ("waiting", "to come")
    return {
        "held": held,
        "glyph": glyph,
        "word": word,
        "over": over,
        "last": text.weekday(days.last_day(held.ends_at)),
        "made_by": made_by,
    }
