"""The pages of people and service accounts: invited, deactivated, signed out."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from unfold.admin import StackedInline
from unfold.decorators import action, display

from tasks_app.desk.people_admin import KeptPage
from tasks_app.desk.person_forms import MembershipForm, MembershipFormSet, NewPersonForm, PersonForm
from tasks_app.people.access import access_end, access_of
from tasks_app.people.actors import actor_ensure
from tasks_app.people.invitations import send_password_link
from tasks_app.people.lockout import address_of
from tasks_app.people.models import Actor, Membership, User
from tasks_app.people.rights import rights_changed, rights_of, rights_recorded
from tasks_app.people.second_factor import factor_remove
from tasks_app.people.sessions import sessions_of

_SURE = "sure"  # the form of an action, answered
_INVITED = "_fd_invited"  # of a request: the person who is sent a link once the form is saved


class _MembershipInline(StackedInline):
    """The teams of a person, with the same rights as the person's own form."""

    model = Membership
    form = MembershipForm
    formset = MembershipFormSet
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
class PersonAdmin(KeptPage):
    """Logins with their role and teams. Rights come from roles alone, never singly."""

    head = "People"
    subhead = "Logins of people and service accounts: a role says what they may do, a team what they see"
    form = PersonForm
    list_display = ("username", "show_name", "show_roles", "show_teams", "show_kind", "show_access")
    list_filter = ("is_active", "is_service", "groups", "teams")
    search_fields = ("username", "first_name", "last_name", "email")
    ordering = ("username",)
    readonly_fields = ("last_login", "date_joined")
    inlines = (_MembershipInline,)
    actions = ("send_links", "deactivate", "activate", "end_sessions", "reset_factor")
    fieldsets = (
        ("Person", {"fields": ("first_name", "last_name", "email", "mail_notifications", "time_zone")}),
        ("Role", {"fields": ("groups", "is_service")}),
        ("Login", {"fields": ("username", "last_login", "date_joined")}),
    )
    add_fieldsets = (
        ("Person", {"fields": ("first_name", "last_name", "email", "time_zone")}),
        ("Role", {"fields": ("groups", "is_service")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.add_fieldsets if obj is None else super().get_fieldsets(request, obj)

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        if obj is None:
            kwargs["form"] = NewPersonForm
        return super().get_form(request, obj, change, **kwargs)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Invite a new person once the form is saved."""
        answer = super().changeform_view(request, object_id, form_url, extra_context)
        invited = vars(request).get(_INVITED)
        if invited is not None:
            self._send_link(request, invited)
        return answer

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
        if not change and not form.instance.is_service:
            vars(request)[_INVITED] = form.instance

    @action(description="Sign out everywhere")
    def end_sessions(self, request: HttpRequest, people: QuerySet[User]) -> HttpResponse | None:
        """Asks first, with everything that would open still; then ends sessions, and that too unless told
        otherwise."""
        chosen = self._changeable(request, people)
        if _SURE not in request.POST:
            return self._ask_to_end(request, chosen, "Sign out everywhere", "end_sessions")
        for person in chosen:
            self._end(request, person, revoke="revoke" in request.POST)
        messages.success(request, "They are signed out.")
        return None

    @action(description="Send a link to set the password")
    def send_links(self, request: HttpRequest, people: QuerySet[User]) -> None:
        """Send a link to each."""
        for person in self._changeable(request, people):
            self._send_link(request, person)

    def _send_link(self, request: HttpRequest, person: User) -> None:
        if person.is_service or not person.is_active:
            messages.warning(request, f"{person} cannot log in: no link was made.")
            return
        by = cast(User, request.user)
        link = send_password_link(user=person, by=by, address=address_of(request))
        if link:
            text = "No mail was sent. Give {} this link, which sets the password once: {}"
            messages.warning(request, format_html(text, person, link))
        else:
            messages.success(request, f"A link to set the password was sent to {person.email}.")

    @action(description="Deactivate")
    def deactivate(self, request: HttpRequest, people: QuerySet[User]) -> HttpResponse | None:
        """Ask first, with what ends; then nobody can log in by these names."""
        chosen = self._changeable(request, people)
        if _SURE not in request.POST:
            return self._ask_to_end(request, chosen, "Deactivate", "deactivate")
        self._set_active(request, chosen, active=False)
        told = "People deactivated: {}. Their sessions, API tokens and calendar addresses ended."
        messages.success(request, told.format(len(chosen)))
        return None

    @action(description="Activate")
    def activate(self, request: HttpRequest, people: QuerySet[User]) -> None:
        """Let them log in again."""
        self._set_active(request, self._changeable(request, people), active=True)
        messages.success(request, "They may log in again.")

    def _set_active(self, request: HttpRequest, people: list[User], *, active: bool) -> None:
        for person in people:
            with rights_recorded(person, by=cast(User, request.user), address=address_of(request)):
                person.is_active = active
                person.save(update_fields=["is_active"])

    def _ask_to_end(self, request: HttpRequest, people: list[User], title: str, act: str) -> HttpResponse:
        asked = [(person, sessions_of(person).count(), access_of(person)) for person in people]
        lead = "Sessions end at once, also on pages that are open"
        if act == "deactivate":
            lead = "Nobody can log in by these names; sessions, API tokens and calendar addresses end at once"
        return self.page(
            request, "desk/people_end.html", asked=asked, title=title, verb=title, act=act, lead=lead
        )

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
        """Return the people as a list. Raise PermissionDenied if this person may not change all of them."""
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
