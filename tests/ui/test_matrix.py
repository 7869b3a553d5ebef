"""Every role at every address and at every action: who is let in, and that a refusal changes nothing."""

from __future__ import annotations

import pytest
from django.db import transaction

from orders.models import DealStatus
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.lifecycle.transitions import transition
from tasks_app.people.models import Membership, User
from tasks_app.people.roles import ROLES as RIGHTS
from tests.factories import make_advertiser, make_team, make_user
from tests.ui.actions import ACTIONS, ELSEWHERE
from tests.ui.matrix import COMMON, EXPECTED, OWN_PROOF
from tests.ui.seed import Agency
from tests.ui.walk import (
    NOBODY,
    ROLES,
    Address,
    Came,
    Walker,
    addresses,
    patterns,
    samples,
    snapshot,
)

EVERYBODY = [*ROLES, NOBODY]


def walker_of(agency: Agency, letter: str) -> Walker:
    return Walker(agency.people[ROLES[letter]] if letter in ROLES else None)


def test_every_address_is_in_the_table() -> None:
    """A new address says here who may ask for it."""
    assert {name for name, _ in patterns()} == {*EXPECTED, *OWN_PROOF}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("letter", EVERYBODY)
def test_who_is_let_in_where(agency: Agency, letter: str, method: str) -> None:
    found = _walked(agency)
    walker, before, wrong = walker_of(agency, letter), snapshot(), []
    for address in found:
        may = letter in EXPECTED[address.name].get(method, "")
        came = walker.ask(method, address.path)
        if came.let_in != may or (not may and came.wrote) or came.status >= 500:
            wrong.append((address.name, f"expected {may}", came))
    assert wrong == []
    assert snapshot() == before


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_no_other_method_changes_anything(agency: Agency, method: str) -> None:
    """Who may most shows what nobody may: at most they are answered as GET or POST is."""
    found = _walked(agency)
    walker, before, wrong = walker_of(agency, "D"), snapshot(), []
    for address in found:
        came = walker.ask(method, address.path)
        shown = any("D" in who for who in EXPECTED[address.name].values())
        if came.wrote or (came.let_in and not shown) or came.status >= 500:
            wrong.append((address.name, came))
    assert wrong == []
    assert snapshot() == before


@pytest.mark.parametrize("whose", ["another team's", "another client's"])
def test_ids_of_others_are_not_there(agency: Agency, whose: str) -> None:
    """Though they may do everything, among their own."""
    theirs = [address for address in _walked(agency) if _is_owned(address)]
    stranger = make_user("Administrator", name="stranger")
    stranger.is_staff = True
    stranger.save()
    if whose == "another team's":
        stranger.teams.set([make_team("Others")])
    else:
        team = agency.people["Buyer"].teams.get()
        stranger.teams.set([team])
        seat = Membership.objects.get(user=stranger)
        seat.every_advertiser = False
        seat.save()
        seat.advertisers.set([make_advertiser("Nobody yet", team=team)])
        by_team = COMMON["by team alone"]
        theirs = [address for address in theirs if address.obj._meta.label_lower not in by_team]  # type: ignore[union-attr]
    walker, before = Walker(User.objects.get(pk=stranger.pk)), snapshot()
    let_in = [
        (address.name, method, came)
        for address in theirs
        for method in ("GET", "POST")
        if _is_shown(came := walker.ask(method, address.path)) or came.wrote
    ]
    assert let_in == []
    assert snapshot() == before


@pytest.mark.parametrize("name", ACTIONS)
def test_each_action_is_for_its_roles_alone(agency: Agency, name: str) -> None:
    samples(agency)
    action = ACTIONS[name]
    walkers = {letter: walker_of(agency, letter) for letter in EVERYBODY}
    asked, before = action.ask(agency), snapshot()
    for letter, walker in walkers.items():
        came = walker.ask(*asked)
        if letter in action.who:
            assert came.status < 400, (letter, came)
            assert came.wrote, (letter, came)
        else:
            assert not came.let_in, (letter, came)
            assert not came.wrote, (letter, came)
    assert snapshot() == before
    assert {key for key, role in ROLES.items() if action.right in RIGHTS[role]} == set(action.who)


def test_every_right_is_shown_by_an_action() -> None:
    rights = {right for held in RIGHTS.values() for right in held}
    forms = {right for right in rights if right.split(".")[1].split("_")[0] in ("view", "add", "change")}
    assert rights - forms == {action.right for action in ACTIONS.values()} - forms | set(ELSEWHERE)


@pytest.mark.parametrize("role", ROLES.values())
def test_deals_are_called_off_by_who_may(agency: Agency, role: str) -> None:
    deal, person, before = agency.deals["tamarack-cobalt"], agency.people[role], snapshot()
    deal.refresh_from_db()
    if role in ("Buyer", "Approver", "Administrator"):
        transition(deal, DealStatus.CANCELLED, actor=person, reason="No.")
        assert deal.status == DealStatus.CANCELLED
    else:
        with pytest.raises(InvalidTransitionError), transaction.atomic():
            transition(deal, DealStatus.CANCELLED, actor=person, reason="No.")
        assert snapshot() == before


def _walked(agency: Agency) -> list[Address]:
    return [address for address in addresses(samples(agency)) if address.name not in OWN_PROOF]


def _is_shown(came: Came) -> bool:
    """An empty body is wrong (400) before any row is looked for, so that tells nothing."""
    return came.let_in and came.status != 400


def _is_owned(address: Address) -> bool:
    label = address.obj._meta.label_lower if address.obj is not None else ""
    # Whatever is named, these lead on to another page.
    listed_alone = (f"tasks_app_{name}_change" for name in ("delegation", "notification", "teamwebhook"))
    leads_on = address.name.endswith(("<path:object_id>/", *listed_alone))
    return bool(label) and label not in COMMON["everybody's"] and not leads_on
