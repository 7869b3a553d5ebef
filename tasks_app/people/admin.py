"""People, teams and advertisers: written by administrators alone, through ordinary forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.db.models import Model
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminSelectWidget

from tasks_app.paging import KeyedList, ListPaginator
from tasks_app.people.actors import actor_ensure
from tasks_app.people.models import Actor, Advertiser, Team, User

admin.site.unregister(Group)


class _Kept(ModelAdmin):
    """Nothing here is deleted: the trail, deals and campaigns refer to it."""

    list_fullwidth = True
    paginator = ListPaginator
    show_full_result_count = False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[KeyedList]:
        return KeyedList

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def _zones() -> Iterator[tuple[str, str]]:
    return ((name, name.replace("_", " ")) for name in sorted(available_timezones()))


class _Zoned(forms.ModelForm):
    time_zone = forms.ChoiceField(choices=_zones, widget=UnfoldAdminSelectWidget, initial="UTC")


class _PersonForm(UserChangeForm, _Zoned):
    pass


class _NewPersonForm(UserCreationForm, _Zoned):
    pass


@admin.register(User)
class PersonAdmin(UserAdmin, _Kept):  # type: ignore[misc]  # Django's own options come after ours
    """Logins with their role and teams. Rights come from roles alone, never singly."""

    form, add_form, change_password_form = _PersonForm, _NewPersonForm, AdminPasswordChangeForm
    list_display = ("username", "show_name", "show_roles", "show_teams", "show_kind", "show_access")
    list_filter = ("is_active", "is_service", "groups", "teams")
    search_fields = ("username", "first_name", "last_name", "email")
    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email", "mail_notifications", "time_zone")}),
        ("Role", {"fields": ("groups", "teams", "is_active", "is_staff", "is_service")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = (
        (None, {"fields": ("username", "usable_password", "password1", "password2")}),
        ("Person", {"fields": ("first_name", "last_name", "email", "time_zone")}),
        ("Role", {"fields": ("groups", "teams", "is_staff", "is_service")}),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("groups", "teams")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Only a superuser changes a superuser, or sets their password."""
        if isinstance(obj, User) and obj.is_superuser and not request.user.is_superuser:
            return False
        return bool(super().has_change_permission(request, obj))

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        actor = actor_ensure(user=obj)
        Actor.objects.filter(pk=actor.pk).update(name=str(obj)[:160])

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
        return "Admin and API" if person.is_staff else "API only"

    @display(description="Role")
    def show_roles(self, person: User) -> str:
        return ", ".join(group.name for group in person.groups.all()) or "–"

    @display(description="Teams")
    def show_teams(self, person: User) -> str:
        return ", ".join(team.name for team in person.teams.all()) or "–"


@admin.register(Team)
class TeamAdmin(_Kept):
    search_fields = ("name",)


@admin.register(Advertiser)
class AdvertiserAdmin(_Kept):
    list_display = ("name", "brand_domain", "team")
    list_filter = ("team",)
    list_select_related = ("team",)
    search_fields = ("name", "brand_domain")
