"""One effect per key: the recorded result for whoever asks again, a conflict for another payload."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, transaction

from tasks_app.commands.boundary import EffectRefusedError
from tasks_app.commands.models import Command, CommandDecision
from tasks_app.commands.services import IdempotencyKeyConflictError
from tasks_app.jobs.actions import Done, Result, Run, StepFailedError, WaitForOperation, action_register
from tasks_app.jobs.models import JobStatus
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.worker import drain
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.ordering import CHANGE, order_propose, order_release, order_run
from tasks_app.operations.reads import read_ensure
from tests.boundary.conftest import Bench, purchase
from tests.factories import make_seller, make_team, make_user
from tests.operations.making import fresh

pytestmark = pytest.mark.django_db


def test_the_same_again_answers_what_is_recorded() -> None:
    order = purchase()
    first = order_run(order=order, actor="system")
    again = order_run(order=order, actor="system")
    command = Command.objects.get()
    assert first.pk == again.pk
    assert (fresh(first).status, fresh(first).send_at is not None) == (S.REQUESTED, True)
    assert (command.replays, command.kind) == (1, "order_place")
    assert command.result == {"operation": str(first.pk), "reference": first.reference}
    assert list(command.decisions.values_list("code", flat=True)) == ["executed"]


@pytest.mark.parametrize(
    "other",
    [
        {"arguments": {"po_number": "PO-2", "context": {"deal_id": "d-1"}}},
        {"arguments": {"po_number": "PO-1"}},
        {"kind": CHANGE},
    ],
)
def test_another_payload_under_the_key_is_a_conflict_and_does_nothing(other: dict[str, Any]) -> None:
    order = purchase()
    order_run(order=order, actor="system")
    with pytest.raises(IdempotencyKeyConflictError) as raised:
        order_run(order=purchase(seller=order.seller, purpose=order.purpose, **other), actor="system")
    assert raised.value.code == "IDEMPOTENCY_KEY_CONFLICT"
    assert (Command.objects.count(), Operation.objects.count()) == (1, 1)


def test_payloads_are_equal_as_rfc_8785_has_it() -> None:
    seller = make_seller()
    one = purchase(seller=seller, purpose="p", arguments={"a": 1, "b": {"c": 2.0, "d": "x"}})
    other = purchase(seller=seller, purpose="p", arguments={"b": {"d": "x", "c": 2}, "a": 1.0})
    assert order_run(order=one, actor="system").pk == order_run(order=other, actor="system").pk


def test_what_is_proposed_leaves_only_once_it_is_released() -> None:
    operation = order_propose(order=purchase(), actor="system")
    assert operation.send_at is None
    assert Command.objects.get().executed_at is None
    released = order_release(operation=operation)
    assert fresh(released).send_at is not None
    assert order_release(operation=operation).pk == operation.pk
    assert Command.objects.get().replays == 1


def test_what_fails_leaves_no_command_behind() -> None:
    order = purchase(seller=make_seller(active=False))
    with pytest.raises(Exception, match="switched off"):
        order_run(order=order, actor="system")
    assert not Command.objects.exists()
    assert not Operation.objects.exists()


def test_reads_are_no_commands() -> None:
    seller = make_seller()
    read_ensure(
        purpose="r", task_type="get_products", seller=seller, arguments={}, actor="system", team=make_team()
    )
    assert not Command.objects.exists()
    with pytest.raises(ValueError, match="it is a command"):
        read_ensure(
            purpose="m",
            task_type="create_media_buy",
            seller=seller,
            arguments={},
            actor="system",
            team=make_team(),
        )


class TestActions:
    """What a step may do is what it declares, while it runs."""

    def test_an_action_says_what_it_is(self, bench: Bench) -> None:
        with pytest.raises(TypeError):
            action_register("test.none", lambda run: Done())  # type: ignore[call-arg]
        with pytest.raises(ValueError, match="harmless"):
            action_register("test.other", lambda run: Done(), kind="harmless")

    @pytest.mark.parametrize(
        ("kind", "effect", "allowed"),
        [
            ("pure", "order", False),
            ("idempotent", "order", False),
            ("command", "order", True),
            ("pure", "read", False),
            ("idempotent", "read", True),
            ("command", "read", True),
        ],
    )
    def test_only_a_command_has_effects_outside(
        self, bench: Bench, kind: str, effect: str, allowed: bool
    ) -> None:
        seller = make_seller()

        def act(run: Run) -> Result:
            if effect == "order":
                order_run(order=purchase(seller=seller, purpose=run.purpose("buy")), actor="system")
            else:
                read_ensure(
                    purpose=run.purpose("look"),
                    task_type="get_products",
                    seller=seller,
                    arguments={},
                    actor="system",
                    team=make_team(),
                )
            return Done()

        bench.action("act", act, kind=kind)
        bench.recipe({"id": "a", "action": "act"})
        job = bench.run()
        assert (job.status == JobStatus.COMPLETED) == allowed
        assert Operation.objects.exists() == allowed
        if not allowed:
            assert f"is declared {kind}" in job.error
            assert job.steps.get().failures == 0, "it is not tried again"

    def test_nothing_is_left_of_it_afterwards(self, bench: Bench) -> None:
        def refuse(run: Run) -> Result:
            raise StepFailedError("no")

        bench.action("refuse", refuse, kind="pure")
        bench.recipe({"id": "a", "action": "refuse"})
        bench.run()
        order_run(order=purchase(), actor="system")
        assert Command.objects.get().executed_at is not None

    def test_a_refused_effect_is_an_error_of_its_own(self) -> None:
        assert not issubclass(EffectRefusedError, StepFailedError)


class TestRetriedJob:
    """What a step commanded before is adopted, unless it was undone."""

    @pytest.mark.parametrize(("undone", "commands"), [(False, 1), (True, 2)])
    def test_a_commands_result_is_adopted(self, bench: Bench, undone: bool, commands: int) -> None:
        seller, made = make_seller(), []

        def act(run: Run) -> Result:
            order = purchase(seller=seller, purpose=run.purpose("buy"))
            operation = order_run(order=order, actor="system", awaited=True)
            made.append(operation.pk)
            if len(made) == 1:
                raise StepFailedError("it broke after it had asked")
            return WaitForOperation(operation_id=operation.pk)

        bench.action("act", act)
        bench.recipe({"id": "a", "action": "act"})
        old = bench.run()
        if undone:
            from tasks_app.operations.services import operation_withdraw

            operation_withdraw(operation=fresh(Operation.objects.get()), actor="system", reason="Undone")
        job_retry(job_id=old.pk, actor=make_user("Ad Ops"), reason="mended")
        drain()
        assert len(made) == 2
        assert (made[0] == made[1]) != undone
        assert Command.objects.count() == commands


@pytest.mark.parametrize("change", ["update", "delete"])
def test_decisions_are_append_only(change: str) -> None:
    order_run(order=purchase(), actor="system")
    rows = CommandDecision.objects.all()
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        rows.update(note="else") if change == "update" else rows._raw_delete(rows.db)
