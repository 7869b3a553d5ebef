"""How a contradiction was resolved is what people decided; the application makes nothing else of it."""

from __future__ import annotations

import uuid

import psycopg
import pytest
from psycopg import errors
from psycopg.types.json import Jsonb

from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import OperationStatus as S
from tasks_app.role_rights import TABLES
from tests.factories import make_user
from tests.operations.making import answer, see, stand
from tests.owning import as_the_product

pytestmark = pytest.mark.all_cases

# Another value of each column that the role may write at all.
OTHER = {
    "resolution": "'taken'",
    "resolved_by": "'system'",
    "resolved_at": "now() - interval '1 year'",
    "reason": "'Never said.'",
    "note": "note || 'more'",
    "asked_by": "'system'",
    "asked_at": "now()",
    "more": "more + 1",
}
FREE = {"note", "asked_by", "asked_at", "more"}
_ALL = "update tasks_app_conflict set "
_RESOLVE = _ALL + "resolution = %s, resolved_by = %s, resolved_at = now(), reason = 'So.'"
_OPEN_AGAIN = _ALL + "resolution = '', resolved_by = '', resolved_at = null"


@pytest.fixture
def conflict(role: psycopg.Connection) -> Conflict:
    see(stand(S.SUBMITTED), answer("working", task_id="another"), "poll")
    return Conflict.objects.get()


def decide(verdict: str = "approve") -> str:
    """Answers who did."""
    asked, user = Approval.objects.get(kind="conflict", status="open"), make_user("Approver")
    with as_the_product():
        approval_decide(approval_id=asked.pk, user=user, verdict=verdict, comment="So.")
    return f"human:{user.pk}"


def how(conflict: Conflict) -> tuple[object, ...]:
    fields = ("resolution", "resolved_by", "resolved_at", "reason")
    return Conflict.objects.filter(pk=conflict.pk).values_list(*fields).get()


def refused(role: psycopg.Connection, statement: str, *values: object) -> None:
    with pytest.raises(errors.InsufficientPrivilege, match="conflict"):
        role.execute(statement, values)


def test_every_column_that_the_role_may_write_is_tried() -> None:
    assert set(TABLES["tasks_app_conflict"].columns) == set(OTHER)


@pytest.mark.parametrize("resolved", [False, True], ids=["open", "resolved"])
@pytest.mark.parametrize("column", OTHER)
def test_how_it_was_resolved_is_kept(
    role: psycopg.Connection, conflict: Conflict, column: str, resolved: bool
) -> None:
    if resolved:
        decide()
    before, statement = how(conflict), f"{_ALL}{column} = {OTHER[column]}"
    if column in FREE:
        role.execute(statement)
    else:
        refused(role, statement)
    assert how(conflict) == before


@pytest.mark.parametrize("resolution", ["kept", "taken"])
def test_nobody_resolves_it_but_by_a_decision(
    role: psycopg.Connection, conflict: Conflict, resolution: str
) -> None:
    for who in ("system", f"human:{make_user('Approver').pk}"):
        refused(role, _RESOLVE, resolution, who)
    assert how(conflict) == ("", "", None, "")


def test_it_is_not_opened_again_without_asking_people(role: psycopg.Connection, conflict: Conflict) -> None:
    decide()
    before = how(conflict)
    refused(role, _OPEN_AGAIN)
    refused(role, _OPEN_AGAIN + ", reason = ''")
    assert how(conflict) == before


def test_the_time_of_a_decision_is_the_server_s(role: psycopg.Connection, conflict: Conflict) -> None:
    decide()
    at = "select resolved_at > now() - interval '1 hour' from tasks_app_conflict"
    assert role.execute(at).fetchone() == (True,)


@pytest.mark.parametrize(
    "born",
    [
        {"resolution": "kept", "resolved_by": "system", "resolved_at": "2030-01-01T00:00:00Z"},
        {
            "resolution": "taken",
            "resolved_by": "system",
            "resolved_at": "2030-01-01T00:00:00Z",
            "reason": "x",
        },
        {"resolved_by": "system", "resolved_at": "2030-01-01T00:00:00Z", "reason": "x"},
        {"reason": "Never said."},
    ],
    ids=["kept", "taken", "unsaid", "reason"],
)
def test_none_is_born_resolved(role: psycopg.Connection, conflict: Conflict, born: dict[str, str]) -> None:
    copy = "insert into tasks_app_conflict select (jsonb_populate_record(c, %s)).* from tasks_app_conflict c"
    own = {"id": str(uuid.uuid4()), "reference": "CFL-2", "digest": "another", "kind": "key"}
    refused(role, copy, Jsonb({**own, **born}))
    claimed = {"resolution": "kept", "resolved_by": "system", "resolved_at": "2030-01-01T00:00:00Z"}
    role.execute(copy, [Jsonb({**own, **claimed, "reason": "mb-2 is unclaimed"})])
    assert Conflict.objects.count() == 2
