"""The forms of a person: name and mail address, role, teams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from django import forms
from django.contrib.auth.models import Group
from django.db import connection
from django.utils.text import slugify
from unfold.widgets import (
    UnfoldAdminEmailInputWidget,
    UnfoldAdminSelectMultipleWidget,
    UnfoldAdminSelectWidget,
)

from tasks_app.days import time_zones
from tasks_app.desk.drawn import DrawnForm
from tasks_app.people.house import house
from tasks_app.people.logins import LOGIN_CHARS, login_of_mail
from tasks_app.people.models import Membership, User


class _Zoned(forms.ModelForm):
    time_zone = forms.ChoiceField(
        choices=time_zones, widget=UnfoldAdminSelectWidget, initial=lambda: house().time_zone
    )


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


class _MailForm(forms.ModelForm):
    """The mail address of a person, which nobody else has."""

    email = forms.EmailField(
        label="Mail address", required=False, max_length=LOGIN_CHARS, widget=UnfoldAdminEmailInputWidget
    )

    def clean_email(self) -> str:
        mail = str(self.cleaned_data["email"]).strip()
        others = User.objects.filter(email__iexact=mail, is_service=False).exclude(pk=self.instance.pk)
        if mail and others.exists():
            raise forms.ValidationError("Another person has this mail address.")
        return mail


class PersonForm(DrawnForm, _RoleForm, _MailForm, _Zoned):
    """A person, with the teams below."""

    def drawn_values(self) -> dict[str, Any]:
        """The teams too: they are sent with it."""
        return {**super().drawn_values(), "teams": sorted(_seats(self.instance))}


class NewPersonForm(_RoleForm, _MailForm, _Zoned):
    """A new person, who logs in by the mail address, or a service account, which has a name alone."""

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or self.cleaned_data
        is_service, name = said.get("is_service"), f"{said.get('first_name')} {said.get('last_name')}"
        field = "first_name" if is_service else "email"
        if field in self.errors:
            return said
        login = slugify(name)[:LOGIN_CHARS] if is_service else login_of_mail(str(said.get("email")))
        _hold_name(login)
        if not login:
            missing = "Name the account." if is_service else "The invitation goes to this address."
            self.add_error(field, missing)
        elif User.objects.filter(username=User.normalize_username(login)).exists():
            self.add_error(field, "Another login has this name.")
        self.instance.username = login
        return said

    def save(self, commit: bool = True) -> Any:
        """Save it without a password: a person sets one by a link."""
        self.instance.set_unusable_password()
        return super().save(commit)


def _hold_name(login: str) -> None:
    """Let nobody else add the same login before this transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock(hashtext(%s))", [f"login {login}"])


def _seats(user: User) -> Iterator[str]:
    for seat in Membership.objects.filter(user=user).prefetch_related("advertisers"):
        named = sorted(str(advertiser.pk) for advertiser in seat.advertisers.all())
        yield f"{seat.pk} {seat.team_id} {seat.every_advertiser} {named}"


class MembershipForm(forms.ModelForm):
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


class MembershipFormSet(forms.BaseInlineFormSet):
    default_error_messages: ClassVar = {
        **forms.BaseInlineFormSet.default_error_messages,
        "too_few_forms": "Choose a team: without one, nobody sees anything.",
    }
