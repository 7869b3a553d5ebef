"""A login that ends, ends everywhere: sessions, API tokens, calendar addresses, open streams."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client, RequestFactory
from django.urls import reverse

from campaigns.calendar.feeds import feed_make, feed_of
from tasks_app import clock
from tasks_app.people.access import access_of, proof_of, proofs_standing
from tasks_app.people.models import Advertiser, Membership, User
from tasks_app.people.rights import rights_recorded
from tasks_app.people.security_models import ApiToken, LoginSession, SecurityEvent
from tasks_app.people.sessions import SessionStore
from tests.factories import make_advertiser, make_team
from tests.people.conftest import ACCOUNT, PASSWORD

pytestmark = pytest.mark.django_db
Person, SignIn = Callable[[str], User], Callable[..., Client]
PEOPLE = "/admin/tasks_app/user/"


@pytest.fixture
def ada(person: Person, sign_in: SignIn) -> Client:
    return sign_in(person("Administrator"))


@pytest.fixture
def maya(person: Person, sign_in: SignIn) -> User:
    """Somebody who is signed in, has a token and a calendar address."""
    user = person("Approver")
    sign_in(user)
    ApiToken.objects.create(user=user)
    feed_make(user=user)
    return user


def left(user: User) -> tuple[int, int, bool]:
    sessions, tokens = LoginSession.objects.filter(user=user), ApiToken.objects.filter(user=user)
    return sessions.count(), tokens.count(), feed_of(user) is not None


def end(by: Client, user: User, **fields: str) -> Any:
    return by.post(PEOPLE, {"action": "end_sessions", "_selected_action": str(user.pk), **fields})


def test_who_is_signed_out_everywhere_is_listed_with_what_opens_besides(ada: Client, maya: User) -> None:
    told = end(ada, maya).content.decode()
    for one in access_of(maya):
        assert one.what in told
    assert "1 session" in told
    assert left(maya) == (1, 1, True), "nothing ends before it is confirmed"


def test_it_ends_with_everything_unless_told_otherwise(ada: Client, maya: User) -> None:
    assert end(ada, maya, revoke="1", sure="1").status_code == 302
    assert left(maya) == (0, 0, False)
    told = SecurityEvent.objects.get(event="sessions_ended", about=maya.username).detail
    assert told == {"ended": 1, "tokens": 1, "calendar": 1}


def _drawn(page: Any) -> dict[str, str]:
    """The boxes that come checked in the page's forms, with their values."""
    boxes = re.findall(r'<input type="checkbox" name="(\w+)" value="(\w+)" checked>', page.content.decode())
    return dict(boxes)


def test_where_nobody_takes_the_box_off_everything_ends(ada: Client, maya: User, sign_in: SignIn) -> None:
    """What is posted is what each form was drawn with."""
    assert _drawn(end(ada, maya)) == {"revoke": "1"}
    here = sign_in(maya)
    boxes = _drawn(here.get(ACCOUNT))
    assert boxes == {"revoke": "1"}
    end_others(here, **boxes)
    assert left(maya) == (1, 0, False)


def test_who_is_switched_off_and_on_again_finds_nothing_open(ada: Client, maya: User) -> None:
    for is_active in (False, True):
        with rights_recorded(maya, by=maya):
            User.objects.filter(pk=maya.pk).update(is_active=is_active)
    assert left(maya) == (0, 0, False)
    told = SecurityEvent.objects.get(event="sessions_ended", about=maya.username).detail
    assert told == {"ended": 1, "tokens": 1, "calendar": 1}


def test_what_is_kept_is_kept_on_record(ada: Client, maya: User) -> None:
    end(ada, maya, sure="1")
    assert left(maya) == (0, 1, True)
    told = SecurityEvent.objects.get(event="sessions_ended", about=maya.username).detail
    assert told == {"ended": 1, "kept": "tokens, calendar"}


def test_deactivating_somebody_says_what_ends_and_ends_it(ada: Client, maya: User) -> None:
    act = {"action": "deactivate", "_selected_action": str(maya.pk)}
    told = ada.post(PEOPLE, act).content.decode()
    assert all(one.what in told for one in access_of(maya))
    assert left(maya) == (1, 1, True)
    assert ada.post(PEOPLE, {**act, "sure": "1"}).status_code == 302
    maya.refresh_from_db()
    assert (maya.is_active, left(maya)) == (False, (0, 0, False))
    ada.post(PEOPLE, {**act, "action": "activate"})
    maya.refresh_from_db()
    assert maya.is_active


def end_others(by: Client, **fields: str) -> Any:
    return by.post(ACCOUNT, {"action": "end_others", **fields}, follow=True)


def test_ones_own_page_lists_what_opens_besides_and_ends_it_with_all_other_sessions(
    maya: User, sign_in: SignIn
) -> None:
    here = sign_in(maya)
    page = here.get(ACCOUNT).content.decode()
    assert all(one.what in page for one in access_of(maya))
    told = end_others(here, revoke="1").content.decode()
    assert left(maya) == (1, 0, False), "the present session stays"
    assert "Sessions ended: 1" in told
    assert "tokens: 1, calendar: 1" in told
    event = SecurityEvent.objects.get(event="sessions_ended", about=maya.username)
    assert (event.detail, event.actor) == ({"ended": 1, "tokens": 1, "calendar": 1}, f"human:{maya.pk}")


