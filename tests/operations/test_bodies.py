"""What was received is kept whole once: a seller that says the same for ever, or ever other things, fills no
disk, and no end and no question to people loses a word."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum
from django.db.models.expressions import RawSQL
from django.test.utils import CaptureQueriesContext
from psycopg import ClientCursor

from tasks_app.adcp.types import Seen
from tasks_app.operations import bodies
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.converge import observe_many
from tasks_app.operations.models import Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tests.operations.making import BOUGHT, TASK, answer, fresh, see, silent, stand

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
ALLOWED = 200_000


def words(size: int = 15_000) -> dict[str, Any]:
    """20 kB that cannot be pressed together."""
    return {"status": "working", "message": base64.b64encode(os.urandom(size)).decode()}


def poll(operation: Operation, body: dict[str, Any], status: str = "working", **told: Any) -> Observation:
    seen: Observation = see(operation, answer(status, task_id=TASK, raw=body, **told), "poll")
    return Observation.objects.get(pk=seen.pk)


def fill(operation: Operation, *status: str, **told: Any) -> None:
    """Say ever other things of it, until no more is kept."""
    for _ in range(ALLOWED // 20_000 + 1):
        poll(operation, words(), *status, **told)


def kept(operation: Operation) -> int:
    held = RawSQL("pg_column_size(body)", [])
    return int(operation.observations.annotate(held=held).aggregate(Sum("held"))["held__sum"] or 0)


def test_however_many_looks_say_the_same_it_is_kept_once() -> None:
    operation, body = stand(S.SUBMITTED), words()
    first = poll(operation, body)
    size = kept(operation)
    for _ in range(299):
        last = poll(operation, body)

    assert kept(operation) == size
    assert (first.body, first.note) == (body, "")
    assert (last.outcome, last.body, last.note) == ("duplicate", None, bodies.SAME)
    assert (last.status, last.digest) == ("working", first.digest)
    assert operation.observations.filter(channel="poll").count() == 300, "that it was said, and when"
    assert fresh(operation).polls == 299


def test_looks_that_say_ever_other_things_are_kept_so_far(settings: Any) -> None:
    settings.OBSERVED_BYTES = ALLOWED
    operation = stand(S.SUBMITTED)
    seen = [poll(operation, words(), ("working", "submitted")[number % 2]) for number in range(60)]

    assert kept(operation) <= ALLOWED
    assert seen[0].body is not None
    assert (seen[-1].outcome, seen[-1].body, seen[-1].note) == ("applied", None, bodies.FULL)
    assert fresh(operation).status == S.SUBMITTED, "it has its effect all the same"


def test_many_small_ones_count_with_what_their_rows_take(settings: Any) -> None:
    settings.OBSERVED_BYTES = 40 * 1024
    operation = stand(S.SUBMITTED)
    seen = [poll(operation, {"status": "working", "number": number}) for number in range(60)]
    assert sum(one.body is not None for one in seen) == 40


def test_what_was_said_before_something_else_is_kept_again() -> None:
    operation, one, other = stand(S.SUBMITTED), words(), words()
    see(operation, silent(), "poll")
    told = [poll(operation, body).body for body in (one, one, other, other, one)]
    assert told == [one, None, other, None, one]


def test_the_end_and_what_was_missing_of_it_are_whole_whatever_came_before(settings: Any) -> None:
    settings.OBSERVED_BYTES = ALLOWED
    operation = stand(S.SUBMITTED)
    fill(operation)
    bare, full = {"status": "completed"}, {"status": "completed", "result": BOUGHT}
    end = see(operation, answer("completed", task_id=TASK, raw=bare, partial=True, payload=None), "poll")
    rest = poll(operation, full, "completed")

    assert (end.outcome, end.body) == ("applied", bare)
    assert (rest.outcome, rest.body, rest.note) == ("applied", full, "the result that was missing")
    assert fresh(operation).result == BOUGHT


def contradict(operation: Operation, body: dict[str, Any]) -> Observation:
    return poll(operation, body, "completed", payload={"media_buy_id": "mb-2"})


def test_a_contradiction_is_kept_each_time_it_is_told() -> None:
    operation, other = stand(S.COMPLETED), {**words(), "media_buy_id": "mb-2"}
    twice = [contradict(operation, other) for _ in range(2)]
    assert [(one.outcome, one.body) for one in twice] == [("conflict", other)] * 2, "the same again, too"


def test_people_are_asked_about_all_of_a_contradiction_whatever_came_before(settings: Any) -> None:
    settings.OBSERVED_BYTES = ALLOWED
    operation, other = stand(S.COMPLETED), {**words(), "media_buy_id": "mb-2"}
    fill(operation, "completed", payload=BOUGHT)
    seen = contradict(operation, other)

    assert (seen.outcome, seen.body) == ("conflict", None)
    assert seen.note.endswith(bodies.FULL)
    assert Conflict.objects.get(operation=operation).second["body"] == other


def working(operation: Operation, number: int) -> Seen:
    return answer("working", task_id=operation.task_id, raw={"status": "working", "number": number})


def test_a_batch_asks_once_what_is_kept_of_all() -> None:
    """Whatever its size: what each says is compared and measured in one statement."""
    asked = []
    for size in (2, 12):
        operations = [stand(S.SUBMITTED, task_id=f"t-{size}-{number}") for number in range(size)]
        for number, operation in enumerate(operations):
            see(operation, working(operation, number), "poll")
        again = {one.pk: (working(one, number // 2), "poll") for number, one in enumerate(operations)}
        with CaptureQueriesContext(connection) as caught:
            seen = observe_many(again)
        asked.append(len(caught))
        assert [one.note for one in seen if one.body is None] == [bodies.SAME], "the first says the same"
        assert len([one for one in seen if one.body is not None and not one.note]) == size - 1
    assert asked[0] == asked[1]


MEASURES, INSERTS = "unnest(%(operations)s", 'INSERT INTO "tasks_app_observation"'


@contextmanager
def measured(statement: str = MEASURES) -> Iterator[list[int]]:
    """The bytes on the wire of each such statement."""
    sizes: list[int] = []

    def execute(run: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if statement in sql:
            sizes.append(len(ClientCursor(connection.connection).mogrify(sql, params).encode()))
        return run(sql, params, many, context)

    with connection.execute_wrapper(execute):
        yield sizes


def looks_at(number: int, message: str, status: str = "working") -> dict[Any, tuple[Seen, str]]:
    found = [stand(S.SUBMITTED, task_id=f"t-{one}") for one in range(number)]
    body = {"status": status, "message": message}
    told = {"payload": BOUGHT} if status == "completed" else {}
    return {one.pk: (answer(status, task_id=one.task_id, raw=body, **told), "poll") for one in found}


LETTERS = pytest.mark.parametrize(
    "letter", ["x", "é", '"', "\\"], ids=["plain", "escaped", "quote", "backslash"]
)


@LETTERS
def test_no_statement_carries_more_bodies_than_it_should(
    letter: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_STATEMENT", 100_000)
    settings.OBSERVED_BYTES = ALLOWED
    told = looks_at(12, letter * 4_000)
    with measured() as sizes:
        seen = observe_many(told)
    assert max(sizes) < 101_000 + 12 * 50
    assert 1 < len(sizes) <= 12 or (letter, len(sizes)) == ("x", 1)
    assert [one.note for one in seen if one.body is None] == []


@LETTERS
def test_no_statement_inserts_more_bodies_than_it_should(
    letter: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do those that are kept whatever was before go together, a gigabyte of them."""
    monkeypatch.setattr(bodies, "_STATEMENT", 20_000)
    settings.OBSERVED_BYTES = 1_000
    told = looks_at(12, letter * 4_000, "completed")
    with measured(INSERTS) as sizes:
        seen = observe_many(told)
    assert 2 < len(sizes) <= 12
    assert max(sizes) < 21_000 + 12 * 1_000
    stored = Observation.objects.filter(pk__in=[one.pk for one in seen]).values_list(
        "body__message", flat=True
    )
    assert list(stored) == [letter * 4_000] * 12


def test_what_fits_together_is_inserted_together() -> None:
    told = looks_at(12, "x")
    with measured(INSERTS) as sizes:
        observe_many(told)
    assert len(sizes) == 1


def test_a_body_that_no_allowance_holds_is_not_sent_to_be_measured(settings: Any) -> None:
    settings.OBSERVED_BYTES = ALLOWED
    told = looks_at(5, "x" * (ALLOWED + 1))
    with measured() as sizes:
        seen = observe_many(told)
    assert sizes == []
    assert [(one.body, one.note) for one in seen] == [(None, bodies.FULL)] * 5
    assert {one.outcome for one in seen} == {"applied"}, "each has its effect"


def test_a_batch_keeps_what_each_has_room_for(settings: Any) -> None:
    settings.OBSERVED_BYTES = ALLOWED
    full, other = stand(S.SUBMITTED), stand(S.SUBMITTED, task_id="t-other")
    fill(full)
    told = {one.pk: (answer("working", task_id=one.task_id, raw=words()), "poll") for one in (full, other)}
    seen = {one.operation_id: (one.body is None, one.note) for one in observe_many(told)}
    assert seen == {full.pk: (True, bodies.FULL), other.pk: (False, "")}
