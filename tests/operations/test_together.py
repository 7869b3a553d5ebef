"""What comes of many calls is observed together, with the same ends as one by one, and nothing is lost."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from tasks_app import clock, ids
from tasks_app.adcp.types import Endpoint, Seen
from tasks_app.operations import converge, dispatch
from tasks_app.operations.converge import observe_many
from tasks_app.operations.dispatch import Call, Route, claim_sends, finish
from tasks_app.operations.leases import Lease
from tasks_app.operations.models import Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.troubles.models import RowTrouble
from tasks_app.webhooks.models import WebhookDelivery
from tests.adcp.raw_server import Request, serve
from tests.factories import make_seller
from tests.operations.making import answer, ask, failed, fresh, garbled, not_sent, see, silent, stand, unknown
from tests.operations.sweeping import answering, arguments, sweep
from tests.troubles.poisoning import poison
from tests.webhooks.signing import payload

pytestmark = [pytest.mark.deep, pytest.mark.django_db]

_SEEN = (
    answer("submitted", message="queued"),
    answer("working"),
    answer("input-required", message="which flight?"),
    answer("completed"),
    answer("rejected"),
    failed("PRODUCT_UNAVAILABLE"),
    unknown(),
    silent(),
    garbled(),
    not_sent(),
)
_KEPT = ("status", "message", "result", "error", "settled_by", "task_id", "send_at", "polls")


def told(number: int, seen: Seen) -> Seen:
    return replace(seen, task_id=f"t-{number}") if seen.kind == "answer" else seen


def pending(number: int) -> Operation:
    return stand(S.SUBMITTED, task_id=f"t-{number}")


def as_kept(operation: Operation) -> list[Any]:
    stored = fresh(operation)
    seen = list(stored.observations.values_list("channel", "outcome", "status", "note"))
    return [*(getattr(stored, name) for name in _KEPT if name != "task_id"), bool(stored.next_poll_at), seen]


def test_together_they_end_as_one_by_one() -> None:
    alone = [(pending(number), told(number, seen)) for number, seen in enumerate(_SEEN)]
    shared = [(pending(number), told(number, seen)) for number, seen in enumerate(_SEEN, start=100)]

    for operation, seen in alone:
        see(operation, seen, Channel.POLL)
    observed = observe_many({operation.pk: (seen, Channel.POLL) for operation, seen in shared})

    assert len(observed) == len(_SEEN)
    assert [as_kept(operation) for operation, _ in shared] == [as_kept(operation) for operation, _ in alone]


def test_listeners_hear_of_every_task_that_was_bound(monkeypatch: Any) -> None:
    heard: list[Operation] = []
    monkeypatch.setattr(converge, "_bound", [heard.append])
    operations = [stand(S.CALLING_ADCP) for _ in range(3)]

    observe_many(
        {o.pk: (answer("submitted", task_id=f"t-{n}"), Channel.REPLY) for n, o in enumerate(operations)}
    )

    assert sorted(o.pk for o in heard) == sorted(o.pk for o in operations)


def _call(operation: Operation) -> Call:
    route = Route(
        seller_id=operation.seller_id,
        channel=Channel.POLL,
        endpoint=Endpoint(url="http://127.0.0.1:9/", protocol="mcp"),
        tool="get_task_status",
        secrets=(),
    )
    return Call(lease=Lease(operation.pk, ids.new_id()), route=route, arguments={})


def test_one_that_cannot_be_observed_takes_no_other_with_it(monkeypatch: Any) -> None:
    bad, good = pending(1), pending(2)
    judge = converge.judge

    def judged(operation: Operation, *rest: Any) -> Any:
        if operation.pk == bad.pk:
            raise RuntimeError("no")
        return judge(operation, *rest)

    monkeypatch.setattr(converge, "judge", judged)
    finish(
        [(_call(bad), answer("completed", task_id="t-1")), (_call(good), answer("completed", task_id="t-2"))]
    )

    assert (fresh(bad).status, fresh(good).status) == (S.SUBMITTED, S.COMPLETED)
    assert Observation.objects.get().operation == good


def test_another_session_in_the_way_of_many_costs_none_of_them(monkeypatch: Any) -> None:
    """A deadlock or a lock that was waited for too long: the connection is well."""

    def deadlock(*_: Any, **__: Any) -> Any:
        raise OperationalError("deadlock detected")

    monkeypatch.setattr(dispatch, "observe_many", deadlock)
    seller = make_seller(slots=5)
    for _ in range(3):
        ask("get_products", seller=seller)
    calls = claim_sends(limit=5)
    finish([(call, answer("completed", payload={"products": []})) for call in calls])
    assert [fresh(Operation.objects.get(pk=call.operation_id)).status for call in calls] == [S.COMPLETED] * 3


def test_no_answer_of_many_at_once_is_lost(settings: Any, monkeypatch: Any) -> None:
    """Answers that come while others are being observed wait for the next time, and for no longer."""
    settings.SWEEP_BATCH = 16
    numbers, together = itertools.count(), []

    def counted(seen: Any, **more: Any) -> Any:
        together.append(len(seen))
        return observe_many(seen, **more)

    monkeypatch.setattr(dispatch, "observe_many", counted)

    def bought(request: Request) -> dict[str, Any]:
        return {
            "status": "completed",
            "media_buy_id": f"mb-{next(numbers)}",
            "context": arguments(request).get("context"),
            "packages": [],
        }

    with serve(answering(bought)) as server:
        seller = make_seller(url=f"{server.url}/mcp", slots=16)
        operations = [ask(seller=seller) for _ in range(48)]
        swept = sweep()

    assert swept.sent == len(operations)
    assert {fresh(o).status for o in operations} == {S.COMPLETED}
    assert {fresh(o).observations.count() for o in operations} == {1}
    assert max(together, default=0) > 1, "some were observed together"


def test_an_early_delivery_that_cannot_be_applied_has_no_other_answer_seen_twice() -> None:
    """Else an attempt looks as if it had been answered, and what may be bought is called off."""
    seller = make_seller("Bad", slots=5, webhook_mode="hmac", webhook_secret="s" * 40)
    bad, well = ask(seller=seller), ask(seller=seller)
    calls = {one.operation_id: one for one in claim_sends(limit=10)}
    body = payload(task_id="t-bad", operation_id=str(bad.pk))
    kept = {"fingerprint": "0" * 64, "verdict": "early", "task_id": "t-bad", "operation_ref": str(bad.pk)}
    early = WebhookDelivery.objects.create(seller=seller, key="k", body=body, **kept)
    poison("tasks_app_webhookdelivery", early.pk)
    finish(
        [
            (calls[bad.pk], answer("submitted", task_id="t-bad")),
            (calls[well.pk], failed("RATE_LIMITED", "transient")),
        ]
    )
    assert [fresh(one).observations.count() for one in (bad, well)] == [1, 1]
    assert RowTrouble.objects.get().work == "early_applied"


def test_looks_are_read_for_together_however_many_there_are() -> None:
    """What was applied since each was asked was a query for each: a fifth of what a poll took."""

    def queries(many: int) -> int:
        operations = [pending(ids.new_id().int) for _ in range(many)]
        said = {o.pk: answer("submitted", task_id=o.task_id, asked_at=clock.now()) for o in operations}
        with CaptureQueriesContext(connection) as asked:
            observe_many({pk: (seen, Channel.POLL) for pk, seen in said.items()})
        return len(asked)

    assert queries(2) == queries(20)


def test_each_look_is_overtaken_by_what_came_since_it_was_asked_itself() -> None:
    """They are read for since the first of them was asked."""
    asked_at = clock.now()
    early, between, late = (pending(number) for number in range(3))
    news = answer("working")
    for seconds in (10, 60):
        came_at = asked_at + timedelta(seconds=seconds)
        with clock.injected(lambda at=came_at: at):
            for operation in (early, between, late):
                see(
                    operation,
                    replace(news, task_id=operation.task_id, message=f"At {seconds}"),
                    Channel.WEBHOOK,
                )

    looks = {
        operation.pk: (
            answer("submitted", task_id=operation.task_id, asked_at=asked_at + timedelta(seconds=seconds)),
            Channel.POLL,
        )
        for operation, seconds in ((early, 5), (between, 30), (late, 70))
    }
    with clock.injected(lambda: asked_at + timedelta(seconds=80)):
        observe_many(looks)

    seen = [fresh(operation).observations.get(channel=Channel.POLL) for operation in (early, between, late)]
    stale, applied = Observation.Outcome.STALE, Observation.Outcome.APPLIED
    assert [one.outcome for one in seen] == [stale, stale, applied]
    assert [fresh(one).status for one in (early, between, late)] == [S.WORKING, S.WORKING, S.SUBMITTED]
