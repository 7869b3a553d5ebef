"""transition(): everything in one commit, or nothing at all."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import structlog
from django.db import transaction

from orders.models import Deal, DealStatus
from tasks_app import clock, ids
from tasks_app.lifecycle import guards
from tasks_app.lifecycle.errors import InvalidTransitionError, StaleVersionError, UnknownStatusError
from tasks_app.lifecycle.models import OutboxEvent
from tasks_app.lifecycle.transitions import create, create_many, transition
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.people.actors import UnknownActorError
from tests.factories import make_deal, make_user
from tests.lifecycle.entities import make_job, make_step, trail, written

pytestmark = pytest.mark.django_db


def stored(deal: Deal) -> dict[str, Any]:
    return Deal.objects.filter(pk=deal.pk).values().get()


def test_creation_is_entry_one() -> None:
    deal = make_deal()
    (entry,) = trail(deal)
    assert (entry.seq, entry.from_status, entry.to_status, entry.actor) == (1, "", "quoted", "system")
    assert bytes(entry.prev_hash) == b""
    event = OutboxEvent.objects.get(entity_type="deal", entity_id=deal.pk)
    assert (event.type, event.seq, event.payload["to"]) == ("deal.quoted", 1, "quoted")


def test_a_transition_writes_status_changes_entry_and_event() -> None:
    deal = make_deal()
    user = make_user("Approver")
    before = datetime.now(UTC)
    with structlog.contextvars.bound_contextvars(request_id="req-7"):
        version = transition(
            deal,
            DealStatus.ACCEPTED,
            actor=user,
            reason="Good price",
            metadata={"approval": "APR-1", "amount": Decimal("10.50"), "at": before},
            changes={"media_buy_id": "mb-1", "valid_actions": {"hold": "48h"}},
        )
    row = stored(deal)
    assert (row["status"], row["version"], row["media_buy_id"], row["valid_actions"]) == (
        "accepted",
        2,
        "mb-1",
        {"hold": "48h"},
    )
    assert (deal.status, deal.version, deal.media_buy_id) == ("accepted", 2, "mb-1")
    assert version == 2
    entry = trail(deal)[-1]
    assert (entry.seq, entry.from_status, entry.to_status) == (2, "quoted", "accepted")
    assert (entry.actor, entry.reason, entry.trace_id) == (f"human:{user.pk}", "Good price", "req-7")
    assert entry.metadata == {"approval": "APR-1", "amount": "10.50", "at": before.isoformat()}
    assert entry.changes == {"media_buy_id": ["", "mb-1"], "valid_actions": [[], {"hold": "48h"}]}
    assert before <= entry.at <= datetime.now(UTC)
    assert row["status_since"] == deal.status_since == entry.at
    event = OutboxEvent.objects.get(entity_id=deal.pk, seq=2)
    assert (event.type, event.at) == ("deal.accepted", entry.at)
    assert event.payload == {"from": "quoted", "to": "accepted", "actor": f"human:{user.pk}"}
    assert verify_entity("deal", deal.pk).ok


def test_without_a_reason_the_edges_description_stands() -> None:
    deal = make_deal()
    transition(deal, DealStatus.ACCEPTED, actor="system")
    assert trail(deal)[-1].reason == "Quote accepted without negotiation"


def test_an_injected_clock_stamps_the_entry() -> None:
    moment = datetime(2031, 5, 1, 12, tzinfo=UTC)
    deal = make_deal()
    with clock.injected(lambda: moment):
        transition(deal, DealStatus.ACCEPTED, actor="system")
    assert trail(deal)[-1].at == moment


def always(answer: bool | str) -> guards.Guard:
    return lambda *_: answer


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> list[guards.Guard]:
    """The guards of quoted → accepted, for this test alone."""
    registered: list[guards.Guard] = []
    monkeypatch.setitem(guards._guards, ("deal", "quoted", "accepted"), registered)
    return registered


REFUSALS: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "an undeclared edge": (InvalidTransitionError, "no matching transition rule", {"to": "completed"}),
    "back to itself": (InvalidTransitionError, "no matching transition rule", {"to": "quoted"}),
    "an unknown status": (UnknownStatusError, "is not a status of deal", {"to": "sold"}),
    "a stale version": (StaleVersionError, "version is 1, not 7", {"expected_version": 7}),
    "an actor of no kind": (UnknownActorError, "is not an actor", {"actor": "root"}),
    "an actor with a line break": (UnknownActorError, "is not an actor", {"actor": "human:x\n"}),
    "a float in the metadata": (TypeError, "cannot be recorded exactly", {"metadata": {"cpm": 1.5}}),
    "a value of no JSON kind": (TypeError, "cannot be recorded", {"metadata": {"what": object()}}),
    "the status among the changes": (
        TypeError,
        "status cannot be written",
        {"changes": {"status": "booked"}},
    ),
    "the version among the changes": (TypeError, "version cannot", {"changes": {"version": 9}}),
    "the time among the changes": (TypeError, "status_since", {"changes": {"status_since": None}}),
    "not a number among the changes": (
        ValueError,
        "not JSON compliant",
        {"changes": {"terms": {"cpm": float("nan")}}},
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_changes_nothing(case: str) -> None:
    error, words, arguments = REFUSALS[case]
    deal = make_deal()
    row, before = stored(deal), written()
    with pytest.raises(error, match=words):
        transition(deal, **{"to": DealStatus.ACCEPTED, "actor": "system", **arguments})
    assert stored(deal) == row
    assert written() == before
    assert (deal.status, deal.version) == ("quoted", 1)


def test_a_refusal_names_what_would_be_allowed() -> None:
    deal = make_deal()
    with pytest.raises(InvalidTransitionError) as refused:
        transition(deal, DealStatus.COMPLETED, actor="system")
    assert str(refused.value) == (
        f"Cannot transition deal {deal.pk} from quoted to completed: no matching transition rule"
    )
    assert set(refused.value.allowed) == {"negotiating", "accepted", "failed", "cancelled", "expired"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [(False, "guard condition failed"), ("", "guard condition failed"), ("too dear", "too dear")],
)
def test_a_guard_stops_it_and_says_why(guarded: list[guards.Guard], answer: bool | str, why: str) -> None:
    deal = make_deal()
    before = written()
    guarded += [always(True), always(answer)]
    with pytest.raises(InvalidTransitionError, match=why):
        transition(deal, DealStatus.ACCEPTED, actor="system")
    assert (stored(deal)["status"], written()) == ("quoted", before)


def test_a_guard_is_told_the_edge_and_the_context(guarded: list[guards.Guard]) -> None:
    deal = make_deal()
    told: list[Any] = []

    def listens(entity_id: str, frm: str, to: str, context: Any) -> bool:
        told.extend([entity_id, frm, to, context["budget"], context["entity"]])
        return True

    guarded.append(listens)
    transition(deal, DealStatus.ACCEPTED, actor="system", context={"budget": 5, "entity": "not this"})
    assert told == [str(deal.pk), "quoted", "accepted", 5, deal]


def test_a_guard_belongs_to_a_declared_edge() -> None:
    with pytest.raises(ValueError, match="has no edge"):
        guards.guard_register(entity="deal", from_status="booked", to_status="quoted", guard=always(True))


@pytest.mark.parametrize(
    ("role", "to", "allowed"),
    [
        ("Approver", DealStatus.ACCEPTED, True),
        ("Buyer", DealStatus.ACCEPTED, False),
        ("Finance", DealStatus.ACCEPTED, False),
        # A right told by a function: deciding or cancelling, either will do.
        ("Approver", DealStatus.CANCELLED, True),
        ("Buyer", DealStatus.CANCELLED, True),
        ("Auditor", DealStatus.CANCELLED, False),
        # No right is declared for these: people are denied, whoever they are.
        ("Administrator", DealStatus.NEGOTIATING, False),
        ("Approver", DealStatus.EXPIRED, False),
    ],
)
def test_what_people_may_do(role: str, to: str, allowed: bool) -> None:
    deal = make_deal()
    user = make_user(role)
    if allowed:
        transition(deal, to, actor=user)
        assert stored(deal)["status"] == to
        return
    before = written()
    with pytest.raises(InvalidTransitionError, match="no right"):
        transition(deal, to, actor=user)
    assert (stored(deal)["status"], written()) == ("quoted", before)


@pytest.mark.parametrize("who", ["switched off", "of nobody", "no id at all", "superuser"])
def test_a_key_is_no_right(who: str) -> None:
    user = make_user("Approver")
    user.is_active = who != "switched off"
    user.is_superuser = who == "superuser"
    user.save()
    key = {"of nobody": f"human:{make_job().pk}", "no id at all": "human:root"}.get(who, f"human:{user.pk}")
    deal = make_deal()
    # A superuser has every right there is, and there is none to this edge.
    to = DealStatus.NEGOTIATING if who == "superuser" else DealStatus.ACCEPTED
    with pytest.raises(InvalidTransitionError, match="no right"):
        transition(deal, to, actor=key)
    assert stored(deal)["status"] == "quoted"


def test_a_stale_instance_is_refused() -> None:
    deal = make_deal()
    stale = Deal.objects.get(pk=deal.pk)
    transition(deal, DealStatus.NEGOTIATING, actor="system")
    before = written()
    with pytest.raises(StaleVersionError, match="changed by somebody else"):
        transition(stale, DealStatus.ACCEPTED, actor="system")
    assert (stored(deal)["status"], written(), stale.status) == ("negotiating", before, "quoted")


def test_the_same_status_at_another_version_is_stale_too() -> None:
    deal = make_deal()
    stale = Deal.objects.get(pk=deal.pk)
    for to in (DealStatus.NEGOTIATING, DealStatus.QUOTED):
        transition(deal, to, actor="system")
    with pytest.raises(StaleVersionError):
        transition(stale, DealStatus.ACCEPTED, actor="system")


class RolledBackError(Exception):
    """Raised to undo a transaction."""


def test_a_rollback_leaves_nothing() -> None:
    deal = make_deal()
    row, before = stored(deal), written()

    @transaction.atomic
    def move_and_fail() -> None:
        transition(deal, DealStatus.ACCEPTED, actor="system", changes={"media_buy_id": "mb-1"})
        raise RolledBackError

    with pytest.raises(RolledBackError):
        move_and_fail()
    assert (stored(deal), written()) == (row, before)
    # The instance remembers what never was; it is refused, not believed, until it is read again.
    with pytest.raises(StaleVersionError):
        transition(deal, DealStatus.CANCELLED, actor="system")
    deal.refresh_from_db()
    assert (deal.status, deal.version, deal.media_buy_id) == ("quoted", 1, "")
    transition(deal, DealStatus.CANCELLED, actor="system")
    assert verify_entity("deal", deal.pk).ok


def test_a_steps_self_transition_writes_nothing() -> None:
    step = make_step()
    before = written()
    assert transition(step, "received", actor="system") == 1
    assert written() == before
    with pytest.raises(TypeError, match="writes nothing"):
        transition(step, "received", actor="system", changes={"error": "lost"})
    step.refresh_from_db()
    assert (step.version, step.error) == (1, "")


def test_a_self_transition_of_what_somebody_moved_meanwhile_is_stale() -> None:
    step = make_step()
    stale = type(step).objects.get(pk=step.pk)
    transition(step, "queued", actor="system")

    with pytest.raises(StaleVersionError, match="somebody else"):
        transition(stale, "received", actor="system")
    with pytest.raises(StaleVersionError):
        transition(step, "queued", actor="system", expected_version=1)
    assert transition(step, "queued", actor="system") == 2


def test_a_person_who_acts_on_something_else_needs_a_right_of_that_act() -> None:
    deal, buyer = make_deal(), make_user("Finance")
    with pytest.raises(InvalidTransitionError, match="no right"):
        transition(deal, DealStatus.CANCELLED, actor=buyer, rights=["tasks_app.steer_job"])
    assert transition(deal, DealStatus.CANCELLED, actor=buyer, rights=["orders.view_deal"]) == 2


def test_entities_begin_at_the_beginning() -> None:
    job = make_job()
    before = written()
    for wrong in ({"status": "COMPLETED"}, {"version": 3}):
        copy = type(job)(reference=f"J{wrong}"[:20], plan={}, recipe_version=1, team=job.team, **wrong)
        with pytest.raises(InvalidTransitionError, match="begins in its initial status"):
            create(copy, actor="system", reason="Forged")
    create_many([], actor="system", reason="None")
    assert written() == before


def test_refreshing_reads_status_and_columns_in_one_moment(django_assert_num_queries: Any) -> None:
    deal = make_deal()
    transition(
        Deal.objects.get(pk=deal.pk),
        DealStatus.ACCEPTED,
        actor="system",
        changes={"media_buy_status": "paused"},
    )
    with django_assert_num_queries(1):
        deal.refresh_from_db()
        assert (deal.status, deal.version, deal.media_buy_status) == ("accepted", 2, "paused")
    with django_assert_num_queries(1):
        deal.refresh_from_db(fields=["status"])
    deal.refresh_from_db(fields=["terms"])
    with pytest.raises(AttributeError):
        deal.status = "booked"
    gone = Deal.objects.get(pk=deal.pk)
    gone.pk = ids.new_id()
    with pytest.raises(Deal.DoesNotExist):
        gone.refresh_from_db()
    assert gone.status == "accepted"


def test_a_deferred_status_is_read_when_it_is_asked_for() -> None:
    deal = Deal.objects.defer("status").get(pk=make_deal().pk)
    assert "status" in deal.get_deferred_fields()
    assert deal.status == "quoted"
    transition(deal, DealStatus.ACCEPTED, actor="system")
    assert deal.status == "accepted"
