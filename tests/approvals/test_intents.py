"""A word on several questions that can be undone for a while: kept, withdrawn, decided by the sweep once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.urls import reverse

from tasks_app import clock, ids
from tasks_app.approvals import intents
from tasks_app.approvals.intents import (
    UNDO_FOR,
    batch_intend,
    batch_withdraw,
    intents_decide,
    intents_pending,
)
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.records import DecisionBatch, DecisionBatchItem
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.approvals.together import report_of
from tasks_app.lifecycle.transitions import transition
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.notifications.models import Notification
from tasks_app.operations.sweep import _chores
from tasks_app.people.models import User
from tasks_app.troubles.models import RowTrouble
from tests.approvals.conftest import Desk
from tests.database import Database
from tests.factories import decided_later, make_user
from tests.lifecycle.threads import at_once
from tests.owning import as_the_product
from tests.rounds import rounds
from tests.support import PATIENCE_S, joined, locks_awaited, transactions_over, until

pytestmark = pytest.mark.deep

db = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]
QUEUE = reverse("admin:tasks_app_approval_changelist")


def shown(*approvals: Approval) -> dict[Any, str]:
    return {one.pk: one.evidence_digest for one in approvals}


def intend(user: User, *approvals: Approval, verdict: str = "approve", **more: Any) -> DecisionBatch:
    return batch_intend(
        batch_id=more.pop("batch_id", ids.new_id()),
        shown=shown(*approvals),
        user=user,
        verdict=verdict,
        **more,
    )


def questions(desk: Desk, count: int, **fields: Any) -> list[Approval]:
    return [desk.ask(subject_id=ids.new_id(), **fields) for _ in range(count)]


def signed_in(user: User) -> Client:
    User.objects.filter(pk=user.pk).update(is_staff=True)
    user.refresh_from_db()
    client = Client()
    client.force_login(user, backend="tasks_app.people.holders.RoleBackend")
    return client


def test_the_sweep_looks_after_it() -> None:
    assert _chores["decided_together"] is intents_decide


@db
def test_nothing_is_decided_before_its_time_and_each_once_then(desk: Desk) -> None:
    assert timedelta(seconds=10) == UNDO_FOR, "long enough to see that one was wrong, and no longer"
    user, three = make_user("Approver"), questions(desk, 3)
    batch = intend(user, *three, comment="All fine")
    assert decided_later(UNDO_FOR - timedelta(seconds=1)) == 0
    assert not Decision.objects.exists()
    assert [one.code for one in report_of(batch, user)] == ["pending"] * 3

    assert decided_later() == 3
    assert decided_later() == 0

    decisions = Decision.objects.order_by("pk")
    assert [(one.approval_id, one.comment) for one in decisions] == [(one.pk, "All fine") for one in three]
    batch.refresh_from_db()
    assert batch.done_at is not None
    assert [one.left for one in report_of(batch, user)] == [ApprovalStatus.APPROVED] * 3
    assert all(verify_entity("approval", one.pk).ok for one in three)
    assert not Notification.objects.filter(kind="decided_together").exists()


@db
@pytest.mark.parametrize("host", ["that it was said on", "that decides"])
def test_a_host_whose_clock_is_wrong_takes_nothing_of_the_time_to_undo(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    user, three = make_user("Approver"), questions(desk, 3)
    wrong = timedelta(seconds=-15 if host == "that it was said on" else 15)
    with monkeypatch.context() as patched:
        if host == "that it was said on":
            patched.setattr(clock, "now", lambda: datetime.now(UTC) + wrong)
        batch = intend(user, *three)
    with monkeypatch.context() as patched:
        if host == "that decides":
            patched.setattr(clock, "now", lambda: datetime.now(UTC) + wrong)
        assert intents_decide() == 0
    assert batch_withdraw(batch_id=batch.pk, user=user).withdrawn_at is not None


@db
def test_once_the_first_is_decided_nobody_is_offered_to_undo_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, three = make_user("Approver", is_staff=True), questions(desk, 3)
    batch = intend(user, *three)
    report = reverse("admin:tasks_app_approval_report", args=[batch.pk])
    pages = [QUEUE, report]

    def offered() -> list[str]:
        told = [signed_in(user).get(page).content.decode() for page in pages]
        said = ("unless you undo it", 'value="undo"', "is final", "2 still to be decided")
        return [f"{[words in one for words in said]}" for one in told]

    assert offered() == ["[True, True, False, False]"] * 2
    monkeypatch.setattr(intents, "_AT_ONCE", 1)
    assert decided_later() == 1
    assert offered() == ["[False, False, True, True]"] * 2
    with pytest.raises(DecisionRefusedError, match="too late to undo"):
        batch_withdraw(batch_id=batch.pk, user=user)


@db
def test_what_is_undone_is_never_decided(desk: Desk) -> None:
    user, three = make_user("Approver"), questions(desk, 3)
    batch = intend(user, *three)
    assert intents_pending(user) == [batch]
    batch_withdraw(batch_id=batch.pk, user=user)
    batch_withdraw(batch_id=batch.pk, user=user)  # a doubled click
    assert decided_later() == 0
    assert not Decision.objects.exists()
    assert intents_pending(user) == []
    batch.refresh_from_db()
    assert [one.code for one in report_of(batch, user)] == ["withdrawn"] * 3


@db
def test_what_is_decided_is_final_and_others_undo_nothing(desk: Desk) -> None:
    user, other = make_user("Approver"), make_user("Administrator")
    batch = intend(user, *questions(desk, 2))
    with pytest.raises(DecisionRefusedError, match="nothing of yours"):
        batch_withdraw(batch_id=batch.pk, user=other)
    decided_later()
    with pytest.raises(DecisionRefusedError, match="too late"):
        batch_withdraw(batch_id=batch.pk, user=user)
    assert Decision.objects.count() == 2


@db
def test_each_is_checked_when_it_counts(desk: Desk) -> None:
    """What ended, was decided or may no longer be decided meanwhile is refused, and who said it is told."""
    user = make_user("Approver")
    good, gone, done = questions(desk, 3)
    batch = intend(user, good, gone, done)
    transition(gone, ApprovalStatus.VOIDED, actor="system")
    approval_decide(approval_id=done.pk, user=make_user("Administrator"), verdict="approve")

    decided_later()

    assert [one.code for one in report_of(batch, user)] == ["", "not_open", "not_open"]
    told = Notification.objects.get(kind="decided_together")
    assert (told.person, told.title) == (user, "2 questions of 3 were not decided")
    assert "voided already" in told.body

    off = intend(user, *questions(desk, 1))
    User.objects.filter(pk=user.pk).update(is_active=False)
    decided_later()
    assert [item.code for item in off.items.all()] == ["no_right"]


@db
def test_the_same_word_said_twice_is_one(desk: Desk) -> None:
    user, key = make_user("Approver"), ids.new_id()
    (one,) = questions(desk, 1)
    assert intend(user, one, batch_id=key) == intend(user, one, batch_id=key)
    assert DecisionBatch.objects.count() == 1
    with pytest.raises(ValueError, match="somebody else"):
        intend(make_user("Administrator"), one, batch_id=key)


@db
def test_what_raises_holds_up_no_other(desk: Desk) -> None:
    user, two = make_user("Approver"), questions(desk, 2)
    effects = iter([lambda: {}["nothing"], lambda: None])
    desk.effect = lambda: next(effects)()
    batch = intend(user, *two)
    decided_later()
    assert [one.code for one in report_of(batch, user)] == ["impossible", ""]
    assert Approval.objects.get(pk=two[0].pk).status == ApprovalStatus.OPEN


@db
def test_one_that_was_put_back_is_tried_however_much_is_due_before_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would pass as handled, and nobody hear of it."""
    monkeypatch.setattr(intents, "_AT_ONCE", 2)
    user = make_user("Approver")
    first, second = (intend(user, *questions(desk, 2)) for _ in range(2))
    begun = {"work": intents._WORK, "row": second.pk, "first_at": clock.now(), "at": clock.now()}
    RowTrouble.objects.create(**begun, times=2, again_at=clock.now())
    monkeypatch.setattr(intents, "_next", _stuck(second, intents._next))
    with clock.injected(lambda: datetime.now(UTC) + intents.UNDO_FOR):
        intents.intents_decide()
    assert RowTrouble.objects.get().times == 3
    assert len(report_of(first, user)) == 2


