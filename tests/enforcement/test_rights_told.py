"""What the application's role may do with a record alone, in one direction, or once its time has come."""

from __future__ import annotations

import uuid
from datetime import timedelta

import psycopg
import pytest
from django.contrib.auth.models import Group
from psycopg import errors
from psycopg.types.json import Jsonb

from orders.models import Deal
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.events.models import EventStream, EventSubscription
from tasks_app.ids import first_id_at
from tasks_app.jobs.outside_event import OutsideEvent
from tasks_app.notifications.models import Notification, NotificationRead
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.people.rights import rights_recorded
from tasks_app.people.security import security_record
from tasks_app.people.security_models import SecurityEvent
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tasks_app.reconciliation.runs import run_ask
from tests.factories import make_user
from tests.operations.making import stand
from tests.operations.pausing import pause
from tests.owning import as_the_product

ENTRY = (
    "insert into tasks_app_securityevent"
    " (id, at, event, actor, actor_name, about, request, detail, born_in)"
    " values (gen_random_uuid(), now(), 'rights_changed', 'system', '', %s, '', '{}', '')"
)
CHANGES = {
    "staff": "update tasks_app_user set is_staff = not is_staff where id = %s",
    "active": "update tasks_app_user set is_active = not is_active where id = %s",
    "service": "update tasks_app_user set is_service = not is_service where id = %s",
    "its name": "update tasks_app_user set username = username || '2' where id = %s",
    "another role": "insert into tasks_app_user_groups (user_id, group_id)"
    " select %s, id from auth_group where name = 'Administrator'",
    "no role": "delete from tasks_app_user_groups where user_id = %s",
}


@pytest.fixture
def user(role: psycopg.Connection) -> User:
    return make_user("Buyer")


def rights(user: User) -> tuple[object, ...]:
    now = User.objects.get(pk=user.pk)
    roles = sorted(now.groups.values_list("name", flat=True))
    return (now.username, now.is_staff, now.is_active, now.is_service, roles)


def changed(role: psycopg.Connection, statement: str, user: User, about: str | None) -> None:
    """In one transaction, with an entry about somebody, or with none."""
    with role.transaction():
        role.execute(statement, [user.pk])
        if about is not None:
            role.execute(ENTRY, [about])


@pytest.mark.parametrize("what", CHANGES)
def test_rights_change_with_their_entry_alone(role: psycopg.Connection, user: User, what: str) -> None:
    before, statement = rights(user), CHANGES[what]
    security_record(event="rights_changed", actor="system", about=user.username)  # of another transaction
    for about in (None, "somebody else"):
        with pytest.raises(errors.InsufficientPrivilege, match="security log"):
            changed(role, statement, user, about)
    assert rights(user) == before

    changed(role, statement, user, f"{user.username}2" if what == "its name" else user.username)
    assert rights(user) != before


def test_nobody_is_added_without_an_entry(role: psycopg.Connection, user: User) -> None:
    copy = (
        "insert into tasks_app_user select (jsonb_populate_record(u, %s)).*"
        " from tasks_app_user u where id = %s"
    )
    born = Jsonb({"id": str(uuid.uuid4()), "username": "nobody"})
    with pytest.raises(errors.InsufficientPrivilege, match="security log"):
        role.execute(copy, [born, user.pk])
    assert not User.objects.filter(username="nobody").exists()


def test_the_transaction_of_an_entry_is_the_server_s_word(role: psycopg.Connection, user: User) -> None:
    role.execute(ENTRY.replace("'{}', '')", "'{}', 'another')"), [user.username])
    assert SecurityEvent.objects.exclude(born_in="another").filter(about=user.username).count() == 1


def test_what_is_no_right_needs_no_entry(role: psycopg.Connection, user: User) -> None:
    role.execute("update tasks_app_user set last_login = now(), password = 'x', is_staff = is_staff")
    assert User.objects.get(pk=user.pk).password == "x"


def test_the_product_records_what_it_changes(role: psycopg.Connection) -> None:
    user = User(username="new", is_staff=True)
    with as_the_product(), rights_recorded(user, by="system"):
        user.save()
        user.groups.add(Group.objects.get(name="Buyer"))
    with as_the_product(), rights_recorded(user, by="system"):
        user.groups.clear()
    roles = [
        one.detail["changes"]["roles"] for one in SecurityEvent.objects.filter(about="new").order_by("id")
    ]
    assert roles == [[None, ["Buyer"]], [["Buyer"], []]]


def test_a_subscriber_goes_on(role: psycopg.Connection, user: User) -> None:
    EventSubscription.objects.update_or_create(name="mine", defaults={"position": 3})
    EventStream.objects.update(head=5)
    move = "update tasks_app_eventsubscription set position = %s where name = 'mine'"
    for position in (2, 6):
        with pytest.raises(errors.InsufficientPrivilege, match="goes on"):
            role.execute(move, [position])
    role.execute(move, [5])
    assert EventSubscription.objects.get(name="mine").position == 5


def paused(kind: str = "input") -> Continuation:
    """A pause of a purchase that nobody has answered."""
    return pause(stand("input_required"), kind=kind)


def answered() -> Continuation:
    """One, answered by one person."""
    asker, pause = make_user("Administrator"), paused()
    return operation_answer(operation_id=pause.operation_id, generation=1, user=asker, text="Sweden.")


