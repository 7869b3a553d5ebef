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
from tasks_app.operations.models import Operation
from tasks_app.people.actors import UnknownActorError
from tasks_app.sellers.models import Account
from tests.factories import make_account, make_advertiser, make_deal, make_seller, make_user
from tests.lifecycle.entities import make_approval, make_job, make_operation, make_step, trail, written

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
            changes={"media_buy_id": "mb-1", "terms": {"hold": "48h"}},
        )
    row = stored(deal)
    assert (row["status"], row["version"], row["media_buy_id"], row["terms"]) == (
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
    assert entry.changes == {"media_buy_id": ["", "mb-1"], "terms": [{}, {"hold": "48h"}]}
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


def test_entities_begin_at_the_beginning() -> None:
    job = make_job()
    before = written()
    for wrong in ({"status": "COMPLETED"}, {"version": 3}):
        copy = type(job)(reference=f"J{wrong}"[:20], plan={}, recipe_version=1, team=job.team, **wrong)
        with pytest.raises(InvalidTransitionError, match="begins in its initial status"):
            create(copy, actor="system", reason="Forged")
    create_many([], actor="system", reason="None")
    assert written() == before


# What comes back from the database after a transition wrote it.
ROUND_TRIPS: list[tuple[str, Any, Any]] = [
    ("error", {"code": "X", "n": 0.1, "none": None, "deep": [{"a": [1, 2.5, True]}]}, None),
    ("result", {}, None),
    ("result", [], None),
    ("result", "text", None),
    ("result", 0, None),
    ("result", False, None),
    ("result", None, None),
    ("result", {"big": 2**70, "small": 1e-9, "whole": 1.0, "quote": "'\"\\ %s $1 {0}"}, None),
    ("message", "naïve — 漢字 \U0001f680\n\t'; drop table orders_deal; --", None),
    ("message", "", None),
    ("message", "a\x00b\ud800c", "a\ufffdb\ufffdc"),
    ("result", {"k\x00": "v\x00"}, {"k\ufffd": "v\ufffd"}),
    ("attempts", 3, None),
    ("settled_at", datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), None),
    ("settled_at", None, None),
    ("task_id", "task'; --", None),
]


@pytest.mark.parametrize(("name", "value", "comes_back"), ROUND_TRIPS)
def test_changes_come_back_as_they_went(name: str, value: Any, comes_back: Any) -> None:
    operation = make_operation()
    transition(operation, "calling_adcp", actor="system", changes={name: value})
    found = Operation.objects.get(pk=operation.pk)
    wanted = value if comes_back is None else comes_back
    assert getattr(found, name) == wanted
    assert type(getattr(found, name)) is type(wanted)
    assert verify_entity("operation", operation.pk).ok


def test_several_changes_at_once_and_foreign_keys() -> None:
    deal = make_deal(account=False)
    account = make_account(make_advertiser(), deal.seller)
    transition(
        deal,
        DealStatus.ACCEPTED,
        actor="system",
        changes={"account": account, "revision": 4, "valid_actions": ["cancel"], "zone": "UTC"},
    )
    found = Deal.objects.get(pk=deal.pk)
    assert (found.account, found.revision, found.valid_actions, found.zone) == (account, 4, ["cancel"], "UTC")
    assert trail(deal)[-1].changes["account_id"] == [None, str(account.pk)]
    transition(deal, DealStatus.CANCELLED, actor="system", changes={"account": None})
    assert Deal.objects.get(pk=deal.pk).account is None
    assert Account.objects.filter(pk=account.pk).exists()


@pytest.mark.parametrize("amount", ["0.0001", "1.2300", "12345678901234.5678", None])
def test_decimals_are_exact(amount: str | None) -> None:
    """The value before stands in the trail as a number: it is read back exactly, not as a float."""
    exact = Decimal(amount) if amount else None
    approval = make_approval(amount=exact)
    transition(approval, "voided", actor="system", changes={"amount": Decimal("99999999999999.9999")})
    assert type(approval).objects.get(pk=approval.pk).amount == Decimal("99999999999999.9999")
    assert verify_entity("approval", approval.pk).ok


def test_encrypted_columns_stay_out_of_the_trail() -> None:
    operation = make_operation(
        "buy", task_type="create_media_buy", seller=make_seller(webhook_mode="rfc9421")
    )
    row = Operation.objects.filter(pk=operation.pk).values("webhook_token", "request_text").get()
    for name in row:
        with pytest.raises(TypeError, match="cannot be written with a status change"):
            transition(operation, "calling_adcp", actor="system", changes={name: "known"})
    transition(operation, "calling_adcp", actor="system", changes={"attempts": 1})
    # Written back with the row, an encrypted column keeps its text.
    assert Operation.objects.filter(pk=operation.pk).values("webhook_token", "request_text").get() == row
    kept = " ".join(str(entry.changes) + str(entry.metadata) for entry in trail(operation))
    assert operation.webhook_token
    assert operation.webhook_token not in kept


def test_large_values_are_named_by_digest() -> None:
    operation = make_operation()
    transition(operation, "calling_adcp", actor="system", changes={"result": {"products": ["x" * 5000]}})
    _, after = trail(operation)[-1].changes["result"]
    assert set(after) == {"sha256", "bytes"}
    assert Operation.objects.get(pk=operation.pk).result == {"products": ["x" * 5000]}
    assert verify_entity("operation", operation.pk).ok


def test_a_field_that_is_not_there_is_refused_before_anything_is_written() -> None:
    deal = make_deal()
    before = written()
    for name in ("nothing", "status = 'booked' --", 'terms" = 1'):
        with pytest.raises(Exception, match="has no field named"):
            transition(deal, DealStatus.ACCEPTED, actor="system", changes={name: 1})
    assert (stored(deal)["status"], written()) == ("quoted", before)


def test_a_change_that_breaks_a_rule_of_the_table_changes_nothing() -> None:
    deal = make_deal()
    row, before = stored(deal), written()
    with pytest.raises(Exception, match="deal_flight"), transaction.atomic():
        transition(deal, DealStatus.ACCEPTED, actor="system", changes={"end_at": deal.start_at})
    assert (stored(deal), written(), deal.status) == (row, before, "quoted")


def test_refreshing_reads_status_and_columns_in_one_moment(django_assert_num_queries: Any) -> None:
    deal = make_deal()
    transition(Deal.objects.get(pk=deal.pk), DealStatus.ACCEPTED, actor="system", changes={"zone": "UTC"})
    with django_assert_num_queries(1):
        deal.refresh_from_db()
        assert (deal.status, deal.version, deal.zone) == ("accepted", 2, "UTC")
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
