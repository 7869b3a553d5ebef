"""API tokens of one's own page: limited, shown once, revoked."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE, USE_ASSISTANT
from tasks_app.people.second_factor import DONE, STATE
from tasks_app.people.security_models import ApiToken, SecurityEvent
from tests.people.conftest import ACCOUNT, code_of, set_up

pytestmark = pytest.mark.django_db
Person, SignIn = Callable[[str], User], Callable[..., Client]
LIST, SESSIONS = "/api/v1/approvals/", "/api/v1/assistant/sessions/"
MARK = "/api/v1/notifications/read/"


@pytest.fixture
def maya(person: Person) -> User:
    return person("Approver")


def made(client: Client, **form: object) -> str:
    """Make a token in the page; answer it."""
    sent = {"action": "make_token", "name": "Reporting", "days": "30", "limit": "chosen", **form}
    shown = client.post(ACCOUNT, sent, follow=True).content.decode()
    found = re.search(r'id="new-token">([^<]+)<', shown)
    return found[1] if found else ""


def asked(method: str, address: str, token: str) -> int:
    headers = {"Authorization": f"Token {token}"}
    sent = {"data": "{}", "content_type": "application/json"} if method == "post" else {}
    return getattr(Client(), method)(address, headers=headers, **sent).status_code  # type: ignore[no-any-return]


def test_a_token_is_shown_once_works_and_is_revoked(maya: User, sign_in: SignIn) -> None:
    here = sign_in(maya)
    token = made(here)
    assert asked("get", LIST, token) == 200
    assert token not in here.get(ACCOUNT).content.decode()
    kept = ApiToken.objects.get(user=maya)
    assert (kept.name, kept.rights, kept.last_used_at is not None) == ("Reporting", [], True)
    assert token not in str([one.detail for one in SecurityEvent.objects.all()])
    here.post(ACCOUNT, {"action": "revoke_token", "token": kept.token_key})
    assert asked("get", LIST, token) == 401
    assert SecurityEvent.objects.filter(event="token_revoked", about=maya.username).exists()


def test_a_token_does_no_more_than_it_says(maya: User, sign_in: SignIn) -> None:
    here = sign_in(maya)
    reads, asks = made(here), made(here, rights=[USE_ASSISTANT])
    everything = made(here, limit="all")
    assert [asked("post", SESSIONS, one) for one in (reads, asks, everything)] == [403, 201, 201]
    assert [asked("post", MARK, one) for one in (reads, asks)] == [403, 403]
    assert asked("post", MARK, everything) == 400, "it names none"
    assert [asked("get", LIST, one) for one in (reads, asks, everything)] == [200, 200, 200]
    limited = User.objects.get(pk=maya.pk)
    limited.limit_rights([USE_ASSISTANT])
    assert (limited.has_perm(DECIDE), maya.has_perm(DECIDE)) == (False, True)


def test_with_a_second_factor_a_token_takes_a_code(maya: User, sign_in: SignIn) -> None:
    set_up(maya)
    here = sign_in(maya)
    session = here.session
    session[STATE] = DONE
    session.save()
    assert made(here, limit="all") == ""
    assert made(here, limit="all", code="000000") == ""
    assert made(here, limit="all", code=code_of(maya, steps=1)) != ""


def test_a_wrong_form_keeps_what_was_typed(person: Person, sign_in: SignIn) -> None:
    here = sign_in(person("Buyer"))
    for wrong in ({"name": ""}, {"days": "9999"}, {"rights": [DECIDE]}, {"limit": "most"}):
        sent = {"action": "make_token", "name": "Kept", "days": "30", "limit": "chosen", **wrong}
        shown = here.post(ACCOUNT, sent).content.decode()
        assert "c-bad" in shown, wrong
        assert 'value="Kept"' in shown or "name" in wrong
    assert not ApiToken.objects.exists()


def test_nobody_revokes_the_token_of_another(maya: User, person: Person, sign_in: SignIn) -> None:
    made(sign_in(maya))
    key = ApiToken.objects.get(user=maya).token_key
    sign_in(person("Buyer")).post(ACCOUNT, {"action": "revoke_token", "token": key})
    assert ApiToken.objects.filter(user=maya).exists()
