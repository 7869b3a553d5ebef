"""The page behind the one-time address: it makes the first administrator and logs them in."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth import login, password_validation
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from tasks_app.days import time_zones
from tasks_app.people.first_administrator import LoginExistsError, is_token_valid, make_first_administrator
from tasks_app.people.lockout import address_of
from tasks_app.people.logins import LOGIN_CHARS
from tasks_app.people.models import User

_IN = {"class": "fd-in below"}
_NEW_PASSWORD = forms.PasswordInput(attrs={**_IN, "autocomplete": "new-password"})


class _FirstAdministratorForm(forms.ModelForm):
    """The first person: their name, mail address, time zone and password."""

    email = forms.EmailField(
        label="Mail address",
        max_length=LOGIN_CHARS,
        help_text="You log in by it.",
        widget=forms.EmailInput(attrs={**_IN, "autocomplete": "email"}),
    )
    time_zone = forms.ChoiceField(
        choices=time_zones,
        initial="UTC",
        help_text="Flightdeck shows you times in it.",
        widget=forms.Select(attrs=_IN),
    )
    password = forms.CharField(strip=False, max_length=4096, widget=_NEW_PASSWORD)
    again = forms.CharField(label="Password again", strip=False, max_length=4096, widget=_NEW_PASSWORD)

    class Meta:
        model = User
        fields = ("first_name", "last_name", "email", "time_zone")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("first_name", "last_name"):
            self.fields[name].required = True
            self.fields[name].widget = forms.TextInput(attrs=_IN)

    def clean(self) -> dict[str, Any]:
        """Refuse two passwords that differ, and one that is too easy to guess."""
        said: dict[str, Any] = super().clean() or self.cleaned_data
        password, again = said.get("password"), said.get("again")
        if password and again and password != again:
            self.add_error("again", "The two passwords differ.")
        elif password:
            person = User(**{name: said.get(name, "") for name in ("first_name", "last_name", "email")})
            try:
                password_validation.validate_password(password, person)
            except forms.ValidationError as error:
                self.add_error("password", error)
        return said


@never_cache
@require_http_methods(["GET", "POST"])
def first_administrator(request: HttpRequest, token: str) -> HttpResponse:
    """Show the form, or say that the address was used or has expired."""
    form = _FirstAdministratorForm(request.POST or None)
    is_open = is_token_valid(token)
    if is_open and form.is_valid():
        user = form.save(commit=False)
        try:
            make_first_administrator(
                user=user, password=form.cleaned_data["password"], address=address_of(request)
            )
        except LoginExistsError:
            is_open = False
        else:
            login(request, user, backend="tasks_app.people.holders.RoleBackend")
            return HttpResponseRedirect(reverse("admin:index"))
    data = {"form": form, "is_open": is_open, "title": "First administrator"}
    return TemplateResponse(
        request, "desk/first_administrator.html", {**admin.site.each_context(request), **data}
    )


urls = [path("first-administrator/<str:token>/", first_administrator, name="first_administrator")]
