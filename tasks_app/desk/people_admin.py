"""The pages of teams, advertisers and the security log, written by administrators alone."""

from __future__ import annotations

import re
from typing import Any

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django_q.models import Failure, OrmQ, Success
from django_q.models import Schedule as QueueSchedule
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.widgets import (
    UnfoldAdminTextInputWidget,
)

from tasks_app.desk.drawn import DrawnAdmin, DrawnForm
from tasks_app.desk.listing import ListPage
from tasks_app.desk.page import viewer
from tasks_app.people.agents import browser_of
from tasks_app.people.lockout import address_of
from tasks_app.people.models import Advertiser, Team
from tasks_app.people.rights import join_first_team
from tasks_app.people.security import Kind, security_record
from tasks_app.people.security_models import SecurityEvent

# Groups are what migrations make them; tokens are made where it is recorded; the queue and the lock-out are
# libraries' own tables, which no role may touch.
admin.site.unregister((Group, AccessAttempt, AccessLog, AccessFailureLog))
admin.site.unregister((QueueSchedule, Success, Failure, OrmQ))
_CATEGORY = re.compile(r"[a-z][a-z0-9_]{0,59}")


class KeptPage(DrawnAdmin, ListPage):
    """Written by whoever has the right. Nothing is deleted: the trail, deals and campaigns refer to it.

    With `?next=today` in its address, the page of a new row leads back to Today.
    """

    team_path = None

    def response_post_save_add(self, request: HttpRequest, obj: Model) -> HttpResponse:
        if request.GET.get("next") == "today":
            return HttpResponseRedirect(reverse("admin:index"))
        return super().response_post_save_add(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(ModelAdmin.has_add_permission(self, request))

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return bool(ModelAdmin.has_change_permission(self, request, obj))


class RecordedPage(KeptPage):
    """Each change is in the security log."""

    recorded_as: str

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        fields = {
            name: [_word(form.initial.get(name)), _word(form.cleaned_data[name])]
            for name in form.changed_data
        }
        if fields:
            _record(request, self.recorded_as, str(obj), {"changes": fields})


class _TeamForm(DrawnForm, forms.ModelForm):
    pass


@admin.register(Team)
class TeamAdmin(RecordedPage):
    recorded_as = Kind.TEAM_CHANGED
    form = _TeamForm
    head = "Teams"
    subhead = "Each sees its own advertisers, campaigns and deals, and nobody else’s"
    list_display = ("name", "show_people", "show_advertisers")
    search_fields = ("name",)

    def save_model(self, request: HttpRequest, obj: Team, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            join_first_team(user=viewer(request), team=obj, address=address_of(request))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        rows = super().get_queryset(request)
        return rows.annotate(
            many_people=Count("memberships", distinct=True),
            many_advertisers=Count("advertisers", distinct=True),
        )

    @display(description="People", ordering="many_people")
    def show_people(self, team: Team) -> int:
        return int(vars(team)["many_people"])

    @display(description="Advertisers", ordering="many_advertisers")
    def show_advertisers(self, team: Team) -> int:
        return int(vars(team)["many_advertisers"])


class _AdvertiserForm(DrawnForm, forms.ModelForm):
    """An advertiser, its categories written with commas between."""

    policy_categories = forms.CharField(
        required=False,
        max_length=1000,
        widget=UnfoldAdminTextInputWidget,
        help_text="Regulatory categories as AdCP names them, with commas between: age_restricted, … "
        "Approval policies ask for more where one applies.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["policy_categories"] = ", ".join(self.instance.policy_categories)

    def clean_name(self) -> str:
        """Of one that is there the team is no field of the form: nobody else looks at its names."""
        name = str(self.cleaned_data["name"])
        others = Advertiser.objects.filter(team_id=self.instance.team_id, name=name)
        if self.instance.team_id and others.exclude(pk=self.instance.pk).exists():
            raise forms.ValidationError("This team has an advertiser of that name.")
        return name

    def clean_policy_categories(self) -> list[str]:
        said = [word.strip() for word in self.cleaned_data["policy_categories"].split(",")]
        named = list(dict.fromkeys(word for word in said if word))
        wrong = [word for word in named if not _CATEGORY.fullmatch(word)]
        if wrong:
            raise forms.ValidationError(f"{wrong[0]!r} is no category: write it like age_restricted.")
        return named


@admin.register(Advertiser)
class AdvertiserAdmin(RecordedPage):
    """Its team is chosen once: what it bought stays with that team."""

    recorded_as = Kind.ADVERTISER_CHANGED
    head, subhead = "Advertisers", "For whom is bought, each by one team"
    form = _AdvertiserForm
    list_display = ("name", "brand_domain", "team")
    list_filter = ("team",)
    list_select_related = ("team",)
    search_fields = ("name", "brand_domain")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        return ("team",) if obj else ()


@admin.register(SecurityEvent)
class SecurityLogAdmin(KeptPage):
    """Read by auditors and administrators; written by what happens."""

    head = "Security log"
    subhead = "Sign-ins, exports and changes of rights, newest first; nobody can change or remove an entry"
    list_display = ("at", "event", "show_actor", "show_about", "address", "show_detail")
    list_filter = ("event",)
    search_fields = ("=actor_name", "=about", "=address", "=request")
    search_help_text = "A name, a login, an address or a request's id, whole"
    ordering = ("-id",)
    counted = "in the log"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    @display(description="Who")
    def show_actor(self, event: SecurityEvent) -> str:
        return event.actor_name or "–"

    @display(description="About")
    def show_about(self, event: SecurityEvent) -> str:
        """What an export was of by its name, and anything else as it was recorded."""
        return (_list_name(event.about) if event.event == Kind.EXPORTED else event.about) or "–"

    @display(description="Detail")
    def show_detail(self, event: SecurityEvent) -> str:
        return _told(event.detail)


def _list_name(about: str) -> str:
    """campaigns for campaigns.campaign; what is no list stays as it is."""
    try:
        return str(apps.get_model(about)._meta.verbose_name_plural)
    except (LookupError, ValueError):
        return about


def _told(detail: dict[str, Any]) -> str:
    """What an entry holds, in words: changes as "field: from → to", the rest where there is something."""
    changes = detail.get("changes", {})
    parts = [f"{name}: {_word(was)} → {_word(now)}" for name, (was, now) in changes.items()]
    parts += [browser_of(detail["agent"])] if detail.get("agent") else []
    parts += [
        f"{name}: {_word(value)}"
        for name, value in detail.items()
        if value and name not in ("agent", "changes")
    ]
    return "; ".join(parts) or "–"


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} ({_word(inner)})" for name, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(str(one) for one in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, "") else str(value)


def _record(request: HttpRequest, event: str, about: str, detail: dict[str, Any]) -> None:
    security_record(
        event=event,
        actor=viewer(request),
        about=about,
        detail=detail,
        address=address_of(request),
    )