def test_an_answer_is_released_where_it_was_approved(role: psycopg.Connection, deal: Deal) -> None:
    pause = answered()
    release = "update tasks_app_continuation set released_at = now() where id = %s"
    with pytest.raises(errors.InsufficientPrivilege, match="nobody approved"):
        role.execute(release, [pause.pk])
    copy = (
        "insert into tasks_app_continuation select (jsonb_populate_record(c, %s)).*"
        " from tasks_app_continuation c"
    )
    more = {"id": str(uuid.uuid4()), "generation": 2, "released_at": clock.now().isoformat()}
    with pytest.raises(errors.InsufficientPrivilege, match="nobody approved"):
        role.execute(copy, [Jsonb(more)])
    assert Continuation.objects.get().released_at is None

    approval_decide(approval_id=Approval.objects.get().pk, user=make_user("Approver"), verdict="approve")
    assert Continuation.objects.get().released_at is not None


@pytest.mark.parametrize("of", ["no team", "no words"])
def test_nor_is_one_without_a_team_or_without_words(role: psycopg.Connection, deal: Deal, of: str) -> None:
    """Two people look at what may move money, whoever's it is."""
    pause = answered() if of == "no team" else paused("auth")
    if of == "no team":
        Operation.objects.filter(pk=pause.operation_id).update(team=None)
    with pytest.raises(errors.InsufficientPrivilege, match="nobody approved"):
        role.execute("update tasks_app_continuation set released_at = now() where id = %s", [pause.pk])


@pytest.fixture
def young(role: psycopg.Connection, deal: Deal) -> None:
    """One row of each that is forgotten in its time, and written now."""
    user = make_user("Buyer")
    note = Notification.objects.create(kind="test", title="new", level="info", team=deal.team)
    NotificationRead.objects.create(notification=note, user=user)
    OutsideEvent.objects.create(team=deal.team, name="n", idempotency_key="k", digest="d", delivered_by="x")
    for _ in range(2):
        ReconciliationRun.objects.create(state="ended", ended_at=clock.now())


def test_nothing_young_is_forgotten(role: psycopg.Connection, young: None) -> None:
    later = clock.now() + timedelta(days=9)
    for name, before in (
        ("notifications", first_id_at(later)),
        ("outside", later),
        ("reconciliation", later),
    ):
        gone = role.execute(f"select fd_{name}_forget(%s, 1000)", [before]).fetchone()
        assert gone == (0,), name
    for model, count in (
        (Notification, 1),
        (NotificationRead, 1),
        (OutsideEvent, 1),
        (ReconciliationRun, 2),
        (ReconciliationFinding, 0),
    ):
        assert model.objects.count() == count


LONG_AGO = "2020-01-01T00:00:00Z"
_COPY = "insert into {table} select (jsonb_populate_record(r, %s)).* from {table} r limit 1"
_ENDED = "select state, asked_at > now() - interval '1 hour' from tasks_app_reconciliationrun where id = %s"


def forgotten(role: psycopg.Connection) -> int:
    gone = role.execute("select fd_reconciliation_forget(now(), 1000)").fetchone()
    return int(gone[0]) if gone else -1


def test_a_report_is_not_dated_back(role: psycopg.Connection, deal: Deal) -> None:
    """When it was asked for is the server's word, and stays: else it could be removed on the same day."""
    with as_the_product():
        run = run_ask(trigger="hand", actor="system")
    with pytest.raises(errors.InsufficientPrivilege):
        role.execute("update tasks_app_reconciliationrun set asked_at = %s", [LONG_AGO])
    old = {"id": str(uuid.uuid4()), "asked_at": LONG_AGO, "state": "ended"}
    role.execute(_COPY.format(table="tasks_app_reconciliationrun"), [Jsonb(old)])
    assert role.execute(_ENDED, [old["id"]]).fetchone() == ("ended", True)
    role.execute("update tasks_app_reconciliationrun set state = 'ended', ended_at = now()")
    with as_the_product():
        run_ask(trigger="hand", actor="system")
    assert forgotten(role) == 0
    assert ReconciliationRun.objects.filter(pk=run.pk).exists()


def test_a_finding_is_not_resolved_in_the_past(role: psycopg.Connection, deal: Deal) -> None:
    """Neither where it is resolved now, nor where it was before, nor as one that never was open."""
    found = ReconciliationFinding.objects.create(
        seller=deal.seller, kind="task", verdict="unknown_there", theirs="t", digest="d"
    )
    resolve = "update tasks_app_reconciliationfinding set resolved_at = %s, resolution = 'seen'"
    for _ in range(2):  # open, then resolved
        role.execute(resolve, [LONG_AGO])
        assert forgotten(role) == 0
    more = {"id": str(uuid.uuid4()), "resolved_at": LONG_AGO}
    role.execute(_COPY.format(table="tasks_app_reconciliationfinding"), [Jsonb(more)])
    assert forgotten(role) == 0
    assert ReconciliationFinding.objects.count() == 2
    # Another change of what was resolved leaves the time: it is still forgotten when that is past.
    ReconciliationFinding.objects.filter(pk=found.pk).update(resolved_at=LONG_AGO, last_seen_at=LONG_AGO)
    role.execute("update tasks_app_reconciliationfinding set note = 'x' where id = %s", [found.pk])
    assert forgotten(role) == 1
