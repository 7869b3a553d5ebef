"""The pages of people, teams and advertisers, whose room is below this one: written by administrators alone,
through ordinary forms; and the security log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, cast
from zoneinfo import available_timezones

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django import forms
from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django_q.models import Failure, OrmQ, Success
from django_q.models import Schedule as QueueSchedule
from knox.models import AuthToken
from unfold.admin import ModelAdmin, StackedInline
from unfold.decorators import action, display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import (
    UnfoldAdminSelectMultipleWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from tasks_app.desk.drawn import DrawnAdmin, DrawnForm
from tasks_app.desk.listing import ListPage
from tasks_app.people.access import access_end, access_of
from tasks_app.people.actors import actor_ensure
from tasks_app.people.agents import browser_of
from tasks_app.people.lockout import address_of
from tasks_app.people.models import Actor, Advertiser, Membership, Team, User
from tasks_app.people.rights import rights_changed, rights_of
from tasks_app.people.second_factor import factor_remove
from tasks_app.people.security import Kind, security_record
from tasks_app.people.security_models import SecurityEvent
from tasks_app.people.sessions import sessions_of

# Groups are what migrations make them; tokens are made where it is recorded; the queue and the lock-out are
# libraries' own tables, which no role may touch.
admin.site.unregister((Group, AuthToken, AccessAttempt, AccessLog, AccessFailureLog))
admin.site.unregister((QueueSchedule, Success, Failure, OrmQ))
_SURE = "sure"  # the form of an action, answered
_CATEGORY = re.compile(r"[a-z][a-z0-9_]{0,59}")


class _Kept(DrawnAdmin, ListPage):
    """Written by whoever has the right. Nothing is deleted: the trail, deals and campaigns refer to it."""

    team_path = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(ModelAdmin.has_add_permission(self, request))

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return bool(ModelAdmin.has_change_permission(self, request, obj))


def _zones() -> Iterator[tuple[str, str]]:
    return ((name, name.replace("_", " ")) for name in sorted(available_timezones()))


class _Zoned(forms.ModelForm):
    time_zone = forms.ChoiceField(choices=_zones, widget=UnfoldAdminSelectWidget, initial="UTC")


class _RoleForm(forms.ModelForm):
    """The role that opens the admin or the API to a login."""

    groups = forms.ModelMultipleChoiceField(
        Group.objects.all(),
        label="Role",
        help_text="A person with a role can log in here. A service account uses the API.",
        error_messages={"required": "Choose a role: without one, nobody can log in with this name."},
        widget=UnfoldAdminSelectMultipleWidget,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.is_superuser and "groups" in self.fields:
            self.fields["groups"].required = False


class _PersonForm(DrawnForm, _RoleForm, UserChangeForm, _Zoned):
    """A person, with the teams below."""

    def drawn_values(self) -> dict[str, Any]:
        """The teams too: they are sent with it."""
        return {**super().drawn_values(), "teams": sorted(_seats(self.instance))}


class _NewPersonForm(_RoleForm, UserCreationForm, _Zoned):
    """A new person or service account."""


def _seats(user: User) -> Iterator[str]:
    for seat in Membership.objects.filter(user=user).prefetch_related("advertisers"):
        named = sorted(str(advertiser.pk) for advertiser in seat.advertisers.all())
        yield f"{seat.pk} {seat.team_id} {seat.every_advertiser} {named}"


class _MembershipForm(forms.ModelForm):
    class Meta:
        error_messages: ClassVar = {
            "team": {"required": "Choose a team: without one, this person sees nothing."}
        }

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or self.cleaned_data
        team, named = said.get("team"), said.get("advertisers")
        if team is None or said.get("DELETE"):
            return said
        if named is not None and any(advertiser.team_id != team.pk for advertiser in named):
            self.add_error("advertisers", f"These must be advertisers of {team}.")
        if named and said.get("every_advertiser"):
            self.add_error("advertisers", "Either every advertiser, or those named: not both.")
        return said


class _Memberships(forms.BaseInlineFormSet):
    default_error_messages: ClassVar = {
        **forms.BaseInlineFormSet.default_error_messages,
        "too_few_forms": "Choose a team: without one, nobody sees anything.",
    }


class _MembershipInline(StackedInline):
    """Whoever may change a person may change what they see."""

    model = Membership
    form = _MembershipForm
    formset = _Memberships
    extra = 0
    fields = ("team", "every_advertiser", "advertisers")
    verbose_name, verbose_name_plural = "team", "teams"

    def get_min_num(self, request: HttpRequest, obj: Model | None = None, **kwargs: Any) -> int:
        """Return 1, but 0 for a superuser, who sees every team."""
        return 0 if isinstance(obj, User) and obj.is_superuser else 1

    def get_formset(self, request: HttpRequest, obj: Model | None = None, **kwargs: Any) -> Any:
        return super().get_formset(request, obj, **{"validate_min": True, **kwargs})

    def _may(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return bool(request.user.has_perm("tasks_app.change_user"))

    has_add_permission = has_change_permission = has_delete_permission = _may

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return bool(request.user.has_perm("tasks_app.view_user"))


@admin.register(User)
class PersonAdmin(UserAdmin, _Kept):  # type: ignore[misc]  # Django's own options come after ours
    """Logins with their role and teams. Rights come from roles alone, never singly."""

    head = "People"
    subhead = "Logins of people and service accounts: a role says what they may do, a team what they see"
    form, add_form, change_password_form = _PersonForm, _NewPersonForm, AdminPasswordChangeForm
    change_user_password_template = "desk/person_password.html"  # noqa: S105 (a template)
    list_display = ("username", "show_name", "show_roles", "show_teams", "show_kind", "show_access")
    list_filter = ("is_active", "is_service", "groups", "teams")
    search_fields = ("username", "first_name", "last_name", "email")
    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")
    inlines = (_MembershipInline,)
    actions = ("end_sessions", "reset_factor")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email", "mail_notifications", "time_zone")}),
        ("Role", {"fields": ("groups", "is_active", "is_service")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = (
        (None, {"fields": ("username", "usable_password", "password1", "password2")}),
        ("Person", {"fields": ("first_name", "last_name", "email", "time_zone")}),
        ("Role", {"fields": ("groups", "is_service")}),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("groups", "teams")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Person or service account is said once: what a login did stands under the key of its kind."""
        return self.readonly_fields if obj is None else (*self.readonly_fields, "is_service")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Only a superuser changes a superuser, or sets their password."""
        if isinstance(obj, User) and obj.is_superuser and not request.user.is_superuser:
            return False
        return bool(super().has_change_permission(request, obj))

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        form.rights_before = rights_of(obj) if change else {}
        # A role opens the admin to a person; a service account uses the API.
        obj.is_staff = obj.is_superuser or (bool(form.cleaned_data["groups"]) and not obj.is_service)
        super().save_model(request, obj, form, change)
        actor = actor_ensure(user=obj)
        Actor.objects.filter(pk=actor.pk).update(name=str(obj)[:160])

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        rights_changed(
            user=form.instance,
            before=form.rights_before,
            by=cast(User, request.user),
            address=address_of(request),
        )

    @action(description="Sign out everywhere")
    def end_sessions(self, request: HttpRequest, people: QuerySet[User]) -> HttpResponse | None:
        """Asks first, with everything that would open still; then ends sessions, and that too unless told
        otherwise."""
        chosen = self._changeable(request, people)
        if _SURE not in request.POST:
            asked = [(person, sessions_of(person).count(), access_of(person)) for person in chosen]
            return self.page(request, "desk/people_end.html", asked=asked, title="Sign out everywhere")
        for person in chosen:
            self._end(request, person, revoke="revoke" in request.POST)
        messages.success(request, "They are signed out.")
        return None

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """A password that an administrator sets ends what was signed in by the old one, and, unless told
        otherwise, what opens without a password."""
        before = self.get_object(request, unquote(id))
        answer = super().user_change_password(request, id, form_url)
        if isinstance(answer, TemplateResponse) and before is not None:
            data = cast(dict[str, Any], answer.context_data)
            data["accesses"] = access_of(before)
        elif before is not None and request.method == "POST":
            person = User.objects.get(pk=before.pk)
            if person.password != before.password:
                self._end(request, person, revoke="revoke" in request.POST)
        return answer

    def _end(self, request: HttpRequest, person: User, *, revoke: bool) -> None:
        access_end(
            user=person,
            by=cast(User, request.user),
            address=address_of(request),
            revoke=revoke,
            but_session=request.session.session_key if person == request.user else None,
        )

    @action(description="Reset second factor")
    def reset_factor(self, request: HttpRequest, people: QuerySet[User]) -> None:
        by, address = cast(User, request.user), address_of(request)
        reset = [
            p for p in self._changeable(request, people) if factor_remove(user=p, by=by, address=address)
        ]
        messages.success(request, f"Second factors reset: {len(reset)}.")

    def _changeable(self, request: HttpRequest, people: QuerySet[User]) -> list[User]:
        """Those of `people` whom this person may change. Raises PermissionDenied where it is not all."""
        chosen = list(people)
        if not all(self.has_change_permission(request, person) for person in chosen):
            raise PermissionDenied
        return chosen

    @display(description="Name", ordering="first_name")
    def show_name(self, person: User) -> str:
        return person.get_full_name() or "–"

    @display(description="Kind", ordering="is_service")
    def show_kind(self, person: User) -> str:
        return "Service account" if person.is_service else "Person"

    @display(description="Access", ordering="is_active")
    def show_access(self, person: User) -> str:
        if not person.is_active:
            return "Off"
        access = "Admin and API" if person.is_staff else "API only"
        lacks = {"no role": person.groups.all(), "no team": person.teams.all()}
        missing = [words for words, held in lacks.items() if not held and not person.is_superuser]
        return ", ".join([access, *missing])

    @display(description="Role")
    def show_roles(self, person: User) -> str:
        return ", ".join(group.name for group in person.groups.all()) or "–"

    @display(description="Teams")
    def show_teams(self, person: User) -> str:
        return ", ".join(team.name for team in person.teams.all()) or "–"


class _Recorded(_Kept):
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
class TeamAdmin(_Recorded):
    recorded_as = Kind.TEAM_CHANGED
    form = _TeamForm
    head = "Teams"
    subhead = "Each sees its own advertisers, campaigns and deals, and nobody else’s"
    list_display = ("name", "show_people", "show_advertisers")
    search_fields = ("name",)

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
class AdvertiserAdmin(_Recorded):
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
class SecurityLogAdmin(_Kept):
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
        actor=cast(User, request.user),
        about=about,
        detail=detail,
        address=address_of(request),
    )
