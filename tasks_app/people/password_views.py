"""The pages on which somebody who is not logged in asks for a link, and sets a password with it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from django import forms
from django.contrib import admin
from django.contrib.auth.views import PasswordResetConfirmView
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from tasks_app.people.invitations import is_mail_configured, mail_password_links
from tasks_app.people.lockout import address_of
from tasks_app.people.models import User

log = structlog.get_logger(__name__)
_IN = {"class": "fd-in below"}
_MAILER = ThreadPoolExecutor(1, thread_name_prefix="password-mail")


class _MailForm(forms.Form):
    email = forms.EmailField(
        label="Mail address",
        max_length=254,
        widget=forms.EmailInput(attrs={**_IN, "autocomplete": "email", "autofocus": True}),
    )


@never_cache
@require_http_methods(["GET", "POST"])
def password_reset(request: HttpRequest) -> HttpResponse:
    """Ask for a link. The answer does not say whether there is such a login."""
    form = _MailForm(request.POST or None)
    is_asked = form.is_valid() and is_mail_configured()
    if is_asked:
        # In the background: the time that an answer takes does not tell whether there is such a login.
        _MAILER.submit(_mail_links, form.cleaned_data["email"], address_of(request))
    data = {"form": form, "asked": is_asked, "can_mail": is_mail_configured(), "title": "Password"}
    return TemplateResponse(request, "desk/password_reset.html", {**admin.site.each_context(request), **data})


def _mail_links(mail: str, address: str | None) -> None:
    try:
        mail_password_links(mail=mail, address=address)
    except DatabaseError as error:
        log.warning("password_links_not_mailed", error=type(error).__name__)
    finally:
        connection.close()


class PasswordSet(PasswordResetConfirmView):
    """Sets the password by a link that works once, and logs in."""

    template_name = "desk/password_set.html"
    title = "Set your password"
    success_url = reverse_lazy("admin:index")
    post_reset_login = True
    post_reset_login_backend = "tasks_app.people.holders.RoleBackend"

    def get_user(self, uidb64: str) -> User | None:
        """Return whose link it is, if they may log in."""
        user = super().get_user(uidb64)
        return user if isinstance(user, User) and user.is_active and not user.is_service else None

    def get_form(self, form_class: Any = None) -> Any:
        """Return the form with the fields in our style."""
        form = super().get_form(form_class)
        for field in form.fields.values():
            field.widget.attrs |= _IN
        return form

    def get_context_data(self, **data: Any) -> dict[str, Any]:
        """Return what the page shows."""
        return {**admin.site.each_context(self.request), **super().get_context_data(**data)}


urls = [
    path("password-reset/", password_reset, name="admin_password_reset"),
    path("set-password/<uidb64>/<token>/", PasswordSet.as_view(), name="password_set"),
]