def test_ones_own_password_page_says_what_goes_on_and_where_it_is_ended(maya: User, sign_in: SignIn) -> None:
    page = sign_in(maya).get(reverse("admin:password_change")).content.decode()
    assert "API tokens and your calendar’s address go on" in page
    assert f'href="{ACCOUNT}"' in page


def test_what_one_keeps_oneself_is_kept_on_record(maya: User, sign_in: SignIn) -> None:
    end_others(sign_in(maya))
    assert left(maya) == (1, 1, True)
    told = SecurityEvent.objects.get(event="sessions_ended", about=maya.username).detail
    assert told == {"ended": 1, "kept": "tokens, calendar"}


def test_without_another_session_what_opens_besides_can_be_ended(person: Person, sign_in: SignIn) -> None:
    user = person("Approver")
    here = sign_in(user)
    assert "end_others" not in here.get(ACCOUNT).content.decode(), "there is nothing to end"
    ApiToken.objects.create(user=user)
    assert "end_others" in here.get(ACCOUNT).content.decode()
    end_others(here, revoke="1")
    assert left(user) == (1, 0, False)


def test_a_proof_stands_until_what_it_is_made_of_ends(person: Person, sign_in: SignIn) -> None:
    """Each way in which a login ends."""
    ways: dict[str, Callable[[User], object]] = {
        "deactivated": lambda user: User.objects.filter(pk=user.pk).update(is_active=False),
        "deleted": lambda user: user.delete(),
        "password": lambda user: _set_password(user),
        "sessions and tokens": lambda user: (
            LoginSession.objects.filter(user=user).delete(),
            ApiToken.objects.filter(user=user).delete(),
        ),
        "expired": lambda user: (
            LoginSession.objects.filter(user=user).update(expire_date=clock.now() - timedelta(seconds=1)),
            ApiToken.objects.filter(user=user).update(expiry=clock.now() - timedelta(seconds=1)),
        ),
    }
    proofs = {}
    for number, way in enumerate(ways):
        user = person("Buyer")
        request = RequestFactory().get("/")
        request.user, request.session = user, SessionStore(_key(sign_in(user)))
        token = ApiToken.objects.create(user=user)[0]
        proofs[way] = (user, {proof_of(request), proof_of(request, token)})
        assert len(proofs) == number + 1
    everything = {proof for _, two in proofs.values() for proof in two}
    assert proofs_standing(everything) == everything
    for way, act in ways.items():
        user, two = proofs[way]
        act(user)
        assert proofs_standing(everything) & two == set(), way
        everything -= two
        assert proofs_standing(everything) == everything


def _another_scope(user: User, advertiser: Advertiser) -> None:
    seat = Membership.objects.get(user=user)
    seat.every_advertiser = False
    seat.save()
    seat.advertisers.set([advertiser])


def test_a_proof_stands_until_what_somebody_may_do_or_see_becomes_another(
    person: Person, sign_in: SignIn
) -> None:
    """What a stream tells they might not ask for any more, though their login stands."""
    advertiser = make_advertiser()
    ways: dict[str, Callable[[User], object]] = {
        "left the team": lambda user: Membership.objects.filter(user=user).delete(),
        "came to another": lambda user: user.teams.add(make_team("Another house")),
        "some advertisers alone": lambda user: _another_scope(user, advertiser),
        "lost the role": lambda user: user.groups.clear(),
        "was given another role": lambda user: user.groups.add(Group.objects.get(name="Auditor")),
        "superuser": lambda user: User.objects.filter(pk=user.pk).update(is_superuser=True),
        "no page of the admin": lambda user: User.objects.filter(pk=user.pk).update(is_staff=False),
    }
    proofs = {}
    for way in ways:
        user = person("Buyer")
        request = RequestFactory().get("/")
        request.user, request.session = user, SessionStore(_key(sign_in(user)))
        proofs[way] = (user, proof_of(request))
    everything = {proof for _, proof in proofs.values()}
    assert proofs_standing(everything) == everything
    for way, act in ways.items():
        user, proof = proofs[way]
        act(user)
        everything -= {proof}
        assert proofs_standing({proof, *everything}) == everything, way


def test_many_proofs_are_looked_at_with_few_queries(
    person: Person, sign_in: SignIn, django_assert_num_queries: Any
) -> None:
    proofs = set()
    for _ in range(3):
        user = person("Buyer")
        request = RequestFactory().get("/")
        request.user, request.session = user, SessionStore(_key(sign_in(user)))
        proofs.add(proof_of(request))
    with django_assert_num_queries(4):  # no token is among them
        assert proofs_standing(proofs) == proofs


def _set_password(user: User) -> None:
    user.set_password(PASSWORD + " and more")
    user.save()


def _key(browser: Client) -> str:
    return str(browser.session.session_key)
