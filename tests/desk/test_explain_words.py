"""Every state of every declared lifecycle, and of everything else that is explained, has all five answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tasks_app.lifecycle
from campaigns.explain_words import Progress, campaign_answers
from orders.explain import Stand, deal_answers
from tasks_app.approvals.explain import Asked, Pending, approval_answers
from tasks_app.commands.explain import command_answers
from tasks_app.desk.explain import Answers, Mover
from tasks_app.jobs.explain import Node, Run, job_answers, schedule_answers, step_answers
from tasks_app.jobs.waits import Wait
from tasks_app.operations.answer_stages import Answer, ShutBy, Stage
from tasks_app.operations.conflict_explain import conflict_answers
from tasks_app.operations.explain_words import Seen, operation_answers
from tasks_app.people.roles import CHANGE_SELLER, DECIDE, STEER_OPERATION
from tasks_app.reconciliation.explain import finding_answers
from tasks_app.sellers.explain import account_answers, seller_answers
from tasks_app.sellers.models import Account
from tests.tables import each_case

_DATA = Path(tasks_app.lifecycle.__file__).parent / "data"
_AT = datetime(2026, 11, 18, 12, tzinfo=UTC)
_DECLARED = {
    path.stem: json.loads(path.read_text())
    for path in sorted(_DATA.glob("*.json"))
    if path.stem != "assistant_turn"  # a person's own question, not an object of the house
}
_QUESTION = Pending(reference="APR-2026-000007", title="Book Norrland", due_at=_AT, able=("Maya",))
_OPENS = Mover(right=CHANGE_SELLER, does="switch the seller on, on its page")
_WAIT = Wait(type="operation", since=_AT, until=_AT + timedelta(hours=1), words="Norrland has it")

# Of each entity: its answers with nothing known beside its status, and with everything.
_BARE: dict[str, Callable[[str], Answers]] = {
    "approval": lambda status: approval_answers(Asked(status=status, due_at=_AT)),
    "campaign": lambda status: campaign_answers(Progress(status=status)),
    "deal": lambda status: deal_answers(Stand(status=status)),
    "job": lambda status: job_answers(Run(status=status)),
    "operation": lambda status: operation_answers(Seen(status=status)),
    "step": lambda status: step_answers(Node(status=status)),
}
_FULL: dict[str, Callable[[str], Answers]] = {
    "approval": lambda status: approval_answers(
        Asked(status=status, quorum=2, given=1, due_at=_AT, able=("Maya",), nothing="It waits.")
    ),
    "campaign": lambda status: campaign_answers(
        Progress(
            status=status, asked=2, question=_QUESTION, out=2, accounts=1, job="JOB-2026-1", expires_at=_AT
        )
    ),
    "deal": lambda status: deal_answers(
        Stand(
            status=status,
            question=_QUESTION,
            operation="OP-2026-000001",
            operation_due=_AT,
            start_at=_AT,
            end_at=_AT,
            read_at=_AT,
            differs=True,
        )
    ),
    "job": lambda status: job_answers(
        Run(status=status, waits="2 operations", question=_QUESTION, expires_at=_AT)
    ),
    "operation": lambda status: operation_answers(
        Seen(
            status=status,
            deadline_at=_AT,
            next_poll_at=_AT,
            send_at=_AT,
            held=True,
            message="Which?",
            question=_QUESTION,
        )
    ),
    "step": lambda status: step_answers(
        Node(status=status, wait=_WAIT, question=_QUESTION, before=2, lease_until=_AT, ready_at=_AT)
    ),
}
_STATES = [(entity, status) for entity, data in _DECLARED.items() for status in data["states"]]


def test_every_declared_lifecycle_is_explained() -> None:
    assert set(_DECLARED) == set(_BARE) == set(_FULL)


@each_case(state=_STATES, known=["bare", "full"])
def test_every_declared_state_has_every_answer(state: tuple[str, str], known: str) -> None:
    entity, status = state
    told = {"bare": _BARE, "full": _FULL}[known][entity](status)

    _whole(told)
    declared = _DECLARED[entity]
    goes_on = any(edge["from"] == status for edge in _edges(declared))
    if goes_on and status not in declared["terminal"]:
        assert told.movers, "an open state is moved by somebody"
    if not goes_on:
        assert told.waiting.startswith(("Nothing", "Approved", "Rejected", "Expired", "Withdrawn")), (
            "nothing leads on from here"
        )


@pytest.mark.parametrize("entity", sorted(_DECLARED))
def test_a_status_that_nobody_declared_is_refused(entity: str) -> None:
    with pytest.raises(ValueError, match="no-such"):
        _BARE[entity]("no-such")


@pytest.mark.parametrize("status", Account.Status.values)
def test_every_state_of_an_account_has_every_answer(status: str) -> None:
    _whole(account_answers(status))


@pytest.mark.parametrize(
    "told",
    [
        seller_answers(active=True, left_alone=False),
        seller_answers(active=True, left_alone=True, probe_at=_AT),
        seller_answers(active=False, left_alone=False),
        schedule_answers(paused=False, next_due_at=_AT, starter="Maya"),
        schedule_answers(paused=True, next_due_at=_AT, starter="Maya"),
        schedule_answers(paused=False, next_due_at=None, starter="Maya"),
        command_answers(state="waiting", question=_QUESTION),
        command_answers(state="waiting"),
        command_answers(state="refused", why="Kill switch."),
        command_answers(state="executed"),
        command_answers(state="recorded"),
        finding_answers(),
        finding_answers(holder="Jonas"),
        finding_answers(question=_QUESTION),
        finding_answers(differs=False),
        finding_answers(ended="Adopted"),
        conflict_answers(resolved=False, kept=False, seller="Norrland", question=_QUESTION),
        conflict_answers(resolved=False, kept=False, seller="Norrland", question=None),
        conflict_answers(resolved=True, kept=True, seller="Norrland", question=None),
    ],
    ids=lambda told: told.waiting[:40],
)
def test_what_has_no_declared_lifecycle_has_every_answer(told: Answers) -> None:
    _whole(told)


def test_an_approval_never_promises_that_waiting_approves() -> None:
    told = approval_answers(Asked(status="open", due_at=_AT))
    assert "nothing is approved" in told.otherwise
    assert told.deadline == _AT


def test_those_who_can_decide_are_named_and_nobody_beside_them() -> None:
    told = approval_answers(Asked(status="open", due_at=_AT, able=("Maya", "Jonas")))
    assert told.movers[0].people == ("Maya", "Jonas")


def test_an_overdue_operation_that_was_given_up_is_not_said_to_be_failed() -> None:
    told = operation_answers(Seen(status="timed_out", given_up=True, seller="Norrland"))
    assert "may still act" in told.waiting
    assert told.movers[0].who == "Norrland"


def test_an_end_that_the_seller_contradicts_is_still_somebodys() -> None:
    told = operation_answers(Seen(status="completed", conflict="CFL-2026-000001", question=_QUESTION))
    assert "CFL-2026-000001" in told.waiting
    assert (told.movers[0].right, told.movers[0].people, told.deadline) == (DECIDE, ("Maya",), _AT)


def test_a_contradiction_that_nobody_was_asked_about_yet_is_put_to_people_next() -> None:
    told = operation_answers(Seen(status="completed", conflict="CFL-2026-000001"))
    assert told.movers[0].right == STEER_OPERATION
    open_ = conflict_answers(resolved=False, kept=False, seller="Norrland", question=None)
    assert "people are asked next" in open_.waiting
    assert [mover.right for mover in open_.movers] == [STEER_OPERATION]


def _edges(declared: dict[str, Any]) -> list[dict[str, str]]:
    return [edge for edge in [*declared["transitions"], *declared.get("extensions", [])] if _moves(edge)]


def _moves(edge: dict[str, str]) -> bool:
    return edge["from"] != edge["to"]


@pytest.mark.parametrize("status", ["input_required", "auth_required", "submitted"])
@pytest.mark.parametrize(
    "known",
    [{}, {"question": _QUESTION}, {"stopped": "Stopped by Ada Okafor"}, {"opens": (_OPENS,)}],
    ids=["alone", "asked about", "stopped", "shut"],
)
@pytest.mark.parametrize("stage", list(Stage))
def test_every_stage_of_our_answer_has_every_answer(stage: Stage, known: dict[str, Any], status: str) -> None:
    left_at = _AT if stage in (Stage.LEFT, Stage.LOST) else None
    shut = "Norrland is switched off" if "opens" in known else ""
    answer = Answer(stage=stage, given_at=_AT, left_at=left_at, shut=shut, shut_by=ShutBy.SELLER)
    told = operation_answers(Seen(status=status, deadline_at=_AT, answer=answer, **known))
    _whole(told)
    assert "Our answer" in told.waiting
    does = [mover.does for mover in told.movers]
    assert ("question" in known) == (told.movers[0].right == DECIDE)
    assert (_OPENS.does in does) == (stage is Stage.TO_SEND and bool(shut))
    assert ("sends it when a slot of the seller is free" in does) == (
        stage is Stage.TO_SEND and not known.keys() & {"opens", "stopped"}
    )


def test_the_switch_is_not_all_that_keeps_an_answer_to_a_seller_that_is_off() -> None:
    off = Answer(stage=Stage.TO_SEND, given_at=_AT, shut="Norrland is switched off", shut_by=ShutBy.SELLER)
    told = operation_answers(
        Seen(status="input_required", answer=off, stopped="Stopped by Ada Okafor", opens=(_OPENS,))
    )
    does = [mover.does for mover in told.movers]
    assert (_OPENS.does in does, any("sent by itself" in one for one in does)) == (True, False)
    assert "Norrland is switched off" in told.waiting


def _whole(told: Answers) -> None:
    assert told.waiting.endswith((".", "?", "”")), told.waiting
    assert told.otherwise.endswith("."), told.otherwise
    for sentence in (told.waiting, told.otherwise):
        assert "None" not in sentence
        assert ".." not in sentence
        assert sentence[0].isupper()
    for mover in told.movers:
        assert mover.does
        assert bool(mover.who) != bool(mover.right)