def _stuck(batch: DecisionBatch, decide: Any) -> Any:
    def one(batch_id: Any, user: User) -> bool:
        if batch_id == batch.pk:
            raise RuntimeError("cannot be written")
        return bool(decide(batch_id, user))

    return one


@db
def test_what_was_intended_is_not_rewritten(desk: Desk) -> None:
    batch = intend(make_user("Approver"), *questions(desk, 1))
    for change in ({"verdict": "reject"}, {"shown": []}, {"digests": {}}, {"due_at": None}):
        denied = pytest.raises(DatabaseError, match="permission denied")
        with as_the_product(), denied, transaction.atomic():
            DecisionBatch.objects.filter(pk=batch.pk).update(**change)


KILLED = """
import os, signal, django
django.setup()
from datetime import UTC, datetime
from tasks_app import clock
from tasks_app.approvals import intents, kinds
from tasks_app.approvals.kinds import Kind
from tasks_app.approvals.models import Decision
from tests.approvals.conftest import as_asked
def apply(approval, outcome):
    if Decision.objects.count() == 3:
        os.kill(os.getpid(), signal.SIGKILL)
kinds._kinds["test"] = Kind(name="test", label="Test", apply=apply, version=lambda approval: 1,
                            asks=as_asked, reopen=lambda approval: None, effects={})
with clock.injected(lambda: datetime.now(UTC) + intents.UNDO_FOR):
    intents.intents_decide()
"""


