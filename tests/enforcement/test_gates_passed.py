"""A command passes its gates by what people said of this waiting, once."""

from __future__ import annotations

import uuid

import psycopg
import pytest
from psycopg import errors
from psycopg.types.json import Jsonb

from orders.models import Deal
from tasks_app import clock
from tasks_app.commands.models import Command
from tasks_app.lifecycle.transitions import transition
from tests.factories import make_question, make_user

pytestmark = pytest.mark.all_cases

_PASSES = """overrides = '["seller"]'"""


def test_a_gate_is_passed_by_an_approval_alone(role: psycopg.Connection, deal: Deal) -> None:
    command = Command.objects.create(
        key="k", kind="deal_cancel", adapter="orders", payload={}, digest="d", requested_by="system"
    )
    for overrides in ('["seller"]', '["kill_switch", "seller"]'):
        with pytest.raises(errors.InsufficientPrivilege, match="nobody approved"):
            role.execute("update tasks_app_command set overrides = %s", [overrides])
    with pytest.raises(errors.InsufficientPrivilege, match="nobody approved"):
        role.execute(
            "insert into tasks_app_command select (jsonb_populate_record(c, %s)).* from tasks_app_command c",
            [Jsonb({"id": str(uuid.uuid4()), "key": "l", "overrides": ["seller"]})],
        )
    assert Command.objects.get() == command
    assert Command.objects.get().overrides == []


def gated(deal: Deal, rounds: int) -> None:
    """A command that waited so often and was let pass by people each time, which is used up but for the last
    time; it waits."""
    command = Command.objects.create(
        key="k", kind="deal_cancel", adapter="orders", payload={}, digest="d", requested_by="system"
    )
    rows, approver = Command.objects.filter(pk=command.pk), make_user("Approver")
    for number in range(1, rounds + 1):
        rows.update(waiting_since=clock.now(), gate_round=number)
        shown = {"gates": ["seller"], "passes": ["seller"]}
        asked = make_question("risk_gate", command, team=deal.team, version=number, evidence=shown)
        transition(asked, "approved", actor=approver, reason="It is fine.")
        if number < rounds:
            rows.update(waiting_since=None, overrides=["seller"])
            rows.update(overrides=[])


SPENT: dict[str, tuple[str, ...]] = {
    "of an earlier round": (f"gate_round = 1, waiting_since = null, {_PASSES}",),
    "back to an earlier round": ("gate_round = 1",),
    "rounds ahead": ("gate_round = 4",),
    "while it waits on": (_PASSES,),
    "after it was let go": ("waiting_since = null", _PASSES),
    "once more": (f"waiting_since = null, {_PASSES}", "overrides = '[]'", _PASSES),
    "waiting again in the same round": (
        f"waiting_since = null, {_PASSES}",
        "overrides = '[]', waiting_since = now()",
    ),
    "taken into the next round": (
        f"waiting_since = null, {_PASSES}",
        "waiting_since = now(), gate_round = 3",
    ),
    "taken into the next round, and passed": (
        f"waiting_since = null, {_PASSES}",
        f"waiting_since = now(), gate_round = 3, {_PASSES}",
    ),
    "of another waiting than the next": (
        f"waiting_since = null, {_PASSES}",
        "overrides = '[]', waiting_since = now(), gate_round = 3",
        f"waiting_since = null, {_PASSES}",
    ),
}


@pytest.mark.parametrize("spent", SPENT)
def test_what_people_said_lets_a_command_pass_once_and_in_its_round(
    role: psycopg.Connection, deal: Deal, spent: str
) -> None:
    gated(deal, 2)
    *before, last = (f"update tasks_app_command set {changed}" for changed in SPENT[spent])
    for statement in before:
        role.execute(statement)
    with pytest.raises(errors.InsufficientPrivilege, match=r"nobody approved|round of its own"):
        role.execute(last)


def test_the_round_that_people_let_pass_is_passed(role: psycopg.Connection, deal: Deal) -> None:
    gated(deal, 2)
    role.execute(f"update tasks_app_command set waiting_since = null, {_PASSES}")
    assert Command.objects.get().overrides == ["seller"]
