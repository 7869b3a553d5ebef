"""Every table of document 002, in both directions."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest

from campaigns.state_machine import BuyerCampaignStatus, CampaignStateMachine, from_execution_status
from orders.state_machine import (
    BuyerDealStatus,
    DealStateMachine,
    InvalidTransitionError,
    UnknownLegacyStatusError,
    from_dsp_flow_status,
)
from tests.lifecycle_documents import tables
from tests.tables import each_row

MACHINES: dict[str, Any] = {"deal": DealStateMachine, "campaign": CampaignStateMachine}
STATES = {"deal": tables.DEAL_STATES, "campaign": tables.CAMPAIGN_STATES}
EDGES = {"deal": tables.DEAL_EDGES, "campaign": tables.CAMPAIGN_EDGES}
PAIRS = [(kind, frm, to) for kind, states in STATES.items() for frm, to in product(states, repeat=2)]


def test_the_statuses_are_the_documents() -> None:
    assert tuple(BuyerDealStatus.values) == tables.DEAL_STATES
    assert tuple(BuyerCampaignStatus.values) == tables.CAMPAIGN_STATES


def test_nothing_is_declared_that_the_document_does_not_say() -> None:
    for kind, machine in MACHINES.items():
        said = {(frm, to): description for frm, to, description in EDGES[kind]}
        assert machine.declared().edges == said


@each_row(("kind", "frm", "to"), PAIRS)
def test_a_pair_is_permitted_exactly_where_the_table_has_it(kind: str, frm: str, to: str) -> None:
    machine = MACHINES[kind]("order-1", frm)
    descriptions = {(f, t): said for f, t, said in EDGES[kind]}

    assert machine.can_transition(to) is ((frm, to) in descriptions)
    if (frm, to) in descriptions:
        record = machine.transition(to)
        assert (record.from_status, record.to_status) == (frm, to)
        assert record.reason == descriptions[frm, to]
        assert machine.status == to
        return
    with pytest.raises(InvalidTransitionError) as refused:
        machine.transition(to)
    expected = f"Cannot transition order order-1 from {frm} to {to}: no matching transition rule"
    assert str(refused.value) == expected
    assert (machine.status, machine.history) == (frm, [])


@pytest.mark.parametrize(("kind", "status"), [(kind, s) for kind, states in STATES.items() for s in states])
def test_what_can_be_reached_is_listed_in_the_tables_order(kind: str, status: str) -> None:
    allowed = MACHINES[kind]("order-1", status).allowed_transitions()

    assert allowed == [to for frm, to, _ in EDGES[kind] if frm == status]


@pytest.mark.parametrize(
    ("kind", "path"), [("deal", tables.DEAL_HAPPY_PATH), ("campaign", tables.CAMPAIGN_HAPPY_PATH)]
)
def test_the_happy_paths(kind: str, path: tuple[str, ...]) -> None:
    machine = MACHINES[kind]("order-1")
    for to in path[1:]:
        machine.transition(to)

    assert [(told.from_status, told.to_status) for told in machine.history] == list(pairwise(path))
    assert machine.audit_log.current_status == path[-1]


def test_negotiation_can_be_skipped() -> None:
    assert DealStateMachine("order-1").can_transition(BuyerDealStatus.ACCEPTED)


@pytest.mark.parametrize("status", sorted(tables.DEAL_TERMINAL))
def test_no_deal_leaves_a_terminal_state(status: str) -> None:
    assert DealStateMachine("order-1", status).allowed_transitions() == []


def test_only_terminal_deals_are_stuck() -> None:
    stuck = {s for s in tables.DEAL_STATES if not DealStateMachine("order-1", s).allowed_transitions()}
    assert stuck == tables.DEAL_TERMINAL == DealStateMachine.declared().terminal


@pytest.mark.parametrize("status", ["validation_failed", "failed"])
def test_a_campaign_can_be_retried_from_scratch(status: str) -> None:
    assert CampaignStateMachine("c-1", status).allowed_transitions() == [BuyerCampaignStatus.INITIALIZED]


@pytest.mark.parametrize(("legacy", "status"), tables.DSP_FLOW.items())
def test_dsp_flow_statuses_are_mapped(legacy: str, status: str) -> None:
    assert from_dsp_flow_status(legacy) is BuyerDealStatus(status)


@pytest.mark.parametrize("status", tables.CAMPAIGN_STATES)
def test_execution_statuses_have_the_same_name(status: str) -> None:
    assert from_execution_status(status) is BuyerCampaignStatus(status)


@pytest.mark.parametrize("value", ["quoted", "draft", "INITIALIZED", " failed", "", None, 3, ["failed"]])
def test_an_unknown_dsp_flow_status_is_an_error_that_lists_the_known(value: Any) -> None:
    with pytest.raises(UnknownLegacyStatusError) as refused:
        from_dsp_flow_status(value)
    assert refused.value.known == tuple(tables.DSP_FLOW)
    assert (
        str(refused.value) == f"{str(value)!r} is no known deal status; known: {', '.join(tables.DSP_FLOW)}"
    )


@pytest.mark.parametrize("value", ["draft", "READY", "pending", "", None, 3, ["failed"]])
def test_an_unknown_execution_status_is_an_error_that_lists_the_known(value: Any) -> None:
    with pytest.raises(UnknownLegacyStatusError) as refused:
        from_execution_status(value)
    assert str(refused.value).endswith(f"known: {', '.join(tables.CAMPAIGN_STATES)}")
