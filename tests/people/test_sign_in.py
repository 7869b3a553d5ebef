"""Signing in: password, second factor, lock-out; sessions that can be listed and ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client
from rest_framework.test import APIClient

from tasks_app import clock
from tasks_app.people.models import User
from tasks_app.people.second_factor import (
    FactorRefusedError,
    factor_begin,
    factor_check,
    factor_forget_begun,
    factor_remove,
    recovery_codes_left,
)
from tasks_app.people.security_models import ApiToken, LoginSession, RecoveryCode, SecondFactor, SecurityEvent
from tasks_app.people.sessions import key_digest, sessions_forget
from tests.people.conftest import ACCOUNT, FACTOR, FACTOR_NEW, LOGIN, PASSWORD, code_of, set_up

pytestmark = pytest.mark.django_db
Person, SignIn = Callable[[str], User], Callable[..., Client]


def events(**which: Any) -> list[str]:
    return list(SecurityEvent.objects.filter(**which).order_by("id").values_list("event", flat=True))


def secret_shown(browser: Client, user: User) -> str:
    """The secret on the page that sets an app up, which is the one that would be confirmed."""
    shown = browser.get(FACTOR_NEW).content.decode().replace(" ", "")
    secret = SecondFactor.objects.get(user=user).secret
    assert secret in shown
    return secret


class TestPassword:
    @pytest.mark.parametrize("weak", ["short-one-1", "password1234", "maya.lindgren"])
    def test_weak_ones_are_refused(self, weak: str) -> None:
        with pytest.raises(ValidationError):
            validate_password(weak, User(username="maya.lindgren"))

    def test_long_plain_words_will_do(self) -> None:
        validate_password(PASSWORD, User(username="maya.lindgren"))

    def test_five_wrong_ones_lock_out_also_the_right_one(self, person: Person, sign_in: SignIn) -> None:
        user = person("Buyer")
        for _ in range(5):
            sign_in(user, "wrong")
        assert sign_in(user).get("/admin/").status_code == 302
        assert "locked_out" in events(about=user.username)
        assert "login" not in events()


class TestSecondFactor:
    def test_whose_role_needs_one_sets_it_up_before_anything_else(
        self, person: Person, sign_in: SignIn, settings: Any
    ) -> None:
        settings.SECOND_FACTOR_ROLES = ["Approver"]
        maya = person("Approver")
        browser = sign_in(maya)
        answer = browser.get("/admin/tasks_app/approval/")
        assert answer["Location"] == f"{FACTOR_NEW}?next=%2Fadmin%2Ftasks_app%2Fapproval%2F"
        page = browser.get(FACTOR_NEW)
        shown = page.content.decode()
        assert "data:image/svg+xml" in shown
        assert "Approvals" not in shown, "the frame tells nothing to a session that is not whole"
        secret = SecondFactor.objects.get(user=maya).secret
        assert secret in shown.replace(" ", "")
        assert b"not the code" in browser.post(FACTOR_NEW, {"code": "000000"}).content
        done = browser.post(FACTOR_NEW, {"code": code_of(maya)})
        assert (done.status_code, done["Location"]) == (302, ACCOUNT)
        codes = browser.get(ACCOUNT).content.decode()
        assert codes.count("<li>") >= 10
        assert "shown this once" not in browser.get(ACCOUNT).content.decode()
        assert browser.get("/admin/tasks_app/approval/").status_code == 200
        assert "factor_added" in events(actor=f"human:{maya.pk}")

    def test_others_may_have_one_and_need_none(self, person: Person, sign_in: SignIn, settings: Any) -> None:
        settings.SECOND_FACTOR_ROLES = ["Approver"]
        assert sign_in(person("Buyer")).get("/admin/").status_code == 200

    def test_a_password_alone_opens_nothing(self, person: Person, sign_in: SignIn) -> None:
        maya = person("Approver")
        set_up(maya)
        browser = sign_in(maya)
        for path in ("/admin/", "/admin/tasks_app/approval/", ACCOUNT, FACTOR_NEW, "/admin/password_change/"):
            assert browser.get(path)["Location"].startswith(FACTOR + "?"), path
        answer = browser.get("/api/v1/approvals/")
        assert (answer.status_code, answer.json()["code"]) == (403, "second_factor_due")
        assert browser.post(f"{ACCOUNT}", {"action": "remove"})["Location"].startswith(FACTOR)
        assert SecondFactor.objects.filter(user=maya).exists()
        assert browser.post("/admin/logout/").status_code == 200

    def test_the_code_opens_it_once(self, person: Person, sign_in: SignIn) -> None:
        maya = person("Approver")
        set_up(maya)
        browser, thief = sign_in(maya), sign_in(maya)
        before = browser.cookies["sessionid"].value
        code = code_of(maya, steps=1)
        answer = browser.post(FACTOR, {"code": f"{code[:3]} {code[3:]}", "next": "/admin/orders/deal/"})
        assert answer["Location"] == "/admin/orders/deal/"
        assert browser.cookies["sessionid"].value != before
        assert browser.get("/admin/").status_code == 200
        assert b"not the code" in thief.post(FACTOR, {"code": code}).content
        assert thief.get("/admin/").status_code == 302

    def test_no_open_redirect(self, person: Person, sign_in: SignIn) -> None:
        maya = person("Approver")
        set_up(maya)
        answer = sign_in(maya).post(FACTOR, {"code": code_of(maya, steps=1), "next": "https://evil.example/"})
        assert answer["Location"] == "/admin/"

    def test_five_wrong_codes_lock_for_a_quarter_of_an_hour(
        self, person: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        maya = person("Approver")
        recovery = set_up(maya)[0]
        for _ in range(5):
            with pytest.raises(FactorRefusedError, match="not the code"):
                factor_check(user=maya, code="123", address=None)
        for code in (code_of(maya, steps=1), recovery):
            with pytest.raises(FactorRefusedError, match="Too many"):
                factor_check(user=maya, code=code, address=None)
        later = clock.now() + timedelta(minutes=16)
        monkeypatch.setattr(clock, "now", lambda: later)
        factor_check(user=maya, code=code_of(maya), address=None)
        assert events(about=maya.username).count("factor_failed") == 7

    def test_a_recovery_code_counts_as_fifth_try(self, person: Person) -> None:
        maya = person("Approver")
        recovery = set_up(maya)[0]
        for _ in range(4):
            with pytest.raises(FactorRefusedError, match="not the code"):
                factor_check(user=maya, code="000000", address=None)
        factor_check(user=maya, code=recovery, address=None)
        factor = SecondFactor.objects.get(user=maya)
        assert (factor.failures, factor.locked_until) == (0, None)
        assert events(about=maya.username).count("factor_failed") == 4

    def test_a_secret_is_of_the_session_that_was_shown_it(
        self, person: Person, sign_in: SignIn, settings: Any
    ) -> None:
        """Who once signed in with a stolen password has seen no secret that the person confirms later."""
        settings.SECOND_FACTOR_ROLES = ["Approver"]
        maya = person("Approver")
        thief = sign_in(maya, agent="Thief")
        seen = secret_shown(thief, maya)
        owner = sign_in(maya)
        assert secret_shown(owner, maya) == secret_shown(owner, maya) != seen, (
            "kept while one's own page is open"
        )
        code = code_of(maya)
        answer = thief.post(FACTOR_NEW, {"code": code})
        assert answer.status_code == 200, "nobody confirms what another session was shown"
        assert not SecondFactor.objects.filter(user=maya, confirmed_at__isnull=False).exists()

    @pytest.mark.parametrize("meanwhile", ["another session begins", "what was begun is forgotten"])
    def test_the_page_shows_the_secret_that_its_own_session_was_given(
        self,
        person: Person,
        sign_in: SignIn,
        settings: Any,
        monkeypatch: pytest.MonkeyPatch,
        meanwhile: str,
    ) -> None:
        settings.SECOND_FACTOR_ROLES = ["Approver"]
        maya = person("Approver")
        given: list[str] = []

        def begin(**named: Any) -> Any:
            begun = factor_begin(**named)
            given.append(SecondFactor.objects.get(user=maya).secret)
            if meanwhile == "another session begins":
                factor_begin(user=maya, session_key="another")
            else:
                factor_forget_begun(user=maya)
            return begun

        monkeypatch.setattr("tasks_app.people.views.factor_begin", begin)
        page = sign_in(maya).get(FACTOR_NEW)
        assert page.status_code == 200
        assert given[-1] in page.content.decode().replace(" ", "")

    def test_signing_in_again_in_the_same_browser_begins_anew(
        self, person: Person, sign_in: SignIn, settings: Any
    ) -> None:
        settings.SECOND_FACTOR_ROLES = ["Approver"]
        maya = person("Approver")
        browser = sign_in(maya)
        seen = secret_shown(browser, maya)
        browser.post(LOGIN, {"username": maya.username, "password": PASSWORD})
        assert secret_shown(browser, maya) != seen

    def test_a_reset_clears_one_that_was_only_begun(
        self, person: Person, sign_in: SignIn, settings: Any
    ) -> None:
        settings.SECOND_FACTOR_ROLES = ["Approver"]
        maya, ada = person("Approver"), person("Auditor")
        thief = sign_in(maya)
        seen = secret_shown(thief, maya)
        assert factor_remove(user=maya, by=ada, address=None)
        assert not SecondFactor.objects.filter(user=maya).exists()
        assert thief.get(FACTOR_NEW)["Location"].startswith(LOGIN), "its sessions end with it"
        assert secret_shown(sign_in(maya), maya) != seen
        assert events(event="factor_removed", about=maya.username) == ["factor_removed"]

    def test_a_recovery_code_stands_in_once(self, person: Person, sign_in: SignIn) -> None:
        maya = person("Approver")
        codes = set_up(maya)
        assert sign_in(maya).post(FACTOR, {"code": codes[3].upper()}).status_code == 302
        assert recovery_codes_left(maya) == 9
        assert b"not the code" in sign_in(maya).post(FACTOR, {"code": codes[3]}).content
        assert events(event="recovery_used") == ["recovery_used"]
        kept = RecoveryCode.objects.values_list("digest", flat=True)
        assert not set(codes) & set(kept)

    def test_the_secret_is_kept_encrypted(self, person: Person) -> None:
        maya = person("Approver")
        set_up(maya)
        with connection.cursor() as cursor:
            cursor.execute("select secret from tasks_app_secondfactor")
            kept = cursor.fetchone()[0]
        assert SecondFactor.objects.get(user=maya).secret not in kept

    def test_setting_one_up_ends_the_other_sessions(self, person: Person, sign_in: SignIn) -> None:
        maya = person("Approver")
        here, elsewhere = sign_in(maya), sign_in(maya)
        here.get(FACTOR_NEW)
        here.post(FACTOR_NEW, {"code": code_of(maya)})
        assert here.get("/admin/").status_code == 200
        assert elsewhere.get("/admin/")["Location"].startswith(LOGIN)

    def test_it_is_removed_with_a_code_unless_the_role_needs_it(
        self, person: Person, sign_in: SignIn, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        maya, browser = person("Approver"), Client()
        browser.force_login(maya, backend="tasks_app.people.holders.RoleBackend")
        browser.get(FACTOR_NEW)
        browser.post(FACTOR_NEW, {"code": code_of(maya)})
        browser.post(ACCOUNT, {"action": "remove", "code": "000000"})
        assert SecondFactor.objects.filter(user=maya).exists()
        settings.SECOND_FACTOR_ROLES = ["Approver"]
        browser.post(ACCOUNT, {"action": "remove", "code": code_of(maya, steps=1)})
        assert SecondFactor.objects.filter(user=maya).exists()
        settings.SECOND_FACTOR_ROLES = []
        later = clock.now() + timedelta(minutes=2)
        monkeypatch.setattr(clock, "now", lambda: later)
        browser.post(ACCOUNT, {"action": "remove", "code": code_of(maya)})
        assert not SecondFactor.objects.filter(user=maya).exists()
        assert not RecoveryCode.objects.filter(user=maya).exists()
        assert events(event="factor_removed") == ["factor_removed"]

    def test_tokens_of_the_api_are_no_sessions(self, person: Person) -> None:
        robot = person("Integration")
        set_up(robot)
        _, token = ApiToken.objects.create(user=robot)
        api = APIClient(headers={"authorization": f"Token {token}"})
        assert api.get("/api/v1/deals/").status_code == 200

    def test_an_administrator_resets_a_lost_one(self, person: Person, sign_in: SignIn) -> None:
        maya, ada = person("Approver"), person("Administrator")
        set_up(maya)
        desk = sign_in(ada)
        chosen = {"action": "reset_factor", "_selected_action": [str(maya.pk)]}
        assert desk.post("/admin/tasks_app/user/", chosen).status_code == 302
        assert not SecondFactor.objects.filter(user=maya).exists()
        assert events(event="factor_removed", actor=f"human:{ada.pk}", about=maya.username)

    def test_nobody_else_does(self, person: Person, sign_in: SignIn) -> None:
        maya, ruth = person("Approver"), person("Auditor")
        set_up(maya)
        chosen = {"action": "reset_factor", "_selected_action": [str(maya.pk)]}
        sign_in(ruth).post("/admin/tasks_app/user/", chosen)
        assert SecondFactor.objects.filter(user=maya).exists()
        assert not factor_remove(user=ruth, by=ruth, address=None)


class TestSessions:
    def test_they_are_listed_with_browser_and_address(self, person: Person, sign_in: SignIn) -> None:
        maya = person("Approver")
        browser = sign_in(maya, agent="Firefox on a desk")
        sign_in(maya, agent="Safari on a phone")
        page = browser.get(ACCOUNT).content.decode()
        assert "Firefox on a desk" in page
        assert "Safari on a phone" in page
        assert "127.0.0.1" in page

    def test_the_table_opens_no_session(self, person: Person, sign_in: SignIn) -> None:
        maya = person("Approver")
        key = sign_in(maya).cookies["sessionid"].value
        row = LoginSession.objects.get(user=maya)
        assert row.pk == key_digest(key) != key
        assert key not in row.session_data
        thief = Client()
        thief.cookies["sessionid"] = row.pk
        assert thief.get("/admin/").status_code == 302

    def test_one_ends_another_and_nobody_elses(self, person: Person, sign_in: SignIn) -> None:
        maya, tomas = person("Approver"), person("Buyer")
        here, lost, his = sign_in(maya), sign_in(maya), sign_in(tomas)
        for browser in (lost, his):
            digest = key_digest(browser.cookies["sessionid"].value)
            here.post(ACCOUNT, {"action": "end", "session": digest})
        assert [b.get("/admin/").status_code for b in (here, lost, his)] == [200, 302, 200]
        assert events(event="sessions_ended") == ["sessions_ended"]

    def test_all_others_end_at_once(self, person: Person, sign_in: SignIn) -> None:
        maya = person("Approver")
        here, *others = (sign_in(maya) for _ in range(3))
        here.post(ACCOUNT, {"action": "end_others"})
        assert [b.get("/admin/").status_code for b in (here, *others)] == [200, 302, 302]

    def test_an_administrator_signs_somebody_out(self, person: Person, sign_in: SignIn) -> None:
        maya, ada = person("Approver"), person("Administrator")
        theirs, desk = sign_in(maya), sign_in(ada)
        chosen = {"action": "end_sessions", "_selected_action": [str(maya.pk)]}
        desk.post("/admin/tasks_app/user/", {**chosen, "sure": "1"})
        assert theirs.get("/admin/").status_code == 302
        assert desk.get("/admin/").status_code == 200

    def test_a_new_password_ends_them(self, person: Person, sign_in: SignIn) -> None:
        maya = person("Approver")
        browser = sign_in(maya)
        maya.set_password("another horse, another staple")
        maya.save()
        assert browser.get("/admin/").status_code == 302

    def test_when_it_was_used_is_kept_to_five_minutes(
        self, person: Person, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        maya = person("Approver")
        browser = sign_in(maya)
        first = LoginSession.objects.get(user=maya).seen_at
        later = clock.now() + timedelta(minutes=6)
        monkeypatch.setattr(clock, "now", lambda: later)
        browser.get("/admin/account/")
        row = LoginSession.objects.get(user=maya)
        assert (row.seen_at, row.signed_in_at < first + timedelta(minutes=1)) == (later, True)

    def test_they_end_by_themselves(
        self, person: Person, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch, settings: Any
    ) -> None:
        browser = sign_in(person("Approver"))
        later = clock.now() + timedelta(seconds=settings.SESSION_COOKIE_AGE + 1)
        monkeypatch.setattr(clock, "now", lambda: later)
        assert browser.get("/admin/").status_code == 302
        assert sessions_forget() == 1
