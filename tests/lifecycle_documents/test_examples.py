"""Every example of document 002, with our import paths."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from orders.state_machine import (
    BuyerDealStatus,
    DealStateMachine,
    InvalidTransitionError,
    OrderAuditLog,
    StateTransition,
    TransitionRule,
    UnknownStatusError,
)
from tasks_app import clock
from tasks_app.people.actors import UnknownActorError

S = BuyerDealStatus


def require_budget(order_id: str, from_s: S, to_s: S, context: Mapping[str, Any]) -> bool:
    return bool(context.get("budget_confirmed", False))


def guarded(guard: Any = require_budget, description: str = "Booking requires confirmed budget") -> Any:
    machine = DealStateMachine("deal-abc", S.ACCEPTED)
    machine.add_rule(
        TransitionRule(from_status=S.ACCEPTED, to_status=S.BOOKING, guard=guard, description=description)
    )
    return machine


def test_the_document_from_creating_a_machine_to_restoring_it() -> None:
    machine = DealStateMachine(order_id="deal-abc")
    assert [machine.status] == [S.QUOTED]

    record = machine.transition(
        S.NEGOTIATING, actor="agent:buyer-01", reason="Opening negotiation with seller"
    )
    assert str(uuid.UUID(record.transition_id)) == record.transition_id
    assert machine.status is S.NEGOTIATING

    assert machine.allowed_transitions() == [S.ACCEPTED, S.QUOTED, S.FAILED, S.CANCELLED, S.EXPIRED]
    assert machine.can_transition(S.BOOKING) is False
    assert machine.can_transition(S.ACCEPTED) is True

    with pytest.raises(InvalidTransitionError) as refused:
        machine.transition(S.COMPLETED)
    assert str(refused.value) == (
        "Cannot transition order deal-abc from negotiating to completed: no matching transition rule"
    )
    assert refused.value.allowed == ("accepted", "quoted", "failed", "cancelled", "expired")

    machine.add_rule(
        TransitionRule(
            from_status=S.ACCEPTED,
            to_status=S.BOOKING,
            guard=require_budget,
            description="Booking requires confirmed budget",
        )
    )
    machine.transition(S.ACCEPTED, actor="agent:buyer-01")
    machine.transition(S.BOOKING, context={"budget_confirmed": True}, actor="agent:buyer-01")
    assert [told.to_status for told in machine.history] == ["negotiating", "accepted", "booking"]
    assert machine.history[-1].reason == "Booking requires confirmed budget"

    data = machine.to_dict()
    assert (data["order_id"], data["status"]) == ("deal-abc", "booking")
    assert data["audit_log"]["order_id"] == "deal-abc"
    restored = DealStateMachine.from_dict(data)
    assert restored.status is S.BOOKING


def test_a_guard_that_says_no_blocks_and_changes_nothing() -> None:
    machine = guarded()

    assert machine.can_transition(S.BOOKING) is False
    assert machine.can_transition(S.BOOKING, {"budget_confirmed": True}) is True
    with pytest.raises(InvalidTransitionError, match=r"from accepted to booking: guard condition failed$"):
        machine.transition(S.BOOKING)
    assert (machine.status, machine.history) == (S.ACCEPTED, [])


def test_a_guard_is_told_the_order_both_states_and_the_context() -> None:
    told: list[Any] = []

    def listening(*given: Any) -> bool:
        told.append(given)
        return True

    machine = guarded(guard=listening)
    machine.transition(S.BOOKING, context={"a": 1})

    assert told == [("deal-abc", S.ACCEPTED, S.BOOKING, {"a": 1})]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (False, "guard condition failed"),
        (None, "guard condition failed"),
        (1, "guard condition failed"),
        ("", "guard condition failed"),
        ("the budget is spent", "the budget is spent"),
    ],
)
def test_only_true_lets_past_and_a_text_is_the_reason(answer: Any, why: str) -> None:
    with pytest.raises(InvalidTransitionError, match=f"{why}$"):
        guarded(guard=lambda *_: answer).transition(S.BOOKING)


def test_every_guard_of_an_edge_must_agree() -> None:
    machine = guarded()
    machine.add_rule(
        TransitionRule(from_status=S.ACCEPTED, to_status=S.BOOKING, guard=lambda *_: "it is Sunday")
    )

    with pytest.raises(InvalidTransitionError, match="it is Sunday"):
        machine.transition(S.BOOKING, context={"budget_confirmed": True})


def test_a_guard_that_breaks_changes_nothing() -> None:
    machine = guarded(guard=lambda *_: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        machine.transition(S.BOOKING)
    assert (machine.status, machine.history) == (S.ACCEPTED, [])


def test_a_rule_is_local_to_its_object() -> None:
    guarded()
    assert DealStateMachine("deal-abc", S.ACCEPTED).can_transition(S.BOOKING)


def test_the_built_in_rules_have_no_guards() -> None:
    for frm, to in DealStateMachine.declared().edges:
        assert DealStateMachine("deal-abc", frm).can_transition(to)


def test_a_rule_makes_no_edge() -> None:
    machine = DealStateMachine("deal-abc", S.COMPLETED)

    with pytest.raises(InvalidTransitionError, match="from completed to quoted: no matching transition rule"):
        machine.add_rule(TransitionRule(from_status=S.COMPLETED, to_status=S.QUOTED))
    assert not machine.can_transition(S.QUOTED)


@pytest.mark.parametrize("status", ["draft", "QUOTED", "", "quoted ", 7, None, ["quoted"]])
def test_an_unknown_status_is_never_let_past(status: Any) -> None:
    machine = DealStateMachine("deal-abc")

    with pytest.raises(UnknownStatusError):
        machine.transition(status)
    with pytest.raises(UnknownStatusError):
        machine.can_transition(status)
    with pytest.raises(UnknownStatusError):
        machine.add_rule(TransitionRule(from_status=S.QUOTED, to_status=status))
    if status is not None:
        with pytest.raises(UnknownStatusError):
            DealStateMachine("deal-abc", status)
    assert (machine.status, machine.history) == (S.QUOTED, [])


def test_the_fields_of_a_record_and_their_defaults() -> None:
    moment = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
    with clock.injected(lambda: moment):
        record = DealStateMachine("deal-abc").transition("negotiating")

    assert vars(record) == {
        "transition_id": record.transition_id,
        "from_status": "quoted",
        "to_status": "negotiating",
        "timestamp": moment,
        "actor": "system",
        "reason": "Buyer initiates negotiation",
        "metadata": {},
    }
    assert record.timestamp.utcoffset() == timedelta(0)


def test_every_record_has_an_id_of_its_own() -> None:
    machine = DealStateMachine("deal-abc")
    for to in ("negotiating", "quoted", "negotiating"):
        machine.transition(to)
    assert len({told.transition_id for told in machine.history}) == 3


@pytest.mark.parametrize("actor", ["system", "human:42", "agent:buyer-01"])
def test_typed_actors_are_recorded(actor: str) -> None:
    assert DealStateMachine("deal-abc").transition("negotiating", actor=actor).actor == actor


@pytest.mark.parametrize("actor", ["", "agent", "human:", "robot:1", "agent:a b", "system\n", None, 7])
def test_other_actors_are_refused(actor: Any) -> None:
    machine = DealStateMachine("deal-abc")
    with pytest.raises(UnknownActorError):
        machine.transition("negotiating", actor=actor)
    assert (machine.status, machine.history) == (S.QUOTED, [])


def test_the_log_cannot_be_changed_from_outside() -> None:
    machine = DealStateMachine("deal-abc")
    given = {"round": {"number": 1}}
    record = machine.transition("negotiating", metadata=given)

    given["round"]["number"] = 2
    record.metadata["round"]["number"] = 3
    machine.history[0].metadata.clear()
    machine.history.clear()
    with pytest.raises(AttributeError):
        record.actor = "human:7"  # type: ignore[misc]

    assert [told.metadata for told in machine.history] == [{"round": {"number": 1}}]


def test_metadata_keeps_its_numbers_and_is_saved_as_json() -> None:
    machine = DealStateMachine("deal-abc")
    given = {"round": 1, "offer_cpm": 12.50, "price": Decimal("14.20"), "rounds": (1, Decimal("2.5"))}

    record = machine.transition("negotiating", metadata=given)

    assert record.metadata == {"round": 1, "offer_cpm": 12.50, "price": Decimal("14.20"), "rounds": [1, 2.5]}
    saved_metadata = json.loads(json.dumps(machine.to_dict()))["audit_log"]["transitions"][0]["metadata"]
    assert saved_metadata == {"round": 1, "offer_cpm": 12.5, "price": "14.20", "rounds": [1, "2.5"]}
    assert DealStateMachine.from_dict(machine.to_dict()).history[0].metadata == saved_metadata


@pytest.mark.parametrize("value", [math.nan, math.inf, Decimal("NaN"), Decimal("-Infinity"), object()])
def test_metadata_that_is_no_json_is_refused_and_changes_nothing(value: Any) -> None:
    machine = DealStateMachine("deal-abc")
    with pytest.raises(TypeError):
        machine.transition("negotiating", metadata={"price": [value]})
    assert (machine.status, machine.history) == (S.QUOTED, [])


def rule(frm: S, to: S, **given: Any) -> TransitionRule[S]:
    return TransitionRule(from_status=frm, to_status=to, **given)


def test_rules_given_at_construction_are_all_that_an_order_may_do() -> None:
    seen: dict[str, Any] = {}

    def guard(order_id: str, from_s: S, to_s: S, context: dict[str, Any]) -> bool:
        seen.update(context)
        return bool(context.get("budget"))

    machine = DealStateMachine("deal-abc", rules=[rule(S.QUOTED, S.NEGOTIATING, guard=guard)])

    assert machine.allowed_transitions() == [S.NEGOTIATING]
    with pytest.raises(InvalidTransitionError, match="guard condition failed"):
        machine.transition(S.NEGOTIATING)
    with pytest.raises(InvalidTransitionError, match="no matching transition rule") as refused:
        machine.transition(S.ACCEPTED)
    assert refused.value.allowed == ("negotiating",)
    machine.transition(S.NEGOTIATING, context={"budget": 50000})
    assert seen == {"budget": 50000}
    machine.add_rule(rule(S.NEGOTIATING, S.ACCEPTED))
    assert machine.transition(S.ACCEPTED).reason == "Deal terms accepted"


def test_rules_given_at_construction_make_no_edge() -> None:
    with pytest.raises(InvalidTransitionError, match="from completed to quoted: no matching transition rule"):
        DealStateMachine("deal-abc", rules=[rule(S.COMPLETED, S.QUOTED)])
    assert DealStateMachine("deal-abc", rules=[]).allowed_transitions() == []


def test_an_audit_log_of_its_own() -> None:
    log = OrderAuditLog(order_id="deal-abc")
    assert (log.order_id, log.transitions, log.current_status) == ("deal-abc", [], None)

    log.append(StateTransition(from_status="quoted", to_status="negotiating"))
    log.append(StateTransition(from_status="negotiating", to_status="accepted"))

    assert [told.to_status for told in log.transitions] == ["negotiating", "accepted"]
    assert log.current_status == "accepted"


def saved() -> dict[str, Any]:
    machine = DealStateMachine("deal-abc")
    machine.transition("negotiating", actor="agent:buyer-01", metadata={"price": "14.20"})
    machine.transition("accepted", actor="human:42", reason="Fine")
    return machine.to_dict()


def test_what_is_saved_is_json_and_comes_back_whole() -> None:
    data = json.loads(json.dumps(saved()), parse_float=lambda _: pytest.fail("a float"))

    restored = DealStateMachine.from_dict(data)

    assert restored.to_dict() == data
    assert restored.history[1].actor == "human:42"
    assert restored.transition("booking").from_status == "accepted"


def test_a_machine_saved_before_its_first_move_comes_back() -> None:
    restored = DealStateMachine.from_dict(DealStateMachine("deal-abc", "booked").to_dict())
    assert (restored.status, restored.history) == (S.BOOKED, [])


def spoilt(**changes: Any) -> Callable[[], dict[str, Any]]:
    """Makes what is saved with its second transition changed."""

    def made() -> dict[str, Any]:
        data = saved()
        data["audit_log"]["transitions"][1] |= changes
        return data

    return made


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"order_id": "deal-abc", "status": "quoted"},
        {"order_id": 7, "status": "quoted", "audit_log": {"order_id": 7, "transitions": []}},
        {"order_id": "deal-abc", "status": "quoted", "audit_log": None},
        {"order_id": "deal-abc", "status": "quoted", "audit_log": {"order_id": "deal-abc", "transitions": 3}},
        lambda: {**saved(), "order_id": "deal-xyz"},
        lambda: {**saved(), "status": "booked"},
        spoilt(from_status="quoted", to_status="accepted"),
        spoilt(to_status="delivering"),
        spoilt(timestamp="2026-11-20T09:00:00"),
        spoilt(timestamp="yesterday"),
        spoilt(timestamp=None),
        spoilt(actor="agent"),
        spoilt(reason=3),
        spoilt(metadata=[1]),
        spoilt(metadata={"price": math.nan}),
        spoilt(transition_id="one"),
        spoilt(transition_id=1),
        spoilt(colour="red"),
    ],
)
def test_what_was_never_saved_so_is_refused(data: dict[str, Any] | Callable[[], dict[str, Any]]) -> None:
    with pytest.raises(ValueError):
        DealStateMachine.from_dict(data() if callable(data) else data)


def test_a_saved_unknown_status_is_refused() -> None:
    with pytest.raises(UnknownStatusError):
        DealStateMachine.from_dict({**saved(), "status": "draft"})