def test_a_killed_worker_loses_none_and_decides_none_twice(committed_db: Database, desk: Desk) -> None:
    user, five = make_user("Approver"), questions(desk, 5)
    batch = intend(user, *five)
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=ROOT, env=env, check=False)
    assert killed.returncode == -signal.SIGKILL
    transactions_over()
    assert Decision.objects.count() == DecisionBatchItem.objects.count() == 2, (
        "each with its line, or neither"
    )
    with pytest.raises(DecisionRefusedError, match="too late"):
        batch_withdraw(batch_id=batch.pk, user=user)

    assert decided_later() == 3

    assert Decision.objects.count() == 5
    assert [one.left for one in report_of(batch, user)] == [ApprovalStatus.APPROVED] * 5


def test_undo_and_the_sweep_beside_each_other_are_all_or_nothing(committed_db: Database, desk: Desk) -> None:
    user = make_user("Approver")
    for _ in range(rounds(2, 6)):
        batch, beside = intend(user, *questions(desk, 3)), threading.Barrier(2)

        def undo(batch: DecisionBatch = batch, beside: threading.Barrier = beside) -> None:
            try:
                beside.wait(PATIENCE_S)
                with suppress(DecisionRefusedError):
                    batch_withdraw(batch_id=batch.pk, user=user)
            finally:
                connection.close()

        thread = threading.Thread(target=undo)
        thread.start()
        beside.wait(PATIENCE_S)
        decided_later()
        joined(thread)
        decided_later()
        batch.refresh_from_db()
        codes = {one.code for one in report_of(batch, user)}
        assert codes == ({"withdrawn"} if batch.withdrawn_at else {""})


def test_who_undoes_while_the_first_is_decided_comes_too_late(committed_db: Database, desk: Desk) -> None:
    user, three = make_user("Approver"), questions(desk, 3)
    batch, said = intend(user, *three), SimpleQueue[str]()

    def undo() -> None:
        try:
            batch_withdraw(batch_id=batch.pk, user=user)
        except DecisionRefusedError as error:
            said.put(error.code)
        finally:
            connection.close()

    person = threading.Thread(target=undo)
    with transaction.atomic():
        assert decided_later() == 3
        person.start()
        until(lambda: locks_awaited() or not person.is_alive(), "the person comes to the batch")
    joined(person)

    assert said.get_nowait() == "not_open"
    assert {one.left for one in report_of(batch, user)} == {ApprovalStatus.APPROVED}


def test_what_is_being_undone_the_sweep_leaves_alone(committed_db: Database, desk: Desk) -> None:
    user, three = make_user("Approver"), questions(desk, 3)
    batch = intend(user, *three)
    with transaction.atomic():
        batch_withdraw(batch_id=batch.pk, user=user)
        assert at_once(decided_later) == [0]

    assert decided_later() == 0
    batch.refresh_from_db()
    assert {one.code for one in report_of(batch, user)} == {"withdrawn"}
    assert not Decision.objects.exists()


@pytest.fixture
def five(desk: Desk) -> list[Approval]:
    """Three that one decides, two of two people, of two sellers."""
    one = questions(
        desk, 3, amount=Decimal("60400"), currency="USD", evidence={"seller": "Cobalt Bay TV", "version": 1}
    )
    two = questions(
        desk,
        2,
        amount=Decimal("100000.50"),
        currency="USD",
        quorum=2,
        evidence={"seller": "Quill", "version": 1},
    )
    return [*one, *two]


