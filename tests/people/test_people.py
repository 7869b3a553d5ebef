"""Who is who, and what each role may do."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management.sql import emit_post_migrate_signal
from django.db import IntegrityError, transaction

from orders.models import Deal
from tasks_app.approvals.models import Decision
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tasks_app.lifecycle.verify import entity_models
from tasks_app.operations.models import Observation
from tasks_app.people import roles
from tasks_app.people.actors import (
    SYSTEM,
    UnknownActorError,
    actor_ensure,
    actor_key,
    actor_names,
    actor_user,
)
from tasks_app.people.models import Actor, User
from tasks_app.people.roles import DECIDE, ROLES, SUBMIT_CAMPAIGN, roles_sync
from tasks_app.people.scope import visible
from tests.factories import make_deal, make_team, make_user
from tests.lifecycle.entities import trail
from tests.owning import as_the_owner

pytestmark = pytest.mark.django_db


def rights_of(group: Group) -> set[str]:
    held = group.permissions.select_related("content_type")
    return {f"{p.content_type.app_label}.{p.codename}" for p in held}


def test_every_role_is_a_group_with_exactly_its_rights() -> None:
    assert {group.name: rights_of(group) for group in Group.objects.all()} == {
        role: set(rights) for role, rights in ROLES.items()
    }
    assert set(ROLES) == {
        "Buyer",
        "Approver",
        "Ad Ops",
        "Finance",
        "Auditor",
        "Integration",
        "Administrator",
    }


def test_the_money_rights_are_apart() -> None:
    assert {role for role, rights in ROLES.items() if DECIDE in rights} == {"Approver", "Administrator"}
    assert {role for role, rights in ROLES.items() if SUBMIT_CAMPAIGN in rights} == {
        "Buyer",
        "Integration",
        "Administrator",
    }
    everything = {right for rights in ROLES.values() for right in rights}
    writes = {"change", "add", "delete"}
    written_by_services = [*entity_models().values(), AuditEntry, Observation, Decision]
    forms = {
        f"{m._meta.app_label}.{verb}_{m._meta.model_name}" for verb in writes for m in written_by_services
    }
    assert not everything & forms, "a form would go round the lifecycle"


def test_syncing_takes_back_what_was_given_by_hand() -> None:
    finance = Group.objects.get(name="Finance")
    finance.permissions.add(Permission.objects.get(codename="decide_approval"))
    Group.objects.filter(name="Auditor").delete()
    with as_the_owner():  # as migrations do
        roles_sync()
    assert rights_of(finance) == set(ROLES["Finance"])
    assert rights_of(Group.objects.get(name="Auditor")) == set(ROLES["Auditor"])


def test_a_right_that_does_not_exist_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "ROLES", {"Buyer": ("orders.fly_deal",)})
    with pytest.raises(KeyError, match="fly_deal"):
        roles_sync()


@pytest.mark.parametrize(
    "key", ["system", "human:0190b1c2-0000-7000-8000-000000000000", "agent:norrland-digital", "agent:a.b_c-1"]
)
def test_keys_of_actors(key: str) -> None:
    assert actor_key(key) == key
    assert actor_key(Actor(key=key)) == key


@pytest.mark.parametrize(
    "key",
    [
        "",
        "root",
        "System",
        "system ",
        "system\n",
        "human:",
        "human",
        "agent:",
        "agent:-x",
        "robot:1",
        "human:a b",
        "agent:é",
        "human:" + "a" * 73,
        "human:x\x00",
        "system:1",
        None,
        7,
        b"system",
    ],
)
def test_what_is_no_actor(key: Any) -> None:
    with pytest.raises(UnknownActorError):
        actor_key(key)


def test_a_login_acts_as_itself_and_a_service_as_an_agent() -> None:
    person, service = make_user("Buyer"), make_user("Integration")
    service.is_service = True
    assert actor_key(person) == f"human:{person.pk}"
    assert actor_key(service) == f"agent:{service.pk}"
    assert (actor_user(actor_key(person)), actor_user(actor_key(service))) == (person, service)


def test_nobody_stands_behind_these_keys() -> None:
    off = make_user("Buyer")
    User.objects.filter(pk=off.pk).update(is_active=False)
    for key in (SYSTEM, "agent:norrland-digital", "human:root", f"human:{make_team().pk}", actor_key(off)):
        assert actor_user(key) is None


def test_an_actor_is_made_once_and_keeps_its_name() -> None:
    user = User.objects.create(username="kim", first_name="Kim", last_name="Oyelaran")
    actor = actor_ensure(user=user)
    assert (actor.key, actor.kind, actor.name) == (f"human:{user.pk}", "human", "Kim Oyelaran")
    User.objects.filter(pk=user.pk).update(first_name="Another")
    assert actor_ensure(user=User.objects.get(pk=user.pk)) == actor
    assert Actor.objects.get(pk=actor.pk).name == "Kim Oyelaran"
    with pytest.raises(IntegrityError), transaction.atomic():
        Actor.objects.create(key=actor.key, kind="human", name="Forged")


@pytest.mark.django_db
def test_a_login_that_became_a_service_account_acts_under_another_key() -> None:
    user = make_user("Buyer")
    human = actor_ensure(user=user)
    user.is_service = True
    agent = actor_ensure(user=user)
    assert (human.key, agent.key) == (f"human:{user.pk}", f"agent:{user.pk}")
    assert (human.user, agent.user) == (user, None)
    user.is_service = False
    assert actor_ensure(user=user) == human


def test_the_system_is_an_actor_from_the_start() -> None:
    assert actor_names({SYSTEM, "human:gone"}) == {SYSTEM: "System", "human:gone": "human:gone"}


def test_an_erased_person_leaves_the_trail_whole() -> None:
    user = make_user("Approver", name="kim")
    deal = make_deal()
    transition(deal, "accepted", actor=user)
    key = actor_key(user)
    user.delete()
    Actor.objects.filter(key=key).update(name="(erased)")
    assert trail(deal)[-1].actor == key
    assert actor_names({key}) == {key: "(erased)"}


def test_people_see_what_their_teams_own() -> None:
    deal = make_deal()
    ours, theirs = make_user("Buyer"), make_user("Administrator", team=make_team("Rivals"))
    nobody = make_user("Buyer")
    nobody.teams.clear()
    both = make_user("Buyer")
    both.teams.add(make_team("Rivals"))
    assert [list(visible(Deal.objects.all(), user)) for user in (ours, theirs, nobody, both)] == [
        [deal],
        [],
        [],
        [deal],
    ]
    theirs.is_superuser = True
    assert list(visible(Deal.objects.all(), theirs)) == [deal]
    assert list(visible(Deal.objects.all(), ours, team="advertiser__team")) == [deal]


def test_every_migrate_gives_roles_their_rights_again(db: None) -> None:
    group = Group.objects.get(name="Buyer")
    held = set(group.permissions.values_list("codename", flat=True))
    group.permissions.set(Permission.objects.filter(codename="add_seller"))

    with as_the_owner():
        emit_post_migrate_signal(verbosity=0, interactive=False, db="default")

    assert set(group.permissions.values_list("codename", flat=True)) == held
