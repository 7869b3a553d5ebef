"""A person's own account: their sessions, their second factor."""

from __future__ import annotations

import copy
from typing import Any, cast

import segno
from django.contrib import admin, messages
from django.contrib.admin.views.decorators import staff_member_required
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from tasks_app.people.access import access_end, access_of
from tasks_app.people.gate import session_state
from tasks_app.people.lockout import address_of
from tasks_app.people.models import User
from tasks_app.people.second_factor import (
    DONE,
    DUE,
    ENROL,
    STATE,
    FactorRefusedError,
    factor_begin,
    factor_check,
    factor_confirm,
    factor_remove,
    factor_wanted,
    recovery_codes_left,
    recovery_codes_renew,
)
from tasks_app.people.security import Kind, security_record
from tasks_app.people.security_models import ApiToken, SecondFactor
from tasks_app.people.sessions import key_digest, sessions_drop, sessions_of
from tasks_app.people.token_form import TokenForm
from tasks_app.people.tokens import TokenRefusedError, make_token, revoke_token, rights_offered, tokens_of

_ONCE = "_fd_recovery_codes"
_MOST = 50


@never_cache
@staff_member_required
@require_http_methods(["GET", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """Sessions, what opens without one, and the second factor of who is signed in. POST `action`: end (with
    `session`), end_others (`revoke`: and what opens without a session), make_token, revoke_token (`token`),
    codes, remove (the last two with `code`)."""
    user = cast(User, request.user)
    if request.method == "POST":
        return _account_post(request, user)
    return _account_page(request, user)


def _account_page(
    request: HttpRequest, user: User, token_form: TokenForm | None = None, new_token: str = ""
) -> HttpResponse:
    names = dict(rights_offered(user))
    own = key_digest(request.session.session_key)
    factor = SecondFactor.objects.filter(user=user, confirmed_at__isnull=False).first()
    return _page(
        request,
        "desk/account.html",
        title="Your account",
        sessions=[(row, row.pk == own) for row in sessions_of(user)[:_MOST]],
        accesses=access_of(user),
        factor=factor,
        wanted=factor_wanted(user),
        codes_left=recovery_codes_left(user) if factor else 0,
        codes=request.session.pop(_ONCE, None),
        tokens=[(token, _rights_words(token, names)) for token in tokens_of(user)],
        token_form=token_form or TokenForm(user=user),
        new_token=new_token,
        api_example=request.build_absolute_uri(reverse("approval-list")),
    )


@never_cache
@staff_member_required
@require_http_methods(["GET", "POST"])
def second_factor(request: HttpRequest) -> HttpResponse:
    """Asks for the code that a sign-in still lacks."""
    if session_state(request) != DUE:
        return HttpResponseRedirect(_next(request))
    problem = ""
    if request.method == "POST":
        try:
            factor_check(user=cast(User, request.user), code=_code(request), address=address_of(request))
        except FactorRefusedError as error:
            problem = str(error)
        else:
            request.session.cycle_key()
            request.session[STATE] = DONE
            return HttpResponseRedirect(_next(request))
    return _page(
        request, "desk/second_factor.html", title="Second factor", problem=problem, next=_next(request)
    )


@never_cache
@staff_member_required
@require_http_methods(["GET", "POST"])
def second_factor_new(request: HttpRequest) -> HttpResponse:
    """Shows the QR code of a new app, and takes its first code."""
    user, problem = cast(User, request.user), ""
    if request.method == "POST":
        try:
            codes = factor_confirm(
                user=user,
                code=_code(request),
                session_key=request.session.session_key,
                address=address_of(request),
            )
        except FactorRefusedError as error:
            problem = str(error)
        else:
            request.session.cycle_key()
            request.session[STATE], request.session[_ONCE] = DONE, codes
            return HttpResponseRedirect(reverse("account"))
    try:
        begun = factor_begin(user=user, session_key=request.session.session_key)
    except FactorRefusedError as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(reverse("account"))
    return _page(
        request,
        "desk/second_factor_new.html",
        title="Set up your second factor",
        problem=problem,
        qr=segno.make(begun.uri, error="m").svg_data_uri(scale=5, border=2, dark="#14191f", light="#ffffff"),
        secret=_spaced(begun.secret),
        next=_next(request),
    )


def _account_post(request: HttpRequest, user: User) -> HttpResponse:
    action, address = request.POST.get("action", ""), address_of(request)
    if action == "end":
        _end(request, user, only=request.POST.get("session", "")[:64] or "none")
    elif action == "end_others":
        _end_others(request, user, revoke="revoke" in request.POST)
    elif action == "make_token":
        return _make_token(request, user)
    elif action == "revoke_token":
        key = request.POST.get("token", "")[:64]
        revoked = revoke_token(user=user, token_key=key, address=address)
        messages.success(request, "The token is revoked." if revoked else "There is no such token any more.")
    elif action in ("codes", "remove"):
        try:
            factor_check(user=user, code=_code(request), address=address)
        except FactorRefusedError as error:
            messages.error(request, str(error))
            return HttpResponseRedirect(reverse("account"))
        if action == "codes":
            request.session[_ONCE] = recovery_codes_renew(user=user)
        elif factor_wanted(user):
            messages.error(request, "Your role needs a second factor: an administrator can reset it.")
        else:
            factor_remove(user=user, by=user, address=address, but_session=request.session.session_key)
            messages.success(request, "Your second factor is removed.")
    else:
        return HttpResponseBadRequest("Say what is to be done.")
    return HttpResponseRedirect(reverse("account"))


def _make_token(request: HttpRequest, user: User) -> HttpResponse:
    form = TokenForm(request.POST, user=user)
    if not form.is_valid():
        return _account_page(request, user, form)
    try:
        if "code" in form.fields:
            factor_check(user=user, code=form.cleaned_data["code"], address=address_of(request))
        _, token = make_token(
            user=user,
            name=form.cleaned_data["name"],
            days=form.cleaned_data["days"],
            rights=form.chosen_rights(),
            by=user,
            address=address_of(request),
        )
    except (TokenRefusedError, FactorRefusedError) as error:
        field = error.field if isinstance(error, TokenRefusedError) else "code"
        form.add_error(field, str(error))
        return _account_page(request, user, form)
    return _account_page(request, user, new_token=token)


def _rights_words(token: ApiToken, names: dict[str, str]) -> str:
    if token.rights is None:
        return "do everything that you may do"
    return ", ".join(["read", *(names.get(right, right) for right in token.rights)])


def _end(request: HttpRequest, user: User, *, only: str) -> None:
    own = key_digest(request.session.session_key)
    ended = sessions_drop(user=user, only=only, but=own)
    if ended:
        security_record(
            event=Kind.SESSIONS_ENDED,
            actor=user,
            about=user.username,
            detail={"ended": ended},
            address=address_of(request),
        )
    messages.success(request, "It is ended." if ended else "It had ended already.")


def _end_others(request: HttpRequest, user: User, *, revoke: bool) -> None:
    ended = access_end(
        user=user,
        by=user,
        address=address_of(request),
        revoke=revoke,
        but_session=request.session.session_key,
    )
    told = [f"Sessions ended: {ended.pop('ended')}"]
    told += [f"revoked {', '.join(f'{name}: {count}' for name, count in ended.items())}"] if ended else []
    messages.success(request, f"{'; '.join(told)}.")


def _page(request: HttpRequest, template: str, **data: Any) -> TemplateResponse:
    request.current_app = admin.site.name
    framed = request
    if session_state(request) in (DUE, ENROL):
        # The frame shows counts and names: to a session that is not whole yet what it shows to strangers.
        framed = copy.copy(request)
        framed.user = AnonymousUser()
    return TemplateResponse(request, template, {**admin.site.each_context(framed), **data})


def _code(request: HttpRequest) -> str:
    return request.POST.get("code", "")[:40]


def _next(request: HttpRequest) -> str:
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    if url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure()):
        return wanted
    return reverse("admin:index")


def _spaced(secret: str) -> str:
    return " ".join(secret[at : at + 4] for at in range(0, len(secret), 4))


urls = [
    path("", account, name="account"),
    path("second-factor/", second_factor, name="second_factor"),
    path("second-factor/new/", second_factor_new, name="second_factor_new"),
]