@db
def test_the_queue_asks_once_keeps_the_word_and_says_what_became_of_it(five: list[Approval]) -> None:
    client = signed_in(make_user("Approver"))
    form = {"decision": "approve", "comment": "Fine.", "also": [f"{k}:{v}" for k, v in shown(*five).items()]}
    assert client.post(QUEUE, {"decision": "approve"}).status_code == 400

    asked = client.post(QUEUE, form)

    page = asked.content.decode()
    for words in (
        "Approve 5, USD\N{NO-BREAK SPACE}381,201?",
        "With Cobalt Bay TV and Quill",
        "3 approved, USD\N{NO-BREAK SPACE}181,200; 2 wait for a second approver",
        "Fine.",
    ):
        assert words in page, words
    assert not DecisionBatch.objects.exists(), "asking keeps nothing"

    kept = client.post(QUEUE, {**form, "confirmed": str(asked.context["batch_id"])})
    assert (
        client.post(QUEUE, {**form, "confirmed": str(asked.context["batch_id"])})["Location"]
        == kept["Location"]
    )
    waiting = client.get(kept["Location"])
    assert "5 approvals, not recorded yet" in waiting.content.decode()
    assert ">Undo" in "".join(waiting.content.decode().split())
    assert int(waiting["Refresh"]) >= 2
    assert "5 approvals, not recorded yet" in client.get(QUEUE).content.decode()
    assert not Decision.objects.exists()

    decided_later()

    told = client.get(kept["Location"])
    assert "3 approved, USD\N{NO-BREAK SPACE}181,200; 2 wait for a second approver" in told.content.decode()
    assert "Refresh" not in told
    assert "not recorded yet" not in client.get(QUEUE).content.decode()
    assert signed_in(make_user("Administrator")).get(kept["Location"]).status_code == 404


@db
def test_undo_on_the_page_withdraws_it(five: list[Approval]) -> None:
    client = signed_in(make_user("Approver"))
    also = [f"{k}:{v}" for k, v in shown(*five).items()]
    report = client.post(QUEUE, {"decision": "approve", "also": also, "confirmed": "x"})["Location"]
    stranger = signed_in(make_user("Administrator"))
    assert stranger.post(report, {"act": "undo"}).status_code == 404
    assert "Undone: nothing was decided" in client.post(report, {"act": "undo"}, follow=True).content.decode()
    assert "Undone: none of 5 was decided" in client.get(report).content.decode()
    assert decided_later() == 0
    also = also[:1]
    report = client.post(QUEUE, {"decision": "approve", "also": also, "confirmed": "x"})["Location"]
    decided_later()
    assert "too late to undo" in client.post(report, {"act": "undo"}, follow=True).content.decode()


@db
def test_what_cannot_be_decided_is_left_out_and_said(desk: Desk) -> None:
    user = make_user("Approver")
    client, (good, other) = signed_in(user), questions(desk, 2)
    own = desk.ask(subject_id=ids.new_id(), requested_by=user)
    also = [f"{good.pk}:{good.evidence_digest}", f"{own.pk}:{own.evidence_digest}", f"{other.pk}:{'0' * 64}"]
    asked = client.post(QUEUE, {"decision": "approve", "also": [*also, f"{ids.new_id()}:{'0' * 64}"]})
    assert [one.row.reference for one in asked.context["taken"]] == [good.reference]
    page = asked.content.decode()
    for words in (
        "Approve 1?",
        "You asked for this yourself",
        "This is not what you were shown",
        "no such approval",
    ):
        assert words in page, words
    none = client.post(QUEUE, {"decision": "approve", "also": also[1:2]}).content.decode()
    assert "None of these can be decided by you" in none
    assert 'name="confirmed"' not in none


@db
def test_to_reject_several_a_reason_is_asked_for(desk: Desk) -> None:
    client, (one,) = signed_in(make_user("Approver")), questions(desk, 1)
    form = {"decision": "reject", "also": [f"{one.pk}:{one.evidence_digest}"], "confirmed": "x"}
    assert "Say why you reject them." in client.post(QUEUE, form).content.decode()
    assert not DecisionBatch.objects.exists()
    client.post(QUEUE, {**form, "comment": "Too dear"})
    decided_later()
    assert (one.decisions.get().verdict, one.decisions.get().comment) == ("reject", "Too dear")
