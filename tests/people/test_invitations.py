"""A person is invited by a link that sets the password once, and logs in."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core import mail
from django.test import Client

from tasks_app.notifications.selectors import notifications_of
from tasks_app.people.invitations import mail_password_links, send_password_link
from tasks_app.people.models import User
from tasks_app.people.rights import rights_recorded
from tasks_app.people.security_models import SecurityEvent
from tests.factories import make_team

pytestmark = pytest.mark.django_db
Person, SignIn = Callable[[str], User], Callable[..., Client]
ADD, PEOPLE, RESET = "/admin/tasks_app/user/add/", "/admin/tasks_app/user/", "/admin/password-reset/"
NO_MAIL = "django.core.mail.backends.dummy.EmailBackend"
NEW = "an entirely different staple of words"


@pytest.fixture
def ada(person: Person, sign_in: SignIn) -> Client:
    return sign_in(person("Administrator"))


def new_person(role: str = "Approver", **changed: Any) -> dict[str, Any]:
    """Return the fields of a filled-in form for a new person."""
    return {
        "first_name": "Noor",
        "last_name": "Haddad",
        "email": "noor@example.com",
        "time_zone": "UTC",
        "groups": [Group.objects.get(name=role).pk],
        "memberships-TOTAL_FORMS": 1,
        "memberships-INITIAL_FORMS": 0,
        "memberships-0-every_advertiser": "on",
        "memberships-0-team": str(make_team().pk),
        **changed,
    }


def set_password(link: str, password: str = NEW) -> Any:
    """Open a link and send the form that it leads to."""
    client = Client()
    form = client.get(re.sub(r"^https?://[^/]+", "", link), follow=True)
    if not form.redirect_chain:
        return form
    return client.post(form.redirect_chain[-1][0], {"new_password1": password, "new_password2": password})


def link_in(text: str) -> str:
    return re.search(r"http\S+/set-password/[^\s<\"]+", text)[0]  # type: ignore[index]


def test_an_invited_person_sets_a_password_once_and_logs_in(
    ada: Client, sign_in: SignIn, settings: Any
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    told = ada.post(ADD, new_person(), follow=True).content.decode()
    assert "was sent to noor@example.com" in told
    assert "set-password" not in told
    (message,) = mail.outbox
    noor = User.objects.get(email="noor@example.com")
    assert (message.to, noor.username, noor.is_staff) == (["noor@example.com"], "noor@example.com", True)
    link = link_in(str(message.body))
    assert set_password(link).status_code == 302
    assert sign_in(noor, NEW).get("/admin/").status_code == 200
    assert "was used already" in set_password(link).content.decode()
    noor.refresh_from_db()
    assert noor.check_password(NEW)
    detail = SecurityEvent.objects.get(event="password_link").detail
    assert detail == {"mailed": True, "to": "noor@example.com", "invited": True}


def test_without_mail_the_link_is_shown_to_the_administrator(ada: Client, settings: Any) -> None:
    settings.EMAIL_BACKEND = NO_MAIL
    told = ada.post(ADD, new_person(), follow=True).content.decode()
    link = link_in(told)
    assert set_password(link).status_code == 302
    reset = Client().post(RESET, {"email": "noor@example.com"}).content.decode()
    assert "Ask an administrator" in reset


def test_an_expired_link_opens_nothing(ada: Client, settings: Any) -> None:
    settings.EMAIL_BACKEND = NO_MAIL
    link = link_in(ada.post(ADD, new_person(), follow=True).content.decode())
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert "has expired" in set_password(link).content.decode()
    assert not User.objects.get(email="noor@example.com").has_usable_password()


def test_a_mail_address_belongs_to_one_person(ada: Client) -> None:
    ada.post(ADD, new_person())
    again = ada.post(ADD, new_person(email="Noor@Example.com", first_name="Another"))
    assert "Another person has this mail address." in again.content.decode()
    assert 'value="Another"' in again.content.decode()
    assert "The invitation goes to this address." in ada.post(ADD, new_person(email="")).content.decode()
    missing = ada.post(ADD, new_person(groups=[], **{"memberships-0-team": ""})).content.decode()
    assert "Choose a role" in missing
    assert "Choose a team" in missing
    assert User.objects.filter(email__iexact="noor@example.com").count() == 1


def test_a_service_account_has_a_name_and_is_not_invited(ada: Client) -> None:
    form = new_person("Integration", first_name="Reporting", last_name="robot", email="", is_service="on")
    told = ada.post(ADD, form, follow=True).content.decode()
    robot = User.objects.get(username="reporting-robot")
    assert (robot.is_staff, robot.has_usable_password()) == (False, False)
    assert "set-password" not in told


def test_a_forgotten_password_is_reset_by_mail(person: Person, sign_in: SignIn, settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    maya = person("Approver")
    User.objects.filter(pk=maya.pk).update(email="maya@example.com")
    asked = Client().post(RESET, {"email": "no@example.com"}).content.decode()
    assert "If there is a login with this address" in asked
    for _ in range(2):
        mail_password_links(mail="MAYA@example.com", address=None)
    (message,) = mail.outbox
    assert set_password(link_in(str(message.body))).status_code == 302
    assert sign_in(maya, NEW).get("/admin/").status_code == 200
    assert SecurityEvent.objects.filter(event="password_changed", about=maya.username).exists()


def test_a_link_made_for_somebody_else_is_told_and_opens_nothing_once_they_are_deactivated(
    person: Person, settings: Any
) -> None:
    settings.EMAIL_BACKEND = NO_MAIL
    maya, ada, ruth = person("Approver"), person("Administrator"), person("Auditor")
    User.objects.filter(pk=maya.pk).update(last_login=maya.date_joined)
    maya.refresh_from_db()
    link = send_password_link(user=maya, by=ada, address=None)
    for reader in (maya, ruth):
        assert f"made a link that sets the password of {maya}" in str(
            [one.title for one in notifications_of(reader)]
        )
    with rights_recorded(maya, by=ada):
        User.objects.filter(pk=maya.pk).update(is_active=False)
    assert "has expired" in set_password(link).content.decode()
