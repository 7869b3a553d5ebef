"""Whom pages, explain and commands name as able to decide are those whom the service lets decide."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orders.models import Deal
from orders.questions import ask_deal
from orders.waits import question_wait, waits_of
from tasks_app import clock
from tasks_app.approvals import explain as explained
from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.delegation import delegation_create
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import deciders_words
from tasks_app.approvals.selectors import obstacle
from tasks_app.approvals.services import approval_decide
from tasks_app.desk.explain import explain_entity
from tasks_app.management import people as commands
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.people.scope import visible
from tests.factories import make_advertiser, make_deal, make_seller, make_team, make_user
from tests.people.test_scope import limit

pytestmark = pytest.mark.django_db
PAST = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def asker() -> User:
    return make_user("Approver", name="asker")


@pytest.fixture
def asked(asker: User) -> Approval:
    """Of Lindqvist Coffee, for two to approve; one has."""
    deal = make_deal(requested_by=f"human:{asker.pk}")
    approval = ask_deal(deal)
    Approval.objects.filter(pk=approval.pk).update(quorum=2)
    return Approval.objects.get(pk=approval.pk)


@pytest.fixture
def everybody(asker: User, asked: Approval) -> list[User]:
    """One for each reason to be able to decide on it, and not to be."""
    able, away, stands_in, decided, absent = (
        make_user("Approver", name=name) for name in ("able", "away", "stands-in", "decided", "absent")
    )
    stand_in(decided, absent)
    stand_in(stands_in, asker)
    stand_in(able, away)
    approval_decide(approval_id=asked.pk, user=decided, verdict="approve", on_behalf_of=absent)
    return [
        *(asker, able, away, stands_in, decided, absent),
        make_user("Administrator", name="boss"),
        make_user("Buyer", name="buyer"),
        make_user("Approver", name="off", is_active=False),
        make_user("Approver", name="machine", is_service=True),
        make_user("Approver", name="elsewhere", team=make_team("Others")),
        limit(make_user("Approver", name="same-client"), Deal.objects.get().advertiser),
        limit(make_user("Approver", name="other-client"), make_advertiser("Northwind Tea")),
    ]


def stand_in(delegate: User, delegator: User) -> None:
    delegation_create(
        user=delegator,
        delegator=delegator,
        delegate=delegate,
        starts_at=clock.now() - timedelta(hours=1),
        ends_at=clock.now() + timedelta(days=5),
    )


def allowed(asked: Approval, everybody: list[User]) -> set[str]:
    """By the rules that the service goes by."""
    decisions = list(asked.decisions.all())
    people = [User.objects.get(pk=person.pk) for person in everybody]
    seen = [one for one in people if visible(Approval.objects.filter(pk=asked.pk), one).exists()]
    return {one.username for one in seen if not obstacle(asked, one, decisions)}


@pytest.mark.parametrize(
    ("roles", "names"),
    [
        ([], {"able", "away", "boss", "same-client"}),
        (["Approver"], {"able", "away", "same-client"}),
        (["Administrator"], {"boss"}),
        (["Administrator", "Approver"], {"able", "away", "boss", "same-client"}),
    ],
)
def test_named_are_those_who_can(
    asked: Approval, everybody: list[User], roles: list[str], names: set[str], django_assert_num_queries: Any
) -> None:
    Approval.objects.filter(pk=asked.pk).update(roles=roles)
    asked = Approval.objects.get(pk=asked.pk)
    assert allowed(asked, everybody) == names
    with django_assert_num_queries(2):
        assert {user.username for user in deciders([asked])[asked.pk]} == names
    assert {user.username for user in commands.deciders(asked)} == names
    who = explain_entity("approval", asked, everybody[0]).who[0]
    assert set(who.people) == set(sorted(names, key=list(map(str, everybody)).index)[:3])
    assert all(role in who.who for role in roles)


@pytest.mark.parametrize(
    "columns",
    [{}, {"roles": ["Administrator"]}, {"due_at": PAST}],
    ids=["open", "of a role", "past its time"],
)
def test_who_is_told_that_they_decide_has_nothing_in_their_way(
    asked: Approval, everybody: list[User], columns: dict[str, Any]
) -> None:
    """On the pages of campaigns and deals, for each reason to be able to decide and not to be."""
    able = next(one for one in everybody if one.username == "able")
    Approval.objects.filter(pk=asked.pk).update(**columns, set_off_by=[actor_key(able)])
    asked = Approval.objects.get(pk=asked.pk)
    decisions = list(asked.decisions.all())
    for person in (User.objects.get(pk=one.pk) for one in everybody):
        said = question_wait(asked, person, decisions).text
        (on_page,) = waits_of(
            approvals=[asked], operations=[], who=person, estimates={}, decisions={asked.pk: decisions}
        )
        assert said == on_page.text
        assert said.startswith("You decide") == (not obstacle(asked, person, decisions)), (person, said)
    assert question_wait(asked, able, decisions).text.startswith(
        "Its deadline has passed: " if columns.get("due_at") else "Somebody else decides"
    )


def test_many_are_two_queries_and_each_has_its_own(asked: Approval, django_assert_num_queries: Any) -> None:
    other = ask_deal(make_deal(seller=make_seller("Quill Audio")))
    Approval.objects.filter(pk=other.pk).update(roles=["Administrator"])
    boss = make_user("Administrator", name="boss")
    both = list(Approval.objects.order_by("pk"))
    with django_assert_num_queries(2):
        found = deciders(both)
    assert found == {asked.pk: [boss], other.pk: [boss]}
    with django_assert_num_queries(0):
        assert deciders([]) == {}


def test_a_page_names_nobody_where_nobody_can(asked: Approval) -> None:
    assert deciders_words(asked) == ""
    make_user("Approver", name="able")
    assert deciders_words(asked) == "able"


def test_whatever_waits_for_a_question_names_its_roles(asked: Approval, everybody: list[User]) -> None:
    Approval.objects.filter(pk=asked.pk).update(roles=["Administrator"])
    deal = Deal.objects.get()
    found = explained.question_about([("deal", deal.pk)])
    assert found is not None
    assert (found.reference, found.able) == (asked.reference, ("boss",))
    named = [who for who in explain_entity("deal", deal, everybody[1]).who if asked.reference in who.does]
    assert [(who.people, who.who) for who in named] == [(("boss",), "boss (Administrator)")]


def test_whatever_waits_for_a_question_names_those_who_can_decide_alone(
    asked: Approval, everybody: list[User]
) -> None:
    deal = Deal.objects.get()
    named = [who for who in explain_entity("deal", deal, everybody[1]).who if asked.reference in who.does]
    assert [set(who.people) for who in named] == [{"able", "away", "boss"}], "who asked and decided is not"
    assert named[0].who.startswith("able, away, boss and others")
