"""What decides whom we believe in ways of its own: a name, a header, a status tool, being switched on."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.actors import actor_names
from tasks_app.people.models import Actor, User
from tasks_app.sellers import trust
from tasks_app.sellers.models import Seller
from tests.factories import make_seller, make_user
from tests.operations.making import stand
from tests.sellers.trusting import OTHER, approve, change, stored

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


@pytest.fixture
def ops() -> User:
    return make_user("Ad Ops")


@pytest.fixture
def seller() -> Seller:
    """In use: a purchase is under way."""
    seller = make_seller("Vasa", token="t-1")
    stand(S.SUBMITTED, seller=seller)
    return seller


def test_headers_that_go_are_another_tenant(seller: Seller, ops: User) -> None:
    """Which account a seller takes us for may hang on a header: without it that is another one."""
    Seller.objects.update(headers=OTHER["headers"])
    seller.refresh_from_db()
    made = change(seller, ops, headers={})
    assert (made.changed, stored(seller, "headers")) == ([], OTHER["headers"])
    approve()
    assert stored(seller, "headers") == {}


@pytest.mark.parametrize("word", ["complete_task", "cancel_task", "tasks/cancel", "finish", "get_products"])
def test_a_tool_that_reads_no_task_is_no_status_tool(word: str, ops: User) -> None:
    """Our polls would call it with the task's id, whoever approves that."""
    seller = make_seller("New")
    with pytest.raises(ValidationError) as refused:
        change(seller, ops, status_tool=word)
    assert refused.value.message_dict.keys() == {"status_tool"}
    assert stored(seller, "status_tool") == ""


@pytest.mark.parametrize("who", ["Administrator", "Ad Ops"])
def test_what_was_switched_off_is_switched_on_by_two(who: str, seller: Seller, ops: User) -> None:
    """Whoever switched it off, as of accounts."""
    change(seller, make_user(who), active=False)
    made = change(seller, ops, active=True)
    assert (made.changed, stored(seller, "active")) == ([], False)
    approve()
    assert stored(seller, "active") is True


def test_another_name_is_its_name_everywhere_once_approved(seller: Seller, ops: User) -> None:
    """Questions, mails and the trail name a seller alone; two renames would make one of them another's."""
    Actor.objects.get_or_create(key=f"agent:{seller.slug}", defaults={"kind": "agent", "name": seller.name})
    make_seller("Norrland")
    with pytest.raises(ValidationError, match="called so"):
        change(seller, ops, name="Norrland")
    change(seller, ops, name="Vasa Media")
    assert actor_names({f"agent:{seller.slug}"}) == {f"agent:{seller.slug}": "Vasa"}
    approve()
    assert actor_names({f"agent:{seller.slug}"}) == {f"agent:{seller.slug}": "Vasa Media"}


def test_a_name_taken_while_it_waited_is_not_given_twice(seller: Seller, ops: User) -> None:
    change(seller, ops, name="Vasa Media")
    make_seller("Vasa Media")
    with pytest.raises(DecisionRefusedError, match="called so"):
        approve()
    assert stored(seller, "name") == "Vasa"


def test_nobody_changes_a_seller_in_use_nameless(seller: Seller) -> None:
    for values in ({"slots": 2}, {"token": None}, {"url": OTHER["url"]}):
        with pytest.raises(ValidationError, match="named"):
            trust.row_change(row=seller, values=values, actor="system")
    assert trust.row_change(row=seller, values={"slots": seller.slots}, actor="system").changed == []


def test_credentials_that_go_with_the_address_stay_until_it_does(seller: Seller, ops: User) -> None:
    """They are not sent to another host; the present one keeps them while the other waits."""
    made = change(seller, ops, url=OTHER["url"], token=None)
    assert (made.changed, stored(seller, "token")) == ([], "t-1")
    assert trust.trust_draft(Seller.objects.get()).token is None
    approve()
    assert (stored(seller, "url"), stored(seller, "token")) == (OTHER["url"], None)


@pytest.mark.parametrize("kept", ["wait_for_task", "run_job"])
def test_a_status_tool_that_was_kept_before_the_rule_bars_no_other_change(
    kept: str, seller: Seller, ops: User
) -> None:
    Seller.objects.filter(pk=seller.pk).update(status_tool=kept)
    seller.refresh_from_db()
    assert "active" in trust.row_change(row=seller, values={"active": False}, actor=ops).changed
    with pytest.raises(ValidationError, match="no tool that only tells"):
        trust.row_change(row=seller, values={"status_tool": f"{kept}_again"}, actor=ops)
