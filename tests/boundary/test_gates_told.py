"""Who is said to let a command pass its gate, or to open that, against trying it by every role."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.commands.gates import Gate, _gates, gate_register
from tasks_app.commands.kill_switch import KillSwitchRefusedError, kill_switch_set, stops
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.desk.explain import Explanation, explain_row
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import order_run
from tasks_app.people.models import User
from tasks_app.people.roles import CHANGE_SELLER, ROLES
from tasks_app.sellers.models import Seller
from tasks_app.sellers.trust import row_change
from tests.approvals.deciding import decides
from tests.boundary.conftest import asked, purchase, stopped
from tests.factories import make_seller, make_team, make_user
from tests.operations.making import ask, not_sent, observed

pytestmark = pytest.mark.django_db


def _stopped(*, team: bool = False) -> None:
    stopped(team=make_team() if team else None)
    order_run(order=purchase(), actor="system")


def _tried() -> Operation:
    """A purchase that did not arrive, to be sent again."""
    operation = ask(seller=make_seller(slots=5))
    assert claim_one(operation_id=operation.pk) is not None
    observed(operation_id=operation.pk, seen=not_sent(), channel="reply")
    Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
    return operation


def _off() -> Seller:
    seller = _tried().seller
    row_change(row=seller, values={"active": False}, actor=make_user("Ad Ops"))
    claim_sends(limit=5)
    return seller


def _to_be_on() -> None:
    row_change(row=_off(), values={"active": True}, actor=make_user("Administrator", name="asker"))


def _off_and_another_change() -> None:
    asker = make_user("Administrator", name="asker")
    row_change(row=_off(), values={"contact_email": "a@elsewhere.example"}, actor=asker)


def _off_and_stopped() -> None:
    _off()
    stopped()
    gates_ask_again()


def _by_a_rule() -> None:
    gate_register(Gate(name="a_rule", label="A rule", why_closed=lambda _command: "It is too much"))
    _tried()
    claim_sends(limit=5)


_GATES: dict[str, Callable[[], object]] = {
    "the kill switch": _stopped,
    "the kill switch of its team": lambda: _stopped(team=True),
    "its seller is off": _off,
    "its seller is off, to be on": _to_be_on,
    "its seller is off, another change waits": _off_and_another_change,
    "its seller is off and it is stopped": _off_and_stopped,
    "a rule that nobody opens": _by_a_rule,
}


@pytest.fixture(autouse=True)
def _no_rule() -> object:
    yield
    _gates.pop("a_rule", None)


def _command() -> Command:
    return Command.objects.get(waiting_since__isnull=False)


def _told() -> Explanation:
    return explain_row("command", _command().pk, make_user("Administrator"))


def _named(told: Explanation, words: str, role: str) -> bool:
    return any(words in one.does and role in one.roles for one in told.who)


def _lets_the_switch_go(user: User) -> bool:
    turns = stops().all_of(_command().team_id)
    with transaction.atomic():
        try:
            for turn in turns:
                kill_switch_set(
                    on=False, reason="It was a drill", actor=user, team=turn.team, seen=str(turn.turn)
                )
        except KillSwitchRefusedError:
            return False
        finally:
            transaction.set_rollback(True)
    return bool(turns)


def _switches_on(user: User) -> str:
    """What comes of it: done, waits for a second person, refused while another change waits, or empty where
    it is not theirs."""
    seller = Seller.objects.get()
    if seller.active or not user.has_perm(CHANGE_SELLER):
        return ""
    with transaction.atomic():
        try:
            made = row_change(row=seller, values={"active": True}, actor=user)
        except ValidationError:
            return "refused"
        finally:
            transaction.set_rollback(True)
    return "waits" if made.waiting else "done"


def _first(words: str) -> str:
    """How that is said where another change of the seller waits."""
    return f"first withdraw the change that waits, or have it decided; then {words}"


@pytest.mark.parametrize("gate", _GATES)
@pytest.mark.parametrize("role", [role for role in ROLES if role != "Integration"])
def test_those_who_are_named_open_the_gate_or_pass_it_and_nobody_else_does(gate: str, role: str) -> None:
    _GATES[gate]()
    told, question = _told(), asked()
    user = make_user(role)
    assert _named(told, "let the kill switch go", role) == _lets_the_switch_go(user)
    assert _named(told, f"decide on {question.reference}", role) == decides(question, user)
    on, does = _switches_on(user), "switch the seller on, on its page"
    if "to be on" not in gate:
        assert _named(told, does, role) == bool(on)
        assert _named(told, f"{does}; a second person approves it", role) == (on in ("waits", "refused"))
        assert _named(told, _first(does), role) == (on == "refused")


def test_a_second_one_is_said_to_be_needed_until_the_first_has_decided() -> None:
    _stopped()
    question = asked()
    assert "a second approver is still needed" in _told().who_words
    assert "0 of 2 are in" in _told().waiting_for
    approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="approve", comment="So.")
    assert "still needed" not in _told().who_words
    assert "1 of 2 are in" in _told().waiting_for


def test_where_the_seller_is_to_be_on_those_who_decide_on_that_are_named() -> None:
    _to_be_on()
    told = _told()
    passes = asked().reference
    (opens,) = [one for one in told.who if "decide on" in one.does and passes not in one.does]
    assert "asker" not in opens.people
    assert not opens.does.startswith("first")
    assert not any("switch the seller on" in one.does for one in told.who)


def test_where_another_change_of_the_seller_waits_its_decision_opens_nothing_and_goes_first() -> None:
    _off_and_another_change()
    told, change = _told(), Approval.objects.get(kind="seller_trust")
    (named,) = [one.does for one in told.who if change.reference in one.does]
    assert named == f"first decide on {change.reference}"
    approval_decide(approval_id=change.pk, user=make_user("Approver"), verdict="approve")
    assert not Seller.objects.get().active
    assert _command(), "it waits as before"
    (does,) = [one.does for one in _told().who if "switch" in one.does]
    assert does == "switch the seller on, on its page; a second person approves it"
