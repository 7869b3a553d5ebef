"""A session whose second factor is due sees nothing but the page that asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.http import urlencode

from tasks_app.people.models import User
from tasks_app.people.second_factor import DUE, ENROL, STATE, factor_forget_begun, factor_state

_API = "/api/"
_PROBLEM = {
    "type": "about:blank",
    "status": 403,
    "title": "A second factor is due",
    "detail": "Enter the code of your authenticator app in the admin first.",
    "code": "second_factor_due",
}
PAGES = {DUE: "second_factor", ENROL: "second_factor_new"}


class SecondFactorMiddleware:
    """Stands behind AuthenticationMiddleware. API tokens are no sessions: they pass."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        state = session_state(request)
        if state not in PAGES or _may_pass(request.path, state):
            return self.get_response(request)
        if request.path.startswith(_API):
            return JsonResponse(_PROBLEM, status=403, content_type="application/problem+json")
        asked = request.get_full_path() if request.method == "GET" else reverse("admin:index")
        return HttpResponseRedirect(f"{reverse(PAGES[state])}?{urlencode({'next': asked})}")


def session_state(request: HttpRequest) -> str:
    """Of a signed-in session, whether its second factor is done, due, or to be set up; empty of another."""
    if not isinstance(getattr(request, "user", None), User) or not request.user.is_authenticated:
        return ""
    if STATE not in request.session:
        request.session[STATE] = factor_state(request.user)
    return str(request.session[STATE])


def register() -> None:
    """Each sign-in begins without its second factor, and forgets one that was only begun. Called when the
    application starts."""
    user_logged_in.connect(_begin, dispatch_uid="second_factor")


def _begin(request: HttpRequest, user: User, **_: Any) -> None:
    factor_forget_begun(user=user)
    request.session[STATE] = factor_state(user)


def _may_pass(path: str, state: str) -> bool:
    return path in (reverse(PAGES[state]), reverse("admin:logout"), reverse("admin:login"))
